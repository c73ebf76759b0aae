"""What is strange about a release, from what is published of it and of the run before."""

import pyarrow as pa
import pytest

import tallytree as tt
from helpers import releases
from tallytree.release.surprises import surprises

EMPTY = "The total is not distinguishable from 0."


def saved(folder, areas, run, n, seed=1, **options):
    """A release of n records, saved under the name of its run."""
    records = pa.table({"state": ["A"] * n, "county": ["x"] * n, "who": range(n)})
    given = {"neighboring": "add_remove", "budget": tt.Budget(epsilon=0.1)} | options
    release = releases.counts(areas, records=records, run=run, seed=seed, **given)
    release.save(folder / run)
    return release


def said(release, folder, run):
    return list(surprises(release, folder / run))


def total(release):
    return release.table("total").to_pylist()[0]


def test_a_total_within_its_noise_is_said(areas, tmp_path):
    for n, seed in ((0, 1), (5, 2), (10_000, 3)):
        release = saved(tmp_path, areas, f"run{seed}", n, seed)
        verdict = total(release)["quality"]
        assert (EMPTY in said(release, tmp_path, f"run{seed}")) == (verdict == "not_distinguishable_from_0") == (n < 10)


def test_a_change_is_far_by_its_share_and_by_its_noise(areas, tmp_path):
    """Seeds of many runs: each is compared with the one before it, by the numbers that both publish."""
    far, before = [], None
    for day in range(1, 14):
        n = (300, 400, 120, 20_000, 21_000, 40)[day % 6]
        release = saved(tmp_path, areas, f"2024-03-{day:02}", n, seed=day)
        found = [each for each in said(release, tmp_path, f"2024-03-{day:02}") if each != EMPTY]
        if before is not None:
            one, other = (total(each) for each in (release, before))
            change = abs(one["count"] - other["count"])
            spread = (one["std_dev"] ** 2 + other["std_dev"] ** 2) ** 0.5
            assert bool(found) == (change > other["count"] / 2 and change > 3 * spread)
            assert all(f"{one['count']:,}, and {other['count']:,} in '2024-03-{day - 1:02}'." in each for each in found)
            far.append(bool(found))
        before = release
    assert 2 < sum(far) < 11


def test_only_a_run_of_the_same_series_before_this_one_is_compared(areas, tmp_path):
    first = saved(tmp_path, areas, "2024-03-01", 9_000)
    saved(tmp_path, areas, "2024-03-03", 10)
    saved(tmp_path, areas, "other", 10, person="who")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "release.json").write_text("{}")
    (tmp_path / "file").write_text("")
    second = saved(tmp_path, areas, "2024-03-02", 9_000, seed=2)
    assert said(first, tmp_path, "2024-03-01") == said(second, tmp_path, "2024-03-02") == []
    small = saved(tmp_path, areas, "2024-03-04", 3_000)
    (far,) = said(small, tmp_path, "2024-03-04")
    assert "in '2024-03-03'" in far
    without_a_name = releases.counts(areas, seed=1)
    assert said(without_a_name, tmp_path, "2024-03-05") == []


@pytest.mark.parametrize("make", [releases.flows, releases.tables, releases.group_sizes, releases.counts])
def test_every_kind_of_release_has_a_total(make, areas, tmp_path):
    release = make(areas, seed=1, run="2024-03-01", budget=tt.Budget(epsilon=100))
    assert said(release, tmp_path, "2024-03-01") == []
    release.save(tmp_path / "2024-03-01")
    assert said(make(areas, seed=2, run="2024-03-02", budget=tt.Budget(epsilon=100)), tmp_path, "2024-03-02") == []


def test_a_run_before_that_is_damaged_is_not_compared(areas, tmp_path):
    saved(tmp_path, areas, "2024-03-01", 10)
    release = saved(tmp_path, areas, "2024-03-02", 9_000)
    assert len(said(release, tmp_path, "2024-03-02")) == 1
    next((tmp_path / "2024-03-01" / "tables").glob("all*.parquet")).write_bytes(b"")
    assert said(release, tmp_path, "2024-03-02") == []


def test_tables_without_a_total_are_summed(areas, tmp_path):
    for day, budget in ((1, 100), (2, 0.001)):
        release = releases.tables(
            areas,
            tables=[("county", "sex"), ("sex",)],
            neighboring="add_remove",
            seed=1,
            budget=tt.Budget(epsilon=budget),
        )
        assert (EMPTY in said(release, tmp_path, f"{day}")) == (day == 2)
