"""Combinations that some areas alone cannot have: 0 there, in tables that agree with those of other groupings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.foreign import FinestTable
from tallytree.solvers.tables.fit import fit
from tallytree.solvers.tables.linear import NoisyTable
from tallytree.solvers.tables.marginals import Detail

COUNTIES, TOWNS, DISTRICTS = 6, 5, 8
"""Districts cross counties: a town lies in one, or in two of them."""
PLACES = pd.DataFrame({"county": [f"c{i // TOWNS}" for i in range(COUNTIES * TOWNS)]})
PLACES["town"] = [f"t{i:02}" for i in range(len(PLACES))]
NUMBER = np.arange(len(PLACES))
MAY = np.zeros((len(PLACES), DISTRICTS), dtype=bool)
MAY[NUMBER, NUMBER * DISTRICTS // len(PLACES)] = True
MAY[NUMBER[::3], (NUMBER[::3] * DISTRICTS // len(PLACES) + 1) % DISTRICTS] = True
NEVER = pd.DataFrame([(PLACES["town"][t], f"d{d}") for t, d in np.argwhere(~MAY)], columns=["town", "district"])
TABLES = [("town", "sex"), ("district", "sex"), ("county", "district"), ("town",), ()]


def product(impossible=NEVER):
    return tt.Product(
        {
            "area": tt.Hierarchy.from_table(PLACES, ["county", "town"]),
            "district": tt.Hierarchy.from_values("district", [f"d{i}" for i in range(DISTRICTS)]),
            "sex": tt.Hierarchy.from_values("sex", ["f", "m"]),
        },
        impossible=impossible,
    )


def people(n=4_000, seed=1):
    rng = np.random.default_rng(seed)
    town = rng.integers(0, len(PLACES), n) * rng.integers(0, 2, n)
    district = [rng.choice(np.flatnonzero(MAY[each])) for each in town]
    return PLACES.iloc[town].assign(district=[f"d{d}" for d in district], sex=rng.choice(["f", "m"], n))


def released(records, budget, tree=None, **options):
    return tt.release_tables(
        records, tree or product(), budget, **{"neighboring": "add_remove", "tables": TABLES, "seed": 1, **options}
    )


def frame(release, *table):
    return release.table(*table, alpha=0.1, unbiased=True).to_pandas()


@pytest.mark.parametrize("pooling", ["areas", "none"])
@pytest.mark.parametrize("rho", [0.005, 1e7])
def test_two_overlapping_groupings_agree(rho, pooling):
    """The districts' numbers are sums of what lies in towns that may be in them: no town has more than it published."""
    records = people()
    tables = [*TABLES, ("town", "district")]
    made = released(
        records, tt.Budget(rho=rho), tables=tables, mechanism=tt.tables.LeastSquares(pooling=pooling), keep_detail=True
    )
    cells = frame(made, "town", "district")
    wide = cells.pivot_table(index="town", columns="district", values="count").to_numpy()
    assert (wide[~MAY] == 0).all()
    assert (wide.sum(axis=1) == frame(made, "town")["count"]).all()
    districts = frame(made, "district", "sex").groupby("district")["count"].sum()
    assert (wide.sum(axis=0) == districts).all()
    crossed = frame(made, "county", "district").pivot_table(index="county", columns="district", values="count")
    assert (wide.reshape(COUNTIES, TOWNS, -1).sum(axis=1) == crossed.to_numpy()).all()
    never = ~MAY.ravel()
    assert (cells.loc[never, ["count", "std_dev", "unbiased", "ci_lower", "ci_upper"]] == 0).all(axis=None)
    assert (cells.loc[~never, "std_dev"] > 0).all()
    assert (made.measurements("town.district").to_pandas().loc[never, "value"] == 0).all()
    if rho > 1:
        true = (
            records.groupby(["town", "district"]).size().reindex(pd.MultiIndex.from_frame(cells[["town", "district"]]))
        )
        assert (cells["count"] == true.fillna(0).to_numpy()).all()


