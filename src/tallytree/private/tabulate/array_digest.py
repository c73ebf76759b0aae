"""A digest of arrays, for the derivation of the noise key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from tallytree.support.arrays import IntArray
from tallytree.support.file_arrays import FileArray


def array_digest(arrays: Iterable[IntArray | FileArray]) -> bytes:
    """32 bytes that depend on every value, on the length of every array and on their order; never published.

    An array in a file has the digest of the same array in memory: the noise does not depend on where it lay.
    """
    digest = hashlib.blake2b(digest_size=32)
    for array in arrays:
        digest.update(len(array).to_bytes(8, "little"))
        for block in array.blocks() if isinstance(array, FileArray) else (array,):
            digest.update(np.ascontiguousarray(block).tobytes())
    return digest.digest()
