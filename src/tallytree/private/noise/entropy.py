"""Where noise comes from: keys, and subkeys for addresses.

A draw is a function of (key, address, cell) alone, whatever the order, the chunking or the engine, so a task that
runs twice gives the same noise twice.
"""

from __future__ import annotations

import hashlib
import secrets

from tallytree.accounting.scales import shown

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
