"""The README's promises: its example runs, its commands and links exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hypercrl.cli import _commands

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_library_example_runs(tmp_path):
    """In a process of its own, compiled as for a user."""
    (example,) = code_blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    checks = "assert (run / 'metrics.jsonl').exists()\nassert env.action_space.contains(action)\n"
    hurried = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
    done = subprocess.run(
        [sys.executable, "-c", example + checks],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in hurried},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            assert (ROOT / path).exists(), target
            headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.M) if anchor else []
            assert not anchor or anchor in [one.lower().replace(" ", "-") for one in headings]


def test_every_command_named_exists():
    named = set(re.findall(r"^hypercrl (\w+)", "\n".join(code_blocks("sh")), re.MULTILINE))
    assert named
    assert named <= set(_commands())


def test_help_and_import_load_nothing_heavy():
    code = (
        "import sys, hypercrl.cli\n"
        "hypercrl.cli.main(['--help'])\n"
        "assert not {'jax', 'mujoco', 'gymnasium', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout
