"""Checkpoints: one safetensors file with a checksum, replaced atomically.

Loading can never run code: arrays are raw numbers and everything else is JSON in the file's
header. A new checkpoint is written beside the old one, flushed to the disk and renamed over it;
the one before is kept under another name until then, so that a crash at any moment leaves a
usable state behind.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from hypercrl.errors import UserError

FORMAT = "hypercrl-checkpoint"
VERSION = 1

Arrays = dict[str, np.ndarray]


def save(path: Path, arrays: Arrays, info: dict[str, Any]) -> None:
    """Write a checkpoint; the previous one stays at `path` with the suffix `.previous`."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    text = json.dumps(info, sort_keys=True)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "info": text,
        "checksum": _checksum(arrays, text),
    }
    temporary = path.with_suffix(".partial")
    with open(temporary, "wb") as file:
        file.write(safetensors.numpy.save(arrays, metadata))
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        spare = path.with_suffix(".previous.partial")
        spare.unlink(missing_ok=True)
        os.link(path, spare)
        os.replace(spare, previous(path))
    os.replace(temporary, path)
    _sync_folder(path.parent)


def load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read and verify a checkpoint."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise UserError(f"{path} is not a checkpoint of hypercrl.")
            if metadata.get("version") != str(VERSION):
                raise UserError(
                    f"{path} is a checkpoint of version {metadata.get('version')}, and this is "
                    f"hypercrl's version {VERSION}; continue it with the release that wrote it."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = json.loads(metadata["info"])
    except (safetensors.SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(_damaged(path)) from error
    if _checksum(arrays, metadata["info"]) != metadata.get("checksum"):
        raise UserError(_damaged(path))
    return arrays, info


def previous(path: Path) -> Path:
    """Where the checkpoint before the last one is."""
    return path.with_suffix(".previous.safetensors")


def latest(path: Path) -> Path | None:
    """The checkpoint to continue from, if there is any."""
    for candidate in (path, previous(path)):
        if candidate.exists():
            return candidate
    return None


def flatten(tree: Any, prefix: str) -> Arrays:
    """The arrays of a pytree, named by their place in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(prefix, place): np.asarray(leaf) for place, leaf in leaves}


def unflatten(template: Any, arrays: Arrays, prefix: str) -> Any:
    """A pytree like `template`, filled with named arrays of the same shapes."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    filled = []
    for place, leaf in leaves:
        name = _name(prefix, place)
        if name not in arrays:
            raise UserError(f"The checkpoint lacks '{name}'; it belongs to another configuration.")
        if arrays[name].shape != np.shape(leaf):
            raise UserError(
                f"The checkpoint's '{name}' has shape {arrays[name].shape}, but this "
                f"configuration needs {np.shape(leaf)}; it belongs to another suite or setting."
            )
        filled.append(_like(leaf, arrays[name]))
    return jax.tree_util.tree_unflatten(structure, filled)


def _like(leaf: Any, array: np.ndarray) -> Any:
    """An array of the template's own kind: on the host, or on the device."""
    return array if isinstance(leaf, np.ndarray) else jax.numpy.asarray(array)


def section(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays under one name, without it."""
    start = f"{prefix}/"
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def _name(prefix: str, place: Any) -> str:
    return f"{prefix}/{jax.tree_util.keystr(place, simple=True, separator='/')}"


def _checksum(arrays: Arrays, text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _damaged(path: Path) -> str:
    spare = previous(path)
    way_out = (
        "delete it to continue from the one before, which was kept"
        if spare != path and spare.exists()
        else "start over with --fresh"
    )
    return f"The checkpoint {path} is damaged or cut short; {way_out}."


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
