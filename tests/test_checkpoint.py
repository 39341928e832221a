"""One file of numbers: it comes back as it was, or not at all, and it never runs code."""

import ast
import json
import os
import pickle
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import hypercrl
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint

INFO = {"position": {"task": 1}, "lengths": [3, 4]}
# What can execute code when it is fed a file, or a name or a text out of one.
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "runpy"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
FORBIDDEN_METHODS = {"exec_module", "import_module", "full_load", "unsafe_load", "yaml.load"}
# The package's own modules by name, and plugins that a person names on the command line.
IMPORTERS = {
    *("__init__.py", "cli.py", "registry.py"),
    # Modules by names that are written there, never in a file.
    *("completion.py", "doctor.py", "environments.py", "onnx_model.py"),
}


class State(eqx.Module):
    """As a learner's: nested, with scalars, keys, host arrays and static parts."""

    weights: jax.Array
    parts: dict
    label: str = eqx.field(static=True, default="static")


def make_state(scale=1.0) -> State:
    parts = {
        "count": jnp.array(3, jnp.int32),
        "host": np.array([1.5 * scale, np.nan, np.inf]),
        "empty": np.zeros((0, 4), np.float32),
        "flags": (jnp.array([True, False]), None),
        "key": jax.random.key(7),
        "number": 2.5 * scale,
    }
    return State(scale * jnp.arange(6.0).reshape(2, 3), parts)


@pytest.fixture
def path(tmp_path):
    """A checkpoint that has another one before it."""
    path = tmp_path / "checkpoint.safetensors"
    checkpoint.save(path, {"x": np.zeros(3)}, {"number": 1})
    checkpoint.save(path, checkpoint.flatten({"learner": make_state()}), INFO)
    return path


def test_state_comes_back_as_it_was(path):
    arrays, info = checkpoint.load(path)
    template, expected = make_state(0.0), make_state()
    state = checkpoint.unflatten(template, checkpoint.section(arrays, "learner"))
    assert info == INFO
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    for found, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
        assert type(found) is type(wanted)
        if hasattr(wanted, "dtype"):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert np.array_equal(state.parts["host"], expected.parts["host"], equal_nan=True)
    assert jnp.array_equal(state.weights, expected.weights)
    assert jax.random.key_data(state.parts["key"]).tolist() == [0, 7]
    assert state.parts["number"] == 2.5


@pytest.mark.parametrize("dtype", sorted(checkpoint._DTYPES))
def test_numbers_of_every_kind_come_back(tmp_path, dtype):
    array = np.asarray(jnp.arange(6).reshape(2, 3)).astype(jnp.dtype(dtype))
    arrays = {"some": array, "one": array[1, 2], "none": array[:0], "turned": array.T}
    checkpoint.save(tmp_path / "file", arrays, {})
    found, _ = checkpoint.load(tmp_path / "file")
    assert found.keys() == arrays.keys()
    for name, wanted in arrays.items():
        assert found[name].dtype == wanted.dtype and found[name].shape == wanted.shape
        assert found[name].tobytes() == wanted.tobytes()


def test_file_is_one_of_safetensors(path):
    found = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(found["learner/weights"], np.arange(6.0).reshape(2, 3))


def test_what_is_no_number_cannot_be_saved(path):
    for array in (np.array([None]), np.array(["text"]), np.array([1j])):
        with pytest.raises(UserError, match="'x' cannot be saved"):
            checkpoint.save(path, {"x": array}, {})
    assert checkpoint.load(path)[1] == INFO


def test_file_is_as_readable_as_any_other(path):
    (path.parent / "other").touch()
    assert path.stat().st_mode == (path.parent / "other").stat().st_mode


def test_single_array_is_a_state_too(tmp_path):
    arrays = checkpoint.flatten({"learner": jnp.arange(3.0), "learners": jnp.zeros(2)})
    state = checkpoint.unflatten(jnp.zeros(3), checkpoint.section(arrays, "learner"))
    assert state.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"a": np.zeros(2)}, "unknown 'b'"),
        ({"a": np.zeros(2), "b": np.zeros(3), "c": np.zeros(1)}, "lacks 'c'"),
        ({"a": np.zeros(2), "b": np.zeros(4)}, r"'b' is float64 \(3,\).*needs float64 \(4,\)"),
        ({"a": np.zeros(2), "b": np.zeros(3, np.float32)}, "'b' is float64.*needs float32"),
    ],
)
def test_state_of_another_form_is_refused(template, message):
    arrays = {"a": np.ones(2), "b": np.ones(3)}
    with pytest.raises(UserError, match=message):
        checkpoint.unflatten(template, arrays)


def test_cut_files_are_refused(path):
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 50).astype(int):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="damaged or cut short"):
            checkpoint.load(path)


def test_every_flipped_bit_is_found(path):
    checkpoint.save(path, {"x": np.ones(2, np.float32)}, {"task": 1})
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(UserError):
            checkpoint.load(path)


