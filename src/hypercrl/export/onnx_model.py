"""A task's dynamics model as an ONNX graph: encoding, normaliser, network, and the way back.

The graph takes `state` [N, S] and `action` [N, A], for any N, and gives `next_state` [N, S]. It
is written with ONNX's own helpers, field by field and layer by layer, in 32-bit numbers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hypercrl.dynamics.heads import GaussianHead
from hypercrl.dynamics.model import MLP, DynamicsModel, MeanPredictor
from hypercrl.encoding import Absolute, Angle, Difference, Field, Quaternion
from hypercrl.errors import UserError
from hypercrl.types import Model

OPSET = 17  # understood by ONNX Runtime 1.13 and later
TOLERANCE = 1e-5  # of the state's size, between ONNX Runtime and JAX
SMALLEST_ANGLE_SQUARED = 1e-12  # as in `encoding`: below it, a rotation is linear
NUM_CHECKED = 256  # random states and actions


def build(model: Model, about: dict[str, str]) -> Any:
    """The ONNX model; one sentence where a model has a part that has no counterpart there."""
    onnx = require_onnx()
    spec, normalizer, mlp, is_gaussian = _parts(model)
    graph = _Graph(onnx)
    features = [_features(graph, field, x) for field, x in graph.split("state", spec.encoding)]
    inputs = graph.add("Concat", *features, "action", axis=1)
    centred = graph.add("Sub", inputs, graph.constant(normalizer.input_mean))
    x = graph.add("Div", centred, graph.constant(normalizer.input_std))
    raw = _network(graph, mlp, x)
    if is_gaussian:
        raw = graph.slice(raw, 0, spec.encoding.num_outputs)
    output = graph.add("Mul", raw, graph.constant(normalizer.output_scale))
    start, moved = 0, []
    for field, x in graph.split("state", spec.encoding):
        own = graph.slice(output, start, start + field.num_outputs)
        moved.append(_advance(graph, field, x, own))
        start += field.num_outputs
    graph.add("Concat", *moved, axis=1, name="next_state")
    sizes = {"state": spec.state_dim, "action": spec.action_dim, "next_state": spec.state_dim}
    return graph.model(sizes, about)


def check(content: bytes, model: Model) -> float:
    """The largest difference between ONNX Runtime and JAX, relative to the size of the state."""
    runtime = _require("onnxruntime")
    assert isinstance(model, DynamicsModel)
    rng = np.random.default_rng(0)
    states = _states(model, rng)
    low, high = np.asarray([model.spec.action_low, model.spec.action_high])
    actions = rng.uniform(low, high, (NUM_CHECKED, model.spec.action_dim)).astype(np.float32)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["next_state"], {"state": states, "action": actions})
    truth = np.asarray(jax.jit(jax.vmap(model))(jnp.asarray(states), jnp.asarray(actions)))
    # Not number by number: next to velocities of 28, a half-cheetah's 32-bit model is itself up to
    # 1.3e-5 from what it would be in 64 bits, in numbers that happen to be close to 0.
    missed, size = (np.abs(x).max(1) for x in (found - truth, truth))
    return float((missed / (1.0 + size)).max())


def require_onnx() -> Any:
    """The optional package, or one sentence on how to get it."""
    return _require("onnx")


def _require(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"{name} is not installed; `pip install hypercrl[export]` adds it."
        ) from error


def _parts(model: Model) -> tuple[Any, Any, MLP, bool]:
    """Spec, normaliser, network, and whether the network's outputs have a second half."""
    predictor = getattr(model, "predictor", None)
    network = getattr(predictor, "network", None)
    if not (
        isinstance(model, DynamicsModel)
        and isinstance(predictor, MeanPredictor)
        and isinstance(network, MLP)
    ):
        name = type(network or predictor or model).__name__
        raise UserError(f"A model that predicts with {name} cannot be written as ONNX.")
    return model.spec, model.normalizer, network, isinstance(predictor.head, GaussianHead)


