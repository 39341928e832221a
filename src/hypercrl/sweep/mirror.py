"""Runs in an object store, or behind any other URL that fsspec knows.

A run is worked on in a scratch folder on a local disk and copied to the store whenever it has
saved a checkpoint, and at intervals in between. Two rules make a copy usable at any moment:
records are copied before the checkpoint that counts on them, and a file appears under its name
only once it is complete. Without a checkpoint the run starts over, records and all.

Claims are objects that can be created only once. Their holder renews them; one that has not
been renewed for a while belongs to a sweep that is gone. A holder that was kept from renewing its
claim stops writing before anybody else may take it.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hypercrl import reading, writing
from hypercrl.errors import UserError, describe
from hypercrl.experiment.checkpoint import previous
from hypercrl.experiment.records import parse
from hypercrl.experiment.run_folder import CHECKPOINT, LOCK
from hypercrl.sweep.location import CLAIMS, ClaimLostError, Location, Workspace

LOCAL_ONLY = (LOCK, previous(Path(CHECKPOINT)).name)
LOCAL_SUFFIX = ".partial"
SAVE_SECONDS = 10.0  # between copies of the records; a new checkpoint is copied at once
FOLLOW_SECONDS = 5.0  # between looks at the runs under way
RENEW_SECONDS = 30.0
EXPIRY_SECONDS = 180.0  # clocks may differ, and an upload may keep the holder busy
GIVE_UP_SECONDS = 120.0  # without renewal; from then on the holder neither writes nor renews
SETTLE_SECONDS = 1.0  # for a competitor for an expired claim to show itself


@dataclasses.dataclass(frozen=True)
class Lease:
    """What a claim says."""

    holder: str
    renewed: float  # seconds since 1970


class UrlLocation(Location):
    """Run folders below a URL."""

    refresh_seconds = FOLLOW_SECONDS

    def __init__(self, url: str):
        try:
            import fsspec
        except ImportError as error:
            raise UserError(
                f"Writing to {url} needs fsspec; install it with: pip install 'hypercrl[ray]'."
            ) from error
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False)
            self._fs.makedirs(self._root, exist_ok=True)
        except Exception as error:  # of whichever store it is
            raise UserError(f"The results cannot be kept at {url}: {describe(error)}.") from error
        self.view = Path(tempfile.mkdtemp(prefix="hypercrl-view-"))
        self._token = uuid.uuid4().hex
        self._held: dict[str, float] = {}  # name: when it was last renewed
        self._seen: dict[str, Any] = {}  # remote path: what its listing said when it was fetched
        self._odd: dict[str, float] = {}  # claim that cannot be read: when it was first seen

    @property
    def token(self) -> str:
        return self._token

    def claim(self, name: str) -> bool:
        path = self._claim_path(name)
        self._fs.makedirs(f"{self._root}/{CLAIMS}", exist_ok=True)
        if self._create(path):
            return True
        lease = self._read_lease(path)
        if lease is not None and time.time() - lease.renewed < EXPIRY_SECONDS:
            return False
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)
        if not self._create(path):
            return False
        time.sleep(SETTLE_SECONDS)
        if self._is_ours(name):
            return True
        del self._held[name]
        return False

    def release(self, name: str) -> None:
        del self._held[name]
        if self._is_ours(name):
            self._fs.rm_file(self._claim_path(name))

    def refresh(self, names: Iterable[str]) -> None:
        for name in names:
            self._fetch(name, self.view / name, skip=_not_for_reading)
        for name, renewed in list(self._held.items()):
            if time.monotonic() - renewed > RENEW_SECONDS and self.is_held_by(self._token, name):
                self._write_lease(self._claim_path(name), "wb")

    def publish(self, path: Path) -> None:
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        for file in files:
            self._upload(file, f"{self._root}/{file.relative_to(self.view)}")

    @contextlib.contextmanager
    def workspace(self, name: str, claim: str = "") -> Iterator[Workspace]:
        scratch = Path(tempfile.mkdtemp(prefix="hypercrl-run-"))
        try:
            folder = scratch / name
            folder.mkdir()
            started = self._fs.exists(f"{self._root}/{name}/{CHECKPOINT}")
            self._fetch(name, folder, skip=lambda file: not started and file.endswith(".jsonl"))
            yield MirroredWorkspace(folder, name, self, claim)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        # Stores have no locks to wait for. Manifests are put together anew from the runs' own
        # records each time, so one written at the same moment is at worst a moment old.
        path = f"{self._root}/manifest.json"
        if self._fs.exists(path):
            self._fs.get_file(path, str(self.view / "manifest.json"))
        yield

    def close(self) -> None:
        for name in list(self._held):
            self.release(name)
        shutil.rmtree(self.view, ignore_errors=True)

    def upload_run_file(self, name: str, file: str, source: Path) -> None:
        """Put one file of a run where it belongs."""
        self._upload(source, f"{self._root}/{name}/{file}")

    def is_held_by(self, token: str, name: str) -> bool:
        """Whether a sweep holds a claim, and so safely that nobody else can have it by now."""
        lease = self._read_lease(self._claim_path(name))
        fresh = lease is not None and time.time() - lease.renewed < GIVE_UP_SECONDS
        return fresh and lease is not None and lease.holder == token

    def _upload(self, source: Path, target: str) -> None:
        self._fs.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        partial = f"{target}{LOCAL_SUFFIX}"
        self._fs.put_file(str(source), partial)
        self._fs.mv(partial, target)

    def _fetch(self, name: str, folder: Path, *, skip) -> None:
        """Bring a run's files here, those that have changed since the last time."""
        base = f"{self._root}/{name}"
        if not self._fs.exists(base):
            return
        for path, info in self._fs.find(base, detail=True).items():
            file = path.removeprefix(base).lstrip("/")
            target = writing.below(folder, file)
            stamp = {key: info.get(key) for key in ("size", "mtime", "LastModified", "created")}
            fresh = self._seen.get(str(target)) == stamp and target.exists()
            if fresh or file.endswith(LOCAL_SUFFIX) or skip(file):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(target.name + LOCAL_SUFFIX)
            with contextlib.suppress(FileNotFoundError):  # replaced just now; it comes next time
                self._fs.get_file(path, str(partial))
                os.replace(partial, target)
                self._seen[str(target)] = stamp

    def _is_ours(self, name: str) -> bool:
        """Whether a claim is ours to release; one that expired may be another sweep's by now."""
        lease = self._read_lease(self._claim_path(name))
        return lease is not None and lease.holder == self._token

    def _claim_path(self, name: str) -> str:
        return f"{self._root}/{CLAIMS}/{name}"

    def _create(self, path: str) -> bool:
        try:
            self._write_lease(path, "xb")
        except FileExistsError:
            return False
        return True

    def _write_lease(self, path: str, mode: str) -> None:
        lease = Lease(self._token, time.time())
        with self._fs.open(path, mode) as file:
            file.write(json.dumps(dataclasses.asdict(lease)).encode())
        self._held[path.rsplit("/", 1)[1]] = time.monotonic()

    def _read_lease(self, path: str) -> Lease | None:
        """A claim; None if it was released just now. One that is no claim expires like others."""
        try:
            content = self._fs.cat_file(path)
        except FileNotFoundError:
            return None
        try:
            return parse(Lease, reading.parse_json(content.decode("utf-8")))
        except (ValueError, TypeError):  # perhaps it is being written
            return Lease("", self._odd.setdefault(path, time.time()))


