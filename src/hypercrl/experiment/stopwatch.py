"""Where the seconds of a task go, over all the processes that worked on it."""

import time

from hypercrl.experiment.records import TaskTime


class Timer:
    """Wall-clock seconds within its `with` blocks."""

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *error) -> None:
        self.seconds += time.perf_counter() - self._start


class Stopwatch:
    """Seconds in all and by activity, from what an earlier one had read on."""

    def __init__(self, earlier: TaskTime | None = None):
        before = earlier or TaskTime(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self.planning = Timer(before.planning)
        self.simulation = Timer(before.simulation)
        self.training = Timer(before.training)
        self.evaluation = Timer(before.evaluation)
        self._before = before.seconds
        self._started = time.perf_counter()

    def read(self, task: int) -> TaskTime:
        return TaskTime(
            task=task,
            seconds=self._before + time.perf_counter() - self._started,
            planning=self.planning.seconds,
            simulation=self.simulation.seconds,
            training=self.training.seconds,
            evaluation=self.evaluation.seconds,
        )
