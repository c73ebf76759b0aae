"""The reader of the data that the authors of Kuo et al. published. They are not in this repository."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tallytree.datasets import kuo


def taxis():
    cells = np.zeros((28, 5), dtype=np.int64)
    cells[0, 0], cells[17, 4], cells[18, 1] = 3, 2, 7
    return cells


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / kuo.TAXI_ARRAY, taxis())
    np.save(tmp_path / kuo.HAWAIIAN_ARRAY, np.array([40.0, 0.0, 2.0]))
    return tmp_path


def test_taxis_begin_with_size_1_and_blocks_with_size_0(folder):
    read = kuo.read_coco(folder)
    assert [tuple(row.values()) for row in read.taxi.rows.to_pylist()] == [
        ("lower", "lower-00", 1, 3),
        ("lower", "lower-17", 5, 2),
        ("upper", "upper-18", 2, 7),
    ]
    assert (read.taxi.leaves.num_rows, read.taxi.levels, read.taxi.largest) == (28, ("half", "neighbourhood"), 5)
    assert [tuple(row.values()) for row in read.hawaiian.rows.to_pylist()] == [
        ("United States", 0, 40),
        ("United States", 2, 2),
    ]
    assert read.hawaiian.largest == 2


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (taxis()[:5], r"^folder: taxi_level3.npy has 5 rows, where the authors' has 28 neighbourhoods$"),
        (
            taxis()[0],
            r"^folder: taxi_level3.npy has shape \(5,\) and type int64; 2 dimensions of numbers are expected$",
        ),
        (taxis() - 1, "^folder: taxi_level3.npy has a cell that is no whole number ≥ 0; copy it again$"),
        (taxis() + 0.5, "^folder: taxi_level3.npy has a cell that is no whole number ≥ 0; copy it again$"),
        (taxis() * np.nan, "^folder: taxi_level3.npy has a cell that is no whole number ≥ 0; copy it again$"),
        (taxis().astype(str), "^folder: taxi_level3.npy has shape"),
        (taxis().astype(object), "^folder: taxi_level3.npy is no NumPy array of numbers; copy it again$"),
    ],
)
def test_arrays_that_are_not_the_authors_are_refused(folder, cells, sentence):
    np.save(folder / kuo.TAXI_ARRAY, cells)
    with pytest.raises(ValueError, match=sentence):
        kuo.read_coco(folder)


def test_a_file_that_is_no_array_or_missing_is_refused(folder):
    (folder / kuo.HAWAIIAN_ARRAY).write_text("a page that says 404")
    with pytest.raises(ValueError, match=r"^folder: Hawaiian_nation_H.npy .*copy it again$"):
        kuo.read_coco(folder)
    (folder / kuo.HAWAIIAN_ARRAY).unlink()
    with pytest.raises(FileNotFoundError, match=r"give the folder data of a copy of github\.com/yzk5145/coco$"):
        kuo.read_coco(folder)


def test_the_papers_data_in_the_authors_shape_have_the_papers_numbers(shared_data, tmp_path):
    """Section 6.1: groups, members, different sizes."""
    taxi = pq.read_table(shared_data / "taxi_2013_manhattan.parquet")
    cells = np.zeros((28, 4_919), dtype=np.int64)
    row = [int(name[-2:]) for name in taxi["neighbourhood"].to_pylist()]
    cells[row, taxi["size"].to_numpy() - 1] = taxi["groups"].to_numpy()
    blocks = pq.read_table(shared_data / "hawaiian_2010_blocks_nation.parquet")
    np.save(tmp_path / kuo.TAXI_ARRAY, cells)
    np.save(tmp_path / kuo.HAWAIIAN_ARRAY, np.bincount(blocks["size"].to_numpy(), blocks["groups"].to_numpy()))
    read = kuo.read_coco(tmp_path)
    assert (read.taxi.n_groups, read.taxi.n_members, read.taxi.n_distinct_sizes) == (360_872, 130_962_398, 3_128)
    nation = read.hawaiian
    assert (nation.n_groups, nation.n_members, nation.n_distinct_sizes) == (11_155_486, 540_383, 224)
    order = [("half", "ascending"), ("neighbourhood", "ascending"), ("size", "ascending")]
    assert read.taxi.rows.to_pylist() == taxi.sort_by(order).to_pylist()
