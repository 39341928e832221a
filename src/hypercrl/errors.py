"""What a person is told when something goes wrong: one sentence, whoever's fault it is.

Whatever the user can put right (a name, a flag, a shape, a file) raises `UserError` with one
sentence: what was wrong, where, what to do. Code and data that are not ours (a plugin, an
environment, a reward, a file) are called inside `boundary`, which turns whatever they raise into
such a sentence. The command line, the Python interface and sweeps all end at it; the exception
itself stays attached as the cause, and `--debug` shows its traceback.
"""

import contextlib
import errno
import traceback
from collections.abc import Iterator
from pathlib import Path

START_OVER = "start over with --fresh"
"""The advice of `hypercrl train`; a sweep has no such flag and gives another."""

LONGEST_REASON = 300  # characters of somebody else's message that are passed on
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "Unable to allocate", "array is too big")


class UserError(Exception):
    """Bad input or a bad environment, told in one sentence."""


@contextlib.contextmanager
def boundary(what: str = "", *, exits: bool = False) -> Iterator[None]:
    """Whatever is raised inside becomes a `UserError`; `what` failed, if that can be said.

    With `exits` an attempt to end the whole program counts as a failure too: that is not for
    somebody else's code to decide.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(_told(what, error)) from error
    except SystemExit as error:
        if not exits:
            raise
        raise UserError(_told(what, error)) from error


def in_one_sentence(error: BaseException) -> str:
    """What to tell a person about any exception."""
    if isinstance(error, UserError):
        return printable(str(error))
    if _is_about_memory(error):
        return f"There is not enough memory for this ({describe(error)}); choose smaller sizes."
    return f"{describe(error)} ({_place(error)})."


def describe(error: BaseException) -> str:
    """The kind of an exception and the first line of its message, without a full stop."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return f"{type(error).__name__}: {printable(lines[0])[:LONGEST_REASON].rstrip('.')}"


def printable(text: str) -> str:
    """Text that shows in any terminal as it is and changes nothing there.

    What a terminal would obey, such as an escape, and what no encoding knows, is written out.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def advise_sweep(reason: str) -> str:
    """The same advice for a run of a sweep, which starts over once its folder is gone."""
    return reason.replace(START_OVER, "delete the run's folder to start it over")


def is_about_space(error: BaseException | None) -> bool:
    """Whether a full disk is behind an exception."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _told(what: str, error: BaseException) -> str:
    if not what or _is_about_memory(error):
        return in_one_sentence(error)
    return f"{what} failed with {describe(error)} ({_place(error)})."


def _is_about_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


def _place(error: BaseException) -> str:
    """The last line of somebody's own code that an exception passed, or else the very last."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "nobody knows where"
    package = str(Path(__file__).parent)
    foreign = [f for f in frames if not f.filename.startswith((package, "<"))]
    own = [
        f for f in foreign if "site-packages" not in f.filename and "/lib/python" not in f.filename
    ]
    found = (own or frames)[-1]
    return printable(f"{Path(found.filename).name}, line {found.lineno}")
