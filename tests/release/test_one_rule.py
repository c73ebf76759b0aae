"""Verdicts and intervals say the same of 0, wherever a reader meets them."""

import csv

import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases
from helpers.inside import export, rows_of, totals_of_flows
from tallytree.release.intervals import stated_errors
from tallytree.release.quality import NEAR_ZERO, QUALITIES, numbers_by_verdict
from tallytree.release.view.release_view import ReleaseView

KINDS = {
    "counts": lambda areas, seed: releases.counts(areas, budget=tt.Budget(epsilon=0.1), seed=seed),
    "small counts": lambda areas, seed: releases.counts(areas, budget=tt.Budget(epsilon=1), seed=seed),
    "replicates": lambda areas, seed: tt.replicate_errors(
        releases.counts(areas, budget=tt.Budget(epsilon=0.2), seed=seed, mechanism=tt.counts.TopDown()), 12, seed=seed
    ),
    "flows": lambda areas, seed: releases.flows(areas, budget=tt.Budget(epsilon=0.4), seed=seed),
    "tables": lambda areas, seed: releases.tables(areas, budget=tt.Budget(epsilon=0.1), seed=seed),
    "sizes": lambda areas, seed: tt.replicate_errors(releases.group_sizes(areas, seed=seed), 12, seed=seed),
}


def agree(quality, lower):
    """Whether a number that is not exact is near 0 if and only if its interval holds 0, and how many are."""
    near = [verdict == NEAR_ZERO for verdict in quality if verdict != "exact"]
    assert near == [end == 0 for verdict, end in zip(quality, lower, strict=True) if verdict != "exact"]
    return sum(near)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_is_near_zero_where_its_interval_holds_0_in_all_that_is_read(areas, tmp_path, kind):
    """Fifty numbers or more of each kind; where the rule was 1.645 std_dev, some of each kind but one broke it."""
    found = 0
    for seed in range(4):
        release = KINDS[kind](areas, seed)
        view, folder = ReleaseView(release), tmp_path / str(seed)
        export(release, "csv", folder, alpha=0.1)
        files = {table.stem: table for table in folder.glob("*.csv")}
        for table in view.tables:
            rows = release.table(table.level, alpha=0.1)
            quality = rows["quality"].to_pylist()
            found += agree(quality, rows["ci_lower"].to_pylist())
            assert release.table(table.level)["quality"].to_pylist() == quality
            by_verdict = numbers_by_verdict(view.slices(table.level), stated_errors(release.statement, table.level))
            assert by_verdict == {each: quality.count(each) for each in QUALITIES}
            part = rows_of(view, table)
            assert [QUALITIES[code] for code in part["quality"]] == quality
            assert part["lower"] == rows["ci_lower"].to_pylist()
            if table.level in files:
                exported = [*csv.DictReader(files[table.level].read_text().splitlines())]
                assert [row["quality"] for row in exported] == quality
                agree(quality, [int(row["ci_lower"]) for row in exported])
        for _, part in totals_of_flows(view):
            judged = [pair for pair in zip(part["quality"], part["lower"], strict=True) if pair[0] is not None]
            agree([QUALITIES[code] for code, _ in judged], [lower for _, lower in judged])
    assert found > 2


def test_totals_shares_and_ratios_say_the_same_of_0(areas):
    found = 0
    for seed in range(8):
        release = releases.tables(areas, budget=tt.Budget(epsilon=0.05), seed=seed)
        counts = KINDS["counts"](areas, seed)
        towns = pa.table({"state": ["A", "A", "B"], "county": ["y", "z", "x"]})
        for rows in (
            release.total(towns, by="county"),
            release.total(towns, by="county", where={"sex": "f"}, alpha=0.1),
            counts.total(towns, by="county"),
            release.share("county", "sex", within=("county",)),
        ):
            known = rows.filter(pa.compute.is_valid(rows["quality"]))
            found += agree(known["quality"].to_pylist(), known["ci_lower"].to_pylist())
        narrow = release.total(towns, by="county", alpha=0.6)["quality"]
        assert narrow.equals(release.total(towns, by="county")["quality"])  # at 0.1, whatever is asked for
    assert found > 8
