"""Put the tables of a report into the guides that show them.

    python tools/fill_tables.py docs/*.md

Whatever stands between `<!-- table FOLDER NAME -->` and `<!-- end -->` is replaced by the table of
that name in the report on the runs in that folder, which `hypercrl report FOLDER` writes as
`tables/NAME.md`, without its heading. A test fails if a guide says anything else than the records.
"""

import functools
import re
from pathlib import Path

import tyro

from hypercrl.analysis.comparison import compare
from hypercrl.analysis.tables import build_tables
from hypercrl.experiment.run_folder import find_runs, read_run

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"(<!-- table (\S+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(pages: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Fill the tables in.

    Args:
        pages: Markdown files.
    """
    for page in pages:
        page.write_text(filled(page.read_text()))


def filled(text: str) -> str:
    """A page with its tables as the records are now."""
    return _BLOCK.sub(lambda m: m[1] + "\n" + tables(m[2])[m[3]] + "\n" + m[4], text)


@functools.cache
def tables(folder: str) -> dict[str, str]:
    """Markdown of every table in the report on a folder's runs, by its name."""
    runs = [read_run(path) for path in find_runs([ROOT / folder])]
    found = {}
    for comparison in compare(runs):
        for table in build_tables(comparison):
            rows = [line for line in table.to_markdown().splitlines() if line.startswith("|")]
            found[f"{comparison.slug}-{table.name}"] = "\n".join(rows) + "\n"
    return found


if __name__ == "__main__":
    tyro.cli(main)
