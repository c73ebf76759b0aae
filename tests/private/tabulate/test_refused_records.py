"""Which records are refused, and that no message shows a value of one."""

from __future__ import annotations

import decimal
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.inside import LeafKey
from helpers.refused_records import LEAF, NUMBER, SECRET, TOWN, digits, members, towns
from helpers.tabulating import count_records, group_rows, group_sizes
from tallytree.engines import Engine, Local
from tallytree.hierarchy import Hierarchy


class TestNumbers:
    @pytest.mark.parametrize(
        "values",
        [
            pa.array([3, 0], pa.int8()),
            pa.array([3, 0], pa.uint64()),
            pa.array([3.0, -0.0]),
            pa.array([3.0, 0.0], pa.float32()),
            pa.array([decimal.Decimal("3.000"), decimal.Decimal(0)], pa.decimal128(38, 3)),
            pa.array([decimal.Decimal(3), decimal.Decimal(0)], pa.decimal32(5, 2)),
            pa.array([3, 0]).dictionary_encode(),
        ],
    )
    def test_whole_numbers_of_any_type(self, engine: Local, values: pa.Array, tmp_path: Path) -> None:
        pq.write_table(pa.table({"leaf": [1, 2], "n": values}), tmp_path / "n.parquet")
        for table in (tmp_path / "n.parquet", pa.table({"leaf": [1, 2], "n": values})):
            result = count_records(engine, table, [LEAF], count="n")
            assert (result.parts[0].tolist(), result.counts.tolist()) == ([0], [3])

    @pytest.mark.parametrize("text", ["3", "3.0", "+3", "003", "3.", '"3"', str(2**62)])
    def test_whole_numbers_in_csv(self, engine: Local, tmp_path: Path, text: str) -> None:
        (tmp_path / "n.csv").write_text(f"leaf,n\n1,{text}\n")
        assert count_records(engine, tmp_path / "n.csv", [LEAF], count="n").counts.tolist() == [
            int(float(text.strip('"')))
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "3.5",
            "-3",
            "",
            "NaN",
            "inf",
            "1e3",
            "0x3",
            "1_000",
            "three",
            "3 4",
            "٣",
            "'3'",
            str(2**62 + 1),
            "9" * 40,
            "-0",
        ],
    )
    def test_other_text_in_csv(self, engine: Local, tmp_path: Path, text: str, refuses: Any) -> None:
        (tmp_path / "n.csv").write_text(f"leaf,n\n1,{text}\n2,{NUMBER}\n")
        with refuses(ValueError, "records", "'n' (count)", "integers"):
            count_records(engine, tmp_path / "n.csv", [LEAF], count="n")

    @pytest.mark.parametrize(
        "values",
        [
            [NUMBER, -NUMBER],
            [NUMBER, None],
            [0.5, 1.0],
            [NUMBER + 0.5, 1.0],
            [float("nan"), 1.0],
            [float("inf"), 1.0],
            [2.0**53, 1.0],
            [-1.0, 1.0],
            pa.array([2**64 - 1, 0], pa.uint64()),
            pa.array([2**62 + 1, 0]),
            pa.array([decimal.Decimal("2.50"), 1], pa.decimal128(10, 2)),
            pa.array([decimal.Decimal("-2"), 1], pa.decimal128(10, 2)),
            pa.array([decimal.Decimal(10**37), 1], pa.decimal128(38, 0)),
            pa.nulls(2),
        ],
    )
    @pytest.mark.parametrize("column", ["count", "size", "groups"])
    def test_anything_else(self, engine: Local, values: Any, column: str, refuses: Any, tmp_path: Path) -> None:
        table = pa.table({"leaf": ["1", "2"], "good": [1, 2], "n": pa.array(values)})
        pq.write_table(table, tmp_path / "n.parquet")
        for records in (table, tmp_path / "n.parquet"):
            with refuses(ValueError, "mine: column 'n'", f"({column})", "must hold integers", "correct or drop"):
                if column == "count":
                    count_records(engine, records, [LEAF], count="n", argument="mine")
                else:
                    roles = {"size": "good", "groups": "good"} | {column: "n"}
                    group_rows(engine, records, LEAF, **roles, smallest=0, largest=9, argument="mine")

    @pytest.mark.parametrize(
        "values",
        [[True, False], ["3", "4"], [date(2020, 1, 1)] * 2, [[1], [2]], pa.array([1, 2], pa.decimal256(50, 0))],
    )
    def test_other_types(self, engine: Local, values: Any, refuses: Any) -> None:
        table = pa.table({"leaf": ["1", "2"], "n": values})
        with refuses(TypeError, "column 'n' (count)", "holds", "cast"):
            count_records(engine, table, [LEAF], count="n")

    def test_sums_beyond_2_to_the_62(self, any_engine: Engine, refuses: Any) -> None:
        fits = pa.table({"leaf": [1, 1, 2], "n": [2**61, 2**61 - 1, 1], "one": [1, 2, 3]})
        assert count_records(any_engine, fits, [LEAF], count="n").counts.sum() == 2**62
        assert group_rows(any_engine, fits, LEAF, size="one", groups="n", smallest=0, largest=2).groups.sum() == 2**62
        beyond = pa.table({"leaf": [1, 2, 2], "n": [2**62, 2**62, 2**62], "one": [1, 2, 3]})
        with refuses(ValueError, "column 'n' (count)", "2^62", planted=(str(2**62), str(3 * 2**62))):
            count_records(any_engine, beyond, [LEAF], count="n")
        with refuses(ValueError, "column 'n' (groups)", "2^62", planted=(str(2**62),)):
            group_rows(any_engine, beyond, LEAF, size="one", groups="n", smallest=0, largest=9)

    def test_records_left_out_do_not_count_towards_the_sum(self, any_engine: Engine) -> None:
        table = pa.table({"leaf": [1, 7, 7], "n": [5, 2**62, 2**62]})
        assert count_records(any_engine, table, [LEAF], count="n", on_unknown="drop").counts.tolist() == [5]

    def test_a_size_is_clamped_however_large(self, engine: Local) -> None:
        table = pa.table({"leaf": [1, 1, 1], "size": [2**62, 11, 0], "groups": [1, 2, 3]})
        result = group_rows(engine, table, LEAF, size="size", groups="groups", smallest=1, largest=10)
        assert (result.sizes.tolist(), result.groups.tolist()) == ([1, 10], [3, 3])


