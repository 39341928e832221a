"""The contract that every registered learner keeps."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hypercrl.contracts import learner as contract
from hypercrl.contracts.sequence import (
    COUNT,
    NUM_LEARNT,
    NUM_TASKS,
    SPEC,
    data,
    error,
    key,
    learn_task,
    predictions,
)
from hypercrl.data.buffer import held_out
from hypercrl.dynamics.hypernet import Hypernet
from hypercrl.errors import UserError
from hypercrl.learners.baseline import BaselineLearner
from hypercrl.learning.training import Training
from hypercrl.registry import learners, load_plugin
from sequences import SETTINGS, VARIANTS, history, make, to_arrays

METHODS = learners.names()
REPLAYING = [name for name in METHODS if make(name).memory_share > 0]
FORGETTING_FREE = ("single", "pnn", "ftl")  # by construction


QUICK = (
    "hypercrl+chunked+lookahead+gaussian",
    "hypercrl+low_rank+predictions",
)
"""Variants that together have every part; `make test-all` tries the others too."""

EVERYBODY = [
    *METHODS,
    *(pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in VARIANTS),
]


@pytest.fixture(params=EVERYBODY, scope="module")
def method(request):
    """Every method, and every hypernetwork, head and regulariser it can be asked for."""
    return request.param


@pytest.mark.parametrize("promise", contract.PROMISES, ids=lambda promise: promise.__name__)
def test_promise_is_kept(method, promise):
    promise(history(method))


def test_the_first_task_compiles_and_tasks_differ(method):
    """Or two of the promises would be kept by doing nothing."""
    h = history(method)
    assert h.compiled[0] > 0
    found = {predictions(h.learner, h.finished[-1], task).tobytes() for task in range(NUM_LEARNT)}
    assert len(found) == NUM_LEARNT


def num_kept(learner) -> int:
    return min(round(learner.memory_share * COUNT), COUNT - len(held_out(COUNT)))


def test_a_method_without_memory_receives_none(method):
    h = history(method)
    for task, view in enumerate(h.views):
        if h.learner.memory_share == 0:
            assert view is None
        else:
            assert view is not None
            kept = [num_kept(h.learner)] * task + [0] * (NUM_TASKS - task)
            assert view.counts.tolist() == kept


@pytest.mark.parametrize("name", REPLAYING)
def test_a_method_with_memory_says_when_it_gets_none(name):
    h = history(name)
    with pytest.raises(UserError, match="no memory"):
        h.learner.update(h.started[1], data(1), None, num_updates=1, key=key(0))


def test_old_transitions_are_counted_in_bytes(method):
    h = history(method)
    row_bytes = 4 * (2 * SPEC.state_dim + SPEC.action_dim)
    assert h.memory.num_bytes == NUM_LEARNT * num_kept(h.learner) * row_bytes


def test_room_for_more_tasks_decides_no_number(method):
    """What is drawn for a task does not depend on how many are to come."""
    learner = history(method).learner
    few, more = (to_arrays(learner.init(SPEC, n, key=key(0))) for n in (NUM_TASKS, 8))
    for name, array in few.items():
        corner = tuple(slice(size) for size in array.shape)
        np.testing.assert_array_equal(array, more[name][corner], err_msg=name)


def test_normalisers_of_finished_tasks_never_change(method):
    h = history(method)
    for task in range(NUM_LEARNT):
        for later in range(task, NUM_LEARNT):
            then, now = (h.finished[i].normalizers.select(task) for i in (task, later))
            assert all(jax.tree.leaves(jax.tree.map(jnp.array_equal, then, now)))


def test_a_new_task_starts_with_the_normaliser_of_the_one_before(method):
    """It has no data yet, and the next best guess is far better than none."""
    h = history(method)
    for task in range(1, NUM_LEARNT):
        before = h.finished[task - 1].normalizers.select(task - 1)
        now = h.started[task].normalizers.select(task)
        jax.tree.map(np.testing.assert_array_equal, before, now)
        assert np.abs(now.input_std - 1.0).max() > 0.01  # it is not the one of no data


def test_a_new_task_starts_with_an_optimiser_of_its_own(method):
    """Whatever the steps on the task before were, the next one does not continue them."""
    h = history(method)
    spoilt = jax.tree_util.tree_map_with_path(
        lambda place, x: x + 1 if "optimizer" in jax.tree_util.keystr(place) else x,
        h.finished[0],
    )
    after = to_arrays(h.learner.start_task(spoilt, 1, key=key(1, 0)))
    for name, array in to_arrays(h.started[1]).items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


@pytest.mark.parametrize("name", [one for one in EVERYBODY if one != "ftl"])
def test_gradients_are_clipped_at_the_norm_asked_for(name):
    """Adam's first moment after one update is a tenth of the gradient that it was given."""
    learner, max_norm = make(name, training=Training(batch_size=32, max_gradient_norm=1e-2)), 1e-2
    h = history(name)
    state, _ = learner.update(h.started[1], data(1), h.views[1], num_updates=1, key=key(0))
    norm = float(optax.tree.norm(state.optimizer.mu)) / (1 - 0.9)
    assert norm == pytest.approx(max_norm, rel=1e-3)


