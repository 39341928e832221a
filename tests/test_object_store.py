"""Sweeps on a real S3 server on this machine: a claim has one holder, who alone writes."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from hypercrl.experiment.run_folder import CHECKPOINT
from hypercrl.sweep import mirror
from hypercrl.sweep.location import ClaimLostError
from hypercrl.sweep.mirror import EXPIRY_SECONDS, GIVE_UP_SECONDS, UrlLocation
from sweeping import FOUR_RUNS, is_alive, single_runs, start_sweep, sweep, wait_until

# The client leaves connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def server():
    """Its address; the client finds it in the environment, as a person would have it."""
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
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
    running.stop()


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
def test_a_sweep_on_s3_gives_the_metrics_of_single_runs_however_often_it_is_killed(server, url):
    """The sweep and its workers die with SIGKILL at random moments; claims then expire at once."""
    location = UrlLocation(url)
    args = ("--suite", "toy-slow", *FOUR_RUNS, "--no-report", "--checkpoint-seconds", "0")
    for number in range(3):
        process = start_sweep(url, *args, TOY_TROUBLE="1", **server)
        time.sleep(8 + 4 * number)
        workers = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda workers=workers: not any(map(is_alive, workers)))
        for claim in location._fs.ls(f"{location._root}/.claims", detail=False):
            location._fs.rm_file(claim)  # instead of three minutes' waiting
    status, output = sweep(url, *args, TOY_TROUBLE="1", **server)
    assert status == 0, output
    found = {
        path.split("/")[-2].replace("toy-slow", "toy"): location._fs.cat_file(path)
        for path in location._fs.glob(f"{location._root}/*/metrics.jsonl")
    }
    assert found == single_runs()
    location.close()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if os.path.exists(found) else []
