"""The errors of released tables: from replicates, and from the fit; in memory and from a folder."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.manifests import rewrite
from tallytree.numbers.accuracy.bootstrap import PublishedTables, StatedPlan, TableReplicates, fresh_sources
from tallytree.numbers.accuracy.fitted_errors import fitted_errors, has_fitted_errors
from tallytree.release.view.layouts import layout_of
from tallytree.tables import layout

AREAS = tt.Hierarchy.from_table(pa.table({"state": list("AAB"), "county": list("xyz")}), ["state", "county"])
SEXES = tt.Hierarchy.from_values("sex", ["f", "m"])
PEOPLE = tt.Product({"area": AREAS, "sex": SEXES})
TABLES = [("county", "sex"), ("state", "sex"), ("sex",)]
TRUTH = [200, 190, 70, 80, 300, 2]
PLACES = np.repeat(np.arange(6), TRUTH)
RECORDS = pa.table(
    {
        "state": np.array(list("AAB"))[PLACES // 2],
        "county": np.array(list("xyz"))[PLACES // 2],
        "sex": np.array(["f", "m"])[PLACES % 2],
    }
)
TOTALS = pa.table({"state": ["A", "B"], "count": [540, 302]})


def tables(records=RECORDS, **changes):
    given = {"budget": tt.Budget(rho=0.01), "neighboring": "add_remove", "tables": TABLES, "budget_split": "even"}
    given |= changes
    return tt.release_tables(records, PEOPLE, given.pop("budget"), **given)


def errors(release, *table, rounds=60):
    return tt.replicate_errors(release, rounds, seed=3).table(*table)


@pytest.mark.slow
def test_replicates_find_the_errors_that_the_fit_states():
    """Away from zero, where nothing is cut: 400 replicates know a standard deviation to 4 %."""
    release = tables(seed=1)
    found, fitted = errors(release, "state", "sex", rounds=400), release.table("state", "sex")
    ratio = found["std_dev"].to_numpy()[:3] / fitted["std_dev"].to_numpy()[:3]  # the last has 2 records
    assert (np.abs(ratio - 1) < 0.3).all()  # what is cut off at 0 beside them is added to these
    assert found.drop_columns(["std_dev", "ci_lower", "ci_upper"]) == fitted.drop_columns(["std_dev", "typical_error"])
    near_zero = errors(release, "county", "sex", rounds=400).to_pylist()[5]
    assert near_zero["std_dev"] < release.table("county", "sex")["std_dev"][5].as_py()


def test_half_the_stated_noise_would_halve_the_errors():
    """The replicates use the noise of the statement, table by table."""
    release = tables(seed=1)
    scale = release.statement["levels"][0]["noise"]["scale_exact"]
    numerator, _, denominator = scale.partition("/")
    statement = {**release.statement, "levels": [dict(level) for level in release.statement["levels"]]}
    for level in statement["levels"]:
        level["noise"] = {**level["noise"], "scale_exact": f"{numerator}/{2 * int(denominator or 1)}"}
    halved = release.with_tables(release.level_tables, statement)
    ratio = errors(halved, "state", "sex")["std_dev"].to_numpy() / errors(release, "state", "sex")["std_dev"].to_numpy()
    assert (ratio[:3] < 0.7).all()


def test_a_saved_release_has_the_same_errors(tmp_path):
    release = tables()
    loaded = tt.Release.load(release.save(tmp_path / "out"))
    made, again = tt.replicate_errors(release, 10, seed=1), tt.replicate_errors(loaded, 10, seed=1)
    for name in release.levels:
        assert made.table(name) == again.table(name)
    facts = made.statement["errors"]
    assert (facts["method"], facts["replicates"]) == ("replicates", 10)
    assert [level["level"] for level in facts["levels"]] == list(release.levels)
    assert {level["upward_std_dev"] for level in facts["levels"]} == {
        level["noise"]["std_dev"] for level in release.statement["levels"]
    }
    folder = again.save(tmp_path / "with_errors")
    assert tt.Release.load(folder).table("sex") == again.table("sex")
    assert tt.replicate_errors(folder, 10, seed=1).table("sex") == again.table("sex")  # errors of errors


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ({"neighboring": "change_one", "tables": [*TABLES, ()]}, [()]),
        ({"neighboring": "change_one", "public_totals": TOTALS, "tables": [*TABLES, ("state",), ()]}, [("state",), ()]),
        ({"neighboring": "change_one", "public_totals": TOTALS, "tables": [("county", "sex"), ()]}, [()]),
        pytest.param(  # totals below every table
            {"neighboring": "change_one", "public_totals": TOTALS, "tables": [("sex",), ()]},
            [()],
            marks=pytest.mark.filterwarnings("ignore:invalid value"),
        ),
        (
            {"neighboring": "change_one", "public_totals": TOTALS, "tables": [("state", "sex"), ("state",)]},
            [("state",)],
        ),
    ],
)
def test_public_totals_are_kept_in_every_replicate(options, exact):
    made = tt.replicate_errors(tables(**options), 10, seed=1)
    for table in made.tables:
        assert (made.table(*table)["std_dev"].to_numpy() == 0).all() == (table in exact)


def test_private_totals_are_not_kept():
    made = tt.replicate_errors(tables(tables=[*TABLES, ()]), 10, seed=1)
    assert made.table()["std_dev"].to_numpy()[0] > 0


def test_tables_that_were_not_asked_for_and_distinct_people_have_errors_too():
    records = RECORDS.append_column("who", pa.array(range(RECORDS.num_rows)))
    release = tt.release_tables(
        records, PEOPLE, tt.Budget(rho=0.1), neighboring="add_remove", tables=[("sex",)], person="who", distinct=True,
        max_contributions=2, measure=[("county", "sex"), ("state",)], budget_split="even",
    )  # fmt: skip
    assert release.statement["levels"][1]["statistic"] == "distinct_counts"
    made = tt.replicate_errors(release, 10, seed=1)
    for name in ("sex", "county.sex", "state"):
        assert (made.table(name)["std_dev"].to_numpy() > 0).all()


def test_cells_that_are_not_listed_have_an_upper_bound(monkeypatch, tmp_path):
    monkeypatch.setattr(layout, "MAX_LISTED", 2)
    release = tables(RECORDS.slice(0, RECORDS.num_rows - 2), budget=tt.Budget(rho=100), seed=1)
    assert [release.table(*table).num_rows for table in TABLES] == [5, 3, 2]  # of 6, 4 and 2
    assert [level["zeros_listed"] for level in release.statement["levels"]] == [False, False, True]
    facts = tt.replicate_errors(release, 10, seed=1).statement["errors"]["levels"]
    assert [level["unlisted_ci_upper"] is None for level in facts] == [False, False, True]
    folder = release.save(tmp_path / "out")
    assert tt.replicate_errors(folder, 10, seed=1).statement["errors"]["levels"] == facts


def test_the_fit_has_errors_without_replicates(tmp_path):
    release = tables(seed=1)
    assert has_fitted_errors(release)
    made = fitted_errors(release, alpha=0.1)
    shown = made.table("state", "sex")
    assert shown.column_names[-5:] == ["std_dev", "typical_error", "ci_lower", "ci_upper", "quality"]
    assert shown["std_dev"] == release.table("state", "sex")["std_dev"]
    assert fitted_errors(tt.Release.load(release.save(tmp_path / "out")), alpha=0.1).table("state", "sex") == shown
    assert not has_fitted_errors(tt.replicate_errors(release, 10, seed=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda levels: levels[0].update(table=["county", "age"]),
            "hierarchy: it has no table with the levels",
        ),
        (
            lambda levels: levels[0].update(table=["county"]),
            "hierarchy: it has no table with the levels",
        ),
        (lambda levels: levels[0].update(table=["state", "county"]), "hierarchy: it has no table with the levels"),
        (lambda levels: levels[0].update(table=["sex", "county"]), ""),  # the order does not matter
        (
            lambda levels: levels[0].update(asked=False),
            "release: its statement does not say which tables",
        ),
        (lambda levels: [level.update(asked=False) for level in levels], "release: its statement does not say which"),
        (lambda levels: levels[0].update(nodes=7), "hierarchy: it has 6 nodes at the level 'county.sex', but the rele"),
        (
            lambda levels: levels[0]["noise"].update(scale_exact="0"),
            "release: its statement has noise.scale_exact",
        ),
    ],
)
def test_a_statement_that_lists_other_tables_is_refused(change, message):
    release = tables()
    statement = {**release.statement, "levels": [dict(level) for level in release.statement["levels"]]}
    change(statement["levels"])
    forged = release.with_tables(release.level_tables, statement)
    if message:
        with pytest.raises(ValueError, match=f"^{message}"):
            tt.replicate_errors(forged, 10)
    else:
        tt.replicate_errors(forged, 10)


def test_another_product_is_refused(tmp_path):
    release = tt.Release.load(tables().save(tmp_path / "out"))
    with pytest.raises(TypeError, match=r"hierarchy: Hierarchy must be the tallytree\.Product without an order"):
        tt.replicate_errors(replace(release, _tree=AREAS), 10)
    ordered = tt.Product({"area": AREAS, "sex": SEXES}, order=["area", "area", "sex"])
    with pytest.raises(TypeError, match=r"hierarchy: Product must be the tallytree\.Product without an order"):
        tt.replicate_errors(replace(release, _tree=ordered), 10)
    other = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f", "u"])})
    with pytest.raises(ValueError, match="hierarchy: it has no node state='A', county='x', sex='m' at the level"):
        tt.replicate_errors(replace(release, _tree=other), 10)
    swapped = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["m", "f"])})
    same = tt.replicate_errors(replace(release, _tree=swapped), 10)  # cells are found by their labels
    assert same.table("sex").drop_columns(["std_dev", "ci_lower", "ci_upper"]) == release.table("sex").drop_columns(
        ["std_dev", "typical_error"]
    )


def test_a_damaged_folder_is_refused(tmp_path):
    folder = tables().save(tmp_path / "out")
    rewrite(folder, lambda manifest: manifest["statement"]["levels"][0].update(table=["county", "age"]))
    with pytest.raises(ValueError, match=r"^(folder|hierarchy): "):
        tt.replicate_errors(folder, 10)
    (folder / "tables" / "sex.parquet").unlink()
    with pytest.raises(ValueError, match=r"^folder: "):
        tt.replicate_errors(folder, 10)


def test_tables_are_not_reconciled_again():
    with pytest.raises(ValueError, match=r"^release: its statistic is 'tables'; only releases of group_sizes"):
        tt.reconcile_group_sizes(tables(), AREAS)


def test_a_replicate_measures_the_published_tables_and_nothing_else():
    release = tables(budget=tt.Budget(rho=0.01))
    tables_of = layout_of(release.statement, PEOPLE)
    numbers = {name: release.table(name)["count"].to_numpy() for name in release.levels}
    truth = PublishedTables(tables_of, numbers)
    cells, offsets, keys = truth.cells("county.sex", np.array([2, 0]), "counts")
    assert keys.tolist() == [4, 5, 0, 1]
    assert cells.tolist() == numbers["county.sex"][[4, 5, 0, 1]].tolist()
    assert offsets.tolist() == [0, 2, 4]
    assert truth.cells("county.sex", np.array([1]), "counts", (1, 2))[2].tolist() == [3]
    assert (truth.size("county.sex"), truth.width("county.sex", 0, "counts")) == (3, 2)
    plan = StatedPlan({})
    replicates = TableReplicates(truth, tt.tables.LeastSquares(), plan, None)
    assert replicates.truths()[0][1][3] == numbers["county.sex"][3]
    assert len(list(fresh_sources(3, 1))) == 3
