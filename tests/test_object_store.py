"""Sweeps on a real S3 server on this machine: a claim has one holder, who alone writes."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moto.server import ThreadedMotoServer

import tiny
from hypercrl.experiment.progress import read_progress
from hypercrl.experiment.run_folder import CHECKPOINT
from hypercrl.sweep import mirror
from hypercrl.sweep.location import ClaimLostError
from hypercrl.sweep.mirror import EXPIRY_SECONDS, GIVE_UP_SECONDS, UrlLocation
from sweeping import attempts, is_alive, start_sweep, sweep, wait_until

NUM_KILLS = int(os.environ.get("S3_KILLS", "12"))  # `make kills` says 100
MOST_WRITES = 24  # of a sweep that is killed in one: some checkpoints' worth

# The client leaves connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Traffic:
    """Hands requests on to the server, and knows when a file of a run is about to be written."""

    def __init__(self, app: Any):
        self._app = app
        self._lock = threading.Lock()
        self._left = 0
        self._act: Callable[[], object] = lambda: None

    def before_write(self, number: int, act: Callable[[], object]) -> None:
        """Do something when that many writes and renames have begun from now on."""
        with self._lock:
            self._left, self._act = number, act

    def forget(self) -> None:
        self.before_write(0, lambda: None)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        # A rename is a copy, which is a PUT too, and the deletion of what was copied.
        is_write = environ["REQUEST_METHOD"] in ("PUT", "DELETE")
        if is_write and "-custom-s0/" in environ["PATH_INFO"]:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    self._act()
        return self._app(environ, start_response)


@pytest.fixture(scope="module")
def moto():
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def traffic(moto):
    app = moto._server.app
    moto._server.app = Traffic(app)
    yield moto._server.app
    moto._server.app = app


@pytest.fixture(scope="module")
def server(moto):
    """Its address; the client finds it in the environment, as a person would have it."""
    host, port = moto.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@pytest.fixture
def url(server, request):
    return f"s3://{request.node.name.lower().replace('_', '-')[:60].strip('-')}/sweep"


@pytest.fixture
def locations(url):
    """Three sweeps' views of one place."""
    made = [UrlLocation(url) for _ in range(3)]
    yield made
    for location in made:
        location.close()


def read(location: UrlLocation, name: str) -> bytes:
    return location._fs.cat_file(f"{location._root}/{name}")


def test_a_claim_has_one_holder(locations):
    one, other, _ = locations
    assert one.claim("run") and not other.claim("run")
    one.release("run")
    assert other.claim("run") and not one.claim("run")


def test_sweeps_that_compete_share_the_runs(locations):
    """All at once for each run: exactly one gets it."""
    names = [f"run-{number}" for number in range(5)]
    won: dict[str, list[int]] = {name: [] for name in names}
    start = threading.Barrier(len(locations))

    def compete(number: int, location: UrlLocation) -> None:
        for name in names:
            start.wait()
            if location.claim(name):
                won[name].append(number)

    threads = [threading.Thread(target=compete, args=args) for args in enumerate(locations)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(winners) == 1 for winners in won.values())


def test_whoever_lost_its_claim_writes_no_more(locations, monkeypatch):
    """Held up for long, as a suspended machine is; meanwhile another sweep goes on."""
    gone, other, _ = locations
    monkeypatch.setattr(mirror, "SETTLE_SECONDS", 0.0)
    assert gone.claim("run")
    with gone.workspace("run", gone.token) as late:
        (late.folder / "metrics.jsonl").write_text("early")
        late.save(final=True)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + GIVE_UP_SECONDS + 1)
        (late.folder / "metrics.jsonl").write_text("not yet another's, but perhaps any moment")
        with pytest.raises(ClaimLostError):
            late.save(final=True)
        gone._held["run"] = float("-inf")
        gone.refresh([])  # it may not renew the claim any more either
        monkeypatch.setattr(time, "time", lambda: now + EXPIRY_SECONDS + 1)
        assert other.claim("run")
        with other.workspace("run", other.token) as ours:
            assert (ours.folder / CHECKPOINT).exists() is False
            (ours.folder / "metrics.jsonl").write_text("ours")
            ours.save(final=True)
            with pytest.raises(ClaimLostError):
                late.save(final=True)
        gone.release("run")
    assert read(other, "run/metrics.jsonl") == b"ours"
    assert other.is_held_by(other.token, "run")


def test_a_claim_that_nobody_can_read_expires(locations, monkeypatch):
    one, other, _ = locations
    one._fs.pipe_file(f"{one._root}/.claims/run", b'["no claim"]')
    monkeypatch.setattr(mirror, "SETTLE_SECONDS", 0.0)
    assert not other.claim("run")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + EXPIRY_SECONDS + 1)
    assert other.claim("run")


@pytest.mark.slow
def test_a_run_on_s3_killed_again_and_again_ends_the_same(server, traffic, url, tmp_path):
    """The sweep and its worker die: in a write or a rename, in the run, and anywhere at all."""
    location = UrlLocation(url)
    name = "toy-slow-single-custom-s0"
    args = ("--suite", "toy-slow", "--method", "single", "--seeds", "1", "--no-report")
    args += ("--checkpoint-seconds", "0", "--set", f"schedule.steps_per_task={10 * NUM_KILLS}")
    rng = np.random.default_rng(NUM_KILLS)
    first_write = 0.0  # seconds after the start of a sweep
    for number in range(NUM_KILLS):
        begun = time.monotonic()
        process = start_sweep(url, *args, TOY_TROUBLE="1", **server)
        if number % 3 == 0:
            traffic.before_write(int(rng.integers(1, MOST_WRITES)), process.kill)
        elif number % 3 == 1:
            written = threading.Event()
            traffic.before_write(1, written.set)
            wait_until(written.is_set, process)
            first_write = time.monotonic() - begun
            time.sleep(rng.uniform(0.0, 1.0))
        else:
            time.sleep(rng.uniform(0.0, 1.2 * first_write))
        if number % 3:
            workers = children(process.pid)
            process.kill()
        else:
            workers = wait_for_end(process)
        traffic.forget()
        output, _ = process.communicate()
        assert process.returncode == -signal.SIGKILL, output
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        wait_until(lambda workers=workers: not any(map(is_alive, workers)))
        for claim in location._fs.find(f"{location._root}/.claims"):
            location._fs.rm_file(claim)  # instead of three minutes' waiting
    fetch(location, name, tmp_path / "killed")
    assert not read_progress(tmp_path / "killed").finished
    status, output = sweep(url, *args, **server)
    assert status == 0, output
    status, output = sweep(tmp_path / "uninterrupted", *args)
    assert status == 0, output
    fetch(location, name, tmp_path / "ended")
    tiny.assert_same_run(tmp_path / "ended", tmp_path / "uninterrupted" / name)
    tries = [attempt["state"] for attempt in attempts(tmp_path, "ended")]
    assert tries[-1] == "finished" and set(tries[:-1]) == {"lost"}
    assert len(tries) > NUM_KILLS // 3
    location.close()


def wait_for_end(process: subprocess.Popen) -> set[int]:
    """The children that a process had before it was killed."""
    found: set[int] = set()
    while process.poll() is None:
        found |= set(children(process.pid))
        time.sleep(0.05)
    return found


def fetch(location: UrlLocation, name: str, folder: Path) -> None:
    """What the store holds of a run."""
    folder.mkdir()
    for path in location._fs.ls(f"{location._root}/{name}", detail=False):
        if not location._fs.isdir(path):
            location._fs.get_file(path, str(folder / path.rsplit("/", 1)[1]))


def children(pid: int) -> set[int]:
    try:
        return {int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()
