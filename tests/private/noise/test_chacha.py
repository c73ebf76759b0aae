import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tallytree.private.noise.entropy import LANES, cell_words, key_from_seed, keystream, opened, own_word

KEY = key_from_seed(1)
LARGEST = 2**63 - 1


def block(key, nonce, number):
    """One block, beside 15 others that must not touch it."""
    numbers = np.array([number] + [7] * (LANES - 1), np.uint64)
    stream = np.empty(16 * LANES, np.uint32)
    with opened(key) as words:
        keystream(words, np.uint64(nonce), numbers, stream)
    return stream[::LANES].astype("<u4").tobytes()


def block_by_cryptography(key, nonce, number):
    """Block by block: `cryptography` refuses to carry from the counter's lower half to its upper."""
    start = number.to_bytes(8, "little") + nonce.to_bytes(8, "little")
    return Cipher(ChaCha20(key, start), mode=None).encryptor().update(bytes(64))


def words_of(key, cells):
    cells = np.array(cells, np.int64)
    words = np.empty(cells.size + 128, np.uint64)
    with opened(key) as key_words:
        cell_words(key_words, cells, np.empty(cells.size + LANES, np.uint64), words)
    return words[: cells.size]


def word_by_cryptography(key, nonce, number):
    at = 8 * (number % 8)
    return int.from_bytes(block_by_cryptography(key, nonce, number // 8)[at : at + 8], "little")


@pytest.mark.parametrize(
    ("key", "counter", "nonce", "expected"),
    [
        (
            bytes(range(32)),
            1,
            "000000090000004a00000000",
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
        ),
        (
            bytes(32),
            0,
            "000000000000000000000000",
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        ),
        (
            bytes(32),
            1,
            "000000000000000000000000",
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
        ),
        (
            bytes(31) + b"\x01",
            1,
            "000000000000000000000000",
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        ),
    ],
    ids=["2.3.2", "A.1 #1", "A.1 #2", "A.1 #3"],
)
def test_a_block_is_rfc_8439s_chacha20(key, counter, nonce, expected):
    """The RFC's words 12..15 are a 32-bit counter and a 96-bit nonce, ours two 64-bit numbers: the same 16 bytes."""
    words_12_to_15 = counter.to_bytes(4, "little") + bytes.fromhex(nonce)
    number, our_nonce = (int.from_bytes(words_12_to_15[at : at + 8], "little") for at in (0, 8))
    assert block(key, our_nonce, number).hex() == expected


def test_a_block_is_cryptographys_whatever_key_nonce_and_number():
    rng = np.random.default_rng(20)
    for _ in range(200):
        key = rng.bytes(32)
        nonce, number = (int.from_bytes(rng.bytes(8), "little") for _ in range(2))
        assert block(key, nonce, number) == block_by_cryptography(key, nonce, number)


@pytest.mark.parametrize("number", [0, 2**32 - 2, 2**32 - 1, 2**32, 2**60, 2**63])
@pytest.mark.parametrize("nonce", [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1])
def test_block_number_and_nonce_use_all_64_bits(nonce, number):
    assert block(KEY, nonce, number) == block_by_cryptography(KEY, nonce, number)


def test_lanes_are_blocks_side_by_side():
    numbers = np.random.default_rng(1).integers(0, 2**63, 5 * LANES).astype(np.uint64)
    stream = np.empty(16 * numbers.size, np.uint32)
    with opened(KEY) as words:
        keystream(words, np.uint64(9), numbers, stream)
    blocks = stream.reshape(5, 16, LANES).transpose(0, 2, 1).astype("<u4")
    assert blocks.tobytes() == b"".join(block_by_cryptography(KEY, 9, int(number)) for number in numbers)


def strange_orders():
    rng = np.random.default_rng(4)
    yield "in order", np.arange(2000)
    yield "one", [5]
    yield "none", []
    yield "a part of a block", np.arange(3)
    yield "not from a block's start", np.arange(3, 700)
    yield "from a later block", np.arange(8 * 10**9, 8 * 10**9 + 300)
    yield "backwards", np.arange(500)[::-1]
    yield "with a gap", np.delete(np.arange(400), [17, 200, 201])
    yield "the same again", np.repeat(np.arange(30), 5)
    yield "all the same", np.full(100, 77)
    yield "scattered", rng.integers(0, LARGEST, 300)
    yield "shuffled", rng.permutation(600)
    yield "the last", LARGEST - np.arange(40)[::-1]


@pytest.mark.parametrize("cells", [pytest.param(cells, id=name) for name, cells in strange_orders()])
def test_a_cell_has_its_word_of_the_main_stream_in_whatever_order(cells):
    expected = [word_by_cryptography(KEY, 0, int(cell)) for cell in cells]
    assert words_of(KEY, cells).tolist() == expected


@pytest.mark.parametrize("cell", [0, 1, 8, 2**32, LARGEST])
@pytest.mark.parametrize("number", [0, 1, 7, 8, 1000])
def test_a_cells_own_words_are_those_of_nonce_2_to_the_63_plus_cell(cell, number):
    with opened(KEY) as words:
        assert int(own_word(words, cell, number)) == word_by_cryptography(KEY, 2**63 + cell, number)


def test_no_two_addresses_share_a_word():
    """Among 64-bit words, 30,000 have a pair in common with probability 2^-35 if they are independent."""
    cells = np.concatenate([np.arange(10_000), LARGEST - np.arange(100)])
    with opened(KEY) as words:
        own = [int(own_word(words, int(cell), number)) for cell in cells[::10] for number in range(18)]
    main = words_of(KEY, cells).tolist()
    assert len(set(main + own)) == len(main) + len(own)


def test_the_words_of_a_key_are_cleared_after_use_and_after_an_error():
    with opened(KEY) as words:
        assert words.astype("<u4").tobytes() == KEY
    assert not words.any()
    with pytest.raises(RuntimeError), opened(KEY) as words:
        raise RuntimeError
    assert not words.any()
