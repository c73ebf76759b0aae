"""Who can put files into a folder: its owner, and the owners of all that leads to it."""

import os

import pytest

from tallytree.support.trusted_folders import why_untrusted as cached

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no POSIX owners")
FILE = "kernel.py311.nbi"


def why_untrusted(folder):
    return cached.__wrapped__(folder, (".nbi", ".nbc"))


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, both of this user's alone."""
    made = tmp_path / "above" / "cache"
    made.mkdir(parents=True)
    (made / FILE).touch(mode=0o644)
    for path in (made, made.parent):
        path.chmod(0o755)
    return made


def test_a_folder_of_ones_own_is_trusted(folder):
    assert why_untrusted(folder) is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_not(folder, mode):
    folder.chmod(mode)
    assert why_untrusted(folder) == f"other users can write to '{folder}'"


@pytest.mark.parametrize(("mode", "trusted"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)])
def test_above_it_a_sticky_folder_will_do(folder, mode, trusted):
    folder.parent.chmod(mode)
    assert why_untrusted(folder) == (None if trusted else f"other users can write to '{folder.parent}'")


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_to_is_not(folder, mode):
    (folder / "notes.txt").touch()
    (folder / "notes.txt").chmod(mode)
    assert why_untrusted(folder) is None
    (folder / FILE).chmod(mode)
    assert why_untrusted(folder) == f"other users can write to '{folder / FILE}'"


def test_a_file_that_is_a_link_is_not(folder, tmp_path):
    (folder / FILE).rename(tmp_path / FILE)
    (folder / FILE).symlink_to(tmp_path / FILE)
    assert why_untrusted(folder) == f"'{folder / FILE}' is no regular file"


def test_links_are_followed_to_what_they_lead_to(folder, tmp_path):
    (tmp_path / "direct").symlink_to(folder)
    (tmp_path / "relative").symlink_to("above/../above/cache")
    assert why_untrusted(tmp_path / "direct") is None
    assert why_untrusted(tmp_path / "relative") is None
    folder.parent.chmod(0o777)
    for link in ("direct", "relative"):
        assert why_untrusted(tmp_path / link) == f"other users can write to '{folder.parent}'"
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be examined" in why_untrusted(tmp_path / "loop")


def test_the_folder_behind_a_link_may_not_be_sticky_either(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o1777)
    assert why_untrusted(tmp_path / "link") == f"other users can write to '{folder}'"


def test_a_missing_folder_is_not_trusted(tmp_path):
    assert "cannot be examined (No such file" in why_untrusted(tmp_path / "nothing")


@pytest.mark.parametrize("owned", ["folder", "above", "file"])
def test_what_belongs_to_another_user_is_not_trusted(folder, owned, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can give files to another user")
    path = {"folder": folder, "above": folder.parent, "file": folder / FILE}[owned]
    os.chown(path, 65534, 65534)
    assert why_untrusted(folder) == f"'{path}' belongs to another user"
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert why_untrusted(folder) is None  # their own, below folders of root
