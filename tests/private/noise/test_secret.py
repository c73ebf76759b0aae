"""The publisher's secret: who may read it, and what is refused."""

import os
import secrets

import pytest

from tallytree.private.noise.secret import new_secret, read_secret


@pytest.fixture
def secret(tmp_path):
    return new_secret(tmp_path / "secret")


def test_a_new_secret_is_read_as_it_was_made_and_no_two_are_the_same(tmp_path, secret):
    other = new_secret(tmp_path / "other")
    assert len(read_secret(secret)) == 32
    assert read_secret(secret) == read_secret(str(secret))
    assert read_secret(secret) != read_secret(other)
    assert secret.stat().st_mode & 0o777 == 0o600


def test_a_new_secret_is_32_bytes_that_the_system_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes(range(100, 100 + size)))
    assert read_secret(new_secret(tmp_path / "made")) == bytes(range(100, 132))


def test_a_secret_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        made = new_secret(tmp_path / "made")
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_never_overwritten(secret):
    before = secret.read_bytes()
    with pytest.raises(FileExistsError, match=r"^secret: .* exists; a secret is never overwritten"):
        new_secret(secret)
    assert secret.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_secret_that_others_may_read_or_change_is_refused(secret, mode):
    secret.chmod(mode)
    with pytest.raises(PermissionError, match=rf"^secret: .* has the mode {mode:04o}, .* mode 0600$"):
        read_secret(secret)


def test_a_secret_of_another_user_is_refused(secret, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: secret.stat().st_uid + 1)
    if secret.stat().st_uid == 0:  # what belongs to root is trusted: secrets that a container is given do
        assert len(read_secret(secret)) == 32
        os.chown(secret, 12345, -1)
    with pytest.raises(PermissionError, match=r"or belongs to another user"):
        read_secret(secret)


def test_a_damaged_secret_is_refused_and_never_shown(secret):
    line = secret.read_text()
    mark, key, check = line.strip().split(":")
    other = "0" if key[5] != "0" else "1"
    damaged = ["", "\n", line[:-3], line + line, line.upper(), key, f"{mark}:{key[:5]}{other}{key[6:]}:{check}\n",
               f"{mark}:{key}:00000000", line + "x" * 10**6, "\xff\x00"]  # fmt: skip
    for text in damaged:
        secret.write_text(text)
        with pytest.raises(ValueError, match=r"holds no secret of tallytree, or a damaged one") as caught:
            read_secret(secret)
        assert key[:8] not in str(caught.value)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^secret: no file at .*; make one with `tallytree secret new`$"):
        read_secret(tmp_path / "absent")
    os.mkfifo(tmp_path / "fifo", 0o600)
    for place in (tmp_path / "fifo", tmp_path):
        with pytest.raises((ValueError, OSError), match=r"^secret: .* (is not a file|cannot be read)"):
            read_secret(place)
    with pytest.raises(TypeError, match=r"^secret: int must be the path"):
        read_secret(7)
    with pytest.raises(TypeError, match=r"^secret: bytes must be the path"):
        new_secret(b"made")