class TestKeys:
    @pytest.mark.parametrize(
        "values",
        [
            pa.array([1, -3], pa.int8()),
            pa.array(["1", "-3"], pa.string_view()),
            pa.array(["1", "-3"], pa.large_string()),
            pa.array(["1", "-3"]).dictionary_encode(),
            pa.array([1, -3]).dictionary_encode(),
            pa.array([decimal.Decimal(1), decimal.Decimal(-3)], pa.decimal128(38, 0)),
            pl.Series(["1", "-3"], dtype=pl.Categorical).to_arrow(),
            pl.Series(["1", "-3"], dtype=pl.Enum(["-3", "1"])).to_arrow(),
        ],
    )
    def test_text_and_integers_of_any_width(self, engine: Local, values: pa.Array, tmp_path: Path) -> None:
        table = pa.table({"leaf": values})
        pq.write_table(table, tmp_path / "n.parquet")
        for records in (table, tmp_path / "n.parquet"):
            assert count_records(engine, records, [LEAF]).parts[0].tolist() == [0, 2]

    def test_the_largest_unsigned_integer(self, engine: Local) -> None:
        key = LeafKey(Hierarchy.from_table(pa.table({"leaf": [str(2**64 - 1)]}), ["leaf"]), ("leaf",))
        assert count_records(engine, pa.table({"leaf": pa.array([2**64 - 1], pa.uint64())}), [key]).counts.tolist() == [
            1
        ]

    def test_a_relation_with_duckdbs_own_types(self, engine: Local) -> None:
        relation = duckdb.connect().sql(
            "SELECT 1::HUGEINT AS leaf, uuid() AS id, 3::HUGEINT AS n, 'x'::ENUM('x', 'y') AS e FROM range(4)"
        )
        assert count_records(engine, relation, [LEAF], count="n").counts.tolist() == [12]
        assert group_sizes(engine, relation, LEAF, group="id", smallest=0, largest=9).groups.tolist() == [4]
        assert group_sizes(engine, relation, LEAF, group="e", smallest=0, largest=9).sizes.tolist() == [4]

    def test_two_files_may_hold_one_key_as_text_and_as_integer(self, any_engine: Engine, tmp_path: Path) -> None:
        pq.write_table(pa.table({"leaf": ["1", "2"], "n": [1, 2]}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"n": [1.0, 2.0], "leaf": [1, 2]}), tmp_path / "b.parquet")
        assert count_records(any_engine, tmp_path, [LEAF], count="n").counts.tolist() == [2, 4]

    @pytest.mark.parametrize(
        "values", [[1.0, 2.0], [True, False], [date(2020, 1, 1)] * 2, [["1"], ["2"]], [b"1", b"2"]]
    )
    def test_other_types(self, engine: Local, values: Any, refuses: Any) -> None:
        with refuses(TypeError, "mine: column 'leaf' holds", "strings or integers"):
            count_records(engine, pa.table({"leaf": values}), [LEAF], argument="mine")

    def test_null_keys(self, engine: Local, tmp_path: Path, refuses: Any) -> None:
        (tmp_path / "n.csv").write_text(f"leaf,id\n1,{SECRET}\n,{SECRET}\n")
        for records in (pa.table({"leaf": ["1", None]}), pa.table({"leaf": pa.nulls(2)}), tmp_path / "n.csv"):
            with refuses(ValueError, "column 'leaf' has null keys"):
                count_records(engine, records, [LEAF])

    def test_null_keys_and_empty_texts_are_left_out_alike(self, any_engine: Engine, tmp_path: Path) -> None:
        (tmp_path / "n.csv").write_text("leaf,id\n1,a\n,b\n")
        for records in (pa.table({"leaf": ["1", None, ""]}), tmp_path / "n.csv"):
            assert count_records(any_engine, records, [LEAF], on_unknown="drop").counts.tolist() == [1]
        table = pa.table({"leaf": ["1", None, ""], "id": ["a", "a", "b"]})
        grouped = group_sizes(any_engine, table, LEAF, group="id", smallest=0, largest=9, on_unknown="drop")
        assert (grouped.sizes.tolist(), grouped.groups.tolist()) == ([1], [1])

    def test_a_single_top_value_may_be_missing_in_the_records(self, any_engine: Engine) -> None:
        records = pa.table({"town": ["a", "a", "b"], "region": ["B", "A", "A"]})
        for key in (TOWN, LeafKey(towns, ("region", "town"))):
            assert count_records(any_engine, records, [key]).parts[0].tolist() == [0, 1, 2]
        with_top = records.append_column("country", pa.array(["X", "X", "Y"]))
        assert count_records(any_engine, with_top, [TOWN], on_unknown="drop").counts.sum() == 2

    def test_several_top_values_may_not(self, engine: Local, refuses: Any) -> None:
        areas = Hierarchy.from_table(pa.table({"region": ["A", "B"], "town": ["a", "b"]}), ["region", "town"])
        with refuses(ValueError, "column 'region' is missing; the table has 1 column"):
            count_records(engine, pa.table({"town": ["a"]}), [LeafKey(areas, ("region", "town"))])
        with pytest.raises(ValueError, match="one column for each"):
            LeafKey(areas, ("town",))

    def test_names_that_differ_in_capitals_only(self, any_engine: Engine, tmp_path: Path) -> None:
        pq.write_table(pa.table({"LEAF": ["2", "2"], "leaf": ["1", "1"], "Leaf": ["x", "x"]}), tmp_path / "n.parquet")
        assert count_records(any_engine, tmp_path / "n.parquet", [LEAF]).parts[0].tolist() == [0]

    def test_a_column_named_twice(self, engine: Local, refuses: Any) -> None:
        table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["leaf", "leaf"])
        with refuses(ValueError, "column 'leaf' appears 2 times"):
            count_records(engine, table, [LEAF])


