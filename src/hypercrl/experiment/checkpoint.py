"""Checkpoints: one safetensors file with a checksum, replaced atomically.

Loading can never run code: arrays are raw numbers and everything else is JSON in the file's
header. A new checkpoint is written beside the old one and flushed to the disk; then the old one
is renamed to the one before, and the new one to its name. At any moment, also if the process or
the machine dies, at least one complete checkpoint is there.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from hypercrl import reading, writing
from hypercrl.errors import START_OVER, UserError, printable
from hypercrl.reading import show

FORMAT = "hypercrl-checkpoint"
VERSION = 2

# NumPy's names for the kinds of numbers that safetensors knows.
_DTYPES = ("bool", "bfloat16", "float16", "float32", "float64")
_DTYPES += tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

Arrays = dict[str, np.ndarray]


def save(path: Path, arrays: Arrays, info: dict[str, Any]) -> None:
    """Write a checkpoint; the previous one stays beside it."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise UserError(f"'{name}' cannot be saved: its numbers are of type {array.dtype}.")
    text = json.dumps(info, sort_keys=True)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "info": text,
        "checksum": _checksum(arrays, text),
    }
    # The library's own `save_file` writes under a name that a crash would leave behind.
    temporary = writing.write_new(partial(path), safetensors.numpy.save(arrays, metadata))
    if os.path.lexists(path):
        os.replace(path, previous(path))
    os.replace(temporary, path)
    writing.sync(path.parent)


def load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Read and verify one file."""
    try:
        reading.require_regular(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise UserError(f"{show(path)} is not a checkpoint of hypercrl.")
            if metadata.get("version") != str(VERSION):
                version = printable(metadata.get("version", ""))[:20]
                raise UserError(
                    f"{show(path)} has version {version} of the checkpoint format and "
                    f"this hypercrl reads version {VERSION}; go on with the release that wrote it."
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = reading.parse_json(metadata["info"])
        reading.check(info)
    except (FileNotFoundError, UserError):
        raise
    except OSError as error:
        raise UserError(
            f"The checkpoint {show(path)} cannot be read: {error.strerror or error}."
        ) from error
    except Exception as error:  # kinds of numbers that NumPy lacks raise whatever they like
        raise UserError(_damaged(path)) from error
    genuine = _checksum(arrays, metadata["info"]) == metadata.get("checksum")
    if not (genuine and isinstance(info, dict)):
        raise UserError(_damaged(path))
    return arrays, info


def load_latest(path: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """The last checkpoint; the one before where a crash came between the two renames."""
    for candidate in (path, previous(path)):
        try:
            return load(candidate)
        except FileNotFoundError:
            continue
    return None


def previous(path: Path) -> Path:
    """Where the checkpoint before the last one is."""
    return path.with_suffix(".previous.safetensors")


def partial(path: Path) -> Path:
    """Where a checkpoint is while it is being written."""
    return path.with_suffix(".partial")


def flatten(tree: Any) -> Arrays:
    """The arrays of a pytree, named by their place in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(place): _plain(leaf) for place, leaf in leaves}


def unflatten(template: Any, arrays: Arrays) -> Any:
    """A pytree like `template`, filled with the arrays of a flattened one."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted = {_name(place): leaf for place, leaf in leaves}
    for name in sorted(wanted.keys() ^ arrays.keys()):
        verb = "lacks" if name in wanted else "has an unknown"
        raise UserError(f"The checkpoint {verb} '{name}'; it belongs to another configuration.")
    for name, leaf in wanted.items():
        found, needed = arrays[name], _plain(leaf)
        if (found.shape, found.dtype) != (needed.shape, needed.dtype):
            raise UserError(
                f"The checkpoint's '{name}' is {found.dtype} {found.shape}, but this configuration "
                f"needs {needed.dtype} {needed.shape}; it belongs to another suite or setting."
            )
    filled = [_like(leaf, arrays[name]) for name, leaf in wanted.items()]
    return jax.tree_util.tree_unflatten(structure, filled)


def section(arrays: Arrays, prefix: str) -> Arrays:
    """One branch of a flattened pytree: the arrays under a name, without it."""
    found = {name: name.removeprefix(prefix) for name in arrays if name.startswith(prefix)}
    return {rest[1:]: arrays[name] for name, rest in found.items() if rest[:1] in ("", "/")}


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _name(place: Any) -> str:
    return jax.tree_util.keystr(place, simple=True, separator="/")


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    """The numbers of a leaf."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, array: np.ndarray) -> Any:
    """The numbers as a leaf of the template's own kind: on the host, on the device, a scalar."""
    if isinstance(leaf, np.ndarray):
        return array
    if not isinstance(leaf, jax.Array):
        return type(leaf)(array.item())
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    return jnp.asarray(array)


def _checksum(arrays: Arrays, text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _damaged(path: Path) -> str:
    way_out = (
        "delete it to continue from the one before, which was kept"
        if os.path.lexists(previous(path))
        else START_OVER
    )
    return f"The checkpoint {show(path)} is damaged or cut short; {way_out}."
