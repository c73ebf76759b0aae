"""Sums of tables over areas and under conditions, with the exact error of the fit."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt

AREAS = tt.Hierarchy.from_table(pa.table({"state": list("AAABB"), "county": list("xyzxy")}), ["state", "county"])
AGES = tt.Hierarchy.from_table(pa.table({"band": ["young", "young", "old"], "age": [0, 1, 2]}), ["band", "age"])
PEOPLE = tt.Product({"area": AREAS, "age": AGES, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
TABLES = [("county", "age", "sex"), ("county", "sex"), ("state", "band"), ()]
DISTRICTS = pa.table({"state": ["A", "B", "A"], "county": ["x", "y", "z"], "district": ["p", "q", "p"]})


def records(counts):
    """One row per cell, with its number of people."""
    where = np.unravel_index(np.arange(30), (5, 3, 2))
    return pa.table(
        {
            "state": np.array(list("AAABB"))[where[0]],
            "county": np.array(list("xyzxy"))[where[0]],
            "band": np.array(["young", "young", "old"])[where[1]],
            "age": where[1],
            "sex": np.array(["f", "m"])[where[2]],
            "n": np.asarray(counts).ravel(),
        }
    )


def release(counts=None, **changes):
    given = {"budget": tt.Budget(rho=0.02), "neighboring": "add_remove", "tables": TABLES, "count": "n"} | changes
    table = records(np.full(30, 4_000) if counts is None else counts)
    return tt.release_tables(table, PEOPLE, given.pop("budget"), **given)


@pytest.fixture(scope="module")
def published():
    return release()


def test_without_arguments_the_total_is_the_table_of_the_total(published):
    (row,) = published.total().to_pylist()
    assert row["count"] == published.table()["count"][0].as_py()
    assert row["std_dev"] == pytest.approx(published.table()["std_dev"][0].as_py(), rel=1e-9)
    assert row["ci_lower"] < row["count"] < row["ci_upper"]


def test_a_cell_of_a_table_has_the_error_of_the_table(published):
    area = pa.table({"state": ["A"], "county": ["y"]})
    (row,) = published.total(area, where={"sex": "m"}, alpha=0.1).to_pylist()
    wanted = published.table("county", "sex", alpha=0.1).to_pylist()[3]
    assert row["count"] == wanted["count"]
    # The table's interval also holds the number ± 1.64 of its typical error.
    assert wanted["ci_lower"] in (row["ci_lower"], row["ci_lower"] - 1)
    assert wanted["ci_upper"] in (row["ci_upper"], row["ci_upper"] + 1)
    assert row["std_dev"] == pytest.approx(wanted["std_dev"], rel=1e-9)
    (state,) = published.total(pa.table({"state": ["B"]}), where={"band": ["old"]}).to_pylist()
    wanted = published.table("state", "band").to_pylist()[3]
    assert (state["count"], state["std_dev"]) == (wanted["count"], pytest.approx(wanted["std_dev"], rel=1e-9))


def test_districts_are_sums_of_the_finest_cells(published):
    finest = published.table("county", "age", "sex").to_pylist()
    found = published.total(DISTRICTS, by="district", where={"age": [0, 2], "sex": "f"}).to_pylist()
    chosen = {"p": {("A", "x"), ("A", "z")}, "q": {("B", "y")}}
    for row in found:
        cells = [
            cell["count"]
            for cell in finest
            if (cell["state"], cell["county"]) in chosen[row["district"]] and cell["sex"] == "f" and cell["age"] != "1"
        ]
        assert row["count"] == sum(cells)


def test_errors_survive_saving(published, tmp_path):
    loaded = tt.Release.load(published.save(tmp_path / "out"))
    assert loaded.total(DISTRICTS, by="district") == published.total(DISTRICTS, by="district")


def test_public_totals_have_no_error():
    totals = pa.table({"state": ["A", "B"], "count": [72_000, 48_000]})
    made = release(public_totals=totals, neighboring="change_one")
    assert made.total(pa.table({"state": ["A"]})).to_pylist() == [
        {"count": 72_000, "std_dev": 0.0, "ci_lower": 72_000, "ci_upper": 72_000, "quality": "exact"}
    ]
    assert made.total(pa.table({"state": ["A"]}), where={"sex": "f"})["std_dev"][0].as_py() > 0


@pytest.mark.slow
def test_the_stated_error_is_that_of_repeated_releases():
    """80 releases: the standard error of a standard deviation is 8 %, so errors of 30 % are seen."""
    errors, stated = [], None
    for seed in range(80):
        made = release(seed=seed)
        row = made.total(DISTRICTS, by="district", where={"age": [0, 2]}).to_pylist()[0]
        errors.append(row["count"] - 2 * 2 * 2 * 4_000)
        stated = row["std_dev"]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(stated, rel=0.3)
    assert abs(np.mean(errors)) < 4 * stated / np.sqrt(80)


@pytest.mark.parametrize(
    ("areas", "options", "message"),
    [
        (None, {"where": {"village": "f"}}, "where: 'village' is no column of an attribute; these are band, age, sex"),
        (None, {"where": {"county": "x"}}, "where: 'county' is no column of an attribute"),
        (None, {"where": {"sex": "u"}}, "where: 'u' is no label of 'sex'"),
        (None, {"where": {"sex": []}}, "where: 'sex' must be given a label or a list of labels"),
        (None, {"where": {"sex": 1.5}}, "where: 'sex' must be given a label"),
        (None, {"where": "sex=f"}, "where: str must be a mapping"),
        (None, {"replicates": 50}, "replicates: 50, but sums of tables have exact errors"),
        (None, {"alpha": 2}, "alpha: 2 must lie strictly between 0 and 1"),
        (pa.table({"state": ["C"]}), {}, "areas: "),
        (pa.table({"village": ["f"]}), {}, "areas: it has none of the columns state, county"),
    ],
)
def test_what_cannot_be_is_refused(published, areas, options, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        published.total(areas, **options)


def test_sums_that_no_table_has_are_refused():
    coarse = release(tables=[("state", "sex"), ("county",)])
    with pytest.raises(ValueError, match=r"^areas: no table of the release has county, sex"):
        coarse.total(pa.table({"state": ["A"], "county": ["x"]}), where={"sex": "f"})


def test_conditions_are_about_tables_only():
    counts = tt.release_counts(pa.table({"sex": ["f"]}), tt.Hierarchy.from_values("sex", ["f", "m"]),
                               tt.Budget(epsilon=1), neighboring="add_remove")  # fmt: skip
    with pytest.raises(ValueError, match=r"^where: .*attributes of tables; counts have none"):
        counts.total(pa.table({"sex": ["f"]}), where={"sex": "f"})
    with pytest.raises(ValueError, match=r"^areas: None is given"):
        counts.total()


ZONES = tt.Hierarchy.from_table(pa.table({"district": list("AABB"), "zone": list("1212")}), ["district", "zone"])
TRIPS = tt.Product(
    {"o": ZONES, "d": ZONES, "hour": tt.Hierarchy.from_values("hour", ["day", "night"])},
    columns={"o": ["o_district", "o_zone"], "d": ["d_district", "d_zone"]},
)
PAIRS = [("o_zone", "d_zone"), ("d_zone", "hour"), ("o_district", "d_district", "hour"), ()]


def trips(seed=None, zones=TRIPS, **changes):
    rng, labels = np.random.default_rng(5), {}
    for side in "od":
        places = rng.integers(0, 4, 4_000)
        labels |= {f"{side}_{name}": ZONES.leaf_table()[name].take(pa.array(places)) for name in ("district", "zone")}
    table = pa.table(labels | {"hour": np.array(["day", "night"])[rng.integers(0, 2, 4_000)]})
    given = {"neighboring": "add_remove", "tables": PAIRS, "seed": seed} | changes
    return tt.release_tables(table, zones, tt.Budget(rho=0.05), **given)


def test_areas_of_an_attribute_can_be_totalled_too():
    """The same numbers and errors as those of the table of these areas, where the release has it."""
    made = trips(1, tables=[*PAIRS, ("d_zone",)])
    table = made.table("d_zone").to_pylist()
    wanted = [(row["d_district"], row["d_zone"], row["count"], pytest.approx(row["std_dev"])) for row in table]
    found = made.total(by="d_zone").to_pylist()
    assert [(row["d_district"], row["d_zone"], row["count"], row["std_dev"]) for row in found] == wanted
    named = pa.table({"d_district": list("BBA"), "d_zone": ["1", "2", None], "where": ["east", "east", "west"]})
    east, west = made.total(named, by="where").to_pylist()
    assert (east["where"], east["count"]) == ("east", sum(row["count"] for row in table[2:]))
    (whole,) = made.total(pa.table({"d_district": ["A", "B"]})).to_pylist()
    total = made.total().to_pylist()[0]
    assert (whole["count"], whole["std_dev"]) == (total["count"], pytest.approx(total["std_dev"]))
    assert west["std_dev"] == pytest.approx(made.total(by="d_district")["std_dev"][0].as_py())
    assert made.total(pa.table({"d_district": ["A", "B"]}), by="d_district")["count"].to_pylist() == [
        west["count"],
        east["count"],
    ]
    by_condition = made.total(where={"hour": "night"}).to_pylist()
    assert made.total(pa.table({"hour": ["night"]})).to_pylist() == by_condition
    night = made.total(by="d_zone", where={"hour": "night"}).to_pylist()
    assert [row["count"] for row in night] == made.table("d_zone", "hour")["count"].to_pylist()[1::2]


def test_areas_of_an_attribute_are_summed_part_by_part_alike(monkeypatch):
    made = trips(1)
    whole = made.total(by="d_zone", where={"hour": "night"})
    monkeypatch.setattr("tallytree.numbers.table_cells.AT_ONCE", 1)
    parts = made.total(by="d_zone", where={"hour": "night"})
    assert parts["count"].equals(whole["count"])
    assert parts["std_dev"].to_numpy() == pytest.approx(whole["std_dev"].to_numpy())


def test_a_level_is_totalled_over_several_releases_without_a_table_of_areas():
    days = [trips(seed) for seed in (1, 2)]
    for by in ("o_district", "d_zone"):
        found = tt.total_of(days, by=by).to_pylist()
        of_days = [day.total(by=by).to_pylist() for day in days]
        assert [row[by] for row in found] == [row[by] for row in of_days[0]]
        assert [row["count"] for row in found] == [a["count"] + b["count"] for a, b in zip(*of_days, strict=True)]
    turned = tt.Hierarchy.from_table(ZONES.leaf_table().take(pa.array([3, 2, 1, 0])), ["district", "zone"])
    other = trips(3, tt.Product({"o": ZONES, "d": turned, "hour": TRIPS.attributes[2].hierarchy},
                                columns={"o": ["o_district", "o_zone"], "d": ["d_district", "d_zone"]}))  # fmt: skip
    with pytest.raises(ValueError, match=r"^releases\[1\]: its areas at 'd_zone' .*releases\[0\]"):
        tt.total_of([days[0], other], by="d_zone")
    table = ZONES.leaf_table().rename_columns(["d_district", "d_zone"])
    named = table.append_column("name", pa.array(list("abcd")))
    both = tt.total_of([days[0], other], named, by="name")["count"].to_pylist()
    assert both == [a + b for a, b in zip(days[0].total(named, by="name")["count"].to_pylist(),
                                          other.total(named, by="name")["count"].to_pylist(), strict=True)]  # fmt: skip


@pytest.mark.slow
def test_the_stated_error_of_an_attributes_areas_is_that_of_repeated_releases():
    """120 releases of 4 sums: the standard error of their root mean square is 3 %, so errors of 12 % are seen."""
    sums = []
    for seed in range(120):
        found = trips(seed).total(by="d_zone", where={"hour": "night"})
        sums.append(found["count"].to_numpy())
        stated = found["std_dev"].to_numpy()
    errors = np.array(sums) - np.mean(sums, axis=0)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.sqrt(np.mean(np.square(stated))), rel=0.12)


@pytest.mark.parametrize(
    ("areas", "by", "message"),
    [
        (None, "town", "by: 'town' is no level of the hierarchies, which are o_district, o_zone, d_dist"),
        ({"o_district": ["A"], "d_district": ["A"]}, None, "areas: it has columns of 'o' and of 'd'; name nodes"),
        ({"d_district": ["A"], "o_zone": ["1"]}, None, "areas: it has columns of 'o' and of 'd'"),
        ({"d_district": ["C"]}, None, "areas: row 1 names d_district='C', which is not in the hierarchy"),
        ({"where": ["C"]}, "where", "areas: it has none of the columns o_district, o_zone"),
    ],
)  # fmt: skip
def test_areas_that_name_no_hierarchy_are_refused(areas, by, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        trips(1).total(None if areas is None else pa.table(areas), by=by)
