"""Where noise comes from: keys, subkeys for addresses, and one ChaCha20 stream per cell.

A draw is a function of (key, address, cell) alone, whatever the order, the chunking or the engine, so a task that
runs twice gives the same noise twice.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
from numpy.typing import NDArray

from tallytree.kernels import kernel

KEY_BYTES = 32

Stream = NDArray[np.uint32]
"""A ChaCha20 keystream being read: the current block (16 words), the cipher's input (16 words), the position."""

_INPUT = 16
_COUNTER = _INPUT + 12
_NONCE = _INPUT + 14
_POSITION = 32
_BLOCK_WORDS = np.uint32(16)
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)
_HALF = np.uint64(32)
_ONE = np.uint32(1)
_TWO = np.uint32(2)


def fresh_key() -> bytes:
    """Draw a new 32-byte key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def key_from_seed(seed: int) -> bytes:
    """Make a reproducible 32-byte key for tests and experiments; a release under it is not private.

    Raises:
        TypeError: `seed` is not an int.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int, got {seed!r}")
    return hashlib.blake2b(_encode(seed), digest_size=KEY_BYTES, person=b"tallytree seed").digest()


def derive(key: bytes, *address: str | int) -> bytes:
    """Derive the 32-byte subkey of an address, such as ("measure", level), by keyed BLAKE2b.

    Different addresses have independent subkeys: every part is encoded with its type and its length, so
    ("a", "b") differs from ("ab",) and 1 from "1".

    Args:
        key: 32 bytes.
        address: the address's parts, each a str or an int.

    Raises:
        TypeError: `key` is not bytes, or a part is neither str nor int.
        ValueError: `key` is not 32 bytes long.
    """
    encoded = b"".join(_encode(part) for part in address)
    return hashlib.blake2b(encoded, key=_checked(key), digest_size=KEY_BYTES, person=b"tallytree subkey").digest()


def open_streams(key: bytes) -> Stream:
    """Make the reader of a key's 2^64 streams; `seek` chooses the stream, `next_word` reads it.

    The cipher is ChaCha20 in its original layout (Bernstein 2008): a 64-bit block counter, the cell as 64-bit nonce.

    Raises:
        TypeError: `key` is not bytes.
        ValueError: `key` is not 32 bytes long.
    """
    stream = np.zeros(_POSITION + 1, dtype=np.uint32)
    stream[_INPUT : _INPUT + 4] = _CONSTANTS
    stream[_INPUT + 4 : _COUNTER] = np.frombuffer(_checked(key), dtype="<u4")
    stream[_POSITION] = _BLOCK_WORDS
    return stream


@kernel
def seek(stream: Stream, cell: np.uint64, block: np.uint64) -> None:
    """Go to a block of 64 bytes of a cell's stream; 0 is its first."""
    stream[_COUNTER] = np.uint32(block)
    stream[_COUNTER + 1] = np.uint32(block >> _HALF)
    stream[_NONCE] = np.uint32(cell)
    stream[_NONCE + 1] = np.uint32(cell >> _HALF)
    stream[_POSITION] = _BLOCK_WORDS


@kernel
def next_word(stream: Stream) -> np.uint64:
    """Read the stream's next 64 bits, little endian."""
    if stream[_POSITION] == _BLOCK_WORDS:
        _next_block(stream)
    position = stream[_POSITION]
    stream[_POSITION] = position + _TWO
    return np.uint64(stream[position]) | np.uint64(stream[position + _ONE]) << _HALF


@kernel
def _next_block(stream: Stream) -> None:
    for i in range(16):
        stream[i] = stream[_INPUT + i]
    for _ in range(10):
        for i in range(4):
            _quarter_round(stream, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            _quarter_round(stream, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    for i in range(16):
        stream[i] += stream[_INPUT + i]
    stream[_COUNTER] += _ONE
    if stream[_COUNTER] == 0:
        stream[_COUNTER + 1] += _ONE
    stream[_POSITION] = 0


@kernel
def _quarter_round(x: Stream, a: int, b: int, c: int, d: int) -> None:
    x[a] += x[b]
    x[d] = _rotate(x[d] ^ x[a], 16)
    x[c] += x[d]
    x[b] = _rotate(x[b] ^ x[c], 12)
    x[a] += x[b]
    x[d] = _rotate(x[d] ^ x[a], 8)
    x[c] += x[d]
    x[b] = _rotate(x[b] ^ x[c], 7)


@kernel
def _rotate(word: np.uint32, bits: int) -> np.uint32:
    return np.uint32(word << bits | word >> (32 - bits))


def _encode(part: str | int) -> bytes:
    if isinstance(part, bool) or not isinstance(part, (str, int)):
        raise TypeError(f"address takes str and int, got {part!r}; convert it")
    if isinstance(part, str):
        kind, content = b"s", part.encode("utf-8", "surrogatepass")
    else:
        kind, content = b"i", part.to_bytes(part.bit_length() // 8 + 1, "little", signed=True)
    return kind + len(content).to_bytes(8, "little") + content


def _checked(key: bytes) -> bytes:
    if not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, got {type(key).__name__}; take one from fresh_key() or derive()")
    if len(key) != KEY_BYTES:
        raise ValueError(f"key must be {KEY_BYTES} bytes long, got {len(key)}; take one from fresh_key() or derive()")
    return key
