"""Which software makes a run's numbers: its version, and a fingerprint of its sources.

The fingerprint changes with any source that could change a number, and with no other: a run
whose fingerprint is today's would come out the same today. Comments, docstrings and empty lines
do not enter it, nor do suites and methods from outside the package.
"""

import ast
import functools
import hashlib
import importlib.metadata
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from hypercrl.experiment.run_folder import Code

SOURCES = (".py", ".xml")
LOOKS_ON = {
    *("analysis", "commands", "contracts", "export", "sweep", "__init__.py", "__main__.py"),
    *("cli.py", "durations.py", "environments.py", "results.py", "threads.py", "trust.py"),
    *("errors.py", "reading.py", "writing.py", "experiment/rehearsal.py"),
    *("experiment/checkpoint.py", "experiment/code.py", "experiment/conflict.py"),
    *("experiment/controller.py", "experiment/display.py", "experiment/lock.py"),
    *("experiment/pacing.py", "experiment/progress.py", "experiment/shipped.py"),
    *("experiment/recorder.py", "experiment/records.py", "experiment/run_folder.py"),
    *("experiment/stopwatch.py", "experiment/store.py", "experiment/trackers.py"),
    "experiment/video.py",
}
"""What starts, shows, stores and compares runs. Whatever is not named here counts."""

DIGITS = 16  # of a SHA-256


@functools.cache
def this_code() -> Code:
    """The code of this process."""
    return Code(importlib.metadata.version("hypercrl"), fingerprint(Path(__file__).parents[1]))


def fingerprint(package: Path) -> str:
    """The names and contents of the sources below a folder that decide numbers."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        if path.suffix in SOURCES and not _looks_on(name):
            content = _essence(path)
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:DIGITS]


def _essence(path: Path) -> bytes:
    """What of a source a computer reads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text.encode()
    lines = text.splitlines()
    # From the end, so that what is cut does not move what is still to be cut.
    for (row, start), (last_row, end) in sorted(_remarks(text), reverse=True):
        rest = lines[last_row - 1].encode()[end:].decode()
        lines[row - 1 : last_row] = [lines[row - 1].encode()[:start].decode() + rest]
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def _remarks(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where comments, and strings that are statements of their own, begin and end.

    As (line, byte of the line). Cut from the text, rather than left out of a syntax tree: how a
    tree is written down differs from one Python to the next.
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            before = len(token.line[: token.start[1]].encode())
            yield (token.start[0], before), (token.start[0], before + len(token.string.encode()))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert node.end_lineno is not None and node.end_col_offset is not None
            if isinstance(node.value.value, str):
                yield (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _looks_on(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}/") for known in LOOKS_ON)
