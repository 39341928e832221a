"""Hosts on this machine, each with an address and a cable of its own that can be pulled.

Network namespaces, joined by a bridge in a namespace of its own: nothing that they send to each
other is seen outside, and nothing outside is reached.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

NETWORK = "10.213.77"  # of the hosts alone


@dataclass(frozen=True)
class Host:
    """Where a program may be started with `command` before its own."""

    name: str
    address: str
    switch: str
    port: str  # at the switch

    @property
    def command(self) -> tuple[str, ...]:
        return _inside(self.name)

    @contextlib.contextmanager
    def unplugged(self) -> Iterator[None]:
        """Without its cable; what it sends to itself still arrives."""
        _run(*_inside(self.switch), "ip", "link", "set", self.port, "down")
        try:
            yield
        finally:
            _run(*_inside(self.switch), "ip", "link", "set", self.port, "up")

    def reaches(self, other: "Host") -> bool:
        """Whether the other host refuses a connection; one that cannot be reached says nothing."""
        code = (
            "import socket, sys\n"
            "try: socket.create_connection((sys.argv[1], 9), timeout=3)\n"
            "except ConnectionRefusedError: sys.exit(0)\n"
            "except OSError: sys.exit(1)\n"
        )
        command = (*self.command, "python3", "-c", code, other.address)
        return subprocess.run(command, check=False).returncode == 0


@contextlib.contextmanager
def hosts(number: int) -> Iterator[list[Host]]:
    """So many hosts at one switch; a test is skipped where namespaces may not be made."""
    switch = f"hypercrl-{os.getpid()}"
    made: list[str] = []
    try:
        _make(switch, made)
        _run(*_inside(switch), "ip", "link", "add", "bridge", "type", "bridge")
        _run(*_inside(switch), "ip", "link", "set", "bridge", "up")
        found = [
            Host(f"{switch}-{n}", f"{NETWORK}.{n + 1}", switch, f"port{n}") for n in range(number)
        ]
        for host in found:
            _make(host.name, made)
            _connect(host)
        yield found
    finally:
        for name in reversed(made):
            _run("ip", "netns", "delete", name)


def _make(name: str, made: list[str]) -> None:
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    done = subprocess.run(("ip", "netns", "add", name), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no right to make a network namespace: {done.stderr.strip()}")
    made.append(name)
    _run(*_inside(name), "ip", "link", "set", "lo", "up")


def _connect(host: Host) -> None:
    inside, at_switch = _inside(host.name), _inside(host.switch)
    _run(*at_switch, "ip", "link", "add", host.port, "type", "veth", "peer", "eth0")
    _run(*at_switch, "ip", "link", "set", "eth0", "netns", host.name)
    _run(*at_switch, "ip", "link", "set", host.port, "master", "bridge", "up")
    _run(*inside, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
    _run(*inside, "ip", "link", "set", "eth0", "up")
    # Programs find their own address by asking for the way out, though there is none.
    _run(*inside, "ip", "route", "add", "default", "dev", "eth0")


def _inside(name: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