def test_districts_follow_from_towns_also_where_no_table_has_both():
    """Without noise in the towns, and much in the districts: a district of whole towns has their sum."""
    records = people()
    tables = [("town",), ("district",)]
    split = {("town",): 0.999999, ("district",): 0.000001}
    made = released(records, tt.Budget(rho=10.0), tables=tables, budget_split=split)
    district = frame(made, "district").set_index("district")["count"]
    town = frame(made, "town").set_index("town")["count"]
    for number in range(DISTRICTS):
        alone = (MAY[:, number]) & (MAY.sum(axis=1) == 1)
        some = MAY[:, number]
        assert town[PLACES["town"][alone]].sum() <= district[f"d{number}"] <= town[PLACES["town"][some]].sum()


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_integers_stay_0_where_an_area_cannot_have_any(seed):
    rng = np.random.default_rng(seed)
    detail = Detail.flat(rng.integers(1, 4, rng.integers(1, 4)).tolist())
    counts = [1, *rng.integers(1, 4, 2)]
    families = [np.array([0, counts[1]])]
    families.append(np.concatenate([[0], np.cumsum(rng.integers(1, 4, counts[1]))]))
    areas = int(families[-1][-1])
    zero = rng.random((areas, detail.cells)) < rng.choice([0.2, 0.6])
    zero[np.arange(areas), rng.integers(0, detail.cells, areas)] = False
    truth = rng.poisson(rng.choice([0.5, 30.0]), zero.shape) * ~zero
    measured, sums = [], truth
    for level in range(2, -1, -1):
        known = [each for each in detail.components if rng.random() < 0.6]
        scale = rng.choice([0.1, 5.0])
        measured.insert(0, [
            NoisyTable(each, np.rint(part + rng.normal(0, scale, part.shape)).astype(np.int64), scale**2)
            for each in known for part in (detail.summed(sums, each),)
        ])  # fmt: skip
        sums = np.add.reduceat(sums, families[level - 1][:-1], axis=0) if level else sums
    for pooled in (True, False):
        found = fit(detail, families, measured, impossible=zero, pooled=pooled).leaves
        assert (found >= 0).all()
        assert (found[zero] == 0).all()


@pytest.mark.slow
def test_intervals_hold_where_cells_of_some_areas_are_impossible():
    """Of 20 releases: a share of 0.85 in place of 0.9 would be seen with a probability of 0.9."""
    records = people()
    true = {table: records.groupby(list(table)).size() for table in TABLES[:4]}
    held, sums = {table: [] for table in true}, []
    by_district = records.groupby("district").size()
    for seed in range(20):
        made = released(records, tt.Budget(rho=0.02), seed=seed)
        for table, numbers in true.items():
            rows = frame(made, *table).set_index(list(table))
            wanted = numbers.reindex(rows.index, fill_value=0)
            noisy = rows["std_dev"] > 0
            held[table].extend(((rows["ci_lower"] <= wanted) & (wanted <= rows["ci_upper"]))[noisy])
        for name in ("d1", "d4"):
            (row,) = made.total(where={"district": name}, alpha=0.1).to_pylist()
            sums.append(row["ci_lower"] <= by_district[name] <= row["ci_upper"])
    for table, each in held.items():
        assert np.mean(each) > 0.86, table
    assert np.mean(sums) > 0.75


@pytest.mark.slow
def test_sums_over_cells_that_some_areas_cannot_have_state_no_less_than_they_err():
    """In 60 releases; the standard deviation of a sum over towns with other districts each is a bound."""
    records = people(600)
    tables = [("town", "district"), ()]
    errors, stated = [], []
    for seed in range(60):
        made = released(
            records, tt.Budget(rho=0.05), tables=tables, seed=seed, mechanism=tt.tables.LeastSquares("none")
        )
        (row,) = made.total(where={"district": ["d1", "d2"]}).to_pylist()
        errors.append(row["count"] - records["district"].isin(["d1", "d2"]).sum())
        stated.append(row["std_dev"])
    assert np.sqrt(np.mean(np.square(errors))) < 1.2 * np.mean(stated)


def test_a_record_where_its_area_cannot_have_one_is_refused_or_dropped():
    outside = PLACES.iloc[:1].assign(district=f"d{np.flatnonzero(~MAY[0])[0]}", sex="f")
    stray = pd.concat([outside, people(49)])
    with pytest.raises(ValueError, match=r"listed as impossible.*on_unknown='drop'") as refused:
        released(stray, tt.Budget(rho=1))
    assert "t00" not in str(refused.value)
    assert released(stray, tt.Budget(rho=1e7), on_unknown="drop").table()["count"][0].as_py() == 49


def test_it_comes_back_with_the_release_and_is_an_invariant(tmp_path):
    made = released(people(), tt.Budget(rho=1))
    loaded = tt.Release.load(made.save(tmp_path / "out"))
    assert frame(loaded, "town", "sex").equals(frame(made, "town", "sex"))
    (said,) = [each for each in loaded.statement["invariants"] if "no record can have it" in each]
    assert said.startswith("0, since no record can have it: town=t00, district=d")


def test_levels_above_the_finest_and_several_tables_count_together():
    never = [
        NEVER,
        pd.DataFrame({"county": ["c5"], "sex": ["m"]}),
    ]
    records = people()
    records = records[(records["county"] != "c5") | (records["sex"] != "m")]
    made = released(records, tt.Budget(rho=0.01), product(never))
    rows = frame(made, "town", "sex")
    in_c5 = (rows["county"] == "c5") & (rows["sex"] == "m")
    assert (rows.loc[in_c5, ["count", "std_dev"]] == 0).all(axis=None)
    assert (rows.loc[~in_c5, "std_dev"] > 0).all()


