"""Test episodes of any task seen, and the error of its model: one entry of the matrix r[i, j].

Testing draws from streams of its own, so that it never changes the training. The probe on which
a task's models are judged is taken when it has just been learnt, and kept with the run.
"""

import contextlib
from typing import Any

from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.evaluate import Probe, Trajectory, make_probe, probe_errors, run_episode
from hypercrl.types import Model, Suite


class Tester:
    """Runs test episodes and remembers the probe of each finished task."""

    def __init__(self, config: RunConfig, suite: Suite):
        self._config = config
        self._suite = suite
        self._probes: dict[int, Probe] = {}

    def test(
        self, model: Model, task: int, *, after: int, step: int, num_episodes: int, learnt: bool
    ) -> dict[str, Any]:
        """Returns, successes and model errors of `task`, for the records.

        Episodes start alike whenever a task is tested. `learnt` says that the task has just been
        finished, and so that these episodes are its probe.
        """
        actor = Actor(
            self._suite.tasks[task],
            self._suite.spec,
            self._config.planner,
            seed=self._config.seed,
            purpose=("test", task, after + 1, step),
        )
        with contextlib.closing(actor):
            trajectories = [run_episode(actor, model) for _ in range(num_episodes)]
        if learnt:
            self._keep_probe(task, trajectories)
        success = self._suite.success
        return {
            "returns": [trajectory.total for trajectory in trajectories],
            "successes": success and [bool(success(t.states)) for t in trajectories],
            "measures": {
                name: [float(measure(t.states)) for t in trajectories]
                for name, measure in self._suite.measures.items()
            },
            **self._model_errors(model, task),
        }

    def get_state(self) -> dict[str, Any]:
        return {str(task): probe._asdict() for task, probe in self._probes.items()}

    def set_state(self, arrays: checkpoint.Arrays) -> None:
        """Go back to where the flattened arrays of a `get_state` were taken."""
        for task in {int(name.split("/")[0]) for name in arrays}:
            self._probes[task] = Probe(**checkpoint.section(arrays, str(task)))  # pyright: ignore[reportArgumentType]

    def _keep_probe(self, task: int, trajectories: list[Trajectory]) -> None:
        # As far ahead as the planner looks.
        horizon = min(self._config.planner.horizon, self._suite.spec.episode_length)
        rng = streams.generator(self._config.seed, "probe", task)
        probe = make_probe(trajectories, horizon, rng)
        if probe is not None:
            self._probes[task] = probe

    def _model_errors(self, model: Model, task: int) -> dict[str, float | None]:
        if task not in self._probes:
            return {"one_step": None, "h_step": None}
        one, many = probe_errors(model, self._suite.spec, self._probes[task])
        return {"one_step": float(one), "h_step": float(many)}
