"""Where the seconds of a task go, over all the processes that worked on it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

ACTIVITIES = ("planning", "simulation", "training", "evaluation")


class Stopwatch:
    """Wall-clock seconds in all and by activity, from what an earlier one had read on."""

    def __init__(self, earlier: Mapping[str, float] | None = None):
        self._seconds = {**dict.fromkeys(("seconds", *ACTIVITIES), 0.0), **(earlier or {})}
        self._started = time.perf_counter()

    @contextmanager
    def measure(self, activity: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[activity] += time.perf_counter() - start

    def read(self) -> dict[str, float]:
        total = self._seconds["seconds"] + time.perf_counter() - self._started
        return {**self._seconds, "seconds": total}
