"""The point of it all, on a real simulator and compiled as for a user.

Two cart-poles one after the other: HyperCRL still swings up the first at the end, fine-tuning
(in `make test-all`) does not. Everything else in the fast tests is compiled for the moment.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from hypercrl.experiment.run_folder import read_run

FLAGS = ("--tasks", "2", "--steps-per-task", "1500", "--eval-episodes", "3", "--no-zero-shot")
TESTS_ONLY = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "JAX_NUMPY_RANK_PROMOTION", "XLA_FLAGS")


@pytest.mark.parametrize(
    ("method", "keeps"),
    [("hypercrl", True), pytest.param("finetune", False, marks=pytest.mark.slow)],
)
def test_hypercrl_keeps_the_first_pole_and_fine_tuning_loses_it(tmp_path, method, keeps):
    environment = {name: value for name, value in os.environ.items() if name not in TESTS_ONLY}
    command = (sys.executable, "-m", "hypercrl.cli", "train", "cartpole", method, *FLAGS)
    subprocess.run((*command, "--out", str(tmp_path)), env=environment, check=True)
    run = read_run(tmp_path)
    tested = {(e.task, e.after): e.mean for e in run.evaluations}
    idle = [float(np.mean(policy.returns)) for policy in run.random_policies]
    learnt, left = tested[0, 0] - idle[0], tested[0, 1] - idle[0]
    assert learnt > 50 and tested[1, 1] - idle[1] > 50  # of about 80 that can be had
    assert left > 0.8 * learnt if keeps else left < 0.4 * learnt
