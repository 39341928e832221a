"""How long a controller takes to load and to act, on one core.

    python benchmarks/latency.py RUN [--task 1] [--actions 500]

For the controller of a run and for its export, each in a process of its own: loading (imports
included), the first action after warming up, the median and the slowest hundredth. Prints
Markdown. Leave the machine alone meanwhile.
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
start = time.perf_counter()
{load}
loaded = time.perf_counter() - start
start = time.perf_counter()
{warm_up}
warm_up = time.perf_counter() - start
import numpy as np
rng, times = np.random.default_rng(0), []
for _ in range({actions}):
    observation = 0.1 * rng.standard_normal({state_dim})
    start = time.perf_counter()
    {act}
    times.append(time.perf_counter() - start)
first, *rest = times
print(json.dumps([loaded, warm_up, first, np.median(rest), np.quantile(rest, 0.99)]))
"""
COLUMNS = ("load (s)", "warm-up (s)", "first action (ms)", "median (ms)", "p99 (ms)")
UNITS = (1, 1, 1000, 1000, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--task", default="1", help="counted from 1, or by its name")
    parser.add_argument("--actions", type=int, default=500)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # inherited by what is measured
    from hypercrl.experiment.controller import load
    from hypercrl.export.folder import export

    controller = load(options.run)
    index, state_dim = controller.find(options.task), controller.suite.spec.state_dim
    print(f"| {controller.config.suite} | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    _report(
        "controller",
        load=f"import hypercrl; controller = hypercrl.load({str(options.run)!r})",
        warm_up=f"controller.warm_up({index})",
        act=f"controller.act(observation, {index})",
        actions=options.actions,
        state_dim=state_dim,
    )
    with tempfile.TemporaryDirectory() as out:
        export(controller, index, Path(out))
        _report(
            "export",
            load=f"import runpy; policy = runpy.run_path('{out}/run.py')['Policy']({out!r})",
            warm_up="policy.warm_up()",
            act="policy.act(observation)",
            actions=options.actions,
            state_dim=state_dim,
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
    print(f"| {name} | {' | '.join(f'{value:.2f}' for value in times)} |")


if __name__ == "__main__":
    main()