def test_damage_names_the_way_out(path):
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="delete it to continue from the one before"):
        checkpoint.load_latest(path)
    path.unlink()
    found = checkpoint.load_latest(path)
    assert found is not None and found[1] == {"number": 1}
    checkpoint.previous(path).write_bytes(b"")
    with pytest.raises(UserError, match="start over with --fresh"):
        checkpoint.load_latest(path)


def test_other_version_is_refused(path, monkeypatch):
    now = checkpoint.VERSION
    monkeypatch.setattr(checkpoint, "VERSION", now + 1)
    with pytest.raises(UserError, match=rf"has version {now} .* reads version {now + 1}"):
        checkpoint.load(path)


def test_file_of_another_program_is_refused(path):
    safetensors.numpy.save_file({"x": np.ones(2)}, path, {"format": "pt"})
    with pytest.raises(UserError, match="is not a checkpoint of hypercrl"):
        checkpoint.load(path)


def test_no_checkpoint_is_not_an_error(tmp_path):
    assert checkpoint.load_latest(tmp_path / "checkpoint.safetensors") is None


class Crash(BaseException):
    """The machine goes away."""


def save_crashing(path, monkeypatch, function, call):
    """Save, but die just before the n-th call of a system function."""
    calls, original = [], getattr(os, function)

    def crash(*args):
        calls.append(args)
        if len(calls) == call:
            raise Crash
        return original(*args)

    monkeypatch.setattr(os, function, crash)
    with pytest.raises(Crash):
        checkpoint.save(path, {"x": np.full(3, 2.0)}, {"number": 2})
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("function", "call", "survivor"),
    [("fsync", 1, INFO), ("replace", 1, INFO), ("replace", 2, INFO), ("fsync", 2, {"number": 2})],
    ids=["written", "flushed", "between the renames", "renamed"],
)
def test_crash_while_writing_leaves_a_whole_checkpoint(path, monkeypatch, function, call, survivor):
    save_crashing(path, monkeypatch, function, call)
    found = checkpoint.load_latest(path)
    assert found is not None and found[1] == survivor
    checkpoint.save(path, {"x": np.full(3, 3.0)}, {"number": 3})
    assert checkpoint.load(path)[1] == {"number": 3}
    assert checkpoint.load(checkpoint.previous(path))[1] == survivor
    assert not checkpoint.partial(path).exists()


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.write_text, (self.target, "executed")


def test_malicious_file_runs_nothing(path, tmp_path):
    target = tmp_path / "executed"
    payload = pickle.dumps(Malicious(target))
    assert pickle.loads(payload) and target.exists()  # it would, if it were unpickled
    target.unlink()
    with open(tmp_path / "array.npy", "wb") as file:
        np.save(file, np.array([Malicious(target)]), allow_pickle=True)
    code = f"__import__('pathlib').Path({str(target)!r}).write_text('executed')"
    crafted = tmp_path / "crafted.safetensors"
    checkpoint.save(crafted, {code: np.ones(2)}, {"position": code, "lengths": code})
    for content in (payload, (tmp_path / "array.npy").read_bytes(), code.encode()):
        path.write_bytes(content)
        with pytest.raises(UserError):
            checkpoint.load(path)
    assert checkpoint.load(crafted)[1]["position"] == code  # a text like any other
    assert not target.exists()


def test_bottomless_json_is_refused(path):
    """Valid safetensors, and a checksum over it, but nested deeper than a parser can follow."""
    text = "[" * 100_000
    arrays = {"x": np.ones(2)}
    metadata = {
        "format": checkpoint.FORMAT,
        "version": str(checkpoint.VERSION),
        "info": text,
        "checksum": checkpoint._checksum(arrays, text),
    }
    safetensors.numpy.save_file(arrays, path, metadata)
    with pytest.raises(UserError, match="damaged"):
        checkpoint.load(path)


@pytest.mark.parametrize("info", [[], "text", 3])
def test_information_of_another_kind_is_refused(path, info, unchecked):
    checkpoint.save(path, {"x": np.ones(2)}, info)
    with pytest.raises(UserError, match="damaged"):
        checkpoint.load(path)
    assert json.loads(json.dumps(info)) == info


def sources():
    return sorted(Path(next(iter(hypercrl.__path__))).rglob("*.py"))


def imported_modules(node) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]}


def test_there_are_sources():
    assert Path(checkpoint.__file__) in sources()


@pytest.mark.parametrize("file", sources(), ids=lambda file: file.stem)
def test_source_has_no_way_to_run_code_from_a_file(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            assert not imported_modules(node) & FORBIDDEN_MODULES
        if isinstance(node, ast.Call):
            assert "allow_pickle" not in {keyword.arg for keyword in node.keywords}
        if isinstance(node, ast.Name):
            assert node.id not in FORBIDDEN_CALLS
        if isinstance(node, ast.Attribute) and file.name not in IMPORTERS:
            assert not {node.attr, ast.unparse(node)} & FORBIDDEN_METHODS
