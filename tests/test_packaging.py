"""What comes with the package: its names, its types, its commands, and that it can be installed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hypercrl
from hypercrl.cli import _commands, main
from hypercrl.commands import doctor

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def python(code: str, **options):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_version_is_the_projects():
    assert hypercrl.__version__ == PROJECT["version"]


def test_every_python_that_is_claimed_is_tried():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    script = (ROOT / "tools" / "test_pythons.sh").read_text()
    (default,) = re.findall(r"set -- (.*)", script)
    assert [f"python{version}" for version in claimed] == default.split()
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_no_version_that_is_allowed_empties_a_file_to_lock_it():
    """What lay where a lock was to be; before 3.20.1 even what a link there led to."""
    (lowest,) = re.findall(r"^filelock>=([\d.]+)$", "\n".join(PROJECT["dependencies"]), re.M)
    assert tuple(map(int, lowest.split("."))) >= (4, 2, 1)


def test_public_names_are_shown_without_being_loaded():
    code = (
        "import sys, hypercrl\n"
        "assert dir(hypercrl) == sorted(hypercrl.__all__) and 'train' in dir(hypercrl)\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    python(code)
    assert all(getattr(hypercrl, name) is not None for name in hypercrl.__all__)
    assert (Path(hypercrl.__file__).parent / "py.typed").exists()


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "hypercrl", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hypercrl {hypercrl.__version__}\n"


def test_everything_is_imported_without_what_only_unix_has():
    """Training may need it, importing and acting must not."""
    code = (
        "import importlib, pkgutil, sys\n"
        "for name in ('fcntl', 'resource', 'pwd', 'grp', 'termios', 'syslog'):\n"
        "    sys.modules[name] = None\n"
        "import hypercrl\n"
        "for module in ('experiment.controller', 'training', 'custom', 'results', 'cli'):\n"
        "    importlib.import_module(f'hypercrl.{module}')\n"
        "for name in ('learners', 'planners', 'suites'):\n"
        "    assert getattr(hypercrl, name).names()\n"
    )
    python(code)


@pytest.fixture(scope="module")
def words():
    from hypercrl.commands.completion import _words

    return _words()


def test_every_command_and_its_flags_are_known(words):
    assert list(words) == _commands()
    assert {"--steps-per-task", "--plugin", "cartpole", "ewc"} <= set(words["train"])
    for command in ("play", "view", "export", "test"):
        assert {"--task", "pusher"} <= set(words[command])
    for command in ("train", "sweep", "check"):
        assert {"--plugin", "pusher", "ewc", "icem"} <= set(words[command])
    assert {"bash", "zsh", "fish"} <= set(words["completion"])


def test_bash_completes(words, tmp_path):
    from hypercrl.commands.completion import _bash

    (tmp_path / "hypercrl.bash").write_text(_bash(words))
    script = (
        "source hypercrl.bash; COMP_WORDS=(hypercrl train --steps); COMP_CWORD=2; _hypercrl; "
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(hypercrl sw); COMP_CWORD=1; COMPREPLY=(); '
        '_hypercrl; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["--steps-per-task", "sweep"]


def test_fish_is_told_of_every_command(words):
    from hypercrl.commands.completion import _fish

    assert all(f"from {command}" in _fish(words) for command in _commands())


def test_the_doctor_says_what_is_there_and_what_is_not(monkeypatch, capsys):
    monkeypatch.setitem(doctor.EXTRAS, "nothing_like_this", ("more", "more"))
    main(["doctor"])
    said = capsys.readouterr().out
    assert re.search(r"✓ JAX +\d", said)
    assert "nothing_like_this" in said and "pip install 'hypercrl[more]'" in said


def test_the_doctor_ends_with_1_if_something_needed_is_missing(monkeypatch, capsys):
    def broken():
        raise OSError("gone")

    monkeypatch.setattr(doctor, "_probes", lambda: [doctor.Probe("heart", broken, "rest", True)])
    with pytest.raises(SystemExit) as stop:
        main(["doctor"])
    assert stop.value.code == 1
    assert "✗ heart" in capsys.readouterr().out


@pytest.mark.slow
def test_the_wheel_does_in_an_empty_environment_what_a_new_user_does(tmp_path):
    """Whether the exported planner missed a step is told there, and is no business of a test."""
    newcomer = ROOT / "tools" / "newcomer.py"
    done = subprocess.run(
        [sys.executable, newcomer, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"100 steps of 0.1 s: \d+ missed", done.stdout)
