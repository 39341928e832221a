"""The one place that writes a run's files: in its folder, as a whole, and through no link.

A file appears under its name only once it is complete and on the disk. What has a link's place
is replaced and the link's target left alone; what is written bit by bit (records, logs) refuses a
link, since there is no telling whose file it would lengthen.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from hypercrl.errors import UserError
from hypercrl.reading import show

PARTIAL = ".partial"
"""How the name of a file ends while it is being written."""


def replace(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Put a file in its place as a whole; a `shared` one may be written by several at once."""
    mark = f".{secrets.token_hex(4)}" if shared else ""
    temporary = path.with_name(f"{path.name}{mark}{PARTIAL}")
    os.replace(write_new(temporary, content), path)


def write_new(path: Path, content: bytes) -> Path:
    """Write a file that is whole, and on the disk, before anything is renamed to its name."""
    try:
        with os.fdopen(create(path), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # on a full disk, half a file is in the way
        raise
    return path


def create(path: Path) -> int:
    """A descriptor of a file that is new; what had its name, a link for instance, is gone."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o666)


def open_in_place(path: Path, *, at_end: bool = False) -> BinaryIO:
    """A file that is read and written bit by bit; made if it is missing, its content kept."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | (os.O_APPEND if at_end else 0), 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise OSError(f"{path.name} is not a file of its own")
    return os.fdopen(descriptor, "ab" if at_end else "r+b")


def make_folder(path: Path) -> Path:
    """A folder within a folder of ours; a link is refused."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(f"{path.name} is not a folder of its own")
    return path


def below(folder: Path, name: str) -> Path:
    """A file of a folder under a name that came from elsewhere; it may not lead out of it."""
    parts = PurePosixPath(name).parts
    plain = parts and "\0" not in name and "\\" not in name and not name.startswith("/")
    if not plain or ".." in parts:
        raise UserError(f"'{show(Path(name))}' is not the name of a file within {show(folder)}.")
    return folder.joinpath(*parts)


def sync(folder: Path) -> None:
    """Make renames within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
