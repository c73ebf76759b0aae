import secrets

import numpy as np
import pytest

from tallytree.private.noise.entropy import derive, fresh_key, key_from_seed, opened

KEY = key_from_seed(1)


def test_fresh_keys_are_32_bytes_and_never_repeat():
    keys = {fresh_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert {len(key) for key in keys} == {32}


def test_a_fresh_key_is_32_bytes_that_the_system_is_asked_for(monkeypatch):
    """Its repetitions would not show that it is made of fewer."""
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(range(100, 100 + size)))
    assert fresh_key() == bytes(range(100, 132))


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


def open_and_close(key):
    with opened(key):
        pass


@pytest.mark.parametrize("use", [derive, open_and_close])
@pytest.mark.parametrize("key", [b"secret", b"", KEY + b"\0"])
def test_a_key_of_the_wrong_length_is_refused_without_showing_it(use, key):
    with pytest.raises(
        ValueError, match=rf"key must be 32 bytes long, got {len(key)}; take one from fresh_key"
    ) as raised:
        use(key)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("use", [derive, open_and_close])
@pytest.mark.parametrize("key", ["secret" * 6, bytearray(32), None, 12345])
def test_a_key_of_the_wrong_kind_is_refused_without_showing_it(use, key):
    with pytest.raises(TypeError, match=rf"key must be bytes, got {type(key).__name__}; take one from") as raised:
        use(key)
    assert "secret" not in str(raised.value)
    assert "12345" not in str(raised.value)
