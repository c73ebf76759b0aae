"""Tables written in slices: the files that saving the same tables in memory makes, and gone with what holds them."""

import errno
import gc
import os
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import KeptFolder
from tallytree.mechanisms import Measurement, Noise
from tallytree.release import level_files, level_tables, released_tables
from tallytree.release.files import TableWriter, write_parquet
from tallytree.release.level_files import MeasurementFiles, TableFiles
from tallytree.release.level_tables import FileTable, NodeTable, read_all
from tallytree.release.released_tables import measurement_tables

NOISE = Noise("discrete_laplace", Fraction(2))
EMPTY = pa.table({"count": pa.array([], pa.int64())})


@pytest.fixture
def small_slices(monkeypatch):
    for module in (level_tables, released_tables, level_files):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 4)
    for module in (released_tables, level_files):
        monkeypatch.setattr(module, "CELLS_AT_ONCE", 32)


@pytest.fixture
def folder(tmp_path):
    kept = KeptFolder(tmp_path)
    yield kept
    kept.remove()


@pytest.fixture
def tree():
    return tt.Hierarchy.from_values("leaf", [f"leaf {i}" for i in range(40)])


def same_file(found, expected, folder):
    """Whether two tables are saved as the same bytes."""
    for name, table in (("found", found), ("expected", expected)):
        write_parquet(table, folder / name)
    return (folder / "found").read_bytes() == (folder / "expected").read_bytes()


@pytest.mark.parametrize("pieces", [[], [3], [4], [5], [1, 2, 6, 0, 4], [17, 1], [40]])
def test_a_table_in_pieces_is_the_file_of_the_whole(small_slices, tree, folder, tmp_path, pieces):
    nodes = np.arange(sum(pieces), dtype=np.int64)
    counts = pa.table({"count": nodes**2})
    with TableFiles(tree, EMPTY, folder) as files:
        begin = 0
        for piece in pieces:
            files.append(1, nodes[begin : begin + piece], counts.slice(begin, piece))
            begin += piece
        made = files.done()
    assert made["leaf"].num_rows == len(nodes)
    assert made["all"].num_rows == 0
    assert same_file(made["leaf"], NodeTable(tree, 1, nodes, counts), tmp_path)


def measured(first, values, width, first_cell=0):
    nodes = np.arange(first, first + len(values) // width, dtype=np.int64)
    offsets = np.arange(len(nodes) + 1, dtype=np.int64) * width
    return Measurement("leaf", "histogram", nodes, np.array(values, np.int8), offsets, NOISE, first_cell)


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("pieces", [[], [1], [4, 1], [1, 1, 9, 2], [13, 13]])
def test_measurements_in_pieces_are_the_file_of_the_whole(small_slices, tree, folder, tmp_path, pieces, width):
    taken, begin = [], 0
    for piece in pieces:
        taken.append(measured(begin, np.arange(piece * width) % 90, width))
        begin += piece
    column = "value" if width == 1 else "values"
    with MeasurementFiles(tree, column, folder) as files:
        for each in taken:
            files.take(each)
        made = files.done()
    expected = measurement_tables(tree, taken, column)
    assert all(same_file(made[level], expected[level], tmp_path) for level in tree.levels)


def test_the_parts_of_a_node_are_one_row(small_slices, tree, folder, tmp_path):
    taken = [measured(i, [i] * 3, 3) for i in range(6)]
    for node in (6, 7):
        taken.append(measured(node, [1] * 50, 50))
        taken += [measured(node, [2] * 30, 30, first_cell=50 + 30 * part) for part in range(3)]
    taken += [measured(i, [i] * 3, 3) for i in range(8, 20)]
    with MeasurementFiles(tree, "values", folder) as files:
        for each in taken:
            files.take(each)
        made = files.done()["leaf"]
    assert same_file(made, measurement_tables(tree, taken, "values")["leaf"], tmp_path)
    assert read_all(made)["values"][6].as_py() == [1] * 50 + [2] * 90


def test_what_a_file_says_of_itself_is_in_every_slice(small_slices, tree, folder):
    with TableFiles(tree, EMPTY, folder, {b"about": b"this"}) as files:
        files.append(1, np.arange(9), pa.table({"count": np.arange(9)}))
        made = files.done()
    assert all(read_all(each).schema.metadata[b"about"] == b"this" for each in made.values())


def test_a_file_is_linked_where_it_can_be(tree, folder, tmp_path, monkeypatch):
    with TableFiles(tree, EMPTY, folder) as files:
        files.append(1, np.arange(9), pa.table({"count": np.arange(9)}))
        made = files.done()["leaf"]
    write_parquet(made, tmp_path / "linked")
    assert (tmp_path / "linked").samefile(made.path)

    def fail(*_):
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "link", fail)
    write_parquet(made, tmp_path / "copied")
    assert not (tmp_path / "copied").samefile(made.path)
    assert (tmp_path / "copied").read_bytes() == (tmp_path / "linked").read_bytes()


def test_a_saved_release_s_file_is_copied(tree, folder, tmp_path):
    with TableFiles(tree, EMPTY, folder) as files:
        made = files.done()["leaf"]
    write_parquet(FileTable(made.path, made.num_rows), tmp_path / "copied")
    assert not (tmp_path / "copied").samefile(made.path)


@pytest.mark.slow
def test_files_are_removed_with_the_last_table(tree, tmp_path):
    kept = KeptFolder(tmp_path)
    with TableFiles(tree, EMPTY, kept) as files:
        made = files.done()
    place = kept.path
    leaf = made["leaf"]
    del files, kept, made
    gc.collect()
    assert place.is_dir()
    assert leaf.read(0, 0).column_names == ["leaf", "count"]
    del leaf
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_the_error_that_is_told(tmp_path, monkeypatch):
    rows = pa.table({"count": [1]})

    class Full:
        is_open = True

        def write_table(self, rows):
            raise OSError(errno.ENOSPC, "No space left on device")

        def add_key_value_metadata(self, metadata):
            raise pa.ArrowInvalid("Cannot add key-value metadata to closed file")

        def close(self):
            raise pa.ArrowInvalid("closed")

    monkeypatch.setattr(pq, "ParquetWriter", lambda *_, **__: Full())
    with pytest.raises(OSError, match="No space left"), TableWriter(tmp_path / "x.parquet", rows.schema) as writer:
        writer.write(rows)