class _Graph:
    """Nodes and constants, each of them known by its name."""

    def __init__(self, onnx: Any):
        self._onnx, self._nodes, self._constants = onnx, [], {}

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node, by the name of what it computes."""
        name = name or f"{operator.lower()}_{len(self._nodes)}"
        node = self._onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self._nodes.append(node)
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        array = np.asarray(value, kind)
        name = f"constant_{len(self._constants)}"
        self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def slice(self, x: str, start: int, end: int) -> str:
        """Columns of a matrix."""
        bounds = (self.constant([number], np.int64) for number in (start, end, 1))
        return self.add("Slice", x, *bounds)

    def split(self, x: str, encoding: Any) -> list[tuple[Field, str]]:
        """The fields of a state and their columns."""
        start, parts = 0, []
        for field in encoding.fields:
            parts.append((field, self.slice(x, start, start + field.size)))
            start += field.size
        return parts

    def columns(self, x: str, count: int) -> list[str]:
        return [self.slice(x, i, i + 1) for i in range(count)]

    def sum(self, *terms: str) -> str:
        total, *rest = terms
        for term in rest:
            total = self.add("Add", total, term)
        return total

    def model(self, sizes: dict[str, int], about: dict[str, str]) -> Any:
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        tensors = {
            name: helper.make_tensor_value_info(name, kind, ["N", size])
            for name, size in sizes.items()
        }
        graph = helper.make_graph(
            self._nodes,
            "dynamics",
            [tensors["state"], tensors["action"]],
            [tensors["next_state"]],
            list(self._constants.values()),
        )
        opset = helper.make_opsetid("", OPSET)
        ir_version = helper.find_min_ir_version_for([opset])
        model = helper.make_model(
            graph, opset_imports=[opset], ir_version=ir_version, producer_name="hypercrl"
        )
        helper.set_model_props(model, about)
        self._onnx.checker.check_model(model, full_check=True)
        return model


def _network(graph: _Graph, mlp: MLP, x: str) -> str:
    for i, (matrix, bias) in enumerate(mlp.layers):
        if i > 0:
            x = _activate(graph, mlp.activation, x)
        x = graph.add("Gemm", x, graph.constant(matrix), graph.constant(bias))
    return x


def _activate(graph: _Graph, activation: str, x: str) -> str:
    if activation == "swish":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    return graph.add({"relu": "Relu", "elu": "Elu", "tanh": "Tanh"}[activation], x)


def _features(graph: _Graph, field: Field, x: str) -> str:
    if isinstance(field, Difference | Absolute):
        return x
    if isinstance(field, Angle):
        return graph.add("Concat", graph.add("Cos", x), graph.add("Sin", x), axis=1)
    if isinstance(field, Quaternion):
        is_negative = graph.add("Less", graph.slice(x, 0, 1), graph.constant(0.0))
        return graph.add("Where", is_negative, graph.add("Neg", x), x)
    raise _unknown(field)


def _advance(graph: _Graph, field: Field, x: str, output: str) -> str:
    if isinstance(field, Difference | Angle):
        return graph.add("Add", x, output)
    if isinstance(field, Absolute):
        return output
    if isinstance(field, Quaternion):
        return _multiply(graph, x, _from_rotation_vector(graph, output))
    raise _unknown(field)


def _unknown(field: Field) -> UserError:
    return UserError(f"A state with the field {type(field).__name__} cannot be written as ONNX.")


def _from_rotation_vector(graph: _Graph, v: str) -> str:
    """As `encoding` does it, the guard around the identity included."""
    axes = graph.constant([1], np.int64)
    squared = graph.add("ReduceSum", graph.add("Mul", v, v), axes, keepdims=1)
    turns = graph.add("Greater", squared, graph.constant(SMALLEST_ANGLE_SQUARED))
    angle = graph.add("Sqrt", graph.add("Where", turns, squared, graph.constant(1.0)))
    half = graph.add("Mul", angle, graph.constant(0.5))
    scale = graph.add("Div", graph.add("Sin", half), angle)
    scale = graph.add("Where", turns, scale, graph.constant(0.5))
    cosine = graph.add("Cos", graph.add("Where", turns, half, graph.constant(0.0)))
    q = graph.add("Concat", cosine, graph.add("Mul", scale, v), axis=1)
    norm = graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", q, q), axes, keepdims=1))
    return graph.add("Div", q, norm)


def _multiply(graph: _Graph, p: str, q: str) -> str:
    """The product of two quaternions (w, x, y, z)."""
    left, right = graph.columns(p, 4), graph.columns(q, 4)

    def term(i: int, j: int, sign: int = 1) -> str:
        product = graph.add("Mul", left[i], right[j])
        return product if sign > 0 else graph.add("Neg", product)

    w = graph.sum(term(0, 0), term(1, 1, -1), term(2, 2, -1), term(3, 3, -1))
    x = graph.sum(term(0, 1), term(1, 0), term(2, 3), term(3, 2, -1))
    y = graph.sum(term(0, 2), term(2, 0), term(3, 1), term(1, 3, -1))
    z = graph.sum(term(0, 3), term(3, 0), term(1, 2), term(2, 1, -1))
    return graph.add("Concat", w, x, y, z, axis=1)


def _states(model: DynamicsModel, rng: np.random.Generator) -> np.ndarray:
    """Random states, as spread out as the training data: no model is asked for others.

    Far beyond them, 32-bit numbers that were added up in another order differ by more.
    """
    mean, std = (np.asarray(x) for x in (model.normalizer.input_mean, model.normalizer.input_std))
    start, columns = 0, []
    for field in model.spec.encoding.fields:
        own = slice(start, start + field.num_features)
        drawn = rng.standard_normal((NUM_CHECKED, field.size))
        if isinstance(field, Difference | Absolute):
            drawn = mean[own] + std[own] * drawn
        elif isinstance(field, Quaternion):
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        columns.append(drawn if not isinstance(field, Angle) else np.pi * drawn)
        start += field.num_features
    return np.concatenate(columns, axis=1).astype(np.float32)
