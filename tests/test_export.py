"""Exports: the ONNX model and the planner agree with the run, and run without hypercrl."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiny
from hypercrl.cli import main
from hypercrl.data.normalizer import Normalizer
from hypercrl.dynamics.heads import HEADS
from hypercrl.dynamics.mlp import ACTIVATIONS
from hypercrl.dynamics.model import Network
from hypercrl.encoding import Absolute, Angle, Difference, Encoding, Field, Quaternion
from hypercrl.errors import UserError
from hypercrl.experiment import shipped
from hypercrl.experiment.controller import load
from hypercrl.experiment.display import Silent
from hypercrl.export import folder, onnx_model
from hypercrl.export.folder import export
from hypercrl.registry import suites
from hypercrl.training import run as run_training
from hypercrl.types import Spec

EVERY_FIELD = Encoding((Difference(2), Angle(2), Quaternion(), Absolute(1)))
SPECS = {
    "every field": Spec(9, 2, (-1.0, -2.0), (1.0, 0.5), 10, EVERY_FIELD),
    **{name: suites.get(name)().spec for name in suites.builtin_modules},
}


def make_model(spec, seed=0, **settings):
    """A network with random weights and a normaliser as if it had seen data."""
    network = Network(hidden=(16, 12), **settings)
    keys = jax.random.split(jax.random.key(seed), 4)
    one = jax.tree.map(lambda x: x[0], Normalizer.identity(spec, 1))
    normalizer = Normalizer(
        jax.random.normal(keys[0], one.input_mean.shape),
        0.5 + jax.random.uniform(keys[1], one.input_std.shape),
        0.1 + jax.random.uniform(keys[2], one.output_scale.shape),
    )
    head = HEADS[network.head].init(spec.encoding.num_outputs)
    return network.model(spec, network.layout(spec).init(key=keys[3]), head, normalizer)


def to_onnx(model) -> bytes:
    return onnx_model.build(model, {"suite": "test"}).SerializeToString()


@pytest.mark.parametrize("name", SPECS)
def test_onnx_agrees_with_jax_for_every_encoding(name):
    model = make_model(SPECS[name])
    assert onnx_model.check(to_onnx(model), model) < onnx_model.TOLERANCE


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_onnx_agrees_with_jax_for_every_activation_and_head(activation):
    model = make_model(SPECS["cartpole"], activation=activation, head="gaussian")
    assert onnx_model.check(to_onnx(model), model) < onnx_model.TOLERANCE


def test_a_model_that_does_not_agree_is_noticed():
    content, other = to_onnx(make_model(SPECS["every field"])), make_model(SPECS["every field"], 1)
    assert onnx_model.check(content, other) > 100 * onnx_model.TOLERANCE


def test_a_state_without_rotation_stays_where_it_is():
    """The guard around the identity: no NaN from a rotation of zero."""
    model = make_model(SPECS["every field"])
    still = jax.tree.map(jnp.zeros_like, model.predictor.network.layers)
    onnxruntime = pytest.importorskip("onnxruntime")
    content = to_onnx(model_with_layers(model, still))
    state = np.array([[0, 0, 0, 0, 0.6, 0, -0.8, 0, 3]], np.float32)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"state": state, "action": np.zeros((1, 2), np.float32)})
    np.testing.assert_allclose(found[0, :8], state[0, :8], atol=1e-6)


def model_with_layers(model, layers):
    import equinox as eqx

    return eqx.tree_at(lambda m: m.predictor.network.layers, model, layers)


class Folded(Field):
    """A field that ONNX knows nothing of."""

    def features(self, x):
        return x

    target = advance = difference = lambda self, x, y: x


def test_a_field_without_a_counterpart_is_told():
    spec = Spec(1, 1, (-1.0,), (1.0,), 10, Encoding((Folded(1),)))
    with pytest.raises(UserError, match="field Folded cannot"):
        to_onnx(make_model(spec))


@pytest.mark.parametrize("suite", shipped.names())
def test_the_models_of_every_suite_agree(suite):
    """Those that come trained, which have states of every kind."""
    controller = load(suite)
    for task in range(controller.num_learnt):
        model = controller.model(task)
        assert onnx_model.check(to_onnx(model), model) < onnx_model.TOLERANCE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    with tiny.registered():
        run_training(tiny.configure(method="hypercrl", eval_every=0), path, Silent())
    return path


@pytest.fixture(autouse=True)
def suites_known():
    with tiny.registered():
        yield


ACT = """
import json, runpy, sys
sys.modules["hypercrl"] = None  # any import of it fails
policy = runpy.run_path(sys.argv[1] + "/run.py")["Policy"](sys.argv[1])
policy.warm_up()
actions = [policy.act(observation).tolist() for observation in json.loads(sys.argv[2])]
print(json.dumps({"actions": actions, "compiled": policy._step._cache_size()}))
"""


def test_an_export_acts_like_the_run_without_hypercrl(run, tmp_path, capsys):
    out = tmp_path / "out"
    main(["export", str(run), "--task", "gain -1", str(out)])
    said = capsys.readouterr().out
    assert "ONNX model agrees" in said and "planner's actions agree" in said
    about = json.loads((out / "about.json").read_text())
    assert about["task"] == "gain -1" and about["model_difference"] < 1e-5

    observations = np.random.default_rng(0).normal(size=(4, 2)).round(3).tolist()
    done = subprocess.run(
        [sys.executable, "-c", ACT, str(out), json.dumps(observations)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    controller = load(run)
    own = [controller.act(observation, "gain -1") for observation in observations]
    found = json.loads(done.stdout)
    np.testing.assert_allclose(found["actions"], own, atol=1e-5)
    assert found["compiled"] == 1  # while it was warmed up, and never during a step


def test_a_planner_that_does_not_agree_is_not_handed_over(run, tmp_path, monkeypatch):
    monkeypatch.setattr(folder.planner_step, "check", lambda *_: 0.5)
    with pytest.raises(UserError, match=r"differ by 0\.5 of their range"):
        export(load(run), 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_method_without_a_network_is_exported_as_a_planner_alone(tmp_path):
    run_training(tiny.configure(method="ftl", eval_every=0), tmp_path / "run", Silent())
    done = export(load(tmp_path / "run"), 0, tmp_path / "out")
    assert "LinearPredictor cannot be written as ONNX" in done.note
    assert not (tmp_path / "out" / "model.onnx").exists()
    assert (tmp_path / "out" / "planner.jax").exists()


@pytest.mark.parametrize("task", ["3", "0", "gain 9"])
def test_a_task_that_was_not_learnt_is_told(run, tmp_path, task, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["export", str(run), str(tmp_path / "out"), "--task", task])
    assert stop.value.code == 2 and "learnt" in capsys.readouterr().err
