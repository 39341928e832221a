"""`hypercrl` on the tiny suites in processes of their own, which can be killed at any moment.

They are forked from a process that has imported everything and done nothing yet, so that each
starts at once: what is to be killed a hundred times must not spend its life with imports.
"""

import contextlib
import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

import tiny
from hypercrl.cli import main

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["forked", "hypercrl.commands.train", "hypercrl.training"])


def start(arguments: list[str], output: Path) -> BaseProcess:
    """A command whose words go to a file."""
    process = _SERVER.Process(target=_run, args=(arguments, str(output)))
    process.start()
    return process


def _run(arguments: list[str], output: str) -> None:
    with open(output, "a") as file:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(file.fileno(), stream.fileno())
    with tiny.registered():
        main(arguments)
