"""Return against model evaluations: what a plan may cost before it loses anything.

    python benchmarks/economy.py runs/pusher-single-laptop-s300 --episodes 10 --out economy.jsonl
    python benchmarks/economy.py --plot economy.jsonl --figure docs/images/economy.png

Plans with the models of a finished run, in test episodes that start alike for all planners. Each
row is one lever of iCEM moved on its own (samples, rounds, a decay of the samples from round to
round, knots, the horizon, a proposal learnt from its own past actions), or MPPI or CEM at a like
number of evaluations. A planner also decides what data a model is learnt from, so what looks cheap
here is then checked by training with it.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jaxtyping import Array, Float

from hypercrl.analysis.statistics import mean_std
from hypercrl.experiment.actor import Actor
from hypercrl.experiment.controller import Controller, load
from hypercrl.experiment.episode import run_episode
from hypercrl.planning.cem import CEM
from hypercrl.planning.icem import ICEM
from hypercrl.planning.mppi import MPPI
from hypercrl.types import Model, Planner, Spec

SHARES = (2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
ELITE_SHARE = 8  # samples to an elite
IMITATED_EPISODES = 30  # of each task, behind a learnt proposal
IMITATION_UPDATES = 5_000
PANELS_IN_A_ROW = 3

Policy = Callable[[Array], Array]


def main(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    episodes: int = 10,
    tasks: int = 2,
    only: str = "",
    out: Path | None = None,
    plot: Path | None = None,
    figure: Path = Path("economy.png"),
) -> None:
    """Measure, or plot what was measured.

    Args:
        runs: Folders of finished runs.
        episodes: Test episodes of a planner and task.
        tasks: How many of a run's tasks, from the first on.
        only: Planners whose name begins so.
        out: Where the rows go too, one line of JSON each.
        plot: A file of such rows to draw instead.
        figure: Where the picture goes.
    """
    if plot is not None:
        draw([json.loads(line) for line in plot.read_text().splitlines()], figure)
        return
    for run in runs:
        controller = load(run)
        for name, planner in variants(controller.config.planner):
            if not name.startswith(only):
                continue
            policies = name.startswith("proposal") and learn_policies(controller, tasks)
            row = {
                "suite": controller.suite.name,
                "seed": controller.config.seed,
                "lever": name.split()[0],
                "planner": name,
                "evaluations": planner.evaluations_per_action,
                **measure(controller, planner, tasks, episodes, policies or None),
            }
            mean, std = mean_std(np.array(row["returns"]).ravel())
            success = "" if row["success"] is None else f"  success {np.mean(row['success']):4.0%}"
            count = len(np.ravel(row["returns"]))
            error = 1.96 * (std or 0.0) / count**0.5
            others = "".join(f"  {what} {np.mean(x):.3g}" for what, x in row["measures"].items())
            print(
                f"{row['suite']:13}{name:22}{row['evaluations']:7,}"
                f"{mean:9.1f} ± {error:.1f}{success}{others}",
                flush=True,
            )
            if out is not None:
                with out.open("a") as file:
                    print(json.dumps(row), file=file)


def variants(planner: Planner) -> Iterator[tuple[str, Planner]]:
    """Named planners around the one that a run was learnt with."""
    assert isinstance(planner, ICEM), "The levers are iCEM's."
    yield "icem", planner
    for share in SHARES:
        if share != 1:
            yield f"samples x {share:g}", with_samples(planner, planner.num_samples * share)
    for rounds in (1, 2, 4):
        if rounds != planner.num_iterations:
            yield f"rounds {rounds}", replace(planner, num_iterations=rounds)
    for elites in (4, 2):
        most = planner.num_samples // elites
        yield f"elites 1/{elites}", replace(planner, num_elites=most)
    other = "best" if planner.execute == "mean" else "mean"
    yield f"execute {other}", replace(planner, execute=other)
    for rounds, share in ((2, 1 / 2), (2, 1 / 4), (1, 1 / 2)):
        few = with_samples(planner, planner.num_samples * share)
        yield f"rounds {rounds} x {share:g}", replace(few, num_iterations=rounds)
    for decay in (1.5, 2.0):
        yield f"decay {decay:g}", replace(planner, decay=decay)
    for knots in (planner.horizon // 4, planner.horizon // 2):
        if knots >= 2:
            yield f"knots {knots}", replace(planner, knots=knots)
            half = with_samples(planner, planner.num_samples / 2)
            yield f"knots {knots} x 0.5", replace(half, knots=knots)
    for share in (0.75, 0.5):
        yield f"horizon x {share:g}", replace(planner, horizon=round(planner.horizon * share))
    for share in (1.0, 1 / 2, 1 / 4, 1 / 8):
        yield f"proposal x {share:g}", with_samples(planner, planner.num_samples * share)
    sizes = {"horizon": planner.horizon, "num_iterations": planner.num_iterations}
    for share in (1.0, 1 / 2, 1 / 4):
        count = max(4, round(planner.num_samples * share))
        yield f"mppi x {share:g}", MPPI(num_samples=count, noise_beta=planner.noise_beta, **sizes)
    for share in (2.0, 1.0, 1 / 2):
        sizes["num_iterations"] = planner.num_iterations - 1 or 1
        count = max(8, round(planner.num_samples * share))
        yield f"cem x {share:g}", CEM(num_samples=count, num_elites=max(2, count // 12), **sizes)


def with_samples(planner: ICEM, count: float) -> ICEM:
    samples = max(4, round(count))
    elites = max(2, samples // ELITE_SHARE)
    kept = min(planner.num_kept, elites)
    return replace(planner, num_samples=samples, num_elites=elites, num_kept=kept)


class Proposing:
    """An iCEM that begins every search at what a policy would do: its mean, and one kept elite."""

    def __init__(self, planner: ICEM, policy: Policy):
        self.planner = planner
        self.policy = policy
        self.init = planner.init

    def plan(self, state, model, reward, observation, *, key, **behind):
        actions = follow(self.policy, model, observation, self.planner.horizon)
        # A search shifts what it is given by one step.
        mean = jnp.concatenate([actions[:1], actions[:-1]])
        state = state._replace(
            start=state.start._replace(mean=mean), kept=state.kept.at[-1].set(mean)
        )
        return self.planner.plan(state, model, reward, observation, key=key, **behind)


@eqx.filter_jit
def follow(policy: Policy, model: Model, state: Array, horizon: int) -> Float[Array, "H A"]:
    """What a policy does from a state on, as the model imagines it."""

    def advance(state, _):
        action = policy(state)
        return model(state, action), action

    return jax.lax.scan(advance, state, length=horizon)[1]


@functools.cache
def learn_policies(controller: Controller, num_tasks: int) -> list[Policy]:
    """For each task a network that imitates the run's own planner, in episodes of their own."""
    planner, policies = controller.config.planner, []
    for task in range(num_tasks):
        found = act(controller, planner, task, IMITATED_EPISODES, "imitation")
        states = jnp.concatenate([jnp.asarray(one.states[:-1]) for one in found])
        actions = jnp.concatenate([jnp.asarray(one.actions) for one in found])
        policies.append(imitate(controller.suite.spec, states, actions))
    return policies


