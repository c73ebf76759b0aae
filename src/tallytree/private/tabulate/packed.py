"""Values with large arrays as bytes and back, between a driver and its tasks: pickle, with the arrays beside it.

What a task needs is unpacked by the task, which trusts the driver. What a task has made is unpacked by the driver. It
does not trust the task to name what is called: only the types in `MADE` are. Nor does it get hold of them: pickle can
also set attributes of what it has found, and a class that was changed so would be wrong for all later releases.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import struct
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

MADE = {
    "tallytree.counts.released_counts": {"ReleasedCounts"},
    "tallytree.kinds.measurements": {"Measurement", "Noise"},
    "tallytree.sizes.mechanism": {"ReleasedSizes"},
    "tallytree.solvers.sizes.joint_families": {"FromBelow"},
    "tallytree.solvers.sizes.joint_rates": {"Estimate", "RawSums"},
}
"""By module our types that may be named by what a task has made; it may hold arrays of numbers and fractions too."""


def record(module: str, name: str, *values: Any) -> Any:
    """A value of one of the types in `MADE`, from its fields.

    Raises:
        pickle.UnpicklingError: it is none of them.
    """
    if name not in MADE.get(module, ()):
        raise _refusal()
    return getattr(import_module(module), name)(*values)


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Our types as calls of `record`, so that who unpacks them need not find the classes."""
        kind = type(value)
        if kind.__name__ not in MADE.get(kind.__module__, ()):
            return NotImplemented
        fields = (
            value if isinstance(value, tuple) else (getattr(value, each.name) for each in dataclasses.fields(value))
        )
        return record, (kind.__module__, kind.__name__, *fields)


def packed(value: Any) -> list[Any]:
    """A value as buffers, to be written one after the other."""
    beside: list[pickle.PickleBuffer] = []
    body = io.BytesIO()
    _Packer(body, protocol=5, buffer_callback=beside.append).dump(value)
    parts = [body.getbuffer(), *(each.raw() for each in beside)]
    return [struct.pack(f"<{len(parts) + 1}q", len(parts), *(part.nbytes for part in parts)), *parts]


def unpacked(content: bytes, *, made: bool) -> Any:
    """The value.

    Its arrays are aligned and can be written to, like any that were computed here: a kernel is not compiled again.

    Args:
        content: all buffers, one after the other.
        made: whether a task has made it.

    Raises:
        pickle.UnpicklingError: it names what is not in `MADE`.
    """
    view = memoryview(content)
    (count,) = struct.unpack_from("<q", view)
    lengths = struct.unpack_from(f"<{count}q", view, 8)
    parts, start = [], 8 * (count + 1)
    for length in lengths:
        parts.append(view[start : start + length])
        start += length
    beside = [bytearray(part) for part in parts[1:]]
    kind = _Made if made else pickle.Unpickler
    return kind(io.BytesIO(parts[0]), buffers=beside).load()


class _Called:
    """What can be called and not be changed."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise _refusal()


def _plain_type(name: str, *_: Any) -> Any:
    """The type of an array of numbers; always numpy's own, which cannot be changed."""
    found = np.dtype(name)
    if found.kind not in "biuf" or not found.isnative:
        raise _refusal()
    return found


_multiarray: Any = import_module("numpy._core.multiarray")
_numeric: Any = import_module("numpy._core.numeric")

_FOUND = {
    (__name__, "record"): _Called(record),
    ("fractions", "Fraction"): _Called(Fraction),
    ("numpy", "dtype"): _Called(_plain_type),
    ("numpy", "ndarray"): None,  # only named, as the type of a new array
    ("numpy._core.multiarray", "_reconstruct"): _Called(lambda *_: np.empty(0, dtype=np.int8)),
    ("numpy._core.multiarray", "scalar"): _Called(_multiarray.scalar),
    ("numpy._core.numeric", "_frombuffer"): _Called(_numeric._frombuffer),
}
"""What pickle finds for the names in what a task has made."""


def _refusal() -> pickle.UnpicklingError:
    return pickle.UnpicklingError("a task has returned what no task makes")


class _Made(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _FOUND:
            raise _refusal()
        return _FOUND[module, name]
