"""Put the tables and figures of a report into the guides that show them.

    python tools/fill_tables.py README.md docs/*.md

Whatever stands between `<!-- table FOLDER NAME -->` and `<!-- end -->` is replaced by the table of
that name in the report on the runs in that folder, which `hypercrl report FOLDER` writes as
`tables/NAME.md`, without its heading. A picture `images/PART/NAME.png` is the figure NAME of the
report on `results/PART`, if there is such a folder. A test fails if a guide says or shows anything
else than the records.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import tyro

from hypercrl.analysis.comparison import Comparison, compare
from hypercrl.analysis.drawing import render
from hypercrl.analysis.palette import assign_colours
from hypercrl.analysis.plots import build_drawings
from hypercrl.analysis.tables import build_tables
from hypercrl.experiment.run_folder import find_runs, read_run

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(<!-- table (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PICTURE = re.compile(r"\]\(images/(\S+)/([^/\s]+)\.png\)")


def main(pages: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Fill them in.

    Args:
        pages: Markdown files.
    """
    for page in pages:
        text = page.read_text()
        page.write_text(filled(text))
        for path, png in pictures(text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png)


def filled(text: str) -> str:
    """A page with its tables as the records are now."""
    return _BLOCK.sub(lambda m: m[1] + "\n" + tables(m[2])[m[3]] + "\n" + m[4], text)


def pictures(text: str) -> Iterator[tuple[Path, bytes]]:
    """The pictures of records that a page shows: where they are, and what they should be."""
    for part, name in _PICTURE.findall(text):
        if (ROOT / "results" / part).is_dir():
            yield ROOT / "docs" / "images" / part / f"{name}.png", figure(f"results/{part}", name)


@functools.cache
def tables(folder: str) -> dict[str, str]:
    """Markdown of every table in the report on a folder's runs, by its name."""
    found = {}
    for comparison in comparisons(folder):
        for table in build_tables(comparison):
            rows = [line for line in table.to_markdown().splitlines() if line.startswith("|")]
            found[f"{comparison.slug}-{table.name}"] = "\n".join(rows) + "\n"
    return found


def figure(folder: str, name: str) -> bytes:
    """A figure of the report on a folder's runs."""
    colours = assign_colours(comparisons(folder))
    for comparison in comparisons(folder):
        for drawing in build_drawings(comparison, colours):
            if drawing.name == name:
                return render(drawing).png
    raise SystemExit(f"The report on {folder} has no figure '{name}'.")


@functools.cache
def comparisons(folder: str) -> tuple[Comparison, ...]:
    return tuple(compare([read_run(path) for path in find_runs([ROOT / folder])]))


if __name__ == "__main__":
    tyro.cli(main)