def imitate(spec: Spec, states: Float[Array, "N S"], actions: Float[Array, "N A"]) -> Policy:
    """A small network of the actions' mean in a state."""
    centre, spread = states.mean(0), states.std(0) + 1e-6
    low, high = jnp.array(spec.action_low), jnp.array(spec.action_high)
    key = jax.random.key(0)
    network = eqx.nn.MLP(spec.state_dim, spec.action_dim, 64, 2, jax.nn.silu, key=key)
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, IMITATION_UPDATES))

    def policy(network, state):
        return jnp.clip(network((state - centre) / spread), low, high)

    def loss(network, rows):
        missed = jax.vmap(network)((states[rows] - centre) / spread) - actions[rows]
        return (missed**2).mean()

    @eqx.filter_jit
    def learn(network):
        values, static = eqx.partition(network, eqx.is_array)

        def update(carry, key):
            values, memory = carry
            rows = jax.random.randint(key, (100,), 0, len(states))
            gradient = eqx.filter_grad(loss)(eqx.combine(values, static), rows)
            change, memory = optimiser.update(gradient, memory)
            return (optax.apply_updates(values, change), memory), None

        start = (values, optimiser.init(values))
        (values, _), _ = jax.lax.scan(update, start, jax.random.split(key, IMITATION_UPDATES))
        return eqx.combine(values, static)

    return functools.partial(policy, learn(network))


