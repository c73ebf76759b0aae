"""Files that are written in one step."""

import os
import stat

import pytest

from tallytree.support import whole_files
from tallytree.support.whole_files import write_whole


@pytest.mark.parametrize("content", ["text é", "text é".encode(), lambda place: place.write_text("text é", "utf-8")])
def test_a_file_is_replaced_and_has_its_mode(tmp_path, content):
    path = tmp_path / "file"
    path.write_text("earlier")
    write_whole(path, content, mode=0o600)
    assert path.read_text("utf-8") == "text é"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_that_may_not_be_replaced_stays(tmp_path):
    path = tmp_path / "file"
    write_whole(path, "earlier", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, "later", replace=False)
    assert path.read_text() == "earlier"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("replace", [True, False])
def test_what_is_written_is_on_the_disk_before_it_has_its_name_and_the_name_after(tmp_path, monkeypatch, replace):
    path, seen = tmp_path / "file", []

    def flush(place):
        seen.append((place.is_dir(), path.exists()))

    monkeypatch.setattr(whole_files, "flush", flush)
    write_whole(path, "text", replace=replace)
    assert seen == [(False, False), (True, True)]


def test_what_fails_half_way_leaves_the_earlier_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("earlier")

    def half(place):
        place.write_text("la")
        raise OSError(28, os.strerror(28))

    with pytest.raises(OSError, match="No space"):
        write_whole(path, half)
    assert path.read_text() == "earlier"
    assert [*tmp_path.iterdir()] == [path]