def test_what_does_not_go_with_it_is_refused_before_a_row_is_read():
    def nothing():
        raise AssertionError("records were read")
        yield

    def reader():
        schema = pa.Table.from_pandas(people(1), preserve_index=False).schema
        return pa.RecordBatchReader.from_batches(schema, nothing())

    totals = pd.DataFrame({"county": [f"c{i}" for i in range(COUNTIES)], "count": 5})
    for options, message in (
        ({"memory": "2GB"}, "^memory: tables whose impossible cells differ between areas are worked on in memory"),
        (
            {"public_totals": totals, "neighboring": "change_one"},
            "^public_totals: they cannot be met for certain where areas have impossible cells of their own",
        ),
        ({"tree": product([NEVER, everything_in("t00")])}, "^impossible: it leaves no combination .* in some area"),
    ):
        with pytest.raises(ValueError, match=message):
            released(reader(), tt.Budget(rho=1), **options)


def everything_in(town):
    return pd.DataFrame({"town": town, "sex": ["f", "m"]})


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["areas", "none"])
def test_ratios_of_sums_hold_where_one_of_them_lacks_areas(pooling):
    """Of 40 releases; with a bound of each variance alone the intervals held in 4 of 10."""
    towns = pd.DataFrame({"county": "A", "town": [f"t{i:02}" for i in range(16)]})
    few = towns["town"][:8].tolist()
    tree = tt.Product(
        {
            "area": tt.Hierarchy.from_table(towns, ["county", "town"]),
            "sex": tt.Hierarchy.from_values("sex", ["f", "m", "x"]),
        },
        impossible=pd.DataFrame({"town": few, "sex": "f"}),
    )
    sexes = [("m", 100, town) for town in towns["town"]] + [("f", 200, t) for t in towns["town"] if t not in few]
    records = pd.DataFrame([("A", town, sex, n) for sex, n, town in sexes], columns=["county", "town", "sex", "n"])
    held, mechanism = [], tt.tables.LeastSquares(pooling=pooling)
    for seed in range(40):
        made = released(
            records, tt.Budget(rho=0.01), tree, tables=[("town", "sex")], count="n", mechanism=mechanism, seed=seed
        )
        (row,) = made.ratio({"sex": "f"}, {"sex": "m"}, alpha=0.1).to_pylist()
        held.append(row["ci_lower"] <= 1 <= row["ci_upper"])
        assert row["quality"] != "exact"
    assert np.mean(held) > 0.82


def test_a_share_of_what_no_table_publishes_errs_as_the_measurements_do():
    made = released(people(), tt.Budget(rho=0.01), tables=[("town", "district")])
    rows = made.share(["town", "district"], within=["county"]).to_pandas()
    never = ~MAY.ravel()
    assert (rows.loc[never, "std_dev"] == 0).all()
    noise = float(made.measurements("town.district")["std_dev"][0].as_py())
    possible = np.repeat(MAY.reshape(COUNTIES, TOWNS, -1).sum(axis=(1, 2)), TOWNS * DISTRICTS)
    share = rows["share"].clip(0, 1)
    by_hand = np.sqrt((1 - share) ** 2 + share**2 * (possible - 1)) * noise / rows["of"]
    some = (~never) & (rows["of"] > 500) & rows["std_dev"].notna()
    assert rows.loc[some, "std_dev"].to_numpy() == pytest.approx(by_hand[some].to_numpy(), rel=0.1)


def test_a_mechanism_from_outside_publishes_nothing_in_impossible_cells():
    with pytest.raises(ValueError, match=r"leaves must be 0 in cells that are impossible .*Nothing was spent"):
        released(people(), tt.Budget(rho=1), tables=[("town", "district", "sex")], mechanism=FinestTable())


def test_of_a_record_outside_and_an_impossible_one_the_first_is_named():
    outside = PLACES.iloc[:1].assign(district="d0", sex="other")
    never = PLACES.iloc[:1].assign(district=f"d{np.flatnonzero(~MAY[0])[0]}", sex="f")
    with pytest.raises(ValueError, match="outside the hierarchy, by its label of 'sex'"):
        released(pd.concat([people(5), outside, never]), tt.Budget(rho=1))


def test_the_error_of_a_sum_does_not_depend_on_what_else_is_asked():
    made = released(people(), tt.Budget(rho=0.05), tables=[("town", "district")])
    every = pa.table({"district": [f"d{d}" for d in range(DISTRICTS)], "zone": [f"z{d}" for d in range(DISTRICTS)]})
    together = made.total(every, by="zone").to_pandas().set_index("zone")["std_dev"]
    noise = float(made.measurements("town.district")["std_dev"][0].as_py())
    for d in range(DISTRICTS):
        (alone,) = made.total(where={"district": f"d{d}"}).to_pylist()
        assert together[f"z{d}"] == pytest.approx(alone["std_dev"], rel=1e-3)
        assert alone["std_dev"] == pytest.approx(noise * np.sqrt(MAY[:, d].sum()), rel=0.05)  # of one pattern: exact
