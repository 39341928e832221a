"""Algorithm 1 of Huang et al. (2021).

    for each task t:
        empty the buffer D_t; let the learner make room for t     (a new embedding e_t)
        collect P episodes with random actions, and learn from them
        repeat M times:
            act for K steps with the planner on the model f_θt    (θ_t = H_Θ(e_t))
            learn for S updates from D_t
        consolidate; test every task seen so far

The paper learns for the first time after K planned steps; learning from the random episodes
first spares those steps a plan on an untrained model. The runner does not know which method
it drives, and everything it draws is named by (seed, purpose, counters).
"""

import time
from typing import Any

import numpy as np

from hypercrl.data.buffer import Buffer
from hypercrl.data.memory import TaskMemory
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.display import Display
from hypercrl.experiment.episode import Actor, Step
from hypercrl.experiment.evaluate import (
    Probe,
    Trajectory,
    make_probe,
    probe_errors,
    run_episode,
    validation_error,
)
from hypercrl.experiment.store import Store
from hypercrl.types import Model

CHECKPOINT_SECONDS = 20.0  # at most this much work is lost, besides the block under way


class Runner:
    """One run, from wherever its store left off to the end."""

    def __init__(self, config: RunConfig, store: Store, display: Display):
        self.config = config
        self.store = store
        self.display = display
        self.suite = config.build_suite()
        self.learner = config.learner
        self.schedule = config.schedule
        spec, capacity = self.suite.spec, self._capacity
        self.buffer = Buffer(spec, capacity)
        self.memory = TaskMemory(spec, config.num_tasks, capacity, self.learner.memory_fraction)
        self.state = self.learner.init(spec, config.num_tasks, key=self._key("init"))
        self.probes: dict[int, Probe] = {}
        self.task = 0
        self.block = 0  # sessions done in this task; 0: the task has not begun
        self.step = 0  # planned control steps done in this task
        self.actor: Actor | None = None
        self._seconds = dict.fromkeys(("training", "evaluation", "planning", "simulation"), 0.0)
        self._saved_at = time.monotonic()

    def run(self) -> None:
        """Algorithm 1."""
        self.restore()
        while self.task < self.config.num_tasks:
            if self.block == 0:
                self.begin_task()
            while self.block <= self.schedule.blocks:
                self.act()
                self.learn()
                self.test_during_task()
                self.save()
            self.finish_task()
        self.display.finish()

    def begin_task(self) -> None:
        """Make room for the task, explore it at random, learn from that."""
        self.buffer.clear()
        self.step = 0
        self.display.advance(self.task, self.step)
        self.state = self.learner.start_task(
            self.state, self.task, key=self._key("start", self.task)
        )
        if self.schedule.zero_shot and self.task > 0:
            self.test(self.task, "zero_shot", self.schedule.curve_episodes)
        self.actor = self._new_actor()
        for _ in range(self.schedule.random_episodes):
            step = self._observe(self.actor.explore(), random=True)
            while not step.done:
                step = self._observe(self.actor.explore(), random=True)
        self.actor.continuing = self.schedule.continuing
        self.learn()
        self.save()

    def act(self) -> None:
        """K steps of model-predictive control on the current model."""
        assert self.actor is not None
        model = self.learner.predict(self.state, self.task)
        for _ in range(self.schedule.update_every):
            step = self.actor.plan(model)
            self.step += 1
            self.display.advance(self.task, self.step)
            self._observe(step, random=False)

    def learn(self) -> None:
        """One session of S updates on the task's data."""
        start = time.perf_counter()
        data = self.buffer.transitions()
        info: dict[str, Any] = {}
        if self.buffer.count > 0:
            self.state, info = self.learner.update(
                self.state,
                data,
                self.memory.view(),
                num_updates=self.schedule.updates,
                key=self._key("update", self.task, self.block),
            )
        info = {name: float(value) for name, value in info.items()}
        seconds = time.perf_counter() - start
        model = self.learner.predict(self.state, self.task)
        info["validation"] = float(validation_error(model, self.suite.spec, data))
        self._seconds["training"] += seconds
        self._record("session", task=self.task, **_finite(info))
        self.store.record_time("session", task=self.task, step=self.step, seconds=seconds)
        self.display.session(info["validation"])
        self.block += 1

    def test_during_task(self) -> None:
        """A few test episodes on every task seen, for the learning curves."""
        every = self.schedule.eval_every
        if every and self.step % every == 0 and self.step < self.schedule.steps_per_task:
            for task in range(self.task + 1):
                self.test(task, "training", self.schedule.curve_episodes)

    def finish_task(self) -> None:
        """Consolidate, test every task seen, and leave the task's data behind."""
        self.state = self.learner.end_task(
            self.state, self.buffer.transitions(), key=self._key("end", self.task)
        )
        self.memory.keep(
            self.task, self.buffer.get_state(), streams.generator(self._seed, "keep", self.task)
        )
        for task in range(self.task + 1):
            self.test(task, "final", self.schedule.eval_episodes)
        self._record_task()
        self.buffer.clear()
        if self.actor is not None:
            self.actor.close()
        self.actor = None
        self.task, self.block = self.task + 1, 0
        if self.task == self.config.num_tasks:
            self.store.record("end")
        self.save(force=True)

    def test(self, task: int, phase: str, num_episodes: int) -> None:
        """Run test episodes of one task and record returns, successes and model errors."""
        start = time.perf_counter()
        after = self.task - 1 if phase == "zero_shot" else self.task
        model = self.learner.predict(self.state, task)
        actor = Actor(
            self.suite.tasks[task],
            self.suite.spec,
            self.config.planner,
            seed=self._seed,
            purpose=("test", task, after + 1, self.step),
        )
        trajectories = [run_episode(actor, model) for _ in range(num_episodes)]
        actor.close()
        if phase == "final" and task == self.task:
            self._keep_probe(trajectories)
        errors = self._model_errors(model, task)
        success = self.suite.success
        self._record(
            "evaluation",
            task=task,
            after=after,
            phase=phase,
            returns=[trajectory.total for trajectory in trajectories],
            successes=None if success is None else [bool(success(t.states)) for t in trajectories],
            **errors,
        )
        self._seconds["evaluation"] += time.perf_counter() - start
        self.display.test(task, after, float(np.mean([t.total for t in trajectories])))

    def save(self, *, force: bool = False) -> None:
        """Save everything, unless the last time was just now or the moment is not a good one."""
        recent = time.monotonic() - self._saved_at < CHECKPOINT_SECONDS
        savable = self.actor is None or self.actor.can_save
        if not force and (recent or not savable):
            return
        arrays = {
            **checkpoint.flatten(self.state, "learner"),
            **checkpoint.flatten(self.buffer.get_state(), "buffer"),
            **checkpoint.flatten(self.memory.get_state(), "memory"),
            **checkpoint.flatten(self.probes, "probes"),
        }
        info: dict[str, Any] = {"task": self.task, "block": self.block, "step": self.step}
        info["actor"] = None
        if self.actor is not None:
            arrays |= checkpoint.flatten(self.actor.get_state(), "actor")
            info["actor"] = "boundary" if self.actor.at_boundary else "episode"
        self.store.save(arrays, info)
        self._saved_at = time.monotonic()

    def restore(self) -> None:
        """Go to where the last checkpoint was taken."""
        found = self.store.restore()
        if found is None:
            return
        arrays, info = found
        self.task, self.block, self.step = info["task"], info["block"], info["step"]
        self.state = checkpoint.unflatten(self.state, arrays, "learner")
        self.buffer.set_state(checkpoint.section(arrays, "buffer"))
        self.memory.set_state(checkpoint.section(arrays, "memory"))
        self._restore_probes(arrays)
        if info["actor"] is not None:
            self.actor = self._new_actor()
            if info["actor"] == "episode":
                self.actor.begin_episode()
            template = self.actor.get_state()
            self.actor.set_state(checkpoint.unflatten(template, arrays, "actor"))
            self.actor.continuing = self.schedule.continuing
        self.display.resume(self.task, self.step)

    def _observe(self, step: Step, *, random: bool) -> Step:
        """Add a transition to D_t and keep the episode's record."""
        self.buffer.add(step.state, step.action, step.next_state)
        if step.done:
            assert self.actor is not None
            self._record(
                "episode",
                task=self.task,
                episode=self.actor.episode,
                random=random,
                **{"return": step.episode_return},
            )
            self.display.episode(self.actor.episode, step.episode_return)
        return step

    def _record(self, kind: str, *, task: int, **values: Any) -> None:
        position = {
            "task": task,
            "step": self.step,
            "total_step": self.task * self.schedule.steps_per_task + self.step,
        }
        self.store.record(kind, **position, **values)

    def _record_task(self) -> None:
        """Costs, embeddings and times at a task's end."""
        self._record(
            "cost",
            task=self.task,
            parameters=self.learner.num_parameters(self.state),
            bytes_per_task=self.learner.bytes_per_task(self.state),
            memory_bytes=self.memory.num_bytes,
            evaluations_per_action=self.config.planner.evaluations_per_action,
        )
        embeddings = self.learner.embeddings(self.state)
        if embeddings is not None:
            vectors = np.asarray(embeddings)[: self.task + 1].tolist()
            self.store.record("embeddings", after=self.task, vectors=vectors)
        if self.actor is not None:
            self._seconds["planning"] = self.actor.planning_seconds
            self._seconds["simulation"] = self.actor.simulation_seconds
        total = sum(self._seconds.values())
        self.store.record_time("task", task=self.task, seconds=total, **self._seconds)
        self._seconds = dict.fromkeys(self._seconds, 0.0)

    def _keep_probe(self, trajectories: list[Trajectory]) -> None:
        rng = streams.generator(self._seed, "probe", self.task)
        probe = make_probe(trajectories, self._horizon, rng)
        if probe is not None:
            self.probes[self.task] = probe

    def _model_errors(self, model: Model, task: int) -> dict[str, float | None]:
        if task not in self.probes:
            return {"one_step": None, "h_step": None}
        one, many = probe_errors(model, self.suite.spec, self.probes[task])
        return _finite({"one_step": float(one), "h_step": float(many)})

    def _new_actor(self) -> Actor:
        return Actor(
            self.suite.tasks[self.task],
            self.suite.spec,
            self.config.planner,
            seed=self._seed,
            purpose=("train", self.task),
        )

    def _restore_probes(self, arrays: checkpoint.Arrays) -> None:
        for task in range(self.task):
            found = checkpoint.section(arrays, f"probes/{task}")
            if found:
                self.probes[task] = Probe(**found)  # pyright: ignore[reportArgumentType]

    @property
    def _seed(self) -> int:
        return self.config.seed

    @property
    def _horizon(self) -> int:
        """How far ahead model errors are measured: as far as the planner looks."""
        return min(self.config.planner.horizon, self.suite.spec.episode_length)

    @property
    def _capacity(self) -> int:
        random_steps = self.schedule.random_episodes * self.suite.spec.episode_length
        return random_steps + self.schedule.steps_per_task

    def _key(self, purpose: str, *counters: int):
        return streams.key(self._seed, purpose, *counters)


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """JSON has no infinity: a model that blew up is recorded as null."""
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
