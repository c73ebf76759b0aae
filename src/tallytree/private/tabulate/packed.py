"""Values with large arrays as bytes and back, between a driver and its tasks: pickle, with the arrays beside it.

What a task needs is unpacked by the task, which trusts the driver. What a task has made is unpacked by the driver. It
does not trust the task to name what is called: only the types in `MADE` are.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

MADE = {
    "fractions": {"Fraction"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "tallytree.counts.released_counts": {"ReleasedCounts"},
    "tallytree.measurements": {"Measurement", "Noise"},
    "tallytree.sizes.released_sizes": {"ReleasedSizes"},
    "tallytree.solvers.joint_families": {"FromBelow"},
    "tallytree.solvers.joint_upward": {"Estimate"},
}
"""By module what may be named by what a task has made."""


def packed(value: Any) -> list[Any]:
    """A value as buffers, to be written one after the other."""
    beside: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=beside.append)
    parts = [memoryview(body), *(each.raw() for each in beside)]
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


class _Made(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in MADE.get(module, ()):
            raise pickle.UnpicklingError("a task has returned what no task makes")
        return super().find_class(module, name)
