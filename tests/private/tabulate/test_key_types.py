"""Key columns whose type cannot meet the hierarchy's labels: refused, warned of, or named in a refusal."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt

CODES = tt.Hierarchy.from_table(pa.table({"code": ["01", "02", "10"]}), ["code"])
BANDS = tt.Hierarchy.from_values("age", ["0-9", "10-17"])
PLAIN = tt.Hierarchy.from_table(pa.table({"code": ["1", "2", "10"]}), ["code"])
INTEGERS = tt.Hierarchy.from_table(pa.table({"code": [1, 2, 10]}), ["code"])


def released(codes: Any, tree: Any, **options: Any) -> Any:
    given = {"budget": tt.Budget(epsilon=1_000), "neighboring": "add_remove", "seed": 1, **options}
    records = codes if isinstance(codes, str) else pa.table({"code": codes})
    return tt.release_counts(records, tree, **given).table("code")["count"].to_pylist()


@pytest.mark.parametrize("codes", [pa.array([1, 2]), pa.array([1, 2]).dictionary_encode(), pa.array([1], pa.uint8())])
def test_integers_that_would_be_dropped_are_refused_before_a_row_is_read(codes):
    with pytest.raises(TypeError, match=r"^records: column 'code' holds \w+, but the hierarchy has the label '01' at"):
        released(codes, CODES, on_unknown="drop")


def test_also_by_a_check_of_a_file_which_reads_no_row(tmp_path):
    path = str(tmp_path / "records.parquet")
    pq.write_table(pa.table({"code": [1, 2], "n": [1, 1]}), path)
    with pytest.raises(TypeError, match=r"^records \('.*records.parquet'\): column 'code' holds int64, but"):
        released(path, CODES, on_unknown="drop")
    for statistic in ({"group": "n"}, {"size": "n", "groups": "n"}):
        with pytest.raises(TypeError, match="column 'code' holds int64, but"):
            tt.release_group_sizes(
                path, CODES, tt.Budget(epsilon=1), neighboring="add_remove", on_unknown="drop", **statistic
            )


def test_integers_meet_labels_that_are_written_as_integers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert released([1, 2, 2, 7], PLAIN, on_unknown="drop") == [1, 2, 0]
        assert released([1, 2, 2], INTEGERS) == [1, 2, 0]
        assert released(["1", "2", "2", "7"], PLAIN, on_unknown="drop") == [1, 2, 0]


def test_text_in_the_records_and_integers_in_the_hierarchy_are_warned_of():
    with pytest.warns(UserWarning, match=r"^records: column 'code' holds text, .*hierarchy's table has integers"):
        assert released(["01", "2"], INTEGERS, on_unknown="drop") == [0, 1, 0]


def test_a_refusal_names_the_types_where_they_may_be_the_reason():
    with pytest.raises(
        ValueError, match=r"by its label of 'code', .*Column 'code' holds int64, but .* such as '01' at 'code'"
    ):
        released([1, 2], CODES)
    with pytest.raises(ValueError, match=r"labels at 'code' are numbers without leading zeros; if codes have"):
        released(["01"], PLAIN)
    with pytest.raises(ValueError, match=r"labels with leading zeros at 'code', such as '0.*'; `tallytree lint` says"):
        released(["1"], CODES)
    with pytest.raises(ValueError, match=r"at 'age'; give the records a column with these labels$"):
        tt.release_counts(pa.table({"age": [7]}), BANDS, tt.Budget(epsilon=1), neighboring="add_remove")


@pytest.mark.parametrize("ids", [["", "a"], [None, "a"], pa.array(["", "a"]).dictionary_encode()])
def test_an_empty_id_is_none_in_every_format(ids, tmp_path):
    records = pa.table({"code": ["1", "2"], "id": ids})
    pq.write_table(records, tmp_path / "records.parquet")
    (tmp_path / "records.csv").write_text("code,id\n1,\n2,a\n")
    for table in (records, tmp_path / "records.parquet", tmp_path / "records.csv"):
        for release, argument in ((tt.release_counts, "person"), (tt.release_group_sizes, "group")):
            with pytest.raises(
                ValueError, match=rf"^records: column 'id' \({argument}\) has null ids \(or empty cells"
            ):
                release(table, PLAIN, tt.Budget(epsilon=1), neighboring="add_remove", **{argument: "id"})
