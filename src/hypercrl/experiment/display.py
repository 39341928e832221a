"""What a person sees while a run goes on: a live line in a terminal, plain lines elsewhere."""

import time
from abc import ABC, abstractmethod

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hypercrl.durations import duration
from hypercrl.experiment.config import RunConfig


class Display(ABC):
    """Told of everything that happens, in the order in which it happens."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Something that a person should know about the run."""

    @abstractmethod
    def resume(self, task: int, step: int) -> None: ...

    @abstractmethod
    def advance(self, task: int, step: int) -> None:
        """One planned control step was made."""

    @abstractmethod
    def episode(self, number: int, total: float) -> None: ...

    @abstractmethod
    def session(self, validation: float) -> None: ...

    @abstractmethod
    def test(self, task: int, after: int, mean_return: float) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """The run is complete."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will happen, complete or not."""


class Silent(Display):
    """For library use and sweeps."""

    def say(self, text):
        pass

    def resume(self, task, step):
        pass

    def advance(self, task, step):
        pass

    def episode(self, number, total):
        pass

    def session(self, validation):
        pass

    def test(self, task, after, mean_return):
        pass

    def finish(self):
        pass

    def close(self):
        pass


class PlainLines(Display):
    """One line for each training session and test, for logs."""

    def __init__(self, config: RunConfig, console: Console):
        self._config = config
        self._console = console
        self._pace = Pace(config)
        self._return = float("nan")
        self._episode = 0

    def say(self, text):
        self._print(text)

    def resume(self, task, step):
        self._pace.start_at(task, step)
        self._print(f"continuing at task {task + 1}, step {step}")

    def advance(self, task, step):
        self._pace.at(task, step)

    def episode(self, number, total):
        self._episode, self._return = number, total

    def session(self, validation):
        pace = self._pace
        self._print(
            f"task {pace.task + 1}/{self._config.num_tasks}  episode {self._episode:4d}  "
            f"step {pace.step:6d}  return {self._return:8.2f}  model error {validation:.3f}  "
            f"{pace.rate:5.1f} steps/s  {pace.left} left"
        )

    def test(self, task, after, mean_return):
        self._print(f"test of task {task + 1} after task {after + 1}: return {mean_return:.2f}")

    def finish(self):
        self._print("finished")

    def close(self):
        pass

    def _print(self, text: str) -> None:
        name = f"{self._config.suite} {self._config.method} seed {self._config.seed}"
        line = f"{name} | {text}"
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)


class LiveLine(Display):
    """A progress bar with the latest numbers."""

    def __init__(self, config: RunConfig, console: Console):
        self._config = config
        self._pace = Pace(config)
        self._facts = {"return": "–", "model error": "–"}
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            console=console,
        )
        self._bar = self._progress.add_task(
            self._title(0), total=self._pace.total, facts="", left="?"
        )
        self._progress.start()

    def say(self, text):
        self._progress.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def resume(self, task, step):
        self._pace.start_at(task, step)
        self._refresh()

    def advance(self, task, step):
        self._pace.at(task, step)
        self._refresh()

    def episode(self, number, total):
        self._facts["episode"] = str(number)
        self._facts["return"] = f"{total:.1f}"
        self._refresh()

    def session(self, validation):
        self._facts["model error"] = f"{validation:.3f}"
        self._refresh()

    def test(self, task, after, mean_return):
        self._progress.console.print(
            f"  test of task {task + 1} after task {after + 1}: return {mean_return:.2f}",
            highlight=False,
        )

    def finish(self):
        self._progress.update(self._bar, completed=self._pace.total, left="0 s")

    def close(self):
        self._progress.stop()

    def _refresh(self) -> None:
        facts = "  ".join(f"{name} {value}" for name, value in self._facts.items())
        self._progress.update(
            self._bar,
            description=self._title(self._pace.task),
            completed=self._pace.done,
            facts=f"{facts}  {self._pace.rate:.0f} steps/s",
            left=self._pace.left,
        )

    def _title(self, task: int) -> str:
        config = self._config
        run = escape(f"{config.suite} {config.method}")
        return f"{run} s{config.seed} task {task + 1}/{config.num_tasks}"


class Pace:
    """How far a run is and how fast it goes, in planned control steps."""

    def __init__(self, config: RunConfig):
        self._per_task = config.schedule.steps_per_task
        self.total = config.num_tasks * self._per_task
        self.task, self.step = 0, 0
        self._start, self._start_done = time.monotonic(), 0

    def start_at(self, task: int, step: int) -> None:
        self.at(task, step)
        self._start, self._start_done = time.monotonic(), self.done

    def at(self, task: int, step: int) -> None:
        self.task, self.step = task, step

    @property
    def done(self) -> int:
        return self.task * self._per_task + self.step

    @property
    def rate(self) -> float:
        """Planned steps a second, learning and testing included."""
        return (self.done - self._start_done) / max(time.monotonic() - self._start, 1e-9)

    @property
    def left(self) -> str:
        """How long the run will still take, or what it still does when all steps are made."""
        if self.done >= self.total:
            return "only tests"  # and videos, if asked for
        if self.done == self._start_done:
            return "?"
        return duration(round((self.total - self.done) / self.rate))


def for_console(config: RunConfig, console: Console) -> Display:
    """A live line where there is a terminal to draw on."""
    return LiveLine(config, console) if console.is_terminal else PlainLines(config, console)