class TestRecordsOutsideTheHierarchy:
    @pytest.mark.parametrize(
        ("region", "says"),
        [
            ("B", "by its label of 'town', which the hierarchy does not have below the record's labels above it; add"),
            (SECRET, "by its label of 'region', which the hierarchy does not have; add"),
        ],
    )
    def test_the_column_is_named_and_no_label(self, any_engine: Engine, refuses: Any, region: str, says: str) -> None:
        records = pa.table(
            {"region": ["A", region, region], "town": ["a", SECRET, SECRET], "id": [SECRET] * 3, "n": [NUMBER] * 3}
        )
        for work in (
            lambda: count_records(any_engine, records, [TOWN], count="n"),
            lambda: group_sizes(any_engine, records, TOWN, group="id", smallest=0, largest=9),
            lambda: group_rows(any_engine, records, TOWN, size="n", groups="n", smallest=0, largest=9),
        ):
            with refuses(ValueError, says, "on_unknown='drop'"):
                work()

    def test_of_several_keys_the_one_at_fault(self, any_engine: Engine, refuses: Any) -> None:
        records = pa.table({"from": ["1"], "to": ["9"]})
        with refuses(ValueError, "by its label of 'to', which the hierarchy does not have; add"):
            count_records(any_engine, records, [LeafKey(digits, ("from",)), LeafKey(digits, ("to",))])

    def test_also_with_a_count_of_zero(self, engine: Local, refuses: Any) -> None:
        with refuses(ValueError, "by its label of 'leaf', which"):
            count_records(engine, pa.table({"leaf": ["9"], "n": [0]}), [LEAF], count="n")

    def test_a_group_partly_outside_has_the_size_of_the_rest(self, any_engine: Engine) -> None:
        records = pa.table({"leaf": ["1", "9", "1", "8"], "id": [4, 4, 4, 5]})
        result = group_sizes(any_engine, records, LEAF, group="id", smallest=0, largest=9, on_unknown="drop")
        assert (result.leaves.tolist(), result.sizes.tolist(), result.groups.tolist()) == ([0], [2], [1])

    def test_on_unknown_is_checked(self, engine: Local) -> None:
        with pytest.raises(ValueError, match="'ignore' must be 'error' or 'drop'"):
            count_records(engine, members(), [LEAF], on_unknown="ignore")  # type: ignore[arg-type]


