"""The launcher for a Ray cluster: a task a run.

Ray decides where a task goes, and starts it again elsewhere when its machine dies. The task is
the same process that a local sweep starts, so that a run's numbers do not depend on the
launcher; it goes on from the run's last checkpoint. A machine whose disk is full keeps its place in
the cluster, so its runs are sent elsewhere by us.
"""

import dataclasses
import logging
import os
import signal
import socket
import time
from typing import Any

from hypercrl.errors import UserError
from hypercrl.experiment.records import parse
from hypercrl.sweep.job import STOP_SECONDS, Job, Outcome, run_job

MAX_RETRIES = 5  # machines that a run may lose
ANSWER_SECONDS = 10.0
RESOURCES_SECONDS = 5.0  # between questions for the cluster's size


class RayLauncher:
    """As many runs side by side as the cluster has CPUs (and GPUs), or as asked for."""

    def __init__(self, address: str | None, jobs: int | None = None, gpus_per_run: float = 0.0):
        self._ray = _connect(address)
        self._jobs = jobs
        self._gpus = gpus_per_run
        self._running: dict[Any, Job] = {}
        self._full: set[str] = set()  # nodes whose disks were
        self._slots = (0, float("-inf"))  # number, when it was asked for
        self._task = self._ray.remote(
            num_cpus=1, num_gpus=gpus_per_run, max_retries=MAX_RETRIES, retry_exceptions=False
        )(run_remotely)

    @property
    def has_room(self) -> bool:
        return len(self._running) < self.num_slots

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def num_slots(self) -> int:
        if self._jobs is not None:
            return self._jobs
        if time.monotonic() - self._slots[1] > RESOURCES_SECONDS:
            self._slots = (self._ask_for_slots(), time.monotonic())
        return self._slots[0]

    def start(self, job: Job) -> None:
        """Wherever Ray likes, but rather not on a node whose disk was full."""
        nodes = self._nodes_with_room() if self._full else []
        options: dict[str, Any] = {"name": job.name}
        if nodes:
            options["scheduling_strategy"] = _rather_on(nodes[len(self._running) % len(nodes)])
        reference = self._task.options(**options).remote(dataclasses.asdict(job))
        self._running[reference] = job

    def collect(self, seconds: float) -> list[tuple[str, Outcome]]:
        """Jobs that ended; waits for the first one, but not longer than `seconds`."""
        if not self._running:
            time.sleep(seconds)
            return []
        ended, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [
            (job.name, outcome)
            for job, outcome in [(self._running.pop(one), self._outcome(one)) for one in ended]
            if not (outcome.full and self._start_elsewhere(job))
        ]

    def stop(self) -> None:
        """End every run and leave the cluster."""
        for reference in self._running:
            self._ray.cancel(reference)
        if self._running:
            everything = list(self._running)
            self._ray.wait(everything, num_returns=len(everything), timeout=STOP_SECONDS)
        self._running.clear()
        self._ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        try:
            node, outcome = self._ray.get(reference)
            found = parse(Outcome, outcome)
            if found.full:
                self._full.add(node)
            return found
        except self._ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            told = lines[-1] if isinstance(error, self._ray.exceptions.RayTaskError) else lines[0]
            return Outcome("failed", f"Ray could not carry out the run: {told}")

    def _start_elsewhere(self, job: Job) -> bool:
        """Whether there is a node left whose disk was not full."""
        if not self._nodes_with_room():
            return False
        self.start(job)
        return True

    def _nodes_with_room(self) -> list[str]:
        alive = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"]]
        return sorted(node["NodeID"] for node in alive if node["NodeID"] not in self._full)

    def _ask_for_slots(self) -> int:
        found = self._ray.cluster_resources()
        slots = found.get("CPU", 0.0)
        if self._gpus:
            slots = min(slots, found.get("GPU", 0.0) / self._gpus)
        return max(int(slots), 1)


def run_remotely(job: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The Ray task: a job's process on whichever node Ray chose; which it was, and the outcome."""
    import ray

    # Ray stops a task by SIGINT, which is ignored by whatever a script starts in the background,
    # a cluster's nodes for instance.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcome = run_job(parse(Job, job))
    return ray.get_runtime_context().get_node_id(), dataclasses.asdict(outcome)


def _rather_on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=True)


def _connect(address: str | None) -> Any:
    # Without a GPU request Ray hides the GPUs; say so now rather than warn about a later default.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    try:
        import ray
    except ImportError as error:
        raise UserError(
            "The Ray launcher needs Ray; install it with: pip install 'hypercrl[ray]'."
        ) from error
    try:
        _require_answer(address)
        ray.init(address=address or "auto", logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        place = f"at {address}" if address else "on this machine"
        told = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"There is no Ray cluster {place} ({told}); start one with `ray start --head` and name "
            "it with --address."
        ) from error
    return ray


def _require_answer(address: str | None) -> None:
    """Ray waits for a long time for a machine that does not answer; a person does not."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
