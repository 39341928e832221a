"""A table and the forms in which it is written: Markdown, LaTeX (booktabs) and CSV.

Its form for the page is in `template/parts.html`.
"""

import csv
import html
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypercrl.analysis.formatting import UNDEFINED

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that spreadsheets calculate."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "→": r"$\rightarrow$",
    "·": r"$\cdot$",
    "²": "$^2$",
    "³": "$^3$",
}


@dataclass(frozen=True)
class Cell:
    """What one cell says, a smaller second line, and the numbers behind it for CSV."""

    text: str
    note: str = ""
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    best: bool = False
    is_prose: bool = False  # words that may wrap

    @property
    def is_undefined(self) -> bool:
        return self.text == UNDEFINED

    @property
    def rank(self) -> float | None:
        """The number by which a column is sorted, if there is one."""
        first = next(iter(self.numbers.values()), None)
        return first if first is not None and math.isfinite(first) else None


@dataclass(frozen=True)
class Table:
    """Rows with a header cell each; `reading` tells how to read it, `sources` names its runs."""

    name: str  # of its files
    title: str
    reading: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    sources: str

    def to_markdown(self) -> str:
        header = [self.corner, *self.columns]
        lines = [f"### {_markdown(self.title)}", "", _markdown_row(header)]
        lines.append("|" + "|".join(["---", *["---:"] * len(self.columns)]) + "|")
        for name, cells in self.rows:
            lines.append(_markdown_row([name, *map(_markdown_cell, cells)]))
        below = ["", _markdown(self.reading), "", f"Runs: {_markdown(self.sources)}", ""]
        return "\n".join([*lines, *below])

    def to_latex(self) -> str:
        rows = []
        for name, cells in self.rows:
            rows.append(" & ".join([_latex(name), *map(_latex_cell, cells)]) + r" \\")
            notes = [rf"{{\scriptsize {_latex(cell.note)}}}" if cell.note else "" for cell in cells]
            if any(notes):
                rows.append(" & ".join(["", *notes]) + r" \\")
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_latex(self.title)}. {_latex(self.reading)} "
                rf"Runs: {_latex(self.sources)}}}",
                rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}",
                r"\toprule",
                " & ".join(map(_latex, [self.corner, *self.columns])) + r" \\",
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def to_csv(self) -> str:
        """Numbers at full precision: one column for each number of a cell."""
        header = [self.corner]
        kinds = [self._number_kinds(k) for k in range(len(self.columns))]
        for column, names in zip(self.columns, kinds, strict=True):
            header += [f"{column} {name}".strip() for name in names] or [column]
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(map(_csv_text, header))
        for name, cells in self.rows:
            row = [_csv_text(name)]
            for cell, names in zip(cells, kinds, strict=True):
                row += [_csv_number(cell.numbers.get(n)) for n in names] or [_csv_text(cell.text)]
            writer.writerow(row)
        return buffer.getvalue()

    def _number_kinds(self, column: int) -> list[str]:
        """Which numbers any row gives for a column, in the order of their first appearance."""
        return list(dict.fromkeys(n for _, cells in self.rows for n in cells[column].numbers))

    def is_prose(self, column: int) -> bool:
        """Whether any row has words in a column."""
        return any(cells[column].is_prose for _, cells in self.rows)


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(map(_markdown, cells)) + " |"


def _markdown_cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.best else cell.text
    return f"{text} ({cell.note})" if cell.note else text


def _markdown(text: str) -> str:
    """Text that brings no tags, links or columns of its own."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([|`\[\]])", r"\\\1", escaped)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_cell(cell: Cell) -> str:
    return rf"\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text)


def _csv_text(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv_number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value))