class MirroredWorkspace(Workspace):
    """Copies what has changed in a scratch folder; `save` is called often and seldom has work."""

    def __init__(self, folder: Path, name: str, location: UrlLocation, claim: str = ""):
        super().__init__(folder)
        self._location = location
        self._name = name
        self._claim = claim
        self._stamps = {file: _stamp(folder / file) for file in (*self._files(), CHECKPOINT)}
        self._saved_at = time.monotonic()

    def save(self, *, final: bool = False) -> None:
        if final:
            self._copy_changes()
            return
        checkpointed = _stamp(self.folder / CHECKPOINT) not in (None, self._stamps[CHECKPOINT])
        if checkpointed or time.monotonic() - self._saved_at > SAVE_SECONDS:
            try:
                self._copy_changes()
            except ClaimLostError:
                raise
            except Exception:
                pass  # whatever keeps the store from answering, the next copy makes good for it
            self._saved_at = time.monotonic()

    def _copy_changes(self) -> None:
        with self._frozen_checkpoint() as checkpoint:
            for file in self._files():
                self._copy(file, self.folder / file)
            if checkpoint is not None:
                self._copy(CHECKPOINT, checkpoint)

    def _copy(self, file: str, source: Path) -> None:
        stamp = _stamp(source)
        if stamp is not None and stamp != self._stamps.get(file):
            if self._claim and not self._location.is_held_by(self._claim, self._name):
                raise ClaimLostError(self._name)
            self._location.upload_run_file(self._name, file, source)
            self._stamps[file] = stamp

    @contextlib.contextmanager
    def _frozen_checkpoint(self) -> Iterator[Path | None]:
        """The checkpoint of this moment, under a name that a later one does not replace."""
        frozen = self.folder.parent / CHECKPOINT
        try:
            os.link(self.folder / CHECKPOINT, frozen)
        except FileNotFoundError:
            yield None
            return
        try:
            yield frozen
        finally:
            frozen.unlink()

    def _files(self) -> list[str]:
        """Names of what belongs to the copy, besides the checkpoint."""
        names = (str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())
        skipped = (CHECKPOINT, *LOCAL_ONLY)
        return sorted(n for n in names if n not in skipped and not n.endswith(LOCAL_SUFFIX))


def _not_for_reading(file: str) -> bool:
    return file.startswith(("checkpoint", "events/"))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
