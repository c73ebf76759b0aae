"""How tables are found, described and read."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallytree.sources.column_types import text_column, type_in_messages
from tallytree.sources.csv_files import _StrictQuotes
from tallytree.sources.locate import Files, locate
from tallytree.sources.reading import column_names, read_public, schemas

ROWS = pa.table({"leaf": ["007", "b"], "n": [1, 2]})


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".parquet"):
        pq.write_table(ROWS, path)
    else:
        opened = gzip.open if path.name.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8-sig", newline="") as file:
            csv.writer(file).writerows([ROWS.schema.names, *zip(*ROWS.to_pydict().values(), strict=True)])
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.CSV", "[a]*?.csv"])
def test_every_file_reads_the_same(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    for table in (path, str(path)):
        assert read_public(table, ["leaf"], "areas").column("leaf").to_pylist() == ["007", "b"]


def test_everything_in_memory_reads_the_same() -> None:
    frames = [ROWS, ROWS.to_batches()[0], ROWS.to_reader(), ROWS.to_pandas().set_index(pd.Index([5, 5], name="leaf2"))]
    for table in [*frames, pl.DataFrame(ROWS.to_pydict()), duckdb.connect().from_arrow(ROWS)]:
        column = text_column(read_public(table, ["leaf"], "areas"), "leaf", "areas")
        assert column.to_pylist() == ["007", "b"]


def test_a_glob_or_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    paths = [str(write(tmp_path / "t" / name)) for name in ("a.parquet", "b.parquet", "deep/c.parquet")]
    assert locate(tmp_path / "t", "areas") == Files(tuple(paths), "parquet")
    assert locate(str(tmp_path / "t" / "*.parquet"), "areas") == Files(tuple(paths[:2]), "parquet")


@pytest.mark.parametrize(
    "table", [3, None, ["a.csv", 3], {"leaf": ["a"]}, pd.Series([1]), pl.Series([1]), pa.array([1])]
)
def test_what_is_not_a_table(table: Any) -> None:
    with pytest.raises(TypeError, match="areas: "):
        locate(table, "areas")


def test_files_that_cannot_be_one_table(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.csv", "b.xlsx"):
        write(tmp_path / name)
    with pytest.raises(ValueError, match=r"areas: no file at .*nothing"):
        locate(tmp_path / "nothing.csv", "areas")
    (tmp_path / "c.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"; name the separator: tt.sources.CSV\(path, separator='\\t'\)"):
        locate(tmp_path / "c.tsv", "areas")
    with pytest.raises(TypeError, match=r"item 1 of the list is dict; .* \(pyarrow.Table.from_pylist makes one"):
        locate([{"a": 1}], "areas")
    for pattern in ("a.*", "b.*"):
        with pytest.raises(ValueError, match=r"areas: .* must name .parquet files, or .csv"):
            locate(str(tmp_path / pattern), "areas")


def test_schemas_are_told_apart_without_reading_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet")
    pq.write_table(ROWS.select(["n"]), tmp_path / "c.parquet")
    found = schemas(locate(tmp_path, "areas"), "areas")
    assert [([os.path.basename(path) for path in paths], schema.names) for paths, schema in found] == [  # noqa: PTH119
        (["a.parquet", "b.parquet"], ["leaf", "n"]),
        (["c.parquet"], ["n"]),
    ]
    (tmp_path / "d.csv").write_text('\n"le\naf","a""b"\n1,2,3,"')
    assert column_names(locate(tmp_path / "d.csv", "areas"), "areas") == ["le\naf", 'a"b']


@pytest.mark.parametrize(("name", "content"), [("a.csv", b""), ("a.csv.gz", b"a,b"), ("a.parquet", b"PAR1")])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"areas: .*{name}' cannot be read as"):
        column_names(locate(tmp_path / name, "areas"), "areas")


def test_an_empty_csv_cell_is_a_null_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('leaf,n\n1,2\n"",3\n')
    table = read_public(tmp_path / "a.csv", ["leaf"], "areas")
    with pytest.raises(ValueError, match="'leaf' has null keys"):
        text_column(table, "leaf", "areas")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.csv", "A.CSV.GZ"])
def test_an_empty_line_of_a_file_of_one_column_is_a_null(tmp_path: Path, ending: str, name: str) -> None:
    def read(*lines: str) -> Any:
        content = "".join(line + ending for line in lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("GZ") else content)
        return read_public(tmp_path / name, ["leaf"], "areas").column("leaf").to_pylist()

    assert read("leaf", "x", "", "", "", "y") == ["x", None, None, None, "y"]
    assert read("", "", "leaf", "x", '""', "") == ["x", None, None]
    assert read("\ufeffleaf", "x", "y") == ["x", "y"]
    assert read("leaf") == []
    assert read("", "leaf,n", "x,1", "", ",2", "") == ["x", None]  # of two columns a null has its comma
    (tmp_path / "b.csv").write_text(f"leaf{ending}x{ending}y", newline="")
    assert read_public(tmp_path / "b.csv", ["leaf"], "areas").column("leaf").to_pylist() == ["x", "y"]


@given(st.lists(st.sampled_from(["", "x", "yy", '"z"', '"a\nb"']), max_size=40), st.integers(8, 24), st.booleans())
@settings(max_examples=200)
def test_empty_lines_are_nulls_wherever_a_block_ends(lines: list[str], block: int, crlf: bool) -> None:
    text = "".join(line + ("\r\n" if crlf else "\n") for line in ["leaf", *lines])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        path = Path(folder) / "a.csv"
        path.write_bytes(text.encode())
        patched.setattr("tallytree.sources.csv_files._CSV_BLOCK", block)
        read = read_public(path, ["leaf"], "areas").column("leaf").to_pylist()
    assert read == [line.strip('"') or None for line in lines]


FIELD = r'(?:"(?:[^"]|"")*"|[^",\r\n]*)'
RFC_4180 = re.compile(rf"(?:{FIELD}(?:,{FIELD})*(?:\r\n|\r|\n|$))*")


@given(st.lists(st.sampled_from(['"', '""', ",", "\n", "\r\n", "x", "ä"]), max_size=30).map("".join), st.integers(1, 7))
@settings(max_examples=400)
def test_csv_is_refused_where_its_quotes_break_the_rule(text: str, block: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(text.encode())
        with _StrictQuotes(str(path)) as reader:
            read = io.BytesIO()
            try:
                while chunk := reader.read(block):
                    read.write(chunk)
                sound = read.getvalue() == text.encode()
            except pa.ArrowInvalid:
                sound = False
    assert sound == bool(RFC_4180.fullmatch(text))


def test_a_header_that_is_not_comma_separated_utf_8_is_told_apart(tmp_path):
    (tmp_path / "semicolon.csv").write_text("state;county\nA;x\n")
    (tmp_path / "latin.csv").write_bytes("région\nA\n".encode("latin-1"))
    with pytest.raises(ValueError, match="cells must be separated by commas"):
        read_public(tmp_path / "semicolon.csv", ["state"], "areas")
    with pytest.raises(ValueError, match="the file is not UTF-8; convert it"):
        read_public(tmp_path / "latin.csv", ["région"], "areas")


def test_a_folder_without_parquet_files_is_told_apart(tmp_path):
    (tmp_path / "part.csv").write_text("state\nA\n")
    with pytest.raises(ValueError, match=r"holds no \.parquet file; for CSV give '.*/\*\.csv'"):
        read_public(tmp_path, ["state"], "areas")


def test_columns_are_no_tables():
    with pytest.raises(TypeError, match="a Series is one column, not a table"):
        read_public(pl.Series([1]), ["state"], "areas")


def test_a_column_of_a_frame_that_arrow_does_not_know_is_named_without_its_values() -> None:
    mixed = pd.DataFrame({"fine": [1, 2], 5: ["secret", 7]}, dtype=object)
    with pytest.raises(TypeError, match=r"^areas: column 2 .*mixes types") as c:
        locate(mixed, "areas")
    assert "secret" not in str(c.value)
    assert c.value.__context__ is None
    wide = pl.DataFrame({"fine": [1], "wide": pl.Series([2**90], dtype=pl.Int128)})
    with pytest.raises(TypeError, match=r"^areas: column 2 of the polars frame mixes types"):
        locate(wide, "areas")


FIELD_IS_A_VALUE = pa.struct([("Zwetschke", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (FIELD_IS_A_VALUE, "a struct"),
        (pa.list_(FIELD_IS_A_VALUE), "a list"),
        (pa.list_view(FIELD_IS_A_VALUE), "a list"),
        (pa.list_(FIELD_IS_A_VALUE, 2), "a list"),
        (pa.map_(pa.string(), FIELD_IS_A_VALUE), "a map"),
        (pa.dense_union([pa.field("Zwetschke", pa.int64())]), "a union"),
        (pa.dictionary(pa.int32(), FIELD_IS_A_VALUE), "a struct"),
        (pa.run_end_encoded(pa.int32(), pa.list_(FIELD_IS_A_VALUE)), "a list"),
        (pa.opaque(FIELD_IS_A_VALUE, "type", "vendor"), "a struct"),
        (pa.float64(), "double"),
        (pa.timestamp("us", "UTC"), "timestamp[us, tz=UTC]"),
        (pa.dictionary(pa.int32(), pa.float64()), "dictionary<values=double, indices=int32, ordered=0>"),
        (pa.uuid(), "extension<arrow.uuid>"),
    ],
)
def test_a_type_is_named_without_the_names_of_its_fields(kind: pa.DataType, said: str) -> None:
    assert type_in_messages(kind) == said


def test_keys_of_a_nested_type_are_refused_without_the_names_of_its_fields() -> None:
    with pytest.raises(TypeError, match=r"^areas: column 'leaf' holds a struct; .*strings or integers"):
        text_column(pa.table({"leaf": [{"Zwetschke": 1}]}), "leaf", "areas")


@pytest.mark.parametrize("labels", [["a", "a"], [1, 1]])
def test_columns_with_one_label_are_named_by_their_places(labels: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^areas: columns 1 and 2 have one name; give each column its own name"):
        locate(pd.DataFrame([[1, 2]], columns=labels), "areas")


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["x", "y"]),
        pd.Index(["x", "y"], name="k"),
        pd.Index(["x", "y"], name="a"),
        pd.RangeIndex(5, 7, name="r"),
        pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["p", "q"]),
    ],
)
def test_the_index_of_a_pandas_frame_is_left_out(index: Any) -> None:
    assert column_names(locate(pd.DataFrame({"a": [1, 2]}, index=index), "areas"), "areas") == ["a"]


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    for path in (tmp_path / "a.csv", str(tmp_path / "*.csv")):
        with pytest.raises(ValueError, match=r"a\.csv' is a pipe, not a file"):
            locate(path, "areas")


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallytree.sources.local_files.MAX_ENTRIES", 3)
    for name in "abcd":
        write(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"holds more than 3 files; give the folder of the table"):
        locate(tmp_path, "areas")