@pytest.mark.parametrize(("name", "moves"), [("hypercrl", False), ("hypercrl_mt", True)])
def test_embeddings_of_finished_tasks_change_in_the_oracle_only(name, moves):
    h = history(name)
    last = h.learner.embeddings(h.finished[-1])
    for task in range(NUM_LEARNT - 1):
        then = h.learner.embeddings(h.finished[task])
        assert np.array_equal(then[task], last[task]) != moves


@pytest.mark.parametrize("name", FORGETTING_FREE)
def test_nothing_is_forgotten_by_construction(name):
    h = history(name)
    for task in range(NUM_LEARNT):
        then = predictions(h.learner, h.finished[task], task)
        np.testing.assert_array_equal(predictions(h.learner, h.finished[-1], task), then)


def test_every_module_registers_one_learner_of_its_own_name():
    assert set(METHODS) == set(learners.builtin_modules)
    for name in METHODS:
        assert learners.get(name).__module__ == f"hypercrl.learners.{name}"


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        *((name, "learning_rate", 0.0) for name in ("finetune", "hypercrl", "hypercrl_mt")),
        ("hypercrl", "embedding_learning_rate", 0.0),
        ("hypercrl", "embedding_learning_rate", -1.0),
        ("coreset", "memory_share", 0.0),
        ("coreset", "memory_share", 1.1),
        ("ewc", "strength", -1.0),
        ("si", "strength", -0.1),
        ("si", "damping", 0.0),
        ("pnn", "adapter", 0),
        ("ftl", "num_grids", 0),
        ("ftl", "num_bins", 0),
        ("ftl", "ridge", 0.0),
    ],
)
def test_impossible_settings_are_refused_by_name(name, setting, value):
    with pytest.raises(UserError, match=f"'s {setting} must be .* given {value}"):
        make(name, **{setting: value})


@pytest.mark.parametrize(("setting", "value"), [("batch_size", 0), ("max_gradient_norm", 0.0)])
def test_impossible_training_is_refused_by_name(setting, value):
    with pytest.raises(UserError, match=f"Training's {setting} must be"):
        Training(**{setting: value})


@pytest.mark.parametrize("name", [n for n in METHODS if n != "ftl"])
def test_every_gradient_method_has_the_same_settings(name):
    """What a preset composes is handed to the fields of these names."""
    learner = make(name)
    assert learner.network is SETTINGS["network"] and learner.training is SETTINGS["training"]
    assert learner.learning_rate == SETTINGS["learning_rate"]
    assert learners.get(name)().learning_rate == (1e-4 if "hypercrl" in name else 1e-3)


@pytest.mark.parametrize("base", [BaselineLearner, Hypernet])
def test_methods_are_abstract_or_final(base):
    for variant in base.__subclasses__():
        for name, value in vars(variant).items():
            inherited = getattr(base, name, None)
            if not name.startswith("__") and (callable(value) or isinstance(value, property)):
                assert inherited is None or getattr(inherited, "__isabstractmethod__", False), name


def test_parameters_are_counted():
    inputs, outputs, hidden = SPEC.state_dim + SPEC.action_dim, SPEC.state_dim, 24
    trunk = (inputs + 1) * hidden + (hidden + 1) * hidden
    head = (hidden + 1) * outputs
    counted = {name: _num_parameters(name) for name in METHODS}
    assert counted["single"] == NUM_LEARNT * (trunk + head)  # whatever room there is
    for name in ("finetune", "ewc", "si", "coreset", "multitask"):
        assert counted[name] == trunk + NUM_LEARNT * head
    assert counted["hypercrl_mt"] == counted["hypercrl"]
    assert counted["pnn"] > counted["single"]


def _num_parameters(name):
    h = history(name)
    return h.learner.num_parameters(h.finished[-1])


def test_the_documented_method_works(tmp_path, registries):
    guide = (Path(__file__).parents[1] / "docs" / "methods.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "anchored.py").write_text(code)
    load_plugin(str(tmp_path / "anchored.py"))

    learner = make("anchored")
    state = learner.init(SPEC, NUM_TASKS, key=key(9))
    held = _moved(*learn_task(learner, state, 0, None))
    free = history("finetune")
    assert 0 < held < 0.5 * _moved(free.started[0], free.finished[0])


def _moved(*states):
    one, other = (state.params.shared for state in states)
    return np.linalg.norm(one - other)


class TestOrder:
    """Model errors on the first of three conflicting tasks, once all three have been learnt."""

    RETAIN = ("single", "pnn", "ftl", "multitask", "hypercrl_mt", "hypercrl")

    def test_every_method_learns_the_task_under_way(self, method):
        h = history(method)
        errors = [error(h.learner, h.finished[task], task) for task in range(3)]
        assert max(errors) < 0.4, errors

    @pytest.mark.parametrize("name", RETAIN)
    def test_these_remember(self, name):
        assert _first_task(name) < 0.2

    def test_fine_tuning_forgets_most_and_a_coreset_less(self):
        assert _first_task("finetune") > 2 * _first_task("coreset")
        assert _first_task("coreset") > 2 * _first_task("multitask")

    @pytest.mark.parametrize("name", ["ewc", "si"])
    def test_springs_hold_back_some_forgetting(self, name):
        assert _first_task(name) < _first_task("finetune")


def _first_task(name):
    h = history(name)
    return error(h.learner, h.finished[2], 0)
