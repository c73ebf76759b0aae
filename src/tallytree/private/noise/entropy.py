"""Where noise comes from: keys, subkeys for addresses, and ChaCha20 as a random-access source of a key's words.

**Keys.** A draw is a function of (key, address, cell) alone, whatever the order, the chunking or the engine, so a task
that runs twice gives the same noise twice.

**Words.** Word i of a key belongs to cell i, and extra words to each cell. The cipher is ChaCha20 in its original
layout (Bernstein 2008): a 64-bit block counter and a 64-bit nonce, blocks of 64 bytes, which are eight little-endian
words of 64 bits. Nonce 0 is the main stream, of which cell i has word i % 8 of block i // 8. Nonce 2^63 + i is a stream
of cell i's own, for what its first word leaves open. Cells are below 2^63, so no two of these streams are one.
`docs/decisions/0009-cipher.md` says why it is this cipher, in this place.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tallytree.accounting.scales import shown
from tallytree.support.kernels import inlined, kernel

KEY_BYTES = 32


def fresh_key() -> bytes:
    """Draw a new 32-byte key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


def key_from_seed(seed: int) -> bytes:
    """Make a reproducible 32-byte key for tests and experiments; a release under it is not private.

    Raises:
        TypeError: `seed` is not an int.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int, got {shown(seed)}")
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
    return hashlib.blake2b(encoded, key=checked_key(key), digest_size=KEY_BYTES, person=b"tallytree subkey").digest()


def _encode(part: str | int) -> bytes:
    if isinstance(part, bool) or not isinstance(part, (str, int)):
        raise TypeError(f"address takes str and int, got {shown(part)}; convert it")
    if isinstance(part, str):
        kind, content = b"s", part.encode("utf-8", "surrogatepass")
    else:
        kind, content = b"i", part.to_bytes(part.bit_length() // 8 + 1, "little", signed=True)
    return kind + len(content).to_bytes(8, "little") + content


def checked_key(key: bytes) -> bytes:
    """The key, if it is one; its value is never shown.

    Raises:
        TypeError: `key` is not bytes.
        ValueError: `key` is not 32 bytes long.
    """
    if not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, got {type(key).__name__}; take one from fresh_key() or derive()")
    if len(key) != KEY_BYTES:
        raise ValueError(f"key must be {KEY_BYTES} bytes long, got {len(key)}; take one from fresh_key() or derive()")
    return key


KeyWords = NDArray[np.uint32]
Block = tuple[
    np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32,
    np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32,
]  # fmt: skip

KeyTuple = tuple[np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32]

WORDS_PER_BLOCK = 8
LANES = 16
"""Blocks that are made side by side. Their words lie `LANES` apart, which the compiler turns into vector code."""

_LANE_BITS = 4
_GROUP = 16 * LANES
_MAIN = np.uint64(0)
_OWN = np.uint64(2**63)
_HALF = np.uint64(32)
_IN_BLOCK = np.uint64(WORDS_PER_BLOCK - 1)
_BLOCK_BITS = np.uint64(3)


@contextmanager
def opened(key: bytes) -> Iterator[KeyWords]:
    """Lend a key as the eight words that the kernels take, and clear them afterwards.

    What Python gives no hold of is not cleared: the immutable `key` itself, the state of the hash function it came
    from, and the processor's registers and stack.

    Raises:
        TypeError: `key` is not bytes.
        ValueError: `key` is not 32 bytes long.
    """
    words = np.frombuffer(checked_key(key), dtype="<u4").astype(np.uint32)
    try:
        yield words
    finally:
        words.fill(0)


@inlined
def cell_words(key: KeyWords, cells: NDArray[np.int64], blocks: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Write the main stream's word of each cell.

    `blocks` is scratch for cells.size + LANES numbers. A block is made once for neighbors that share it. `words` has
    room for a multiple of LANES·8, of which what follows the cells' own is of no meaning.
    """
    if cells.size == 0:
        return
    first = cells[0]
    in_order = np.int64(first & (WORDS_PER_BLOCK - 1) == 0)
    for i in range(cells.size):
        in_order &= np.int64(cells[i] == first + i)
    count = _blocks_in_order(cells, blocks) if in_order else _blocks_of(cells, blocks)
    stream = np.empty(16 * count, np.uint32)
    keystream(key, _MAIN, blocks[:count], stream)
    if in_order:
        _take_in_order(stream, words)
    else:
        _take(cells, blocks, stream, words)


@inlined
def _blocks_in_order(cells: NDArray[np.int64], blocks: NDArray[np.uint64]) -> int:
    """List the blocks of consecutive cells, the first of which begins a block; a multiple of `LANES`."""
    first_block = np.uint64(cells[0]) >> _BLOCK_BITS
    groups = (cells.size + LANES * WORDS_PER_BLOCK - 1) // (LANES * WORDS_PER_BLOCK)
    for i in range(groups * LANES):
        blocks[i] = first_block + np.uint64(i)
    return groups * LANES


