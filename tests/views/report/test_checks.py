"""The checks find what is wrong, and count what they looked at."""

from dataclasses import replace

import pyarrow as pa
import pytest

from helpers.inside import run_checks
from tallytree.release.level_tables import PlainTable
from tallytree.release.view.release_view import ReleaseView


def checks_of(release):
    return run_checks(ReleaseView(release))


def changed(release, level, column, change):
    """The release with another first number at a level."""
    table = release.level_tables[level]
    rows = table.read(0, table.num_rows)
    values = rows.column(column).to_pylist()
    values[0] = change(values[0])
    rows = rows.set_column(rows.column_names.index(column), column, pa.array(values))
    return replace(release, _tables={**release.level_tables, level: PlainTable(rows)})


@pytest.mark.parametrize("name", ["counts", "tables", "flows", "group_sizes"])
def test_a_release_passes_and_every_level_is_added_up(every_release, name):
    release = every_release[name]
    checks = checks_of(release)
    assert all(check.passed for check in checks), checks
    rows = sum(table.num_rows for table in release.level_tables.values())
    assert checks[0].checked == rows
    sums = [check for check in checks if check.name.startswith("Sums")]
    assert len(sums) >= (2 if name != "tables" else 4)
    assert all(check.checked for check in sums)
    if name == "tables":
        assert "Sums of “county × sex” are the numbers of “total”" in [check.name for check in sums]


@pytest.mark.parametrize("name", ["counts", "flows", "group_sizes"])
def test_a_changed_number_is_found_in_the_sums(every_release, name):
    release = every_release[name]
    column = "groups" if name == "group_sizes" else "count"
    level = release.levels[-1]
    found = [
        check.name for check in checks_of(changed(release, level, column, lambda value: value + 1)) if check.failed
    ]
    assert any(f"“{level}”" in each for each in found)


def test_a_negative_and_a_fractional_number_are_found(counts_release):
    level = counts_release.levels[-1]
    negative = checks_of(changed(counts_release, level, "count", lambda value: -3))
    assert next(check for check in negative if check.name == "Numbers are 0 or more").failed == 1
    fraction = checks_of(changed(counts_release, level, "count", lambda value: value + 0.5))
    assert next(check for check in fraction if check.name == "Numbers are whole").failed == 1


def test_levels_named_like_sums_do_not_confuse_the_checks():
    import numpy as np

    import tallytree as tt

    areas = tt.Hierarchy.from_table(
        pa.table({"number_sum": ["a", "a", "b"], "key 0": ["x", "y", "x"]}), ["number_sum", "key 0"]
    )
    records = areas.leaf_table().take(pa.array(np.repeat(np.arange(3), 20)))
    release = tt.release_counts(records, areas, tt.Budget(epsilon=1), neighboring="add_remove")
    assert all(check.passed for check in checks_of(release))
