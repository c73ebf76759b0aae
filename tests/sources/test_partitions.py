"""Hive partitions: columns in the names of folders, of records and of public tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import CountGroups, CountRecords, LeafKey
from tallytree.engines import Local
from tallytree.sources.failures import SourceError
from tallytree.sources.locate import locate
from tallytree.sources.partitions import path_in_messages
from tallytree.sources.reading import read_public

AREAS = tt.Hierarchy.from_table(pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]}), ["state", "county"])
KEY = LeafKey(AREAS, ("state", "county"))
ROWS = pa.table({"county": ["x", "x", "y"], "n": [1, 2, 3]})


def write(path: Path, rows: pa.Table = ROWS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        rows.to_pandas().to_csv(path, index=False)
    else:
        pq.write_table(rows, path)
    return str(path)


def counts(table: Any, **more: Any) -> list[int]:
    return Local(threads=2).tabulate(table, CountRecords([KEY], **more)).counts.tolist()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_column_in_the_names_of_folders_is_a_key(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "state=A" / f"1.{suffix}")
    write(tmp_path / "state=A" / f"2.{suffix}", ROWS.slice(2))
    write(tmp_path / "state=B" / f"1.{suffix}", ROWS.slice(0, 2))
    glob = str(tmp_path / "*" / f"*.{suffix}")
    folder: Any = tt.sources.CSV(tmp_path) if suffix == "csv" else tmp_path
    kind = {"csv": tt.sources.CSV, "parquet": tt.sources.Parquet}[suffix]
    for given in (glob, folder, kind(glob, partitions=["state"]), sorted(map(str, tmp_path.rglob(f"*.{suffix}")))):
        assert counts(given) == [2, 2, 2]
        assert counts(given, count="n") == [3, 6, 3]
    assert read_public(glob, ["state", "n"], "areas").column("state").to_pylist() == ["A", "A", "A", "A", "B", "B"]
    assert counts(write(tmp_path / "state=B" / f"1.{suffix}", ROWS.slice(0, 1))) == [1]


def test_what_arrow_and_pandas_write_is_read(tmp_path: Path) -> None:
    tree = tt.Hierarchy.from_table(pa.table({"place": ["a/b", "ä=%", "2"], "year": [1, 2, 3]}), ["place", "year"])
    key = LeafKey(tree, ("place", "year"))
    frame = pd.DataFrame({"place": ["a/b", "a/b", "ä=%", "2"], "year": [1, 1, 2, 3], "n": [1, 1, 1, 1]})
    frame.to_parquet(tmp_path / "pandas", partition_cols=["place", "year"])
    pq.write_to_dataset(pa.Table.from_pandas(frame), tmp_path / "arrow", partition_cols=["place"])
    for folder in ("pandas", "arrow"):
        assert Local().tabulate(tmp_path / folder, CountRecords([key])).counts.tolist() == [2, 1, 1]


def test_a_null_partition_is_a_null_key(tmp_path: Path) -> None:
    write(tmp_path / "state=__HIVE_DEFAULT_PARTITION__" / "1.parquet")
    write(tmp_path / "state=A" / "1.parquet")
    with pytest.raises(ValueError, match=r"records: column 'state' has null keys"):
        counts(tmp_path)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_column_of_the_file_that_disagrees_is_refused(tmp_path: Path, suffix: str) -> None:
    rows = ROWS.append_column("state", pa.array(["A"] * 3))
    first = write(tmp_path / "state=A" / f"1.{suffix}", rows)
    assert counts(first) == [2, 1]
    second = write(tmp_path / "state=B" / f"1.{suffix}", rows)
    for read in (counts, lambda given: read_public(given, ["state"], "records")):
        with pytest.raises(OSError, match=rf"^records: '.*state=B/1\.{suffix}' has the column 'state' itself, with o"):
            read([first, second])
    kind = tt.sources.CSV if suffix == "csv" else tt.sources.Parquet
    assert counts(kind([first, second], partitions=())) == [4, 2]


def test_numbers_in_folders_and_files_agree_as_numbers(tmp_path: Path) -> None:
    tree = tt.Hierarchy.from_table(pa.table({"month": [1, 2]}), ["month"])
    write(tmp_path / "month=01" / "1.parquet", pa.table({"month": [1, 1]}))
    assert Local().tabulate(tmp_path, CountRecords([LeafKey(tree, ("month",))])).counts.tolist() == [2]


@pytest.mark.parametrize(
    ("folder", "partitions", "message"),
    [
        ("state=A/state=B", None, r"has two values of the partition column 'state'; rename a folder"),
        ("state=%ff", None, r"has percent-encoded text that is not UTF-8; rename it"),
        ("A", ["state"], r"is in no folder of the partition column 'state', such as 'state=…'; give the columns"),
        ("state=A", [], r"column 'state' is missing"),
        ("A", None, r"column 'state' is missing"),
    ],
)
def test_folders_that_are_no_partitions(tmp_path: Path, folder: str, partitions: Any, message: str) -> None:
    path = write(tmp_path / folder / "1.parquet")
    with pytest.raises(ValueError, match=message):
        counts(tt.sources.Parquet(path, partitions=partitions))


def test_a_person_may_be_in_the_name_of_a_folder_and_hidden_folders_are_none(tmp_path: Path) -> None:
    for person in ("1", "2"):
        write(tmp_path / f"_who={person}" / "1.parquet", pa.table({"state": ["A"], "county": ["x"]}))
    write(tmp_path / "_temporary" / "1.parquet")
    sizes = Local().tabulate(tmp_path, CountGroups(KEY, group="_who", smallest=0, largest=5))
    assert (sizes.sizes.tolist(), sizes.groups.tolist()) == ([1], [2])
    assert len(locate(tmp_path, "records").paths) == 2


def test_files_of_which_some_only_lie_in_named_folders_are_refused(tmp_path: Path) -> None:
    """Files of one schema: what the folder of the first says would be asked of the others, or not at all."""
    rows = pa.table({"state": ["A", "A"], "county": ["x", "y"]})
    for first, second in (("state=B", "plain"), ("plain", "state=B")):
        folder = tmp_path / f"{first[:2]}-first"
        files = [write(folder / first / "1.parquet", rows), write(folder / second / "2.parquet", rows)]
        with pytest.raises(SourceError, match=r"^records: some of the files lie in folders that are named state=…"):
            counts(files)


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("a/who=Zwetschke/1.parquet", "a", "a/who=…/1.parquet"),
        ("/a/b/who=Zwetschke/year=2/1.parquet", "/a//b/", "/a/b/who=…/year=…/1.parquet"),
        ("./a/who=Zwetschke/1.parquet", "./a/*/*.parquet", "./a/who=…/1.parquet"),
        ("a/who=Zwetschke", "./a", "a/who=…"),
        ("a/year=2/who=Zwetschke/1.parquet", "a/year=2/**", "a/year=2/who=…/1.parquet"),
        ("a/who=Zwetschke/year=2/1.parquet", "a/who=*/year=2/*", "a/who=…/year=…/1.parquet"),
        ("a/who=Zwetschke=1/1.parquet", "a", "a/who=…/1.parquet"),
        ("a/who=Pflaume/1.parquet", "a/who=Pflaume/1.parquet", "a/who=Pflaume/1.parquet"),
        ("a/b/1.parquet", "a/*/1.parquet", "a/b/1.parquet"),
    ],
)
def test_messages_show_of_a_private_path_what_was_typed_and_no_value_below_it(path: str, given: str, said: str) -> None:
    assert path_in_messages(path, given) == said


def columns(**changes: Any) -> pa.Table:
    return pa.table({"state": ["A"], "county": ["x"]} | changes)


NO_TABLE = "not Parquet"

FAULTS: dict[str, tuple[Any, str, str]] = {
    "the file has other values": (
        columns(who=["Pflaume"]), "who=Zwetschke", "has the column 'who' itself, with other values than its folder's"
    ),
    "a type": (columns(state=[1.5]), "who=Zwetschke", "column 'state' holds double"),
    "a column": (pa.table({"state": ["A"]}), "who=Zwetschke", "column 'county' is missing"),
    "no Parquet": (NO_TABLE, "who=Zwetschke", "cannot be read as parquet"),
    "two values": (columns(), "who=Zwetschke/who=Pflaume", "has two values of the partition column 'who'"),
    "not UTF-8": (columns(), "who=Zwetschke%ff", "has percent-encoded text that is not UTF-8; rename it"),
    "a surrogate": (NO_TABLE, "who=Zwetschke\udcff", "is not UTF-8; rename the file"),
    "a folder": (None, "who=Zwetschke", "is a folder, not a file"),
    "a log": (None, "who=Zwetschke/_delta_log", "is a table with a log"),
    "a backslash": (columns(), "who=Zwetschke\\[1]", r"has a backslash and one of * ? [; rename the file"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "folder", "message"), FAULTS.values(), ids=FAULTS)
def test_no_message_about_a_private_table_shows_the_value_of_a_partition(
    tmp_path: Path, refuses: Any, rows: Any, folder: str, message: str
) -> None:
    path = tmp_path / folder / "1.parquet"
    path.parent.mkdir(parents=True)
    if rows is None:
        given = tmp_path / "who=*"
        if "log" not in folder:  # several folders are no table
            (tmp_path / "who=Pflaume").mkdir()
    else:
        given = tmp_path
        path.write_text(NO_TABLE) if rows is NO_TABLE else write(path, rows)
    request = CountGroups(KEY, group="who", smallest=0, largest=5)
    for each in (given, tt.sources.Parquet([given])):
        with refuses((ValueError, TypeError, OSError), message, planted=("Zwetschke", "Pflaume")):
            Local().tabulate(str(each) if isinstance(each, Path) else each, request)


def test_messages_about_a_public_table_and_what_is_typed_show_the_whole_path(tmp_path: Path) -> None:
    path = write(tmp_path / "state=A" / "1.parquet", pa.table({"n": [1.5]}))
    for argument, given in (("public_groups", str(tmp_path)), ("records", path), ("records", [path])):
        with pytest.raises(ValueError, match=rf"^{argument} \('.*state=A/1\.parquet'\): column 'county' is missing"):
            counts(given, argument=argument)
    Path(path).write_text(NO_TABLE)
    with pytest.raises(ValueError, match=r"^areas: '.*state=A/1\.parquet' cannot be read as parquet"):
        read_public(tmp_path, ["state"], "areas")


def test_a_name_that_duckdb_would_take_for_another_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"state": ["A"], "county": ["x"]})
    write(tmp_path / "a" / "b[1].parquet", rows)
    with pytest.raises(SourceError, match=r"has a backslash and one of \* \? \[; rename the file$"):
        counts([write(tmp_path / "a\\b[1].parquet", rows)])
