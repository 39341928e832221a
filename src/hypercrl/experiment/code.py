"""Which software makes a run's numbers: its version, and a fingerprint of its sources.

The fingerprint changes with any source that could change a number, and with no other: a run
whose fingerprint is today's would come out the same today. Suites and methods from outside the
package do not enter it.
"""

import functools
import hashlib
import importlib.metadata
from pathlib import Path

from hypercrl.experiment.run_folder import Code

SOURCES = (".py", ".xml")
LOOKS_ON = {
    *("analysis", "commands", "sweep", "cli.py", "durations.py", "threads.py"),
    *("experiment/checkpoint.py", "experiment/code.py", "experiment/conflict.py"),
    *("experiment/display.py", "experiment/lock.py", "experiment/progress.py"),
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
            content = path.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:DIGITS]


def _looks_on(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}/") for known in LOOKS_ON)
