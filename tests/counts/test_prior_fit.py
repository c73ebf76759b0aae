"""Counts of a hierarchy that know a prior: what stays as it is, what is stated, and what is gained."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, FlowsArguments, plan_counts, plan_flows
from tallytree.mechanisms import reconcile_counts

AREAS = 400
RNG = np.random.default_rng
PROVINCE = np.sort(RNG(1).integers(0, 10, AREAS))
TABLE = pa.table({"province": [f"p{i}" for i in PROVINCE], "town": [f"t{i:03d}" for i in range(AREAS)]})
TREE = tt.Hierarchy.from_table(TABLE, ["province", "town"])
WEIGHTS = RNG(2).lognormal(0, 1, AREAS)


def numbers(year):
    """Records of each town: a few per cent more or less than in another year; a tenth of the towns has none."""
    found = RNG(year).poisson(40 * WEIGHTS * np.exp(0.05 * RNG(year + 99).standard_normal(AREAS)))
    found[::10] = 0
    return found


def release(year, epsilon=0.3, **options):
    records = TABLE.append_column("n", pa.array(numbers(year)))
    given = {"neighboring": "add_remove", "count": "n"} | options
    return tt.release_counts(records, TREE, tt.Budget(epsilon=epsilon, delta=1e-8), **given)


def register(counts):
    return TABLE.append_column("count", pa.array(counts))


def errors(made, year):
    return made.to_pandas("town")["count"].to_numpy() - numbers(year)


@pytest.fixture(scope="module")
def runs():
    """Releases of 8 seeds: without a prior, with the year before, with a wrong one."""
    found = {"alone": [], "known": [], "wrong": []}
    for seed in range(8):
        found["alone"].append(release(5, seed=seed))
        found["known"].append(release(5, seed=seed, prior=register(numbers(4)), prior_is_public=True))
        wrong = RNG(seed).permutation(numbers(4))
        found["wrong"].append(release(5, seed=seed, prior=register(wrong), prior_is_public=True))
    return found


def rmse(made):
    return np.sqrt(np.mean([np.mean(errors(each, 5) ** 2) for each in made]))


def test_a_prior_lowers_errors_and_a_wrong_one_does_not_raise_them(runs):
    """Of 3,200 numbers each; a ratio of root mean squares has a standard error below 0.03."""
    assert rmse(runs["known"]) <= 0.75 * rmse(runs["alone"])
    assert rmse(runs["wrong"]) <= 1.05 * rmse(runs["alone"])


@pytest.mark.parametrize("kind", ["known", "wrong"])
def test_what_is_stated_is_true(runs, kind):
    made = runs[kind]
    typical = np.sqrt(np.mean([np.mean(each.to_pandas("town")["typical_error"] ** 2) for each in made]))
    assert 0.85 <= typical / rmse(made) <= 1.25
    held = []
    for each in made:
        rows = each.table("town", alpha=0.1).to_pandas()
        held.append(np.mean((rows["ci_lower"] <= numbers(5)) & (numbers(5) <= rows["ci_upper"])))
        assert ((rows["ci_lower"] <= rows["count"]) & (rows["count"] <= rows["ci_upper"])).all()
    assert np.mean(held) >= 0.88


def test_counts_are_integers_that_add_up(runs):
    for made in (*runs["known"], *runs["wrong"]):
        towns, provinces = made.to_pandas("town"), made.to_pandas("province")
        assert (towns["count"] >= 0).all()
        assert towns.groupby("province")["count"].sum().tolist() == provinces["count"].tolist()
        assert provinces["count"].sum() == made.to_pandas("all")["count"][0]
        assert made.statement["constraint_violations"] == 0


def test_unbiased_estimates_and_their_errors_do_not_know_the_prior():
    """Their squares are those of `std_dev`, with a prior that is wrong everywhere: 4,000 numbers, 4 standard errors."""
    wrong = register(np.full(AREAS, 500))
    squares, stated = [], []
    for seed in range(10):
        rows = release(5, seed=seed, prior=wrong, prior_is_public=True).table("town", unbiased=True).to_pandas()
        squares.append(np.mean((rows["unbiased"] - numbers(5)) ** 2))
        stated.append(np.mean(rows["std_dev"] ** 2))
    assert np.mean(squares) == pytest.approx(np.mean(stated), rel=4 * np.sqrt(2 / 4_000))


def test_a_public_total_is_kept():
    made = release(5, seed=1, neighboring="change_one", prior=register(numbers(4)), prior_is_public=True)
    assert made.to_pandas("all")["count"][0] == numbers(5).sum()


def test_a_prior_of_provinces_only_or_of_some_towns_is_taken():
    provinces = pd.DataFrame({"province": TABLE["province"].to_pylist(), "count": numbers(4)})
    coarse = provinces.groupby("province")["count"].sum().reset_index()
    for prior in (coarse, register(numbers(4)).slice(0, 50)):
        made = release(5, seed=1, prior=prior, prior_is_public=True)
        assert made.statement["constraint_violations"] == 0
        assert rmse([made]) <= 1.1 * rmse([release(5, seed=1)])


@pytest.mark.parametrize(
    "options",
    [{"mechanism": tt.counts.TopDown()}, {"mechanism": tt.counts.LeastSquares(sparsity=3)}, {"memory": "1GB"}],
)
def test_where_no_prior_is_taken_it_is_refused(options):
    with pytest.raises(ValueError, match=r"prior: .*leave it out"):
        release(5, prior=register(numbers(4)), prior_is_public=True, **options)


def test_counts_below_0_and_counts_of_0_are_no_prior_of_a_revision(tmp_path):
    with pytest.warns(UserWarning, match="negative counts"):
        below = tt.release_counts(
            TABLE, TREE, tt.Budget(rho=0.001), neighboring="add_remove", mechanism=tt.counts.LeafGaussian()
        )
    with pytest.raises(ValueError, match=r"prior: .*not of counts from 0"):
        release(5, prior=below)
    nobody = tt.release_counts(TABLE.slice(0, 0), TREE, tt.Budget(epsilon=1_000), neighboring="add_remove")
    assert release(5, revises=nobody.save(tmp_path / "nobody")).statement["prior"]["share_in_cells"] == 1.0


def test_counts_that_are_made_again_have_no_prior_and_state_none():
    made = release(5, prior=register(numbers(4)), prior_is_public=True)
    again, alone = (reconcile_counts(each) for each in (made, release(5)))
    assert any("a prior" in note for note in made.statement["notes"])
    for each in (again, alone):
        assert "prior" not in each.statement
        assert not any("a prior" in note for note in each.statement["notes"])


# --- Flows ---

ORIGINS = tt.Hierarchy.from_table(TABLE.slice(0, 60), ["province", "town"])
PATHS = ["from_province", "from_town"], ["to_province", "to_town"]


def trips(day):
    """20,000 trips: most pairs of towns have none, and the same ones have many every day."""
    pairs = RNG(7).integers(0, 60, (300, 2))
    chosen = pairs[RNG(day).choice(300, 20_000, p=RNG(8).dirichlet(np.full(300, 0.5)))]
    sides = (TABLE.take(pa.array(chosen[:, side])).rename_columns(PATHS[side]) for side in (0, 1))
    first, second = sides
    return pa.table({name: each[name] for each in (first, second) for name in each.column_names})


def flows(day, **options):
    given = {
        "origin": PATHS[0],
        "destination": PATHS[1],
        "neighboring": "add_remove",
        "unlisted": "remainder",
    } | options
    return tt.release_flows(
        trips(day), origins=ORIGINS, destinations=ORIGINS, budget=tt.Budget(epsilon=0.2, delta=1e-8), **given
    )


def leaf_error(made, day):
    """The sum of the absolute errors of the pairs of towns."""
    names = [PATHS[0][1], PATHS[1][1]]
    listed = made.to_pandas(made.levels[-1]).dropna(subset=names).set_index(names)["count"]
    true = trips(day).to_pandas().groupby(names).size()
    return listed.sub(true, fill_value=0).abs().sum()


def pairs_of(day):
    """The true flows as a public table."""
    counted = trips(day).to_pandas().value_counts().rename("count").reset_index()
    return pa.Table.from_pandas(counted, preserve_index=False)


def test_flows_learn_from_those_of_another_day():
    """Sums over 4 seeds; a prior that is wrong costs next to nothing, as the noisy numbers do not choose it."""
    wrong = pairs_of(3)
    wrong = wrong.set_column(4, "count", wrong["count"].take(pa.array(RNG(1).permutation(wrong.num_rows))))
    found = {"alone": 0.0, "known": 0.0, "wrong": 0.0}
    for seed in range(4):
        found["alone"] += leaf_error(flows(4, seed=seed), 4)
        found["known"] += leaf_error(flows(4, seed=seed, prior=pairs_of(3), prior_is_public=True), 4)
        found["wrong"] += leaf_error(flows(4, seed=seed, prior=wrong, prior_is_public=True), 4)
    assert found["known"] <= 0.85 * found["alone"]
    assert found["wrong"] <= 1.1 * found["alone"]


def test_a_release_of_flows_is_the_prior_of_another_and_of_its_revision(tmp_path):
    first = flows(3)
    later = flows(4, prior=first)
    assert later.statement["prior"]["release"] == first.statement["release"]["id"]
    assert later.statement["constraint_violations"] == 0
    folder = first.save(tmp_path / "first")
    assert flows(4, revises=folder).statement["prior"]["release"] == first.statement["release"]["id"]


FIRST_TOWNS = 50
"""Towns of an earlier release; the others are new."""


def flows_then(day):
    """A release of the flows between the first towns."""
    towns = [f"t{i:03d}" for i in range(FIRST_TOWNS)]
    rows = trips(day).to_pandas()
    rows = rows[rows["from_town"].isin(towns) & rows["to_town"].isin(towns)]
    tree = tt.Hierarchy.from_table(TABLE.slice(0, FIRST_TOWNS), ["province", "town"])
    return tt.release_flows(
        rows, origins=tree, destinations=tree, origin=PATHS[0], destination=PATHS[1], neighboring="add_remove",
        budget=tt.Budget(epsilon=1, delta=1e-8), unlisted="remainder",
    )  # fmt: skip


def test_pairs_of_areas_that_an_earlier_release_lacks_are_not_known():
    then = flows_then(3)
    planned = plan_flows(
        FlowsArguments(
            trips(4), origins=ORIGINS, destinations=ORIGINS, origin=PATHS[0], destination=PATHS[1],
            neighboring="add_remove", budget=tt.Budget(epsilon=1, delta=1e-8), unlisted="remainder", prior=then,
        )
    )  # fmt: skip
    known, tree = planned.prior_arguments["prior"], planned.tree
    depth = len(tree.levels) - 1
    pairs = known.at(depth, np.arange(60 * 60)).reshape(60, 60)
    new = np.arange(60) >= FIRST_TOWNS
    np.testing.assert_array_equal(np.isnan(pairs), new[:, None] | new)
    listed = then.to_pandas(then.levels[-1]).dropna(subset=[PATHS[0][1], PATHS[1][1]])["count"].sum()
    assert np.nansum(pairs) == listed
    provinces = known.at(2, np.arange(tree.size(2)))
    has_new = ~np.isin(ORIGINS.labels[1].to_pylist(), TABLE.slice(0, FIRST_TOWNS)["province"].to_pylist())
    np.testing.assert_array_equal(np.isnan(provinces), (has_new[:, None] | has_new).ravel())
    assert flows(4, prior=then).statement["constraint_violations"] == 0


def test_sums_of_areas_of_which_an_earlier_release_lacks_one_are_not_known():
    """The earlier release has towns alone, so what it has of provinces are sums of these."""
    towns = tt.Hierarchy.from_table(TABLE.slice(0, 390), ["province", "town"])
    sides = tt.Product({"area": towns, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    rows = (
        TABLE.slice(0, 390).append_column("sex", pa.array(["f"] * 390)).append_column("n", pa.array(numbers(4)[:390]))
    )
    then = tt.release_tables(rows, sides, tt.Budget(epsilon=1), neighboring="add_remove", tables=[("town",)], count="n")
    records = TABLE.append_column("n", pa.array(numbers(5)))
    given = {"neighboring": "add_remove", "count": "n", "prior": then}
    known = plan_counts(CountsArguments(records, TREE, tt.Budget(epsilon=1), **given)).prior_arguments["prior"]
    depth = len(TREE.levels) - 1
    new = np.arange(AREAS) >= 390
    np.testing.assert_array_equal(np.isnan(known.at(depth, np.arange(AREAS))), new)
    incomplete = np.bincount(PROVINCE, new) > 0
    assert 0 < incomplete.sum() < 10
    np.testing.assert_array_equal(np.isnan(known.at(depth - 1, np.arange(10))), incomplete)
    assert np.isnan(known.at(0, np.arange(1))).all()


def test_flows_that_list_no_remainder_take_none():
    with pytest.raises(ValueError, match=r"prior: .*unlisted='remainder'"):
        flows(4, unlisted="zero", prior=pairs_of(3), prior_is_public=True)


def test_people_by_their_number_of_records_take_none():
    records = TABLE.append_column("who", pa.array(range(AREAS)))
    with pytest.raises(ValueError, match=r"prior: .*leave it out"):
        tt.release_contributions(
            records, TREE, tt.Budget(epsilon=1), neighboring="add_remove", person="who", prior=register(numbers(4)),
            prior_is_public=True,
        )  # fmt: skip


def test_a_revision_stays_near_the_release_that_it_revises(tmp_path):
    first = release(5, epsilon=1)
    folder = first.save(tmp_path / "first")
    was = first.to_pandas("town")["count"].to_numpy()
    revised, alone = (release(5, epsilon=0.1, **options) for options in ({"revises": folder}, {}))
    moved, anew = (np.sqrt(np.mean((each.to_pandas("town")["count"] - was) ** 2)) for each in (revised, alone))
    assert moved <= 0.5 * anew
    assert "prior" in revised.statement
