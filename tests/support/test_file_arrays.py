"""Arrays in files: what is read is what was written, and sums and parts are those of the arrays in memory."""

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.support.arrays import sum_by_key
from tallytree.support.file_arrays import ArrayWriter, FileArray, partition_files, sum_files, written

columns = (
    st.integers(0, 60)
    .flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 40), min_size=n, max_size=n)] * 2))
    .map(lambda both: tuple(np.array(column, dtype=np.int64) for column in both))
)


@pytest.fixture
def array(tmp_path):
    with ArrayWriter(tmp_path / "a") as writer:
        for piece in ([3, 1], [], [4, 1, 5]):
            writer.append(np.array(piece, dtype=np.int64))
    return writer.done()


def test_slices_are_read_as_they_were_written(array):
    assert len(array) == 5
    assert array.read().tolist() == [3, 1, 4, 1, 5]
    assert array.read(1, 4).tolist() == [1, 4, 1]
    assert array.read(4, 9).tolist() == [5]
    assert array.read(5).tolist() == array.read(9, 12).tolist() == []
    assert [block.tolist() for block in array.blocks(2)] == [[3, 1], [4, 1], [5]]
    assert array.read().dtype == np.int64


def test_only_the_user_can_read_the_file(array):
    assert stat.S_IMODE(array.path.stat().st_mode) == 0o600


def test_a_file_is_not_written_over(array):
    with pytest.raises(FileExistsError):
        ArrayWriter(array.path)


def test_a_file_that_was_cut_short_is_an_error(array):
    array.path.write_bytes(array.path.read_bytes()[:-3])
    with pytest.raises(OSError, match="is shorter than it was written"):
        array.read()


def test_the_place_of_a_value_is_found_in_a_long_file(tmp_path):
    ascending = np.sort(np.random.default_rng(0).integers(0, 10**6, 5_000))
    array = written(tmp_path / "a", ascending)
    for value in (-1, 0, int(ascending[17]), int(ascending[4_000]), 500_000, 10**7):
        assert array.place(value) == np.searchsorted(ascending, value)


@given(columns, st.integers(1, 30), st.booleans())
@settings(max_examples=60)
def test_sums_of_files_are_those_in_memory(both, rows, ascending):
    keys, values = both
    keys = np.sort(keys) if ascending else keys
    with TemporaryDirectory() as place:
        folder = Path(place)
        files = written(folder / "k", keys), written(folder / "v", values)
        found = sum_files(*files, lambda some: some // 3, folder, "sum", rows=rows)
        expected = sum_by_key(keys // 3, values)
        assert [each.read().tolist() for each in found] == [each.tolist() for each in expected]
        assert {file.name for file in folder.iterdir()} == {"k", "v", "sum-keys", "sum-values"}


@given(columns, st.integers(1, 30))
@settings(max_examples=60)
def test_parts_of_files_are_a_stable_sort(both, rows):
    keys, values = both
    part = keys % 5
    with TemporaryDirectory() as place:
        folder = Path(place)
        files = [written(folder / "k", keys), written(folder / "v", values)]
        found = partition_files(files, lambda some: some % 5, np.bincount(part, minlength=5), folder, "p", rows=rows)
        order = np.argsort(part, kind="stable")
        assert [each.read().tolist() for each in found] == [keys[order].tolist(), values[order].tolist()]


def test_an_array_is_a_path_and_a_length(tmp_path):
    assert FileArray(tmp_path / "a", 3) == FileArray(tmp_path / "a", 3)
