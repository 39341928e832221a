"""Whatever a person, a file or a program says: one sentence or a result, and nothing elsewhere.

A few cases of each kind in `make test`; `make fuzz` tries 20,000, each of which may take ten
seconds of the processor at most. Around every case lies somebody's folder, which must not change.
"""

import contextlib
import io
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from jaxtyping import config as jaxtyping_config
from rich.console import Console

import tiny
from hypercrl import load, train
from hypercrl.analysis.drawing import STYLE, Drawing, panel_grid, render
from hypercrl.analysis.summary import summarise
from hypercrl.analysis.table_formats import Cell, Table
from hypercrl.cli import main
from hypercrl.errors import UserError
from hypercrl.experiment import checkpoint
from hypercrl.experiment.config import RunConfig
from hypercrl.experiment.display import Silent
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.run_folder import CHECKPOINT, CONFIG, find_runs, read_config, read_runs
from hypercrl.sweep.manifest import read_attempts, write_manifest
from hypercrl.sweep.plan import plan_runs, read_selections
from hypercrl.training import run
from synthetic_runs import Recipe, write_run

HANG_SECONDS = 10  # of the processor, which a busy machine gives out slowly
BLOCKED_SECONDS = 600  # of the clock, for what waits without working
SCRATCH = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk takes longer than a case
NUM_CASES = int(os.environ.get("FUZZ_CASES", "20000"))  # of each kind
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile(
    "quick", max_examples=12, deadline=None, derandomize=True, suppress_health_check=CHECKS
)
settings.register_profile(
    "fuzz", max_examples=NUM_CASES, deadline=None, suppress_health_check=CHECKS, database=None
)
settings.load_profile(PROFILE)


class HangError(BaseException):
    """A case that takes too long."""


@pytest.fixture(autouse=True, scope="module")
def _tiny():
    with tiny.registered():
        yield


