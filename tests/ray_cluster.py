"""A Ray cluster of several nodes on this machine, each with a raylet of its own.

Every process of a node carries the node's mark in its environment, which is how it is found
again: Ray's processes leave the session in which they were started.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hosts import Host
from sweeping import environment

MARK = "HYPERCRL_TEST_NODE"
START_TIME = 17  # place in /proc/PID/stat, counted after the parent's
OBJECT_STORE_BYTES = 80_000_000  # about the least that Ray accepts
START_TRIES = 3  # Ray gives a node 30 s to start, which a busy machine may miss
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",  # Ray's own is 15: whatever else is busy would come first
    # A node that does not answer five times in a row is dead; ask it every second.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
}


@dataclass(frozen=True)
class Process:
    """A process; its number alone may be used again, but not with the same start."""

    pid: int
    start: str
    parent: int = field(compare=False)  # changes when the parent dies
    command: str = field(compare=False)  # changes when Ray sets a title


class Node:
    """One node of the cluster."""

    def __init__(self, host: Host | None = None):
        self.host = host
        self.mark = uuid.uuid4().hex
        self._known: set[Process] = set()

    def processes(self) -> set["Process"]:
        """Everything that runs on the node."""
        everything = _processes()
        found = {p for p in everything if p in self._known or _is_marked(p.pid, self.mark)}
        # Ray's agents write their titles over their environment, and the mark with it.
        while children := {p for p in everything if p.parent in {f.pid for f in found}} - found:
            found |= children
        return found

    def kill_raylet(self) -> None:
        """Let the node drop dead; its workers lose their raylet and follow."""
        self._known = self.processes()
        (raylet,) = [process for process in self._known if "/raylet " in process.command]
        os.kill(raylet.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End everything on the node."""
        while remaining := self.processes():
            self._known |= remaining
            for process in remaining:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.1)


@dataclass(frozen=True)
class Cluster:
    address: str
    nodes: tuple[Node, ...]  # the head first


@contextlib.contextmanager
def ray_cluster(
    num_nodes: int, *, on: Sequence[Host] = (), scratch_of_last: str = "", **variables: str
) -> Iterator[Cluster]:
    """A cluster with one CPU a node, each on a host of its own if there are some.

    Nothing of it is left afterwards. The last node may have another place for temporary files.
    """
    # Sockets have short names, so pytest's folders are too deep.
    scratch = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    port, client_port = _free_ports(2)
    address = f"{on[0].address if on else '127.0.0.1'}:{port}"
    nodes = [Node(host) for host in on] or [Node() for _ in range(num_nodes)]
    head = ("--head", "--port", str(port), "--ray-client-server-port", str(client_port))
    head += ("--include-dashboard=false", "--temp-dir", scratch)
    try:
        _start(nodes[0], *head, **variables)
        for node in nodes[1:]:
            if scratch_of_last and node is nodes[-1]:
                variables["TMPDIR"] = scratch_of_last
            _start(node, "--address", address, **variables)
        yield Cluster(address, tuple(nodes))
    finally:
        for node in nodes:
            node.kill()
        shutil.rmtree(scratch, ignore_errors=True)


def _start(node: Node, *args: str, **variables: str) -> None:
    # As whatever a script starts in the background.
    command = ["env", "--ignore-signal=INT", sys.executable]
    command += ["-m", "ray.scripts.scripts", "start", "--num-cpus", "1"]
    command += ["--object-store-memory", str(OBJECT_STORE_BYTES), *args]
    if node.host is not None:
        command = [*node.host.command, *command, "--node-ip-address", node.host.address]
    variables = environment(**QUIET, **{MARK: node.mark}, **variables)
    for _ in range(START_TRIES):
        started = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False
        )
        if started.returncode == 0:
            return
        node.kill()
    raise AssertionError(started.stdout + started.stderr)


def _processes() -> set[Process]:
    """Everything that is alive on this machine."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, *rest = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            if state not in "ZX":
                text = command.decode(errors="replace")
                found.add(Process(int(folder.name), rest[START_TIME], int(parent), text))
    return found


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]
