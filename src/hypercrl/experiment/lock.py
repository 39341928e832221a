"""At most one process at a time: locks that the system releases with the process holding them.

A lock is an empty file. One that is a link is refused and never followed, and a file that is
there already is neither emptied nor deleted.
"""

from pathlib import Path

import filelock


def take(path: Path) -> filelock.BaseFileLock | None:
    """A lock to be released, or None where another process has it."""
    lock = filelock.FileLock(path, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        return None
    return lock


def wait_for(path: Path) -> filelock.BaseFileLock:
    """A lock to be used in a `with` statement, which waits until it is free."""
    return filelock.FileLock(path, thread_local=False)


def is_taken(path: Path) -> bool:
    """Whether another process has the lock just now."""
    if not path.exists():
        return False
    lock = take(path)
    if lock is not None:
        lock.release()
    return lock is None
