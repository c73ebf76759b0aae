"""The publisher's secret: a file of its own, from which the keys of named runs are derived.

Who has the secret and a release can compute its noise and subtract it, so the file is as confidential as the records.
It is one line of text: a mark, 64 hexadecimal digits, and a checksum, which refuses a file that was cut or mistyped.
Messages never show any of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from pathlib import Path

from tallytree.private.noise.entropy import KEY_BYTES
from tallytree.support.whole_files import write_whole

_LINE = re.compile(rf"tallytree-secret-1:([0-9a-f]{{{2 * KEY_BYTES}}}):([0-9a-f]{{8}})\n?")
_MOST_BYTES = 200


def new_secret(path: str | os.PathLike[str]) -> Path:
    """Make a file with a new secret, readable by its owner alone (mode 0600).

    Args:
        path: where to; nothing may be there yet.

    Raises:
        FileExistsError: something is there; a secret is never overwritten.
        OSError: the file cannot be made.
        TypeError: not a path.
    """
    target = _path(path)
    key = secrets.token_bytes(KEY_BYTES)
    line = f"tallytree-secret-1:{key.hex()}:{_checksum(key)}\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(_exists(target))
    try:  # in one step: part of a secret is none, and would be in the way of the next attempt
        write_whole(target, line, mode=0o600, replace=False)
    except FileExistsError:
        raise FileExistsError(_exists(target)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror or "it could not be written", str(target)) from None
    return target


def read_secret(path: str | os.PathLike[str]) -> bytes:
    """The 32-byte secret in a file that `new_secret` made.

    Raises:
        FileNotFoundError: there is no such file.
        PermissionError: others than its owner may read or change the file, or the owner is another user.
        ValueError: the file holds no secret of tallytree.
        OSError: it cannot be read.
        TypeError: not a path.
    """
    name = repr(str(_path(path)))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not wait for a writer
    except FileNotFoundError:
        raise FileNotFoundError(f"secret: no file at {name}; make one with `tallytree secret new`") from None
    except OSError as error:
        raise OSError(f"secret: {name} cannot be read ({error.strerror}); give a file that you may read") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"secret: {name} is not a file; make one with `tallytree secret new`")
        if status.st_mode & 0o077 or status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(
                f"secret: {name} has the mode {stat.S_IMODE(status.st_mode):04o}, or belongs to another user; "
                f"only its owner may read it, so make it yours with mode 0600"
            )
        text = os.read(handle, _MOST_BYTES).decode("ascii", "replace")
    finally:
        os.close(handle)
    found = _LINE.fullmatch(text)
    if found is None or _checksum(bytes.fromhex(found[1])) != found[2]:
        raise ValueError(
            f"secret: {name} holds no secret of tallytree, or a damaged one; restore it from a copy, or make a new one "
            "with `tallytree secret new`"
        )
    return bytes.fromhex(found[1])


def _path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"secret: {type(path).__name__} must be the path of a file made by `tallytree secret new`")
    return Path(path)


def _exists(target: Path) -> str:
    return f"secret: {str(target)!r} exists; a secret is never overwritten, so choose another file"


def _checksum(key: bytes) -> str:
    """Detects a mistake in the file; of a 32-byte random key it reveals nothing that helps to guess it."""
    return hashlib.blake2b(key, digest_size=4, person=b"tallytree check").hexdigest()
