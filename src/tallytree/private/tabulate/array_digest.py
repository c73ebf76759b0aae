"""A digest of arrays, for the derivation of the noise key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from tallytree.compute.arrays import IntArray


def array_digest(arrays: Iterable[IntArray]) -> bytes:
    """32 bytes that depend on every value, on the length of every array and on their order; never published."""
    digest = hashlib.blake2b(digest_size=32)
    for array in arrays:
        digest.update(len(array).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
