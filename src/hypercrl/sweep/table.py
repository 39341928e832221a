"""The live table of a sweep in a terminal, and plain lines where there is none."""

import abc
import time
from collections import Counter

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hypercrl.durations import duration
from hypercrl.errors import printable
from hypercrl.sweep.status import ACTIVE, ONLY_TESTS, RunStatus, sweep_seconds_left

COLUMNS = ("run", "state", "task", "steps", "return", "error", "left")
COLOURS = {"running": "cyan", "finished": "green", "failed": "red", "elsewhere": "yellow"}
ORDER = ("running", "elsewhere", "failed", "stopped", "waiting", "finished")
FRAME_LINES = 6  # of the terminal, for the header, the count below and the prompt
LINES_SECONDS = 60.0  # between plain lines about a run under way


class SweepDisplay(abc.ABC):
    """What a person sees of a sweep."""

    @abc.abstractmethod
    def update(self, statuses: list[RunStatus], slots: int | None) -> None: ...

    @abc.abstractmethod
    def tell(self, text: str) -> None:
        """Say something in between."""

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:  # noqa: B027
        pass


class LiveTable(SweepDisplay):
    """A row a run, redrawn in place."""

    def __init__(self, console: Console):
        self._console = console
        self._live = Live(console=console, refresh_per_second=2)

    def __enter__(self):
        self._live.start()
        return self

    def __exit__(self, *error):
        self._live.stop()

    def update(self, statuses, slots):
        room = max(self._console.height - FRAME_LINES, 3)
        self._live.update(draw_table(statuses, slots, room))

    def tell(self, text):
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class PlainReport(SweepDisplay):
    """A line when a run changes its state, and now and then in between."""

    def __init__(self, console: Console):
        self._console = console
        self._states: dict[str, str] = {}
        self._told_at: dict[str, float] = {}

    def update(self, statuses, slots):
        for status in statuses:
            changed = self._states.get(status.name, "waiting") != status.state
            due = time.monotonic() - self._told_at.get(status.name, 0) > LINES_SECONDS
            if changed or (status.state == "running" and due):
                self._states[status.name] = status.state
                self._told_at[status.name] = time.monotonic()
                self.tell(describe(status))

    def tell(self, text):
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def display_for(console: Console) -> SweepDisplay:
    return LiveTable(console) if console.is_terminal else PlainReport(console)


def draw_table(statuses: list[RunStatus], slots: int | None, room: int) -> Group:
    """The runs that matter most now, and a line that counts all of them."""
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("run", "state") else "right")
    shown = sorted(statuses, key=lambda status: ORDER.index(status.state))[:room]
    for status in shown:
        state, *cells = status.cells()
        colour = COLOURS.get(state, "default")
        table.add_row(escape(status.name), f"[{colour}]{state}[/{colour}]", *cells)
    return Group(table, Text(count_states(statuses, slots)))


def count_states(statuses: list[RunStatus], slots: int | None) -> str:
    """One line about the whole sweep."""
    counts = Counter(status.state for status in statuses)
    parts = [f"{counts[state]} {state}" for state in ORDER if counts[state]]
    left = sweep_seconds_left(statuses, slots)
    under_way = any(status.state in (*ACTIVE, "waiting") for status in statuses)
    if left is not None and under_way:
        parts.append(f"about {duration(round(left))} left" if left else f"{ONLY_TESTS} left")
    return f"{len(statuses)} runs: {', '.join(parts)}"


def describe(status: RunStatus) -> str:
    """One line about one run."""
    state, task, steps, last_return, error, left = status.cells()
    if state == "failed":
        return f"{status.name}: failed. {printable(status.reason)}"
    line = f"{status.name}: {state}, task {task}, steps {steps}"
    if status.progress is not None:
        line += f", last return {last_return}, model error {error}"
    return f"{line}, {left} left" if state == "running" else line
