"""Where a sweep's runs are kept: a folder that every process sees, or an object store.

A location has a *view*, a local folder to read records from, and hands out *workspaces*, local
folders to run in. For a folder all three are the same place. It also grants claims, at most one
holder a run, so that two sweeps never work on the same run.
"""

import abc
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hypercrl import writing
from hypercrl.errors import UserError, describe
from hypercrl.experiment import lock
from hypercrl.experiment.run_folder import LOCK, require_ours
from hypercrl.reading import show

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
    def workspace(
        self, name: str, claim: str = ""
    ) -> "contextlib.AbstractContextManager[Workspace]":
        """A local folder to work on a run in, on behalf of whoever holds the claim."""

    @property
    def token(self) -> str:
        """What its claims are known by elsewhere; empty where the system knows its processes."""
        return ""

    @abc.abstractmethod
    def exclusive(self) -> contextlib.AbstractContextManager[Any]:
        """Keep other sweeps from writing to the manifest, as far as the location can."""

    def close(self) -> None:  # noqa: B027
        """Leave nothing behind on this machine."""


class ClaimLostError(Exception):
    """Another sweep may be working on the run by now; nothing of ours may be kept any more."""


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
        self._claims: dict[str, Any] = {}
        try:
            root.mkdir(parents=True, exist_ok=True)
            writing.make_folder(root / CLAIMS)
        except (OSError, ValueError) as error:
            raise UserError(
                f"The output folder {show(root)} cannot be written: {describe(error)}."
            ) from error

    def claim(self, name: str) -> bool:
        taken = lock.take(self.view / CLAIMS / name)
        if taken is not None:
            self._claims[name] = taken
        return taken is not None

    def release(self, name: str) -> None:
        self._claims.pop(name).release()

    def refresh(self, names: Iterable[str]) -> None:
        pass

    def publish(self, path: Path) -> None:
        pass

    @contextlib.contextmanager
    def workspace(self, name: str, claim: str = "") -> Iterator[Workspace]:
        folder = writing.make_folder(writing.below(self.view, name))
        require_ours(folder)
        yield Workspace(folder)

    def exclusive(self) -> contextlib.AbstractContextManager[Any]:
        return lock.wait_for(self.view / CLAIMS / f"{MANIFEST_CLAIM}.lock")

    def close(self) -> None:
        for name in list(self._claims):
            self.release(name)


def open_location(out: str) -> Location:
    """The location that a path or a URL names."""
    if "://" not in out:
        return FolderLocation(Path(out))
    from hypercrl.sweep.mirror import UrlLocation

    return UrlLocation(out)


def is_open_elsewhere(folder: Path) -> bool:
    """Whether another process has a run's store open just now."""
    return lock.is_taken(folder / LOCK)
