"""Disks that fill up, and folders that cannot be written, for anyone who runs the tests."""

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534
FILES = 10  # about as many share a disk


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Make `folder` a disk of `size` bytes; without the right to mount, limit each file instead.

    Whether it is a disk is told to those whom such a limit would not help.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = (
        bool(shutil.which("mount")) and not subprocess.run(mount, capture_output=True).returncode
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not mounted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // FILES, limits[1]))
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Forbid writing to `folder`, also to root, who would not be stopped by its mode."""
    user = os.geteuid()
    folder.chmod(0o555)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that any user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
