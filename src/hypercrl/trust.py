"""Which plugins this person has named before, on this machine.

A run remembers its plugins, and a run's folder may come from anybody. What a run names is
imported only if the person at this machine has once named it: with `--plugin`, in a sweep file or
with `hypercrl.load_plugin`. The list is a text file in the person's own state folder.
"""

import contextlib
import os
from pathlib import Path

LARGEST = 1_000_000  # bytes of a list that anybody could have made by hand


def list_file() -> Path:
    """Where the list is: `~/.local/state/hypercrl/plugins`, or as XDG_STATE_HOME says."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "hypercrl" / "plugins"


def trust(source: str) -> None:
    """Remember a plugin that was named; where nothing can be kept, it is named again."""
    if is_trusted(source) or not source.isprintable():
        return
    with contextlib.suppress(OSError, RuntimeError):
        list_file().parent.mkdir(parents=True, exist_ok=True)
        with list_file().open("a", encoding="utf-8") as file:
            file.write(f"{source}\n")


def is_trusted(source: str) -> bool:
    """Whether a plugin, a module or the whole path of a file, was named before."""
    with contextlib.suppress(OSError, RuntimeError, UnicodeDecodeError):
        if list_file().stat().st_size <= LARGEST:
            return source in list_file().read_text(encoding="utf-8").splitlines()
    return False
