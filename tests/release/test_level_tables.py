"""Path columns are dictionaries inside, and strings for everybody else."""

from functools import partial
from threading import get_ident

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from tallytree.release import files as files_module
from tallytree.release import level_tables
from tallytree.release import release as release_module
from tallytree.release.files import write_parquet
from tallytree.release.level_tables import FileTable, NodeTable, read_all
from tallytree.sources.leaf_paths import decoded

PATHS = ["o_state", "o_county", "d_state", "d_county"]


@pytest.fixture(scope="module")
def areas():
    leaves = pa.table({"state": ["A", "A", "B", "B", "C"], "county": ["x", "y", "x", "z", "ü"]})
    return tt.Hierarchy.from_table(leaves, ["state", "county"])


@pytest.fixture(scope="module")
def release(areas):
    rng = np.random.default_rng(0)
    origin, destination = (areas.leaf_table().take(rng.integers(0, 5, 400)) for _ in "od")
    columns = [*origin.columns, *destination.columns]
    trips = pa.table(dict(zip(PATHS, columns, strict=True)))
    return tt.release_flows(
        trips, origins=areas, destinations=areas, origin=PATHS[:2], destination=PATHS[2:],
        budget=tt.Budget(epsilon=1), neighboring="add_remove", seed=1,
    )  # fmt: skip


def test_paths_as_dictionaries_are_the_labels_of_the_nodes(areas):
    product = tt.Product({"o": areas, "d": areas}, order=["d", "o", "d", "o"])
    nodes = np.array([24, 0, 7, 7, 3, 24])
    coded = product.coded_paths(4, nodes)
    assert all(pa.types.is_dictionary(kind) for kind in coded.schema.types)
    counties = areas.leaf_table().to_pylist()
    for row, node in zip(coded.to_pylist(), nodes.tolist(), strict=True):
        assert tuple(row.values()) == (*counties[node // 5].values(), *counties[node % 5].values())
    for column in coded.columns:  # pandas and polars take distinct labels only, and files want no others
        labels = column.chunk(0).dictionary.to_pylist()
        assert labels == list(dict.fromkeys(column.to_pylist()))
    assert product.path_table(4, nodes).equals(decoded(coded))
    assert set(product.path_table(4, nodes).schema.types) == {pa.large_string()}


def test_a_table_has_strings_and_dictionaries_if_asked(release, tmp_path, monkeypatch):
    monkeypatch.setattr(level_tables, "ROWS_AT_ONCE", 7)  # several row groups, each with labels of its own
    loaded = tt.Release.load(release.save(tmp_path / "out"))
    plain = release.table("o_county")
    assert [plain.schema.field(name).type for name in PATHS] == [pa.large_string()] * 4
    for each in (release, loaded):
        table = each.table("o_county", dictionaries=True, alpha=0.1)
        assert all(pa.types.is_dictionary(table.schema.field(name).type) for name in PATHS)
        assert decoded(table).equals(each.table("o_county", alpha=0.1))
        assert each.table("o_county").equals(plain)
        frame = each.to_pandas("o_county", dictionaries=True)
        assert isinstance(frame["o_county"].dtype, pandas.CategoricalDtype)
        assert frame["o_county"].tolist() == plain.column("o_county").to_pylist()
        assert polars.from_arrow(table)["o_county"].to_list() == plain.column("o_county").to_pylist()
    assert loaded.measurements("o_county").equals(release.measurements("o_county"))


def test_other_readers_see_strings(release, tmp_path):
    release.save(tmp_path / "out")
    for kind in ("tables", "measurements"):
        file = tmp_path / "out" / kind / "o_county.parquet"
        of_level = partial(release.table, unbiased=True) if kind == "tables" else release.measurements
        made = of_level("o_county")  # the verdict is made when a table is read
        wanted = made.select([name for name in made.column_names if name != "quality"])
        assert pq.read_table(file).equals(wanted)
        frame = polars.read_parquet(file)
        assert [frame.schema[name] for name in PATHS] == [polars.String] * 4
        assert pandas.read_parquet(file)["o_county"].tolist() == wanted.column("o_county").to_pylist()
        assert not isinstance(pandas.read_parquet(file)["o_county"].dtype, pandas.CategoricalDtype)
        rows = duckdb.sql(f"SELECT * FROM '{file}'")
        assert [str(kind) for kind in rows.types[:4]] == ["VARCHAR"] * 4
        assert rows.fetchall() == [tuple(row.values()) for row in wanted.to_pylist()]


def test_labels_of_any_number_are_written_once_a_row_group(tmp_path):
    """Above 1 MiB of labels Parquet's writer goes over to text, cell by cell, unless it is told not to."""
    names = [f"{'long ' * 20}{number}" for number in range(20_000)]
    tree = tt.Hierarchy.from_table(pa.table({"area": names}), ["area"])
    nodes = np.tile(np.arange(20_000), 3)
    table = NodeTable(tree, 1, nodes, pa.table({"n": nodes}))
    write_parquet(table, tmp_path / "many.parquet")
    with pq.ParquetFile(tmp_path / "many.parquet") as file:
        column = file.metadata.row_group(0).column(0)
    assert "PLAIN" in column.encodings  # of the dictionary itself
    assert column.total_uncompressed_size < 1.2 * sum(map(len, names)) + 4 * len(nodes)  # not three times the labels
    assert decoded(read_all(FileTable(tmp_path / "many.parquet", len(nodes)))).equals(decoded(read_all(table)))


def test_tables_without_dictionaries_are_read(release, tmp_path):
    """As Parquet writes them where a dictionary would be too large."""
    wanted = release.table("o_county")
    pq.write_table(wanted, tmp_path / "plain.parquet", use_dictionary=False)
    pq.write_table(wanted, tmp_path / "first.parquet", dictionary_pagesize_limit=3, write_batch_size=2)
    for name in ("plain", "first"):
        table = FileTable(tmp_path / f"{name}.parquet", wanted.num_rows)
        assert decoded(read_all(table)).equals(wanted)
        assert decoded(table.read(3, 8)).equals(wanted.slice(3, 5))


def test_large_releases_are_written_side_by_side_to_the_same_files(release, tmp_path, monkeypatch):
    release.save(tmp_path / "one", csv=True)
    threads = []
    monkeypatch.setattr(release_module, "ROWS_AT_ONCE", 10)
    write = files_module.write_csv
    monkeypatch.setattr(release_module, "write_csv", lambda *given: (threads.append(get_ident()), write(*given)))
    release.save(tmp_path / "two", csv=True)
    assert len(threads) == len(release.levels)
    assert get_ident() not in threads
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")} for name in ("one", "two"))
    assert one == two


def test_a_disk_that_fills_up_under_a_large_release_leaves_nothing(release, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(release_module, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(release_module, "sha256", full)
    with pytest.raises(OSError, match="No space left"):
        release.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
