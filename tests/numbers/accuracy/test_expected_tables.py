"""The expected errors of tables before a release, against those of the releases."""

import numpy as np
import pyarrow.csv
import pytest
from tallytree.datasets.residents import residents

import tallytree as tt
from helpers.inside import TablesArguments, expected_errors, make_release, plan_tables

TABLES = [("county", "age"), ("county", "sex"), ("region", "age"), ()]


@pytest.fixture(scope="module")
def people():
    """Some synthetic residents, none of whom is of the rare sex."""
    return residents(12, provinces=6, regions=3, log_size=12.0)


def product(people):
    hierarchies = {
        "area": tt.Hierarchy.from_table(people.areas, ["region", "province", "county"]),
        "age": tt.Hierarchy.from_table(people.ages, ["age"]),
        "sex": tt.Hierarchy.from_table(people.sexes, ["sex"]),
    }
    return tt.Product(hierarchies)


def arguments(people, **changes):
    given = {"neighboring": "add_remove", "tables": TABLES, "count": "count"} | changes
    return TablesArguments(people.records(), product(people), tt.Budget(rho=0.05), **given)


def test_the_figures_are_those_of_the_release(people):
    planned = plan_tables(arguments(people, budget_split="even"))
    release = make_release(planned)
    for each in expected_errors(planned):
        assert each.basis == "closed form"
        stated = release.table(each.level)["std_dev"].to_numpy()
        assert each.std_dev == pytest.approx(np.sqrt(np.mean(stated**2)), rel=1e-6)
        assert each.half_width == pytest.approx(1.645 * each.std_dev, rel=0.05)
    total = expected_errors(plan_tables(arguments(people, neighboring="change_one")))[-1]
    assert (total.level, total.basis, total.std_dev) == ("total", "public", 0.0)


@pytest.mark.slow
def test_observed_errors_are_as_expected(people):
    """40 releases. The least of the tables, (), has a standard error of 11 %; the others have many cells."""
    truth = people.cells.reshape(12, 18, 3)
    regions = np.array([people.areas["region"].to_pylist().index(f"region {i}") for i in (1, 2, 3)])
    true = {
        "county.age": truth.sum(2).ravel(),
        "county.sex": truth.sum(1).ravel(),
        "region.age": np.add.reduceat(truth.sum(2), regions).ravel(),
        "total": np.array([truth.sum()]),
    }
    planned = plan_tables(arguments(people))
    squares = dict.fromkeys(true, 0.0)
    for seed in range(40):
        release = make_release(plan_tables(arguments(people, seed=seed)))
        for name, counts in true.items():
            squares[name] += np.mean((release.table(name)["count"].to_numpy() - counts) ** 2) / 40
    expected = {each.level: each.std_dev for each in expected_errors(planned)}
    for name in true:
        assert np.sqrt(squares[name]) == pytest.approx(expected[name], rel=0.4 if name == "total" else 0.15)


@pytest.mark.slow
def test_targets_name_tables(people, tmp_path):
    for name in ("areas", "ages", "sexes"):
        pyarrow.csv.write_csv(getattr(people, name), tmp_path / f"{name}.csv")
    (tmp_path / "spec.yaml").write_text("""
statistic: tables
records: nowhere.csv
hierarchy:
  attributes:
    area: {path: areas.csv, levels: [region, province, county]}
    age: {path: ages.csv, levels: [age]}
    sex: {path: sexes.csv, levels: [sex]}
tables: [[county, age], [county, sex]]
neighboring: add_remove
budget: {epsilon: 1, delta: 1e-8}
""")
    planned = tt.plan(tmp_path / "spec.yaml", target={("sex", "county"): 10, "county, age": 12})
    reached = {row["level"]: row["std_dev"] for row in planned.levels}
    assert reached["county.sex"] <= 10
    assert reached["county.age"] <= 12
    assert max(reached["county.sex"] / 10, reached["county.age"] / 12) > 0.97
    with pytest.raises(ValueError, match=r"^target: 'county,village' is not a level of this release"):
        tt.plan(tmp_path / "spec.yaml", target={"county,village": 3})
