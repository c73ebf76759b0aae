import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from tallytree.privacy.entropy import derive, fresh_key, key_from_seed, next_word, open_streams, seek

KEY = key_from_seed(1)


def keystream(key, cell, block, words):
    stream = open_streams(key)
    seek(stream, np.uint64(cell), np.uint64(block))
    return np.array([next_word(stream) for _ in range(words)], "<u8").tobytes()


def keystream_by_cryptography(key, cell, block, words):
    """Block by block: `cryptography` refuses to carry from the counter's lower half to its upper."""
    blocks = b""
    for number in range(block, block + words // 8 + 1):
        start = number.to_bytes(8, "little") + cell.to_bytes(8, "little")
        blocks += Cipher(ChaCha20(key, start), mode=None).encryptor().update(bytes(64))
    return blocks[: 8 * words]


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
def test_a_stream_is_rfc_8439s_chacha20(key, counter, nonce, expected):
    """The RFC's words 12..15 are a 32-bit counter and a 96-bit nonce, ours two 64-bit numbers: the same 16 bytes."""
    words_12_to_15 = counter.to_bytes(4, "little") + bytes.fromhex(nonce)
    block, cell = (int.from_bytes(words_12_to_15[at : at + 8], "little") for at in (0, 8))
    assert keystream(key, cell, block, 8).hex() == expected


def test_a_stream_is_cryptographys_chacha20_wherever_it_is_read():
    rng = np.random.default_rng(20)
    for _ in range(200):
        key, words = rng.bytes(32), int(rng.integers(1, 40))
        cell, block = (int.from_bytes(rng.bytes(8), "little") for _ in range(2))
        assert keystream(key, cell, block, words) == keystream_by_cryptography(key, cell, block, words)


@pytest.mark.parametrize("block", [0, 2**32 - 2, 2**32 - 1, 2**32, 2**63])
@pytest.mark.parametrize("cell", [0, 1, 2**32 - 1, 2**32, 2**63 - 1])
def test_the_block_counter_carries_and_cells_use_all_64_bits(cell, block):
    assert keystream(KEY, cell, block, 33) == keystream_by_cryptography(KEY, cell, block, 33)


def test_seek_forgets_what_was_read_before():
    stream = open_streams(KEY)
    seek(stream, np.uint64(5), np.uint64(0))
    first = [next_word(stream) for _ in range(11)]
    seek(stream, np.uint64(6), np.uint64(0))
    other = [next_word(stream) for _ in range(3)]
    seek(stream, np.uint64(5), np.uint64(0))
    assert [next_word(stream) for _ in range(11)] == first
    assert other != first[:3]


def test_fresh_keys_are_32_bytes_and_never_repeat():
    keys = {fresh_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert {len(key) for key in keys} == {32}


def test_a_seed_stands_for_one_key_for_ever():
    assert key_from_seed(1).hex() == "c32e531fcc99aeb8dbd86afe6df87a4a7492f8f11f188459779b3371f7463923"
    seeds = [0, 1, -1, 127, 128, 255, 256, -128, -129, 2**64, -(2**64), 10**5000]
    assert len({key_from_seed(seed) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_a_seed_is_an_int(seed):
    with pytest.raises(TypeError, match=f"seed must be an int, got {seed!r}"):
        key_from_seed(seed)


def test_an_address_stands_for_one_subkey_for_ever():
    assert derive(KEY, "measure", 3).hex() == "75e43d5231cbcf28a6ecdf85da3ada32800883c0e839407ebef7841ba1b9187d"


def test_different_addresses_have_different_subkeys():
    strings = [(), ("",), ("", ""), ("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), ("é",), ("e\u0301",), ("\ud800",)]
    integers = [(0,), (1,), (1, 1), (11,), (-1,), (255,), (256,), (1, 0), (0, 1), (2**64,), (10**5000,)]
    look_alikes = [("1",), ("\x01",), ("i",), ("s", 1), ("\0",)]
    addresses = strings + integers + look_alikes
    subkeys = {derive(KEY, *address) for address in addresses} | {KEY, derive(derive(KEY, "a"), "b")}
    assert len(subkeys) == len(addresses) + 2
    assert {len(subkey) for subkey in subkeys} == {32}
    assert derive(key_from_seed(2), "a") != derive(KEY, "a")


@pytest.mark.parametrize("part", [True, 1.5, None, b"a", ("a",), np.int64(1)])
def test_an_address_takes_strings_and_ints(part):
    with pytest.raises(TypeError, match=r"address takes str and int, got .*; convert it"):
        derive(KEY, "a", part)


@pytest.mark.parametrize("use", [derive, open_streams])
@pytest.mark.parametrize("key", [b"secret", b"", KEY + b"\0"])
def test_a_key_of_the_wrong_length_is_refused_without_showing_it(use, key):
    with pytest.raises(
        ValueError, match=rf"key must be 32 bytes long, got {len(key)}; take one from fresh_key"
    ) as raised:
        use(key)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("use", [derive, open_streams])
@pytest.mark.parametrize("key", ["secret" * 6, bytearray(32), None, 12345])
def test_a_key_of_the_wrong_kind_is_refused_without_showing_it(use, key):
    with pytest.raises(TypeError, match=rf"key must be bytes, got {type(key).__name__}; take one from") as raised:
        use(key)
    assert "secret" not in str(raised.value)
    assert "12345" not in str(raised.value)
