"""Everything that an export consists of, in one folder.

about.json           suite, task, method, action bounds, versions, what the checks have found
model.onnx           the dynamics model, where the method's networks can be written as ONNX
planner.jax          the control step as a serialised `jax.export` function
planner_state.npz    the planner's state before the first step
run.py, README.md    how to use them without hypercrl
"""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from hypercrl.errors import UserError
from hypercrl.experiment.controller import Controller
from hypercrl.export import onnx_model, planner_step

STANDALONE = Path(__file__).with_name("standalone.py")

README = """\
# {suite}: {task}

A controller that hypercrl learnt with the method `{method}`, to be run without it.

`python run.py` plays 20 control steps at 10 Hz with random observations and says whether one
was late. It needs NumPy and JAX {jax} (one of the half year after it will do, too). Its class
`Policy` is all that a robot's program needs: `Policy(folder).act(observation)`.

- An observation is {state_dim} numbers. An action is {action_dim}, from {action_low} to
  {action_high}.
- {model}
- `planner.jax` is the whole control step (planner, model, reward, weights) as a function that
  `jax.export.deserialize` reads. It was compiled for: {platforms}.
- `about.json` says where all this comes from and how well it agrees with the run.
"""
ONNX = "`model.onnx` is the dynamics, from `state` [N, S] and `action` [N, A] to `next_state`."


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the run's own controller."""

    folder: Path
    model_difference: float | None  # of the state's size; None if there is no ONNX model
    action_difference: float  # of the action range
    note: str = ""  # why there is no ONNX model


def export(controller: Controller, task: int, folder: Path) -> Exported:
    """Write one task's controller; what does not agree with the run is not handed over."""
    index = controller.index(task)
    onnx_model.require_onnx()
    step = planner_step.build(controller, index)
    action_difference = planner_step.check(step, controller, index)
    if action_difference > planner_step.SAME:
        raise UserError(
            f"The exported planner's actions differ by {action_difference:.1g} of their range from "
            "the run's; nothing was written."
        )
    about = _about(controller, index)
    content, model_difference, note = _onnx(controller, index, about)
    about |= {"action_difference": action_difference, "model_difference": model_difference}
    files = {
        "about.json": (json.dumps(about, indent=2) + "\n").encode(),
        "planner.jax": step.content,
        "planner_state.npz": _npz({f"state_{i}": x for i, x in enumerate(step.start)}),
        "run.py": STANDALONE.read_bytes(),
        "README.md": README.format(**about, model=note or ONNX).encode(),
    }
    if content:
        files["model.onnx"] = content
    _write(folder, files)
    return Exported(folder, model_difference, action_difference, note)


def _about(controller: Controller, index: int) -> dict:
    spec, config = controller.suite.spec, controller.config
    return {
        "suite": config.suite,
        "task": controller.tasks[index],
        "method": config.method,
        "seed": config.seed,
        "state_dim": spec.state_dim,
        "action_dim": spec.action_dim,
        "action_low": list(spec.action_low),
        "action_high": list(spec.action_high),
        "jax": jax.__version__,
        "platforms": jax.default_backend(),
    }


def _onnx(controller: Controller, index: int, about: dict) -> tuple[bytes, float | None, str]:
    """The ONNX model and how far it is from JAX's, or why there is none."""
    model = controller.model(index)
    described = {name: str(about[name]) for name in ("suite", "task", "method")}
    try:
        content = onnx_model.build(model, described).SerializeToString()
    except UserError as error:
        return b"", None, str(error)
    difference = onnx_model.check(content, model)
    if difference > onnx_model.TOLERANCE:
        raise UserError(
            f"The ONNX model differs by {difference:.1g} from the run's; nothing was written."
        )
    return content, difference, ""


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


def _write(folder: Path, files: dict[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from error
