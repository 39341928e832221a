"""How long a controller takes to load and to act, on one core.

    python benchmarks/latency.py RUN… [--task 1] [--actions 500] [--clock wall|processor]

For the controller of a run and for its export, each in a process of its own: loading (imports
included), the first action after warming up, the quickest, the median and the slowest hundredth.
RUN may also be the name of a suite that a trained controller comes with. Prints Markdown.

Leave the machine alone meanwhile, or let `--clock processor` count what the process itself uses:
all of it on one core, that is what the clock on the wall would show if the core were idle, but
for the waiting for a disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hypercrl.threads import one_thread

MEASURE = """
import json, sys, time
now = time.{clock}
start = now()
{load}
loaded = now() - start
start = now()
{warm_up}
warm_up = now() - start
import numpy as np
rng, times = np.random.default_rng(0), []
for _ in range({actions}):
    observation = 0.1 * rng.standard_normal({state_dim})
    start = now()
    {act}
    times.append(now() - start)
first, *rest = times
usual = [np.min(rest), np.median(rest), np.quantile(rest, 0.99)]
print(json.dumps([loaded, warm_up, first, *usual]))
"""
COLUMNS = ("load (s)", "warm-up (s)", "first action (ms)")
COLUMNS += ("quickest (ms)", "median (ms)", "p99 (ms)")
UNITS = (1, 1, 1000, 1000, 1000, 1000)
CLOCKS = {"wall": "perf_counter", "processor": "process_time"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", nargs="+", help="a run's folder, or a suite's name")
    parser.add_argument("--task", default="1", help="counted from 1, or by its name")
    parser.add_argument("--actions", type=int, default=500)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # inherited by what is measured
    print(f"| | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for number, run in enumerate(options.run):
            _measure(run, Path(folder) / str(number), options)


def _measure(run: str, out: Path, options: argparse.Namespace) -> None:
    from hypercrl.experiment.controller import load
    from hypercrl.export.folder import export

    controller = load(run)
    index, state_dim = controller.find(options.task), controller.suite.spec.state_dim
    same = {"actions": options.actions, "state_dim": state_dim, "clock": CLOCKS[options.clock]}
    _report(
        f"{controller.config.suite}, controller",
        load=f"import hypercrl; controller = hypercrl.load({run!r})",
        warm_up=f"controller.warm_up({index})",
        act=f"controller.act(observation, {index})",
        **same,
    )
    export(controller, index, out)
    _report(
        f"{controller.config.suite}, export",
        load=f"import runpy; policy = runpy.run_path('{out}/run.py')['Policy']('{out}')",
        warm_up="policy.warm_up()",
        act="policy.act(observation)",
        **same,
    )


def _report(name: str, **code: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(**code)],
        env={**os.environ, **one_thread(os.environ)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    times = (unit * value for unit, value in zip(UNITS, json.loads(done.stdout), strict=True))
    print(f"| {name} | {' | '.join(f'{value:.3g}' for value in times)} |", flush=True)


if __name__ == "__main__":
    main()