@pytest.fixture(autouse=True, scope="module")
def _unchecked():
    """Annotations are for ourselves; here anything is handed in."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _nothing_is_learnt(monkeypatch):
    """Everything but the work itself: a case is about what comes before."""
    monkeypatch.setattr("hypercrl.training.Runner", lambda *a, **k: SimpleNamespace(run=lambda: 0))
    monkeypatch.setattr("hypercrl.commands.sweep._carry_out", lambda *a, **k: [])
    monkeypatch.setattr("hypercrl.experiment.video._record", lambda *a, **k: [0.0])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(tiny.configure(), folder, Silent())
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    few = Recipe("x", num_tasks=2, steps_per_task=400, eval_every=200, eval_episodes=2)
    return write_run(tmp_path_factory.mktemp("recorded"), few)


def snapshot(folder: Path) -> dict[str, object]:
    paths = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {str(path): path.read_bytes() for path in paths}


@contextlib.contextmanager
def surroundings() -> Iterator[Path]:
    """A folder to work in beside somebody else's; a UserError ends a case as well as a result."""
    before_folder = Path.cwd()
    with tempfile.TemporaryDirectory(dir=SCRATCH) as root:
        precious, work = Path(root) / "precious", Path(root) / "work"
        precious.mkdir()
        (precious / "notes.txt").write_text("mine")
        (precious / "random.py").write_text("raise SystemExit('imported')")
        work.mkdir()
        (work / "link").symlink_to(precious / "notes.txt")
        before = snapshot(precious)
        os.chdir(work)
        try:
            with no_hang():
                yield work
        except UserError as error:
            assert str(error).strip(), "a sentence has words"
        finally:
            os.chdir(before_folder)
        assert snapshot(precious) == before
        assert {path.name for path in Path(root).iterdir()} == {"precious", "work"}


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    if PROFILE != "fuzz":
        yield
        return

    def stop(*_):
        raise HangError(f"over {HANG_SECONDS} s of work, or {BLOCKED_SECONDS} s of waiting")

    guards = {
        signal.SIGPROF: (signal.ITIMER_PROF, HANG_SECONDS),
        signal.SIGALRM: (signal.ITIMER_REAL, BLOCKED_SECONDS),
    }
    before = {number: signal.signal(number, stop) for number in guards}
    for timer, seconds in guards.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, _ in guards.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def give(args: list[str]) -> None:
    """A command, which may end in one sentence but in no traceback."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(args)
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
    err.flush()
    told = err.buffer.getvalue().decode("ascii")
    assert "Traceback" not in told
    assert status in (0, 2), f"{args} ended with {status}: {told}"
    if status:
        assert told.startswith("hypercrl: ") and told.count("\n") == 1


NAMES = st.text(max_size=12) | st.sampled_from(
    [
        "../precious",
        "/",
        "..",
        "link",
        "$x^$",
        "[/b]",
        "=1+1",
        "<b>",
        "\x1b[2J",
        "\udcff",
        "a\nb",
        "%s",
    ]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 10**30, 1e308, 2**31, 2**63])
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)

# Flags

WORDS = [
    "train",
    "list",
    "report",
    "sweep",
    "play",
    "test",
    "conflict",
    "export",
    "completion",
    "--help",
    "tiny",
    "finetune",
    "hypercrl",
    "runs",
    "--out",
    "--folder",
    "--seed",
    "--tasks",
    "--fresh",
    "--random",
    "--video",
    "--suite",
    "--method",
    "--seeds",
    "--set",
    "schedule.updates=3",
    "--file",
    "link",
    "--plugin",
    "../precious",
    "../precious/notes.txt",
    "--steps-per-task",
    "12",
    "--planning.horizon",
    "--learner.learning-rate",
    "--learner.network.hidden",
    "--preset",
    "--checkpoint-seconds",
    "--episodes",
]
ARGUMENT = st.sampled_from(WORDS) | NUMBERS.map(str) | NAMES
COMMANDS = st.sampled_from(
    [
        ["train", "tiny", "finetune", "--out", "run"],
        ["train", "tiny", "hypercrl"],
        ["list", "runs", "--folder"],
        ["report"],
        ["sweep", "--suite", "tiny", "--no-report"],
        ["play", "tiny", "--random"],
        ["test"],
        ["conflict"],
        ["export"],
        ["completion"],
        ["list"],
        [],
    ]
)


@example(["completion"], ["\udcff"])
@given(COMMANDS, st.lists(ARGUMENT, max_size=4))
def test_flags(command, more):
    arguments = [*command, *(argument.replace("\0", "") for argument in more)]
    # A report on all runs of this machine takes as long as they are many.
    assume(not any(set(argument) == {"/"} for argument in arguments))
    with surroundings():
        give(arguments)


# Sweep files

KEYS = ["suite", "method", "seeds", "tasks", "preset", "planner", "hypernet", "name", "set", "runs"]
SETTINGS = [
    "schedule.updates",
    "learner.learning_rate",
    "planning.horizon",
    "learner.network",
    "a.b",
]
SELECTION = st.dictionaries(
    st.sampled_from(KEYS) | NAMES,
    PLAIN
    | st.sampled_from(["tiny", "finetune", "all", 2])
    | st.dictionaries(st.sampled_from(SETTINGS), PLAIN, max_size=2),
    max_size=4,
)


@given(st.binary(max_size=60) | SELECTION | st.lists(SELECTION, max_size=2))
def test_sweep_files(content):
    with surroundings() as work:
        if isinstance(content, bytes):
            (work / "sweep.yaml").write_bytes(content)
        else:
            selection = {"suite": "tiny", "method": "finetune"}
            selection |= content if isinstance(content, dict) else {"runs": content}
            with contextlib.suppress(yaml.YAMLError, UnicodeEncodeError):
                (work / "sweep.yaml").write_text(yaml.safe_dump(selection), encoding="utf-8")
        for planned in plan_runs(read_selections(work / "sweep.yaml", {})):
            assert (work / planned.name).resolve().parent == work.resolve()


# The Python interface

ANYTHING = PLAIN | st.builds(object) | NUMBERS.map(np.float64) | st.integers(-9, 9).map(np.int64)
ANYTHING |= st.lists(st.integers(-3, 9), max_size=3).map(np.array)
PART = st.dictionaries(
    st.sampled_from(["updates", "learning_rate", "horizon", "network.hidden", "batch_size"])
    | NAMES,
    ANYTHING,
    max_size=2,
)
TRAIN = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("suite", "method", "seed", "preset", "planner", "num_tasks"), ANYTHING),
        **dict.fromkeys(("schedule", "learner", "planning"), PART | ANYTHING),
        **dict.fromkeys(("fresh", "checkpoint_seconds", "hypernet", "regulariser"), ANYTHING),
    },
)


@given(TRAIN)
def test_the_python_interface(arguments):
    with surroundings() as work:
        train(**{"suite": "tiny", "method": "finetune", "out": work / "run", **arguments})


# Records and configurations


@given(st.data())
def test_records(recorded, data):
    lines = (recorded / "metrics.jsonl").read_text().splitlines()
    with surroundings() as work:
        (work / CONFIG).write_bytes((recorded / CONFIG).read_bytes())
        places = st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=3, unique=True)
        for number in data.draw(places):
            lines[number] = data.draw(mutated(lines[number]))
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
        (work / "metrics.jsonl").write_bytes(content)
        runs, unreadable = read_runs(find_runs([work]))
        assert len(runs) + len(unreadable) == 1
        assert all(reason.isprintable() for reason in unreadable.values())
        if runs:
            summarise([work], Console(file=io.StringIO()))
            read_progress(work)


def mutated(text: str) -> st.SearchStrategy[str]:
    """A JSON object with one of its values changed, taken away or added, or no JSON at all."""
    value = json.loads(text)
    names = st.sampled_from(sorted(value)) | NAMES

    def change(name, new, drop):
        rest = {key: one for key, one in value.items() if key != name}
        return json.dumps(rest if drop else {**rest, name: new})

    return st.builds(change, names, PLAIN, st.booleans()) | st.text(max_size=30).map(
        lambda text: text.replace("\n", " ")
    )


@given(st.data())
def test_configurations(finished, data):
    text = (finished / CONFIG).read_text()
    changed = data.draw(mutated(text) | nested(text))
    with surroundings() as work:
        (work / CONFIG).write_bytes(changed.encode("utf-8", "surrogatepass"))
        (work / "attempts.json").write_text(data.draw(PLAIN.map(json.dumps)))
        (work / "manifest.json").write_text(data.draw(PLAIN.map(json.dumps)))
        write_manifest(work, {})
        config = read_config(work)
        read_progress(work)
        with contextlib.suppress(UserError):
            read_attempts(work)
        RunConfig.from_stored(config).build_suite()


def nested(text: str) -> st.SearchStrategy[str]:
    """A change one level down."""
    config = json.loads(text)
    parts = st.sampled_from(["schedule", "learner", "planning", "versions"])

    def change(part, name, new):
        return json.dumps({**config, part: {**config[part], name: new}})

    names = st.sampled_from(
        [n for part in ("schedule", "learner", "planning") for n in config[part]]
    )
    return st.builds(change, parts, names, PLAIN)


# Checkpoints


@given(st.data())
def test_checkpoints(finished, data):
    content = bytearray((finished / CHECKPOINT).read_bytes())
    arrays, info = checkpoint.load(finished / CHECKPOINT)
    with surroundings() as work:
        (work / CONFIG).write_bytes((finished / CONFIG).read_bytes())
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place : place + 4] = data.draw(st.binary(max_size=8))
            (work / CHECKPOINT).write_bytes(content)
        else:  # whole, but not one of ours
            name = data.draw(st.sampled_from(sorted(arrays)))
            shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
            kind = data.draw(st.sampled_from(["float32", "int64", "bool", "bfloat16", "uint8"]))
            odd = np.zeros(shape, kind if kind != "bfloat16" else np.float16)
            part = data.draw(st.sampled_from(sorted(info)))
            other = {**info, part: data.draw(PLAIN)}
            with contextlib.suppress(UnicodeEncodeError):
                checkpoint.save(work / CHECKPOINT, {**arrays, name: odd}, other)
        load(work)


# Names


@given(NAMES, NAMES)
def test_names(recorded, one, other):
    with surroundings() as work:
        config = json.loads((recorded / CONFIG).read_text())
        config |= {"suite": one, "method": other, "tasks": [one, other], "name": other}
        (work / "run").mkdir()
        (work / "run" / CONFIG).write_text(json.dumps(config))
        (work / "run" / "metrics.jsonl").write_bytes((recorded / "metrics.jsonl").read_bytes())
        give(["list", "runs", "--folder", "."])
        table = Table("t", one, other, one, (other,), ((one, (Cell(other),)),), one)
        assert len(table.to_csv()) > 0 and "<b>" not in table.to_markdown()
        table.to_latex()
        if one.isprintable() and other.isprintable():
            with matplotlib.rc_context(STYLE):
                figure, panels = panel_grid(1, [(one, 0)])
                panels[0].set(title=other, xticks=(), yticks=())  # numbers take longest to draw
                render(Drawing("d", one, other, one, figure, panels))
            summarise([work], Console(file=io.StringIO()))
