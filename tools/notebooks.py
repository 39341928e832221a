"""Run the tutorials and keep what they print and draw in them.

    python tools/notebooks.py [NOTEBOOK…]    (all of docs/tutorials without one)

`make notebooks` does it after a change of a tutorial or of what it shows. The tests run the same
cells without keeping anything.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": path.parent}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it was run, which is of no use to a reader
    path.write_text(nbformat.writes(notebook) + "\n")


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(TUTORIALS.glob("*.ipynb")):
        run(path)
        print(path)
