"""Large arrays in files: the same numbers as in memory, no name on the disk, no more memory than a part takes."""

import errno
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from tallytree.support.large_arrays import LargeArrays, emptied, require_room


def squares(arrays, rows=1_000, cells=7):
    """An array that is written and summed part by part, in threads."""
    x, y = arrays.zeros((rows, cells)), arrays.empty((rows, cells), np.int32)

    def work(part):
        x[part] += np.arange(part.start, part.stop)[:, None]
        y[part] = x[part] ** 2 % 1_000
        return int(y[part].sum())

    sums = arrays.each(work, np.full(rows, cells))
    again = [int(y[part].sum()) for part in arrays.parts(np.full(rows, cells))]
    assert sum(sums) == sum(again)
    return x, y, sums


def test_files_hold_what_memory_holds(tmp_path):
    for at_once in (1, 50, 10**6):
        x, y, sums = squares(LargeArrays(at_once=at_once))
        in_files = squares(LargeArrays(threads=3, folder=tmp_path, least=0, at_once=at_once))
        assert in_files[2] == sums
        np.testing.assert_array_equal(in_files[0], x)
        np.testing.assert_array_equal(in_files[1], y)
    assert sums == [int((np.arange(1_000) ** 2 % 1_000).sum() * 7)]


def test_small_arrays_and_arrays_without_cells_are_in_memory(tmp_path):
    arrays = LargeArrays(folder=tmp_path / "is not there", least=800)
    assert arrays.zeros((99,)).sum() == 0
    assert arrays.zeros((0, 5)).shape == (0, 5)
    with pytest.raises(FileNotFoundError):
        arrays.zeros((100,))


def test_nothing_is_left_in_the_folder_while_arrays_are_used(tmp_path):
    kept = squares(LargeArrays(folder=tmp_path, least=0))
    assert list(tmp_path.iterdir()) == []
    assert kept[0][5, 0] == 5


def test_a_full_disk_is_an_error_when_the_array_is_made(tmp_path, monkeypatch):
    def full(handle, begin, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        LargeArrays(folder=tmp_path, least=0).zeros((10,))
    assert list(tmp_path.iterdir()) == []


def test_where_room_cannot_be_reserved_the_file_is_filled(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    x = LargeArrays(folder=tmp_path, least=0).zeros((3_000_000,))
    assert x.sum() == 0
    assert len(x) == 3_000_000


@pytest.mark.skipif(not hasattr(mmap, "MADV_REMOVE"), reason="only Linux empties a file that is in use")
def test_what_is_still_held_at_the_end_is_empty_and_other_folders_are_not(tmp_path):
    """Of two runs at once, the end of one takes nothing from the other."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    kept = LargeArrays(folder=other, least=0).zeros((1_000,))
    kept += 1
    with emptied(one):
        held = LargeArrays(folder=one, least=0).zeros((1_000,))
        held += 1
    assert held.sum() == 0
    assert kept.sum() == 1_000


def test_a_disk_without_room_is_refused_before_anything_is_made(tmp_path):
    require_room(tmp_path, 1_000)
    with pytest.raises(
        OSError, match=r"temp_directory: the disk has .* of the 1000000.0 GB that this may take"
    ) as error:
        require_room(tmp_path, 10**15)
    assert error.value.errno == errno.ENOSPC


PROGRAM = """
import re, sys
import numpy as np
from tallytree.support.large_arrays import LargeArrays
from pathlib import Path
arrays = LargeArrays(folder=Path(sys.argv[1]) if sys.argv[1] else None)
def most(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = most()
x = arrays.empty((50_000, 1_000))
def work(part): x[part] = 1.5
arrays.each(work, np.full(*x.shape))
print((most() - before) / 1_000)
"""


@pytest.mark.slow
def test_memory_is_that_of_the_parts(tmp_path):
    """400 MB in parts of 17 MB; in memory it takes all of them."""
    for folder, low, high in ((str(tmp_path), 0, 200), ("", 350, 500)):
        found = subprocess.run([sys.executable, "-c", PROGRAM, folder], capture_output=True, text=True, check=True)
        assert low <= float(found.stdout) < high
