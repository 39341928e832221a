"""Does in a fresh environment, from the wheel alone, what a new user would.

    python tools/newcomer.py [FOLDER] [--idle]

Builds the sdist and from it the wheel, installs that into an empty environment, plays a trained
controller, brings an own suite, method and planner (those of the docs) through `check`, one sweep
and one page, lets a run go on, exports it, takes hypercrl away, and runs the exported planner at
10 Hz. Everything is in FOLDER, a temporary one if not given. With --idle, for an otherwise idle
core, a control step that was missed is a failure; it is told in any case.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUM_STEPS = 100  # of the loop at 10 Hz
LARGEST_SDIST = 20_000_000  # bytes

SWEEP = """\
suite: pendulum
method: [hypercrl, anchored]
planner: shooting
plugin: [pendulum_suite.py, anchored.py, shooting.py]
tasks: 2
seeds: 1
set:
  schedule.random_episodes: 1
  schedule.steps_per_task: 200
  schedule.updates: 20
  schedule.eval_episodes: 1
  planning.num_samples: 64
  planning.horizon: 10
"""
RUN = "runs/pendulum-anchored-custom-s0"
LOOP = f"from run import main; import sys; sys.exit(main('.', num_steps={NUM_STEPS}) > 0)"


class Newcomer:
    """Somebody with a folder, an empty environment in it, and nothing else of ours."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.binaries = folder / "env" / "bin"
        # What the tests or a developer have set must not help, and nothing outside be written.
        ours = ("PYTHONPATH", "XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS", "VIRTUAL_ENV")
        self.env = {name: value for name, value in os.environ.items() if name not in ours}
        self.env["XDG_STATE_HOME"] = str(folder / "state")

    def run(self, command: str, *, where: str = ".", check: bool = True) -> int:
        """A command of the environment, with the time it took.

        On a busy machine, the processor time says what an idle one would need.
        """
        program, *words = shlex.split(command)
        print(f"$ {command}", flush=True)
        start, used = time.monotonic(), os.times()
        path, cwd = self.binaries / program, self.folder / where
        done = subprocess.run([path, *words], cwd=cwd, env=self.env, check=check)
        seconds, now = time.monotonic() - start, os.times()
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        print(f"  {seconds:.0f} s ({cpu:.0f} s of a processor)", flush=True)
        return done.returncode


def build(folder: Path) -> Path:
    """The wheel, made from the sdist and not from the work tree."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], check=True)
    (source,) = (folder / "dist").glob("*.tar.gz")
    if source.stat().st_size > LARGEST_SDIST:
        sys.exit(f"{source.name} is larger than {LARGEST_SDIST:,} bytes.")
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def write_plugins(folder: Path) -> None:
    """What the docs show as somebody's own."""
    for guide, name in (("methods.md", "anchored.py"), ("planners.md", "shooting.py")):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / guide).read_text(), re.DOTALL)
        (code,) = (block for block in blocks if f'register("{Path(name).stem}")' in block)
        (folder / name).write_text(code)
    suite = (ROOT / "examples" / "pendulum_suite.py").read_text()
    (folder / "pendulum_suite.py").write_text(suite)
    (folder / "mine.yaml").write_text(SWEEP)


def live(newcomer: Newcomer) -> int:
    """The whole afternoon; returns whether the loop at 10 Hz missed a step."""
    newcomer.run("hypercrl doctor")
    newcomer.run("hypercrl play pusher --trained --video look.mp4")
    newcomer.run("hypercrl check --plugin pendulum_suite.py anchored.py shooting.py")
    newcomer.run("hypercrl sweep --file mine.yaml --out runs")
    newcomer.run(f"python -c \"import hypercrl; hypercrl.extend('{RUN}', num_tasks=3)\"")
    newcomer.run("pip install -q 'gymnasium[classic-control]'")  # which draws the pendulum
    newcomer.run(f"hypercrl play {RUN} --task 3 --video learnt.mp4")
    newcomer.run(f"hypercrl export {RUN} out --task 3")
    for made in ("look.mp4", "runs/report/index.html", "out/planner.jax", "out/model.onnx"):
        if not (newcomer.folder / made).stat().st_size:
            sys.exit(f"{made} is empty.")
    newcomer.run("pip uninstall -q -y hypercrl")
    without = newcomer.run('python -c "import hypercrl"', check=False)
    if not without:
        sys.exit("hypercrl is still there.")
    return newcomer.run(f'python -c "{LOOP}"', where="out", check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--idle", action="store_true", help="fail where a control step is missed")
    options = parser.parse_args()
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="newcomer-"))).resolve()
    wheel = build(folder)
    newcomer = Newcomer(folder)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    package = shlex.quote(f"hypercrl[export] @ {wheel.as_uri()}")
    newcomer.run(f"pip install -q -c {ROOT / 'constraints.txt'} {package}")
    write_plugins(folder)
    missed = live(newcomer)
    print("Everything works." if not missed else "Everything works, but steps were missed.")
    sys.exit(1 if missed and options.idle else 0)


if __name__ == "__main__":
    main()
