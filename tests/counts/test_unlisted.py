"""`unlisted="remainder"`: listed cells, and how much is not listed beside them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers import partly_listed
from helpers.inside import report_page
from tallytree.counts import unlisted
from tallytree.counts.unlisted import Remainders

AREAS = partly_listed.towns_of(6, 8)
SIDES = partly_listed.sides_of(AREAS)


def trips(seed=1, pairs=300, mean=20.0):
    """Numbers of trips between some of the 2,304 pairs of towns."""
    return partly_listed.trips(seed, pairs, mean, AREAS)


def released(table, budget, **options):
    return tt.release_flows(
        table, budget=budget, neighboring="add_remove", count="count", **{**SIDES, "seed": 1, **options}
    )


def error(release, level, table):
    """Σ|published − true| / Σ true over the cells of a level; what is not listed is published as 0."""
    rows = release.table(level).to_pandas()
    paths = [column for column in rows.columns if column in table.columns and column != "count"]
    rows = rows.dropna(subset=paths)
    if not paths:
        return abs(rows["count"].sum() - table["count"].sum()) / table["count"].sum()
    true = table.groupby(paths)["count"].sum().rename("true").reset_index()
    both = rows.merge(true, on=paths, how="outer")
    return np.abs(both["count"].fillna(0) - both["true"].fillna(0)).sum() / table["count"].sum()


@pytest.mark.slow
@settings(max_examples=15)
@given(st.integers(0, 99), st.sampled_from([0.0005, 0.02, 1.0, 100.0]), st.sampled_from([0, 1, 40, 1500]))
def test_every_table_adds_up_and_a_row_that_is_not_listed_is_what_its_siblings_leave(seed, rho, pairs):
    table = trips(seed, pairs)
    release = released(table, tt.Budget(rho=rho), unlisted="remainder", seed=seed)
    assert release.statement["constraint_violations"] == release.statement["negative_numbers"] == 0
    tables = {level: release.table(level).to_pandas() for level in release.levels}
    total = tables["all"]["count"].sum()
    for above, level in zip(release.levels, release.levels[1:], strict=False):
        rows = tables[level]
        assert rows["count"].sum() == total
        assert (rows["count"] > 0).all()
        paths = [column for column in tables[above].columns if column in table.columns and column != "count"]
        if not paths:
            continue
        sums, published = (
            each[[*paths, "count"]].fillna("not listed").groupby(paths)["count"].sum().to_dict()
            for each in (rows, tables[above])
        )
        assert sums == published


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.1, 1.0, 10.0])
def test_no_level_errs_more_than_with_zeros_or_a_sparsity(budget):
    """Means of five releases; they err by up to 1.8 at the leaves where everything is placed, and zeros by 1.

    Each option has noise of its own. Levels of few nodes have the same fit, so their ratio says how far noise differs.
    The total is one number, whose mean error over five is too uncertain for a ratio: the next test is about it.
    """
    table, spent = trips(), tt.Budget(epsilon=budget, delta=1e-8)
    options = {
        "remainder": {"unlisted": "remainder"},
        "zero": {"mechanism": tt.counts.LeastSquares()},
        "auto": {},
    }
    found = {
        name: np.mean(
            [
                [error(release, level, table) for level in release.levels]
                for release in (released(table, spent, seed=seed, **option) for seed in range(5))
            ],
            axis=0,
        )
        for name, option in options.items()
    }
    least = np.minimum(found["zero"], found["auto"])
    assert (found["remainder"][1:-2] <= 1.3 * found["auto"][1:-2] + 0.004).all()
    assert found["remainder"][-2] <= 1.05 * found["auto"][-2]
    assert found["remainder"][-1] <= 1.02 * min(1, least[-1])
    assert found["remainder"][-1] < 0.95 * found["zero"][-1]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("far", [False, True])
def test_flows_of_few_trips_between_many_places_err_less_than_publishing_nothing(far, epsilon):
    """6,400 trips between 160,000 pairs, near each other or anywhere; the error of nothing is 1.

    The allowance is 0.02 at the leaves. The level above gains more than 10 %, and the next one, which may keep its
    counts, differs by noise: means of six releases have standard errors of about 3 % there.
    """
    areas = partly_listed.towns_of(20, 20)
    rng = np.random.default_rng(7)
    places = areas
    start = rng.choice(400, 6400, p=(weight := 1 / (1 + rng.permutation(400))) / weight.sum())
    end = rng.choice(400, 6400, p=weight / weight.sum()) if far else (start + rng.geometric(0.3, 6400)) % 400
    table = pd.concat(
        [
            places.iloc[side].add_prefix(f"{name}_").reset_index(drop=True)
            for name, side in (("from", start), ("to", end))
        ],
        axis=1,
    ).assign(count=1)
    spent = tt.Budget(epsilon=epsilon, delta=1e-8)
    errors = {"auto": [], "remainder": []}
    for seed in range(6):
        for option, found in errors.items():
            chosen = {"unlisted": "remainder"} if option == "remainder" else {}
            release = released(table, spent, seed=seed, **{**partly_listed.sides_of(areas), **chosen})
            found.append([error(release, level, table) for level in release.levels])
    means = {option: np.mean(found, axis=0) for option, found in errors.items()}
    assert means["remainder"][-1] <= 1.02 * min(1, means["auto"][-1])
    assert means["remainder"][-2] <= 0.9 * means["auto"][-2]
    assert means["remainder"][-3] <= 1.1 * means["auto"][-3]
    assert means["auto"][-1] > 1 or epsilon > 1


def test_levels_of_few_nodes_keep_the_counts_that_they_have_without_remainders(monkeypatch):
    """The same measurements: the mechanism of the default is given what the other one measured."""
    taken = {}

    def kept(tree, before, levels, prior):
        taken["given"] = tree, before, levels
        return original(tree, before, levels, prior)

    original = Remainders()._finished
    monkeypatch.setattr(Remainders, "_finished", lambda _, *given: kept(*given))
    release = released(trips(), tt.Budget(epsilon=1), unlisted="remainder")
    tree, before, levels = taken["given"]
    default = tt.counts.LeastSquares(sparsity="auto")._finished(tree, before, levels).levels
    first = unlisted._first_learned(before)
    assert first == 3
    for depth, level in enumerate(release.levels):
        rows = release.table(level)
        same = (
            rows.num_rows == len(default[depth].nodes) and rows["count"].to_pylist() == default[depth].counts.tolist()
        )
        assert same == (depth < first)


@pytest.mark.slow
@pytest.mark.parametrize("option", [{}, {"unlisted": "remainder"}])
def test_the_total_is_not_biased_and_errs_as_stated(option):
    """25 releases: a mean that is off by 0.7 of its standard deviation is found in 93 of 100 cases."""
    table = trips()
    totals = [released(table, tt.Budget(epsilon=1, delta=1e-8), seed=seed, **option).table("all") for seed in range(25)]
    errors = np.array(
        [
            (each.column("count")[0].as_py() - table["count"].sum()) / each.column("std_dev")[0].as_py()
            for each in totals
        ]
    )
    assert abs(errors.mean()) < 0.4
    assert 0.6 < np.sqrt(np.mean(errors**2)) < 1.4


def test_what_is_listed_follows_from_the_measurements_alone():
    """The same counts in another order have the same noise, and the same release."""
    table = trips()
    first = released(table, tt.Budget(rho=0.05), unlisted="remainder")
    again = released(table.sample(frac=1, random_state=1), tt.Budget(rho=0.05), unlisted="remainder")
    for level in first.levels:
        assert first.table(level).equals(again.table(level))
    assert first.statement["unlisted"] == again.statement["unlisted"]
    assert set(first.statement["unlisted"]) == {
        "leaves_not_zero",
        "clustering",
        "learned",
        "in_unlisted",
        "unlisted_at_most",
    }


def test_it_is_saved_loaded_and_exported_with_nulls(tmp_path):
    release = released(trips(), tt.Budget(rho=0.01), unlisted="remainder")
    release.save(tmp_path / "out", csv=True)
    loaded = tt.Release.load(tmp_path / "out")
    leaf = release.levels[-1]
    assert loaded.table(leaf).equals(release.table(leaf))
    assert release.table(leaf).column("from_town").null_count > 0
    assert release.level_tables[leaf].read(3, 9).num_rows == 6
    assert any("A row without a label" in note for note in loaded.statement["notes"])


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (lambda release: release.table("all", dense=True), "dense: .* use dense=False"),
        (lambda release: tt.replicate_errors(release), "release: .* a replicate needs a number for every cell"),
    ],
)
def test_readers_that_need_every_count_at_a_node_refuse_it(reader, message):
    release = released(trips(), tt.Budget(rho=0.01), unlisted="remainder")
    with pytest.raises(ValueError, match=message):
        reader(release)


@pytest.mark.slow
@pytest.mark.needs("altair", "jinja2", "vl_convert")
def test_a_report_says_that_cells_without_a_row_are_not_0():
    page = report_page(released(trips(), tt.Budget(rho=0.01), unlisted="remainder"))
    assert "rows without a label say how much is not listed" in page
    assert "the others are 0" not in page
    assert "“tallytree error” adds them" not in page


def test_what_does_not_go_with_it_is_refused():
    budget = tt.Budget(rho=1)
    with pytest.raises(ValueError, match=r"unlisted: 'remainder' .*LeastSquares.* TopDown"):
        released(trips(), budget, unlisted="remainder", mechanism=tt.counts.TopDown())
    with pytest.raises(ValueError, match=r"sparsity: 3\.0 drops nodes"):
        released(trips(), budget, unlisted="remainder", mechanism=tt.counts.LeastSquares(sparsity=3.0))
    with pytest.raises(ValueError, match=r"unlisted: 'remainder' works on all nodes at once; leave memory out"):
        released(trips(), budget, unlisted="remainder", memory="1GB")
    with pytest.raises(ValueError, match=r"unlisted: 'nothing' is not known"):
        released(trips(), budget, unlisted="nothing")
    with pytest.raises(ValueError, match=r"unlisted: 'remainder' goes with flows and other products"):
        tt.release_counts(AREAS, SIDES["origins"], budget, neighboring="add_remove", unlisted="remainder", seed=1)
    assert Remainders().lists_remainders


def test_counts_that_are_too_large_to_fit_are_released_as_they_were_projected():
    table = trips(pairs=1).assign(count=2**51)
    release = released(table, tt.Budget(rho=1), unlisted="remainder")
    assert all(abs(release.table(level)["count"].to_numpy().sum() - 2**51) < 100 for level in release.levels)


def test_a_single_node_whose_total_is_public():
    town = tt.Hierarchy.from_table(pd.DataFrame({"t": ["x"]}), levels=["t"])
    release = tt.release_flows(
        pd.DataFrame({"o": ["x"] * 9, "d": ["x"] * 9}), origins=town, destinations=town, origin=["o"],
        destination=["d"], budget=tt.Budget(epsilon=1), neighboring="change_one", unlisted="remainder", seed=1,
    )  # fmt: skip
    assert release.table("all")["count"].to_pylist() == [9]
