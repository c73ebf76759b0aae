"""Combinations that no record can have: 0 without noise, refused or left out of all tables."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import tallytree as tt
from tallytree.spec import load_spec
from tallytree.tables import layout

AREAS = pd.DataFrame({"state": list("AABB"), "county": list("abcd")})
AGES = pd.DataFrame({"band": ["0-14", "0-14", "15+", "15+"], "age": ["5", "10", "30", "60"]})
WORK = ["none", "employed", "seeks"]
CHILDREN_WORK = pd.DataFrame({"band": ["0-14", "0-14"], "work": ["employed", "seeks"]})
TABLES = [("county", "age", "work"), ("band", "work"), ("work",), ()]
LARGE = tt.Budget(rho=10**7)


def product(impossible=CHILDREN_WORK):
    return tt.Product(
        {
            "area": tt.Hierarchy.from_table(AREAS, ["state", "county"]),
            "age": tt.Hierarchy.from_table(AGES, ["band", "age"]),
            "work": tt.Hierarchy.from_values("work", WORK),
        },
        impossible=impossible,
    )


def people(n=3000):
    rng = np.random.default_rng(3)
    return pd.concat(
        [
            AREAS.iloc[rng.integers(0, 4, n)].reset_index(drop=True),
            AGES.iloc[rng.integers(0, 4, n)].reset_index(drop=True),
            pd.Series(rng.choice(WORK, n), name="work"),
        ],
        axis=1,
    )


def possible(records):
    return records[(records["band"] != "0-14") | (records["work"] == "none")]


def released(records, tree, budget=LARGE, **options):
    return tt.release_tables(
        records, tree, budget, neighboring="add_remove", tables=TABLES, seed=1, budget_split="even", **options
    )


@pytest.mark.parametrize("budget", [LARGE, tt.Budget(rho=0.01)])
def test_impossible_cells_are_0_without_noise_in_tables_and_measurements(budget):
    release = released(possible(people()), product(), budget)
    for table, expected in ((TABLES[0], 4 * 2 * 2), (TABLES[1], 2)):
        rows = release.table(*table, alpha=0.1, unbiased=True).to_pandas()
        zero = (rows["band"] == "0-14") & (rows["work"] != "none")
        assert zero.sum() == expected
        numbers = ["count", "std_dev", "typical_error", "unbiased", "ci_lower", "ci_upper"]
        assert (rows.loc[zero, numbers] == 0).all().all()
        assert (rows.loc[~zero, "std_dev"] > 0).all()
        measured = release.measurements(".".join(table)).to_pandas()
        assert (measured.loc[zero.to_numpy(), "value"] == 0).all()
    assert release.table().to_pandas()["count"][0] == release.table(*TABLES[0]).to_pandas()["count"].sum()


@pytest.mark.slow
def test_intervals_hold_where_cells_are_impossible():
    records = possible(people())
    true = records.groupby(["county", "age", "work"]).size()
    held = []
    for seed in range(12):
        release = tt.release_tables(
            records, product(), tt.Budget(rho=0.02), neighboring="add_remove", tables=TABLES, seed=seed
        )
        rows = release.table(*TABLES[0], alpha=0.1).to_pandas().set_index(["county", "age", "work"])
        wanted = true.reindex(rows.index, fill_value=0)
        noisy = rows["std_dev"] > 0
        held.extend((rows["ci_lower"] <= wanted)[noisy] & (wanted <= rows["ci_upper"])[noisy])
    assert len(held) == 12 * 32
    assert np.mean(held) > 0.87 - 2 * np.sqrt(0.09 / len(held))


def test_a_combination_that_is_listed_twice_is_refused():
    twice = pd.concat([CHILDREN_WORK, CHILDREN_WORK.iloc[1:]])
    with pytest.raises(ValueError, match=r"^impossible: row 3 repeats another one; list a combination once$"):
        product(twice)


def test_a_record_that_is_impossible_is_refused_without_a_word_of_it():
    with pytest.raises(ValueError, match=r"listed as impossible.*on_unknown='drop'") as refused:
        released(people(), product())
    assert not any(word in str(refused.value) for word in ("0-14", "employed", "seeks"))


def test_records_that_are_impossible_are_left_out_of_all_tables():
    records = people()
    release = released(records, product(), on_unknown="drop")
    assert release.table().to_pandas()["count"][0] == len(possible(records))
    rows = release.table("work").to_pandas().set_index("work")["count"]
    assert rows.to_dict() == possible(records)["work"].value_counts().to_dict()


def test_of_a_person_the_records_that_are_impossible_do_not_count():
    records = people(600)
    records["person"] = np.arange(len(records))
    again = records.copy()
    again[["band", "age", "work"]] = ["0-14", "5", "seeks"]  # a second record of everybody, which cannot be
    release = released(
        pd.concat([records, again]), product(), on_unknown="drop", person="person", max_contributions=1, distinct=True
    )
    assert release.table().to_pandas()["count"][0] == len(possible(records))


@pytest.mark.slow
@pytest.mark.needs("pyspark")
def test_spark_leaves_out_the_same_records(spark):
    records = people(400)
    release = released(records, product(), on_unknown="drop", engine=tt.engines.Spark(session=spark))
    own = possible(records).groupby(["band", "work"]).size()
    rows = release.table("band", "work").to_pandas().set_index(["band", "work"])["count"]
    assert rows[rows > 0].to_dict() == own.to_dict()


def test_rules_of_several_tables_hold_together_and_come_back_with_the_release(tmp_path):
    tree = product([CHILDREN_WORK, pd.DataFrame({"age": ["60"], "work": ["seeks"]})])
    records = possible(people())
    records = records[(records["age"] != "60") | (records["work"] != "seeks")]
    release = released(records, tree)
    release.save(tmp_path / "out")
    loaded = tt.Release.load(tmp_path / "out")
    assert repr(loaded.tree) == repr(tree)
    for one, other in zip(loaded.tree.impossible, tree.impossible, strict=True):
        assert one.leaves.equals(other.leaves)
    rows = loaded.table("county", "age", "work").to_pandas()
    assert (rows[(rows["age"] == "60") & (rows["work"] == "seeks")]["std_dev"] == 0).all()
    (seeking,) = loaded.total(where={"work": ["seeks"]}).to_pylist()
    assert seeking["count"] == (records["work"] == "seeks").sum()
    stated = [each for each in loaded.statement["invariants"] if "no record can have it" in each]
    assert len(stated) == 2
    assert "band=0-14, work=employed; band=0-14, work=seeks" in stated[0]


@pytest.mark.slow
def test_a_sum_over_impossible_cells_covers_its_true_number():
    """The zeros of a fine table take away what made a sum precise: 62 % held with the variance of the whole sum."""
    work = [f"w{i}" for i in range(6)]
    sides = {
        "area": tt.Hierarchy.from_values("county", ["a"]),
        "age": tt.Hierarchy.from_values("age", ["c", "y", "o"]),
        "work": tt.Hierarchy.from_values("work", work),
    }
    tree = tt.Product(sides, impossible=pd.DataFrame({"age": ["c"] * 5, "work": work[1:]}))
    records = pd.DataFrame({"county": "a", "age": ["c", "y", "o"], "work": ["w0", "w1", "w2"], "n": [900, 800, 700]})
    held = []
    for seed in range(60):
        release = tt.release_tables(
            records, tree, tt.Budget(rho=0.01), neighboring="add_remove", tables=[("age", "work"), ()], count="n",
            budget_split={("age", "work"): 0.01, (): 0.99}, seed=seed,
        )  # fmt: skip
        (row,) = release.total(where={"work": work}).to_pylist()
        held.append(row["ci_lower"] <= 2400 <= row["ci_upper"])
        (none,) = release.total(where={"age": "c", "work": work[1:]}).to_pylist()
        assert none == {"count": 0, "std_dev": 0.0, "ci_lower": 0, "ci_upper": 0, "quality": "exact"}
    assert np.mean(held) > 0.85


def test_levels_may_have_any_name():
    sides = {
        "area": tt.Hierarchy.from_values("county", ["a"]),
        "one": tt.Hierarchy.from_values("row", ["1", "2"]),
        "two": tt.Hierarchy.from_values("leaf1", ["1", "2"]),
    }
    tree = tt.Product(sides, impossible=pd.DataFrame({"row": ["1"], "leaf1": ["2"]}))
    assert tree.impossible[0].leaves.to_pylist() == [{"leaf1": 0, "leaf2": 1}]


def test_too_many_combinations_are_refused_before_they_are_listed():
    many = tt.Hierarchy.from_table(pd.DataFrame({"top": ["t"] * 5000, "low": np.arange(5000)}), ["top", "low"])
    sides = {"area": tt.Hierarchy.from_values("county", ["a"]), "one": many, "two": many}
    columns = {"one": ["t1", "l1"], "two": ["t2", "l2"]}
    with pytest.raises(ValueError, match="impossible: it stands for more than 10,000,000 combinations"):
        tt.Product(sides, columns=columns, impossible=pd.DataFrame({"t1": ["t"], "t2": ["t"]}))


def test_a_coarser_cell_is_impossible_only_where_all_of_it_is():
    tree = product(pd.DataFrame({"age": ["5"], "work": ["seeks"]}))
    records = people()
    records = records[(records["age"] != "5") | (records["work"] != "seeks")]
    rows = released(records, tree).table("band", "work").to_pandas()
    assert (rows["std_dev"] > 0).all()


@pytest.mark.parametrize("limit", [10_000_000, 5])
def test_tables_may_cover_a_cell_together(limit, monkeypatch):
    """Of the band 0-14 that seeks work, one table names the age 5 and the other the age 10."""
    monkeypatch.setattr(layout, "MAX_COMBINATIONS", limit)
    given = [pd.DataFrame({"age": [age], "work": ["seeks"]}) for age in ("5", "10")]
    records = people()
    records = records[(records["band"] != "0-14") | (records["work"] != "seeks")]
    sides = dict(zip(("area", "age", "work"), product().attributes, strict=True))
    tree = tt.Product({name: side.hierarchy for name, side in sides.items()}, impossible=given)
    tables = [("county", "band", "work"), ("work",)]
    found = tt.release_tables(records, tree, tt.Budget(rho=1), neighboring="add_remove", tables=tables, seed=1)
    rows = found.table("county", "band", "work").to_pandas()
    empty = (rows["band"] == "0-14") & (rows["work"] == "seeks")
    if limit > 12:  # the leaves of both attributes
        assert (rows.loc[empty, ["count", "std_dev"]] == 0).all(axis=None)
        assert (rows.loc[~empty, "std_dev"] > 0).all()
    else:
        assert (rows["std_dev"] > 0).all()


@pytest.mark.slow
@settings(max_examples=60)
@drawn(st.integers(0, 10_000))
def test_cells_that_are_impossible_are_those_without_a_possible_leaf(seed):
    """Against a list of all leaves; three attributes with bands, and one to three tables of two or three of them."""
    rng = np.random.default_rng(seed)
    names = ("one", "two", "three")
    bands = [np.array([0, *np.sort(rng.integers(0, 3, rng.integers(0, 4))), 2]) for _ in names]
    trees = {
        name: pd.DataFrame({f"{name}_band": [f"b{b}" for b in band], name: [f"v{i}" for i in range(len(band))]})
        for name, band in zip(names, bands, strict=True)
    }
    given, refused = [], np.zeros([len(band) for band in bands], dtype=bool)
    for _ in range(rng.integers(1, 4)):
        about = [str(name) for name in np.sort(rng.choice(names, rng.integers(2, 4), replace=False))]
        rows = {name: rng.choice(trees[name][name], 12) for name in about}
        given.append(pd.DataFrame(rows).drop_duplicates())
        for i in range(12):
            refused[tuple(int(rows[name][i][1:]) if name in about else slice(None) for name in names)] = True
    sides = {name: tt.Hierarchy.from_table(trees[name], [f"{name}_band", name]) for name in names}
    tree = tt.Product({"area": tt.Hierarchy.from_values("county", ["a", "b"]), **sides}, impossible=given)
    fine = rng.random(3) < 0.5
    table = [name if is_fine else f"{name}_band" for name, is_fine in zip(names, fine, strict=True)]
    if refused.all():
        return
    plan = layout.TableLayout(tree, layout.tables_of(tree, [("county", *table)], "tables"), 1)
    own = [
        np.arange(len(band)) if is_fine else np.unique(band, return_inverse=True)[1]
        for band, is_fine in zip(bands, fine, strict=True)
    ]
    possible = np.zeros([int(each.max()) + 1 for each in own], dtype=bool)
    for leaf in np.argwhere(~refused):
        possible[tuple(each[i] for each, i in zip(own, leaf, strict=True))] = True
    found = np.zeros((1, possible.size), dtype=bool) if plan.impossible is None else plan.impossible
    np.testing.assert_array_equal(found, ~possible.reshape(1, -1))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"band": ["0-14"], "job": ["seeks"]}, "1 of its 2 columns are no levels.*state, county, band, age, work"),
        ({"work": ["seeks"]}, "levels of one attribute"),
        ({"band": ["0-14"], "age": ["5"]}, "levels of one attribute"),
        ({"band": ["16+"], "work": ["seeks"]}, "row 1 names a label of 'band' that.*'age' does not have"),
        ({"band": ["0-14"], "age": ["60"], "work": ["none"]}, "row 1 names a combination of band, age"),
        ({"band": ["0-14"] * 2, "work": ["seeks", None]}, "column 'work' has null"),
    ],
)
def test_tables_that_cannot_be_impossible_are_refused(table, message):
    with pytest.raises(ValueError, match=f"impossible: .*{message}"):
        product(pd.DataFrame(table))


def test_an_empty_table_and_impossible_everything_are_refused():
    with pytest.raises(ValueError, match="impossible: the table has no rows"):
        product(CHILDREN_WORK[:0])
    with pytest.raises(TypeError, match="impossible"):
        product(7)
    everything = pd.DataFrame([(band, work) for band in ("0-14", "15+") for work in WORK], columns=["band", "work"])
    with pytest.raises(ValueError, match="impossible: it leaves no combination"):
        released(people(), product(everything))


def test_a_spec_names_impossible_combinations(tmp_path):
    for name, frame in (("areas", AREAS), ("ages", AGES), ("none", CHILDREN_WORK), ("people", possible(people()))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    pd.DataFrame({"work": WORK}).to_csv(tmp_path / "work.csv", index=False)
    (tmp_path / "spec.yaml").write_text(
        """
        statistic: tables
        records: people.csv
        hierarchy:
          attributes:
            area: {path: areas.csv, levels: [state, county]}
            age: {path: ages.csv, levels: [band, age]}
            work: {path: work.csv, levels: [work]}
          impossible: none.csv
        tables: [[band, work], []]
        neighboring: add_remove
        budget: {rho: 1}
        seed: 1
        """,
        encoding="utf-8",
    )
    rows = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out").table("band", "work").to_pandas()
    assert (rows["std_dev"] == 0).sum() == 2