class TestGroups:
    @pytest.mark.parametrize("ids", [["x", "x", "x"], [NUMBER] * 3, [SECRET] * 3])
    def test_a_group_in_two_leaves(self, engine: Local, ids: Any, refuses: Any) -> None:
        with refuses(ValueError, "mine: a group (column 'id')", "more than one leaf"):
            group_sizes(engine, members(id=ids), LEAF, group="id", smallest=0, largest=9, argument="mine")

    def test_one_town_name_in_two_regions_is_two_leaves(self, any_engine: Engine, refuses: Any) -> None:
        records = pa.table({"region": ["A", "B"], "town": ["a", "a"], "id": [1, 1]})
        with refuses(ValueError, "more than one leaf"):
            group_sizes(any_engine, records, TOWN, group="id", smallest=0, largest=9)

    def test_null_ids(self, any_engine: Engine, refuses: Any) -> None:
        with refuses(ValueError, "column 'id' (group) has null ids"):
            group_sizes(any_engine, members(id=[SECRET, None, "k"]), LEAF, group="id", smallest=0, largest=9)

    @pytest.mark.parametrize(
        "ids",
        [
            pa.array([uuid.UUID(int=i).bytes for i in (1, 1, 2)], pa.uuid()),
            [date(2020, 1, 1)] * 2 + [date(2020, 1, 2)],
            [b"\xff", b"\xff", b"\x00"],
            pa.array([2**64 - 1, 2**64 - 1, 0], pa.uint64()),
        ],
    )
    def test_ids_of_other_exact_types(self, engine: Local, ids: Any, tmp_path: Path) -> None:
        pq.write_table(members(id=ids), tmp_path / "n.parquet")
        for records in (members(id=ids), tmp_path / "n.parquet"):
            result = group_sizes(engine, records, LEAF, group="id", smallest=0, largest=9)
            assert result.sizes.tolist() == [2, 1]

    @pytest.mark.parametrize("ids", [[1.0, 2.0, 3.0], [True, True, False], [[1], [2], [3]]])
    def test_ids_of_inexact_types(self, engine: Local, ids: Any, refuses: Any) -> None:
        with refuses(TypeError, "column 'id' (group) holds"):
            group_sizes(engine, members(id=ids), LEAF, group="id", smallest=0, largest=9)

    @pytest.mark.parametrize(
        ("ids", "said"),
        [
            (pa.array([{SECRET: 1}] * 3), "a struct"),
            (pa.array([[{SECRET: 1}]] * 3), "a list"),
            (pa.array([[("k", {SECRET: 1})]] * 3, pa.map_(pa.string(), pa.struct([(SECRET, pa.int8())]))), "a map"),
            (pd.Series([{SECRET: 1}, None, None]), "a struct"),
        ],
    )
    def test_of_a_nested_type_no_name_of_a_field_is_shown(
        self, engine: Local, ids: Any, said: str, refuses: Any
    ) -> None:
        records = pd.DataFrame({"leaf": ["1"] * 3, "id": ids}) if isinstance(ids, pd.Series) else members(id=ids)
        with refuses(TypeError, f"column 'id' (group) holds {said}; a group's id must be text"):
            group_sizes(engine, records, LEAF, group="id", smallest=0, largest=9)

    @pytest.mark.parametrize(("smallest", "largest"), [(-1, 3), (4, 3), (0, 2**63)])
    def test_impossible_bounds(self, engine: Local, smallest: int, largest: int) -> None:
        with pytest.raises(ValueError, match="smallest, largest"):
            group_sizes(engine, members(), LEAF, group="id", smallest=smallest, largest=largest)

    def test_bounds_that_are_not_integers(self, engine: Local) -> None:
        with pytest.raises(TypeError, match="largest: 3"):
            group_sizes(engine, members(), LEAF, group="id", smallest=0, largest=3.0)  # type: ignore[arg-type]