def act(controller: Controller, planner, task: int, episodes: int, purpose: str) -> list:
    """Episodes of a task with a planner; of one purpose they start alike for all planners."""
    suite, seed = controller.suite, controller.config.seed
    actor = Actor(suite.tasks[task], suite.spec, planner, seed=seed, purpose=(purpose, task))
    step = functools.partial(actor.plan, controller.model(task), controller.value(task))
    with contextlib.closing(actor):
        return [run_episode(step) for _ in range(episodes)]


def measure(
    controller: Controller,
    planner: Planner,
    num_tasks: int,
    episodes: int,
    policies: list[Policy] | None = None,
) -> dict:
    """Returns [tasks, episodes], successes where the suite knows them, and its measures."""
    suite, returns, successes = controller.suite, [], []
    measures: dict[str, list[list[float]]] = {name: [] for name in suite.measures}
    for task in range(num_tasks):
        own = planner
        if policies is not None:
            assert isinstance(planner, ICEM)
            own = Proposing(planner, policies[task])
        found = act(controller, own, task, episodes, "economy")
        returns.append([episode.total for episode in found])
        if suite.success is not None:
            successes.append([bool(suite.success(episode.states)) for episode in found])
        for name, of in suite.measures.items():
            measures[name].append([float(of(episode.states)) for episode in found])
    return {"returns": returns, "success": successes or None, "measures": measures}


def draw(rows: list[dict], figure: Path) -> None:
    """One panel a suite: return against evaluations, a line a lever."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    names = sorted({row["suite"] for row in rows})
    levers = list(dict.fromkeys(row["lever"] for row in rows))
    columns = min(len(names), PANELS_IN_A_ROW)
    rows_of_panels = -(-len(names) // columns)
    picture = Figure(figsize=(3.6 * columns, 3.2 * rows_of_panels), layout="constrained")
    panels = picture.subplots(rows_of_panels, columns, squeeze=False).ravel()
    for unused in panels[len(names) :]:
        unused.set_axis_off()
    for panel, suite in zip(panels, names, strict=False):
        own = [row for row in rows if row["suite"] == suite]
        for number, lever in enumerate(levers):
            points = sorted(
                (row["evaluations"], *_interval(row)) for row in own if row["lever"] == lever
            )
            if not points:
                continue
            x, mean, error = (np.array(column) for column in zip(*points, strict=True))
            # A little apart, where several levers come to the same number of evaluations.
            x = x * 1.02 ** (number - len(levers) / 2)
            style = {"marker": "*", "markersize": 12, "color": "black", "zorder": 3}
            style = style if lever == "icem" else {"marker": "o", "markersize": 3}
            panel.errorbar(x, mean, error, linewidth=1, capsize=2, label=lever, **style)
        panel.set(title=suite, xlabel="model evaluations an action", xscale="log")
        panel.xaxis.set_minor_formatter(NullFormatter())
    for panel in panels[::columns]:
        panel.set_ylabel("return, mean and 95 % interval")
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(
        handles, labels, loc="outside lower center", ncols=-(-len(levers) // 2), fontsize="small"
    )
    picture.savefig(figure, dpi=150)


def _interval(row: dict) -> tuple[float, float]:
    mean, std = mean_std(np.array(row["returns"]).ravel())
    return mean, 1.96 * (std or 0.0) / np.size(row["returns"]) ** 0.5


if __name__ == "__main__":
    tyro.cli(main)