@inlined
def _take_in_order(stream: NDArray[np.uint32], words: NDArray[np.uint64]) -> None:
    """All words of the stream, block by block."""
    for group in range(stream.size // _GROUP):
        source = stream[group * _GROUP : (group + 1) * _GROUP]
        out = words[group * LANES * WORDS_PER_BLOCK : (group + 1) * LANES * WORDS_PER_BLOCK]
        for lane in range(LANES):
            for word in range(WORDS_PER_BLOCK):
                at = 2 * LANES * word + lane
                out[WORDS_PER_BLOCK * lane + word] = np.uint64(source[at]) | np.uint64(source[at + LANES]) << _HALF


@inlined
def _blocks_of(cells: NDArray[np.int64], blocks: NDArray[np.uint64]) -> int:
    """List the blocks of any cells, neighbors that share one once; filled up to a multiple of `LANES`."""
    count = 0
    for i in range(cells.size):
        block = np.uint64(cells[i]) >> _BLOCK_BITS
        if count == 0 or blocks[count - 1] != block:
            blocks[count] = block
            count += 1
    padded = (count + LANES - 1) >> _LANE_BITS << _LANE_BITS
    blocks[count:padded] = 0
    return padded


@inlined
def _take(
    cells: NDArray[np.int64], blocks: NDArray[np.uint64], stream: NDArray[np.uint32], words: NDArray[np.uint64]
) -> None:
    """Each cell's word of the stream of these blocks."""
    slot = 0
    for i in range(cells.size):
        cell = np.uint64(cells[i])
        slot += int(blocks[slot] != cell >> _BLOCK_BITS)
        at = (slot >> _LANE_BITS) * _GROUP + (slot & (LANES - 1)) + np.int64(cell & _IN_BLOCK) * (2 * LANES)
        words[i] = np.uint64(stream[at]) | np.uint64(stream[at + LANES]) << _HALF


@kernel
def own_word(key: KeyWords, cell: int, number: int) -> np.uint64:
    """Word `number` of the stream that is the cell's own."""
    blocks = np.full(LANES, np.uint64(number) >> _BLOCK_BITS, np.uint64)
    stream = np.empty(_GROUP, np.uint32)
    keystream(key, _OWN | np.uint64(cell), blocks, stream)
    at = np.int64(np.uint64(number) & _IN_BLOCK) * (2 * LANES)
    return np.uint64(stream[at]) | np.uint64(stream[at + LANES]) << _HALF


@kernel
def keystream(key: KeyWords, nonce: np.uint64, blocks: NDArray[np.uint64], stream: NDArray[np.uint32]) -> None:
    """Write the blocks of these numbers: 32-bit word w of block 16g + lane goes to stream[256g + 16w + lane].

    `blocks.size` is a multiple of `LANES`. The compiler makes vector code of the inner loop (four times as fast) as
    long as its length and the distances of its stores are fixed and the calls in it are small enough to be inlined.
    """
    k = (key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7])
    for group in range(blocks.size >> _LANE_BITS):
        numbers = blocks[group * LANES : (group + 1) * LANES]
        out = stream[group * _GROUP : (group + 1) * _GROUP]
        for lane in range(LANES):
            start = _input(k, nonce, numbers[lane])
            x = _two_rounds(_two_rounds(_two_rounds(_two_rounds(_two_rounds(start)))))
            x = _two_rounds(_two_rounds(_two_rounds(_two_rounds(_two_rounds(x)))))
            out[lane] = x[0] + start[0]
            out[LANES + lane] = x[1] + start[1]
            out[2 * LANES + lane] = x[2] + start[2]
            out[3 * LANES + lane] = x[3] + start[3]
            out[4 * LANES + lane] = x[4] + start[4]
            out[5 * LANES + lane] = x[5] + start[5]
            out[6 * LANES + lane] = x[6] + start[6]
            out[7 * LANES + lane] = x[7] + start[7]
            out[8 * LANES + lane] = x[8] + start[8]
            out[9 * LANES + lane] = x[9] + start[9]
            out[10 * LANES + lane] = x[10] + start[10]
            out[11 * LANES + lane] = x[11] + start[11]
            out[12 * LANES + lane] = x[12] + start[12]
            out[13 * LANES + lane] = x[13] + start[13]
            out[14 * LANES + lane] = x[14] + start[14]
            out[15 * LANES + lane] = x[15] + start[15]


@inlined
def _input(key: KeyTuple, nonce: np.uint64, block: np.uint64) -> Block:
    return (
        np.uint32(0x61707865), np.uint32(0x3320646E), np.uint32(0x79622D32), np.uint32(0x6B206574),
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
        np.uint32(block), np.uint32(block >> _HALF), np.uint32(nonce), np.uint32(nonce >> _HALF),
    )  # fmt: skip


@kernel
def _two_rounds(x: Block) -> Block:
    """A round on the columns and one on the diagonals."""
    x0, x4, x8, x12 = _quarter_round(x[0], x[4], x[8], x[12])
    x1, x5, x9, x13 = _quarter_round(x[1], x[5], x[9], x[13])
    x2, x6, x10, x14 = _quarter_round(x[2], x[6], x[10], x[14])
    x3, x7, x11, x15 = _quarter_round(x[3], x[7], x[11], x[15])
    x0, x5, x10, x15 = _quarter_round(x0, x5, x10, x15)
    x1, x6, x11, x12 = _quarter_round(x1, x6, x11, x12)
    x2, x7, x8, x13 = _quarter_round(x2, x7, x8, x13)
    x3, x4, x9, x14 = _quarter_round(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@kernel
def _quarter_round(
    a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    a = np.uint32(a + b)
    d = _rotate(d ^ a, 16)
    c = np.uint32(c + d)
    b = _rotate(b ^ c, 12)
    a = np.uint32(a + b)
    d = _rotate(d ^ a, 8)
    c = np.uint32(c + d)
    b = _rotate(b ^ c, 7)
    return a, b, c, d


@inlined
def _rotate(word: np.uint32, bits: int) -> np.uint32:
    return np.uint32(np.uint32(word) << np.uint32(bits) | np.uint32(word) >> np.uint32(32 - bits))
