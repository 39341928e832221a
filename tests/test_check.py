"""`hypercrl check` finds the faults that a suite, a method or a planner of one's own may have."""

import pytest

from hypercrl.cli import main
from hypercrl.contracts.promises import BrokenPromiseError, require, try_out
from test_plugins import PLANNER, SUITE

GENEROUS_SUITE = SUITE.replace("return self.x, 0.0", "return self.x, float(self.x[0])")
HASTY_SUITE = SUITE.replace("0.0, False, False", "0.0, False, True")
FORGETFUL_SUITE = SUITE.replace("super().reset(seed=seed)", "super().reset()")

MODEST_METHOD = '''
"""Follow the leader, and it keeps quiet about its normaliser."""
from dataclasses import dataclass
from hypercrl.learners.ftl import FTL
from hypercrl.registry import learners


@learners.register("modest")
@dataclass(frozen=True)
class Modest(FTL):
    def bytes_per_task(self, state):
        return state.weights[0].nbytes
'''

HOPEFUL_PLANNER = '''
"""Random shooting, with an argmax that NaN wins."""
from dataclasses import dataclass
import equinox as eqx
import jax
import jax.numpy as jnp
from hypercrl.registry import planners
from hypercrl.types import Plan, Planner


@eqx.filter_jit
def shoot(planner, bounds, model, reward, observation, key):
    low, high = bounds
    shape = (planner.num_samples, planner.horizon, len(low))
    place = jax.vmap(jax.vmap(lambda share: low + (high - low) * share))
    sequences = place(jax.random.uniform(key, shape))

    def score(actions):
        state, total = observation, 0.0
        for action in actions:
            after = model(state, action)
            total, state = total + reward(state, action, after), after
        return total

    return sequences[jnp.argmax(jax.vmap(score)(sequences)), 0]


@planners.register("hopeful")
@dataclass(frozen=True)
class Hopeful(Planner):
    horizon: int = 2
    num_samples: int = 64

    def init(self, spec):
        return jnp.asarray(spec.action_low), jnp.asarray(spec.action_high)

    def plan(self, state, model, reward, observation, *, key, value=None):
        action = shoot(self, state, model, reward, jnp.asarray(observation), key)
        return Plan(action, state, {})

    @property
    def evaluations_per_action(self):
        return self.num_samples * self.horizon
'''


def check(tmp_path, capsys, text, *names) -> tuple[int, str]:
    """The command's exit status, and what it said."""
    path = tmp_path / "mine.py"
    path.write_text(text)
    try:
        main(["check", *names, "--plugin", str(path)])
        status = 0
    except SystemExit as stop:
        status = stop.code
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GENEROUS_SUITE, "steps the environment paid something else than the reward function says"),
        (HASTY_SUITE, "An episode was truncated after 1 steps, and the suite says 5"),
        (FORGETFUL_SUITE, "Two episodes of one seed differ from step 0 on"),
        (MODEST_METHOD, "bytes_per_task says"),
        (HOPEFUL_PLANNER, "though the model says that it leads to nan"),
        (PLANNER.replace("return 0", "return 7"), "the model was asked 0 times"),
    ],
)
def test_a_planted_fault_is_found(registries, tmp_path, capsys, text, problem):
    status, said = check(tmp_path, capsys, text)
    assert status == 1
    assert problem in " ".join(said.split())
    assert said.count("✗") <= 4  # two in each of two tasks at most: the others are kept


def test_what_keeps_its_promises_passes(registries, tmp_path, capsys):
    status, said = check(tmp_path, capsys, SUITE.replace('f"gain {g}"', 'f"gain {g} [/m]"'))
    assert status == 0 and "✗" not in said
    assert all(f"suite line, task {g} (gain {g} [/m])" in said for g in (1, 2))


def test_one_of_several_can_be_named(registries, tmp_path, capsys):
    status, said = check(tmp_path, capsys, GENEROUS_SUITE + PLANNER, "lazy")
    assert status == 0
    assert "planner lazy" in said and "suite line" not in said


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [("", (), "nothing to check"), (SUITE, ("nobody",), "called 'nobody'")],
)
def test_nothing_to_check_is_told(registries, tmp_path, capsys, text, names, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["check", *names, "--plugin", str(path)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_what_cannot_be_set_up_is_a_broken_promise_and_the_others_are_still_tried():
    def raises(_):
        """It works."""
        raise KeyError("gone")

    def kept(_):
        """It stays."""
        require(True, "")

    def broken(_):
        raise BrokenPromiseError("It went.")

    found = list(try_out((raises, broken, kept), object))
    assert [verdict.problem for verdict in found] == [
        "It ended with KeyError: 'gone'.",
        "It went.",
        "",
    ]
    (only,) = try_out((kept,), lambda: raises(None))
    assert only.problem == "It ended with KeyError: 'gone'."
