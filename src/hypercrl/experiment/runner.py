"""Algorithm 1 of Huang et al. (2021).

    for each task t:
        empty the buffer D_t; let the learner make room for t     (a new embedding e_t)
        collect P episodes with random actions, and learn from them
        repeat M times:
            act for K steps with the planner on the model f_θt    (θ_t = H_Θ(e_t))
            learn for S updates from D_t
        consolidate; test every task seen so far, or some of them

The paper learns for the first time after K planned steps; learning from the random episodes
first spares those steps a plan on an untrained model. The runner does not know which method
it drives. Everything it draws is named by (seed, purpose, counters) and everything else it
depends on is in its checkpoints, so that a run may be interrupted anywhere and ends the same.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from equinox import is_array

from hypercrl.data.buffer import Buffer
from hypercrl.data.memory import TaskMemory
from hypercrl.data.room import enlarge, room_for
from hypercrl.errors import START_OVER, UserError
from hypercrl.experiment import checkpoint, streams
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.display import Display
from hypercrl.experiment.episode import Step, run_episode
from hypercrl.experiment.learnt import learner_state
from hypercrl.experiment.recorder import Position, Recorder
from hypercrl.experiment.records import Phase, TaskTime, parse
from hypercrl.experiment.retests import choose_retested, tasks_to_test
from hypercrl.experiment.stopwatch import Stopwatch
from hypercrl.experiment.store import Store
from hypercrl.experiment.stretches import Stretches
from hypercrl.experiment.testing import Tester, measure_random_policy, validation_error
from hypercrl.experiment.values import Values
from hypercrl.planning.optimistic import optimistic
from hypercrl.types import Model, Transitions

CHECKPOINT_SECONDS = 20.0  # about as much work as a crash may cost
AfterTask = Callable[[int], None]
SAVING_SHARE = 0.05  # of the time at most; checkpoints of big networks are then taken less often


class Runner:
    """One run, from wherever its store left off to the end."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        display: Display,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        after_task: AfterTask | None = None,
    ):
        self.config, self.schedule, self.learner = config, config.schedule, config.learner
        self.store, self.display = store, display
        self.suite = config.build_suite()
        self.at = Position()
        spec = self.suite.spec
        capacity = self.schedule.random_episodes * self.episode_length
        capacity += self.schedule.steps_per_task
        self.buffer = Buffer(spec, capacity)
        self.memory = TaskMemory(spec, room_for(1), capacity, self.learner.memory_share)
        self.state = self.learner.init(spec, self.memory.room, key=self._key("init"))
        self.values = Values(config.critic, spec)
        self.stretches = Stretches(0 if self.schedule.continuing else self.schedule.episode_steps)
        self.tester = Tester(config, self.suite)
        self.recorder = Recorder(store, display, self.schedule.steps_per_task)
        self.actor: Actor | None = None  # in the task under way
        self.model: Model | None = None  # of the task under way
        self._stopwatch = Stopwatch()
        self._checkpoint_seconds = checkpoint_seconds
        self._after_task = after_task
        self._saved_at, self._save_seconds = time.monotonic(), 0.0

    def run(self) -> None:
        """Algorithm 1."""
        try:
            self.restore()
            while self.at.task < self.config.num_tasks:
                if self.at.sessions == 0:
                    self.show_last_task()
                    self.begin_task()
                while self.at.step < self.schedule.steps_per_task:
                    self.act()
                    if self.at.step % self.schedule.update_every == 0:
                        self.learn()
                        self.test_during_task()
                    self.save()
                self.finish_task()
            self.show_last_task()
        finally:
            self._leave_environment()
        self.display.finish()

    @property
    def first_half(self) -> bool:
        """Of the task under way."""
        return 2 * self.at.step < self.schedule.steps_per_task

    @property
    def model_to_act_on(self) -> Model:
        """What is known of the task or, in every other episode, what may be hoped for."""
        assert self.actor is not None and self.model is not None
        if self.actor.current_episode % 2:
            return self.model
        return optimistic(self.model, self.actor.task.reward, self.schedule.optimism)

    @property
    def episode_length(self) -> int:
        """The most that a training episode may have: cut short, if at all, in the first half."""
        full = self.suite.spec.episode_length
        return min(self.schedule.episode_steps or full, full) if self.first_half else full

    def begin_task(self) -> None:
        """Make room for the task, explore it at random, learn from that."""
        self._stopwatch = Stopwatch()
        self.recorder.step(self.at)
        self.make_room()
        self.state = self.learner.start_task(
            self.state, self.at.task, key=self._key("start", self.at.task)
        )
        self.measure_random_policy()
        if self.schedule.zero_shot and self.at.task > 0:
            self.test(self.at.task, "zero_shot", self.schedule.curve_episodes)
        self.values.start_task(key=self._key("critic", self.at.task))
        self.stretches.begin_task()
        self.actor = actor = self._enter_environment()
        for _ in range(self.schedule.random_episodes):
            run_episode(lambda: self._observe(actor.explore(), random=True))
        actor.continuing = self.schedule.continuing
        self.learn()
        self.save()

    def make_room(self) -> None:
        """Let the arrays grow by a block where the task that begins has no row in them.

        What was compiled for the smaller ones is let go: each block of pushers would leave 75 MB
        behind, and 950 of the 65,530 memory maps that Linux allows a process.
        """
        if self.at.task >= self.memory.room:
            self.memory.make_room(room_for(self.at.task + 1))
            template = self.learner.init(self.suite.spec, self.memory.room, key=self._key("init"))
            self.state = enlarge(self.state, template)
            jax.clear_caches()

    def act(self) -> None:
        """One step of model-predictive control on the current model, or of an odd start."""
        assert self.actor is not None
        self.actor.episode_length = self.episode_length
        done = self.actor.steps_done
        if done < self.schedule.random_start:
            step = self.actor.explore()
        else:
            step = self.actor.plan(self.model_to_act_on, self.values.of(self.at.task))
        if not self.stretches.goes_on(step, done + 1, first_half=self.first_half):
            step = self.actor.end_episode(step)
        self.at.step += 1
        self.recorder.step(self.at)
        self._observe(step, random=False)

    def learn(self) -> None:
        """One session of S updates on the task's data."""
        data = self.buffer.transitions()
        info = {}
        start = time.perf_counter()
        with self._stopwatch.training:
            if self.buffer.count > 0:
                self.state, info = self.learner.update(
                    self.state,
                    data,
                    self.memory.view(),
                    num_updates=self.schedule.updates,
                    key=self._key("update", self.at.task, self.at.sessions),
                )
                self.values.update(
                    data,
                    self.suite.tasks[self.at.task].reward,
                    key=self._key("critic_update", self.at.task, self.at.sessions),
                )
            info = {name: float(value) for name, value in info.items()}
        self.recorder.require_finite(self.at, (self.state, self.values.get_state()), info)
        seconds = time.perf_counter() - start
        self.model = self.learner.predict(self.state, self.at.task)
        validation = float(validation_error(self.model, self.suite.spec, data))
        self.at.sessions += 1
        self._note_bytes(data)
        self.recorder.session(self.at, info, validation, seconds)

    def test_during_task(self) -> None:
        """A few test episodes on the tasks seen, for the learning curves."""
        every = self.schedule.eval_every
        if every and self.at.step % every == 0 and self.at.step < self.schedule.steps_per_task:
            older = choose_retested(self.schedule, self.config.seed, self.at.task)
            for task in (*older, self.at.task):
                self.test(task, "training", self.schedule.curve_episodes)

    def finish_task(self) -> None:
        """Consolidate, test the tasks seen, and go to the next."""
        if self.at.tested == 0:
            self.consolidate()
        tasks = tasks_to_test(self.config, self.at.task)
        for task in tasks[self.at.tested :]:
            self.test(task, "final", self._num_test_episodes(task))
            self.at.tested += 1
            self.save()
        self.recorder.costs(
            self.at,
            self.learner,
            self.state,
            memory_bytes=self.memory.num_bytes,
            value_bytes=self.values.bytes_per_task,
            evaluations=self.config.planner.evaluations_per_action,
        )
        self.recorder.times(self._stopwatch.read(self.at.task))
        self.at = Position(task=self.at.task + 1)
        if self.at.task == self.config.num_tasks:
            self.recorder.end()
        self.save(force=True)

    def _num_test_episodes(self, task: int) -> int:
        """At a task's end: as many as a reported number takes, or fewer in between."""
        is_reported = task == self.at.task or self.at.task == self.config.num_tasks - 1
        fewer = None if is_reported else self.schedule.retest_episodes
        return fewer or self.schedule.eval_episodes

    def show_last_task(self) -> None:
        """Let whoever asked look at the task just finished; its checkpoint has been written."""
        if self._after_task is not None and self.at.task > 0:
            self._after_task(self.at.task - 1)

    def consolidate(self) -> None:
        """Let the learner settle what it has learnt, and leave the task's data behind."""
        data = self.buffer.transitions()
        self.state = self.learner.end_task(self.state, data, key=self._key("end", self.at.task))
        self.recorder.require_finite(self.at, self.state)
        self.values.end_task()
        self._note_bytes(data)
        rng = streams.generator(self.config.seed, "keep", self.at.task)
        self.memory.keep(self.at.task, self.buffer.get_state(), rng)
        self.buffer.clear()
        self._leave_environment()

    def measure_random_policy(self) -> None:
        """What the task pays for nothing but chance, the same in every run on the suite."""
        with self._stopwatch.evaluation:
            self.recorder.random_policy(measure_random_policy(self.suite, self.at.task))

    def test(self, task: int, phase: Phase, num_episodes: int) -> None:
        """Run test episodes of one task seen and record how they went."""
        with self._stopwatch.evaluation:
            found = self.tester.test(
                self.learner.predict(self.state, task),
                self.values.of(task),
                task,
                after=self.at.task - 1 if phase == "zero_shot" else self.at.task,
                phase=phase,
                step=self.at.step,
                total_step=self.recorder.total_step(self.at),
                num_episodes=num_episodes,
            )
        self.recorder.evaluation(found)

    def save(self, *, force: bool = False) -> None:
        """Save everything, unless that was done just now or cannot be done at this moment."""
        start = time.monotonic()
        wait = self._checkpoint_seconds and max(
            self._checkpoint_seconds, self._save_seconds / SAVING_SHARE
        )
        possible = self.actor is None or self.actor.can_save
        if not force and (start - self._saved_at < wait or not possible):
            return
        state = {
            "learner": self.state,
            "buffer": self.buffer.get_state(),
            "memory": self.memory.get_state(),
            "values": self.values.get_state(),
            "stretches": self.stretches.get_state(),
            "actor": self.actor and self.actor.get_state(),  # None is a tree without leaves
        }
        seconds = self._stopwatch.read(self.at.task)
        info = {"position": dataclasses.asdict(self.at), "seconds": dataclasses.asdict(seconds)}
        self.store.save(
            checkpoint.flatten(state), info, total_step=self.recorder.total_step(self.at)
        )
        self._saved_at = time.monotonic()
        self._save_seconds = self._saved_at - start

    def restore(self) -> None:
        """Go to where the last checkpoint was taken; take a first one where there is none."""
        with _must_fit(self.store):
            found = self.store.restore()
            if found is not None:
                self._set_state(*found)
        goes_on = self.at.task < self.config.num_tasks
        ended = goes_on and self.store.go_on()
        if found is None or ended:
            self.save(force=True)
        if found is None:
            return
        if goes_on:
            self.display.resume(self.at.task, self.at.step)
            if self.store.sign():
                self.display.say("other sources than before continue this run; it names them all")
        else:
            self.display.say("this run was finished before; --fresh starts it over")

    def _set_state(self, arrays: checkpoint.Arrays, info: dict[str, Any]) -> None:
        self.at = Position(**info["position"])
        self._stopwatch = Stopwatch(parse(TaskTime, info["seconds"]))
        within_task = self.at.task > 0 and self.at.sessions > 0
        self.state = learner_state(self.config, self.suite.spec, arrays, within_task=within_task)
        self.buffer.set_state(checkpoint.section(arrays, "buffer"))
        self.memory.set_state(checkpoint.section(arrays, "memory"))
        self.values.set_state(checkpoint.section(arrays, "values"))
        self.stretches.set_state(checkpoint.section(arrays, "stretches"))
        acting = checkpoint.section(arrays, "actor")
        if acting:
            self.actor = self._enter_environment()
            self.actor.continuing = self.schedule.continuing
            self.actor.set_state(acting)
            self.model = self.learner.predict(self.state, self.at.task)

    def _observe(self, step: Step, *, random: bool) -> Step:
        """Add a transition to D_t, and record the episode that it closes."""
        self.buffer.add(step.state, step.action, step.next_state)
        if step.done:
            self.recorder.episode(self.at, step, random=random)
        return step

    def _note_bytes(self, data: Transitions) -> None:
        """Keep the most that the method has held: its state, old transitions and the buffer."""
        held = sum(leaf.nbytes for leaf in jax.tree.leaves((self.state, data)) if is_array(leaf))
        held += self.memory.num_bytes + self.values.num_bytes
        self.at.peak_bytes = max(self.at.peak_bytes, held)

    def _enter_environment(self) -> Actor:
        return Actor(
            self.suite.tasks[self.at.task],
            self.suite.spec,
            self.config.planner.exploring,
            seed=self.config.seed,
            purpose=("train", self.at.task),
            episode_length=self.episode_length,
            exploration_beta=self.schedule.exploration_beta,
            stopwatch=self._stopwatch,
        )

    def _leave_environment(self) -> None:
        if self.actor is not None:
            self.actor.close()
            self.actor = None

    def _key(self, purpose: str, *counters: int):
        return streams.key(self.config.seed, purpose, *counters)


@contextmanager
def _must_fit(store: Store) -> Iterator[None]:
    """A checkpoint that is whole, but not one of this run."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise UserError(
            f"The checkpoint in {store.folder} does not fit the run; {START_OVER}."
        ) from error
