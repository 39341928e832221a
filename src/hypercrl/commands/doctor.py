"""Say what this machine lacks: the renderer, the encoder of videos, a browser, extras.

usage: hypercrl doctor

Ends with status 1 if something is missing that training or acting needs.
"""

import importlib
import importlib.util
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

from hypercrl.commands.arguments import parse_flags

EXTRAS = {
    "onnx": ("export", "`hypercrl export`"),
    "onnxruntime": ("export", "`hypercrl export`"),
    "ray": ("ray", "sweeps on a cluster"),
    "wandb": ("wandb", "--wandb"),
}
"""Packages that are not always installed: the extra that brings them, and what they are for."""


@dataclass(frozen=True)
class Options:
    """No options."""


@dataclass(frozen=True)
class Probe:
    """Something that a machine has or lacks."""

    name: str
    look: Callable[[], str]  # what there is; raises where there is none
    remedy: str
    needed: bool = False  # for training and acting


def run(args: list[str]) -> None:
    if args:
        parse_flags(Options, args, prog="hypercrl doctor", doc=__doc__)
    from rich.console import Console

    console, healthy = Console(), True
    for probe in _probes():
        try:
            found, mark, missing = probe.look(), "[green]✓[/green]", False
        except Exception as error:  # whatever a library does when it does not work
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            found, missing = f"{reason} → {probe.remedy}", True
            mark = "[red]✗[/red]" if probe.needed else "[yellow]–[/yellow]"
        healthy &= not (missing and probe.needed)
        console.print(f"{mark} {probe.name:<16}", end="", highlight=False)
        console.print(found, markup=False, highlight=False, soft_wrap=True)
    if not healthy:
        sys.exit(1)


def _probes() -> list[Probe]:
    extras = [
        Probe(
            package,
            lambda package=package: _version(package),
            f"for {purpose}: pip install 'hypercrl[{extra}]'",
        )
        for package, (extra, purpose) in EXTRAS.items()
    ]
    return [
        Probe("Python", platform.python_version, "", needed=True),
        Probe("JAX", _jax, "pip install hypercrl", needed=True),
        Probe("MuJoCo", lambda: _version("mujoco"), "pip install hypercrl", needed=True),
        Probe("renderer", _render, "pictures and videos need OpenGL: apt-get install libosmesa6"),
        Probe("video encoder", _encoder, "pip install 'imageio[ffmpeg]'"),
        Probe("browser", _browser, "copy the report page to a machine that has one"),
        *extras,
    ]


def _version(package: str) -> str:
    from importlib.metadata import version

    if importlib.util.find_spec(package) is None:
        raise ImportError("not installed")
    return version(package)


def _jax() -> str:
    import jax

    return f"{jax.__version__} on {jax.default_backend()}, {jax.device_count()} device(s)"


def _render() -> str:
    """Draws one picture, as any of these may fail: libraries, drivers, rights."""
    import os

    importlib.import_module("hypercrl.simulation")  # chooses the back end before MuJoCo does
    import mujoco

    ball = "<mujoco><worldbody><light pos='0 0 3'/><geom size='.5'/></worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(ball)
    renderer = mujoco.Renderer(model, 32, 32)
    try:
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        renderer.update_scene(data)
        if not renderer.render().std() > 0:
            raise RuntimeError("the picture is empty")
    finally:
        renderer.close()
    return os.environ.get("MUJOCO_GL", "the screen's")


def _encoder() -> str:
    import imageio_ffmpeg

    return imageio_ffmpeg.get_ffmpeg_exe()


def _browser() -> str:
    import webbrowser

    return type(webbrowser.get()).__name__
