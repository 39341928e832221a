"""Where a sweep's runs are kept: a folder that every process sees, or an object store.

A location has a *view*, a local folder to read records from, and hands out *workspaces*, local
folders to run in. For a folder all three are the same place. It also grants claims, at most one
holder a run, so that two sweeps never work on the same run.
"""

import abc
import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from hypercrl.errors import UserError

CLAIMS = ".claims"
MANIFEST_CLAIM = "manifest"


class Location(abc.ABC):
    """The home of a sweep's run folders."""

    view: Path
    refresh_seconds: float = 0.0  # between two looks at runs under way

    @abc.abstractmethod
    def claim(self, name: str) -> bool:
        """Become the only sweep that works on a run; False where another one does."""

    @abc.abstractmethod
    def release(self, name: str) -> None: ...

    @abc.abstractmethod
    def refresh(self, names: Iterable[str]) -> None:
        """Bring the view's records of some runs up to date."""

    @abc.abstractmethod
    def publish(self, path: Path) -> None:
        """Put a file or folder that was made in the view where everyone finds it."""

    @abc.abstractmethod
    def workspace(self, name: str) -> "contextlib.AbstractContextManager[Workspace]":
        """A local folder to work on a run in."""

    @abc.abstractmethod
    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Keep other sweeps from writing to the manifest, as far as the location can."""

    def close(self) -> None:  # noqa: B027
        """Leave nothing behind on this machine."""


class Workspace:
    """A local folder to work on a run in."""

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, *, final: bool = False) -> None:
        """Put what has changed where it is kept, now and then or `final`ly."""


class FolderLocation(Location):
    """A folder on this machine, or one that all machines mount."""

    def __init__(self, root: Path):
        self.view = root
        self._claims: dict[str, TextIO] = {}
        try:
            (root / CLAIMS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"The output folder {root} cannot be written: {error.strerror}."
            ) from error

    def claim(self, name: str) -> bool:
        # The kernel releases the lock with the process, however that ends.
        file = open(self.view / CLAIMS / name, "w")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._claims[name] = file
        return True

    def release(self, name: str) -> None:
        self._claims.pop(name).close()

    def refresh(self, names: Iterable[str]) -> None:
        pass

    def publish(self, path: Path) -> None:
        pass

    @contextlib.contextmanager
    def workspace(self, name: str) -> Iterator[Workspace]:
        folder = self.view / name
        folder.mkdir(parents=True, exist_ok=True)
        yield Workspace(folder)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        with open(self.view / CLAIMS / f"{MANIFEST_CLAIM}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        for file in self._claims.values():
            file.close()
        self._claims.clear()


def open_location(out: str) -> Location:
    """The location that a path or a URL names."""
    if "://" not in out:
        return FolderLocation(Path(out))
    from hypercrl.sweep.mirror import UrlLocation

    return UrlLocation(out)


def is_open_elsewhere(folder: Path) -> bool:
    """Whether another process has a run's store open just now."""
    path = folder / ".lock"
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
