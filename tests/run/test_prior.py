"""What may be a prior of a release, what is said of it, and what it does not change."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import TablesArguments, make_release, plan_tables
from helpers.two_years import AREAS, BUDGET, PRODUCT, TABLES, records, release
from tallytree.ledger import Ledger
from tallytree.run.prior import folder_of_run


def public_counts(seed=1):
    return records(seed).groupby(["state", "county", "age"]).size().rename("count").reset_index()


@pytest.fixture(scope="module")
def earlier():
    return release(1)


# --- What is taken ---


def test_an_object_and_its_folder_are_the_same_prior(earlier, tmp_path):
    earlier.save(tmp_path / "earlier")
    stated = [
        release(2, prior=each).statement["prior"] for each in (earlier, tmp_path / "earlier", str(tmp_path / "earlier"))
    ]
    assert stated[0] == stated[1] == stated[2]
    assert stated[0]["release"] == earlier.statement["release"]["id"]
    assert stated[0] | {"digest": "", "release": ""} == {
        "digest": "", "release": "", "said_to_be_public": False, "share_in_cells": 1.0,
        "spent": earlier.statement["spent"], "neighboring": "add_remove", "max_contributions": 1,
        "invariants": ["the hierarchies"],
    }  # fmt: skip


def test_the_statement_says_that_a_table_is_said_to_be_public_and_has_its_digest():
    one = release(2, prior=public_counts(), prior_is_public=True)
    same = release(3, prior=pa.Table.from_pandas(public_counts()), prior_is_public=True)
    other = release(2, prior=public_counts(5), prior_is_public=True)
    assert one.statement["prior"]["said_to_be_public"] is True
    assert one.statement["prior"]["release"] is None
    assert one.statement["prior"]["digest"] == same.statement["prior"]["digest"] != other.statement["prior"]["digest"]
    assert any("prior" in note for note in one.statement["notes"])
    assert not any("prior" in note for note in release(2).statement["notes"])


def test_a_coarser_public_table_is_a_prior_too():
    coarse = public_counts().groupby(["state", "county"])["count"].sum().reset_index()
    assert release(2, prior=coarse, prior_is_public=True).statement["prior"]["said_to_be_public"]


def test_files_that_a_release_wrote_are_public_tables_with_all_their_columns(earlier, tmp_path):
    folder = earlier.save(tmp_path / "earlier", csv=True)
    stated = earlier.table("county", "age", unbiased=True, alpha=0.1)  # with intervals and verdicts
    assert {"std_dev", "typical_error", "unbiased", "ci_lower", "quality"} <= set(stated.column_names)
    shutil.copytree(folder / "tables", tmp_path / "copied")
    tables = tmp_path / "copied"
    for prior in (tables / "county.age.parquet", tables / "county.age.csv", stated):
        made = release(2, prior=prior, prior_is_public=True)
        assert made.statement["prior"]["share_in_cells"] == 1.0


def test_releases_of_counts_are_priors_of_tables():
    counts = tt.release_counts(
        records(1), tt.Hierarchy.from_table(AREAS, ["state", "county"]), BUDGET, neighboring="add_remove"
    )
    assert release(2, prior=counts).statement["prior"]["release"] == counts.statement["release"]["id"]


def test_areas_of_an_earlier_release_that_are_gone_are_left_out(earlier):
    fewer = tt.Product(
        {
            "area": tt.Hierarchy.from_table(AREAS.slice(2), ["state", "county"]),
            "age": tt.Hierarchy.from_values("age", [f"a{i}" for i in range(5)]),
        }
    )
    now = records(2)
    now = now[~now.county.isin(["c00", "c01"])]
    made = tt.release_tables(now, fewer, BUDGET, neighboring="add_remove", tables=TABLES, prior=earlier)
    assert 0.9 < made.statement["prior"]["share_in_cells"] < 1.0


def test_cells_of_labels_that_an_earlier_release_lacks_are_not_known():
    rows = records(1)
    rows = rows[(rows.age != "a4") & (rows.county != "c11")]
    sides = {
        "area": tt.Hierarchy.from_table(AREAS.slice(0, 11), ["state", "county"]),
        "age": tt.Hierarchy.from_values("age", [f"a{i}" for i in range(4)]),
    }
    then = tt.release_tables(rows, tt.Product(sides), BUDGET, neighboring="add_remove", tables=TABLES)
    given = {"neighboring": "add_remove", "tables": TABLES, "prior": then}
    planned = plan_tables(TablesArguments(records(2), PRODUCT, BUDGET, **given))
    lacks = {"county": np.arange(12) == 11, "age": np.arange(5) == 4, "state": np.zeros(3, dtype=bool)}
    assert len(planned.prior.tables) == len(TABLES) - 1
    for table in TABLES[:-1]:
        at = planned.layout.levels.index(".".join(table))
        cells = planned.prior.tables[planned.layout.area_level(at), planned.layout.marginal(at)]
        areas = next((lacks[name] for name in table if name != "age"), np.zeros(1, dtype=bool))
        ages = lacks["age"] if "age" in table else np.zeros(1, dtype=bool)
        np.testing.assert_array_equal(np.isnan(cells), areas[:, None] | ages)
    assert release(2, prior=then).statement["constraint_violations"] == 0


def test_the_statement_says_of_what_a_prior_spent_its_budget():
    people = records(1).assign(person=np.arange(3_000) // 2)
    then = tt.release_tables(
        people, PRODUCT, BUDGET, neighboring="change_one", tables=TABLES, person="person", max_contributions=2
    )
    about = release(2, prior=then).statement["prior"]
    unit = ("spent", "neighboring", "max_contributions", "invariants")
    assert [about[key] for key in unit] == [then.statement[key] for key in unit]
    assert (about["neighboring"], about["max_contributions"]) == ("change_one", 2)
    of_table = release(2, prior=public_counts(), prior_is_public=True).statement["prior"]
    assert [of_table[key] for key in unit] == [None] * 4


# --- What is refused ---


def test_a_file_of_a_release_is_no_public_table(tmp_path):
    folder = release(1, seed=1).save(tmp_path / "seeded", csv=True)
    (tmp_path / "link.parquet").symlink_to(folder / "tables" / "county.age.parquet")
    file = folder / "tables" / "county.age.parquet"
    (folder / "copied.csv").write_bytes(file.with_suffix(".csv").read_bytes())
    patterns = (str(folder / "tables" / "county.age.p*"), [str(file)], tt.sources.Parquet(file), folder / "copied.csv")
    for prior in (file, tmp_path / "link.parquet", *patterns):
        with pytest.raises(ValueError, match=r"prior: .* is a file of the release in 'seeded'; give the folder"):
            release(2, prior=prior, prior_is_public=True)


def test_a_table_that_nobody_says_is_public_is_refused():
    with pytest.raises(ValueError, match=r"prior: .*prior_is_public=True"):
        release(2, prior=public_counts())


def test_the_records_are_refused_whatever_is_said_of_them(tmp_path):
    own = records(2)
    own["count"] = 1
    file, link = tmp_path / "records.parquet", tmp_path / "register.parquet"
    own.to_parquet(file)
    link.symlink_to(file)
    for given, prior in ((own, own), (file, file), (file, link), (str(file), tmp_path / "*.parquet")):
        with pytest.raises(ValueError, match=r"prior: it is the private table"):
            tt.release_tables(
                given, PRODUCT, BUDGET, neighboring="add_remove", tables=TABLES, prior=prior, prior_is_public=True
            )


def test_a_release_with_a_seed_is_a_prior_only_of_one_with_a_seed():
    with pytest.raises(ValueError, match=r"prior: it was made with a seed"):
        release(2, prior=release(1, seed=3))
    assert not release(2, prior=release(1, seed=3), seed=4).statement["private"]


def test_a_folder_whose_files_were_changed_is_refused(earlier, tmp_path):
    folder = earlier.save(tmp_path / "earlier")
    table = next((folder / "tables").glob("*.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"prior: .*is missing or was changed"):
        release(2, prior=folder)


def test_a_release_of_other_numbers_is_refused(earlier):
    people = pd.DataFrame({"state": ["s0"] * 9, "county": ["c00"] * 9, "house": [f"h{i // 3}" for i in range(9)]})
    sizes = tt.release_group_sizes(
        people, tt.Hierarchy.from_table(AREAS, ["state", "county"]), BUDGET, group="house", neighboring="add_remove",
        max_group_size=5,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"prior: .*group_sizes"):
        release(2, prior=sizes)
    other = tt.Product({"area": tt.Hierarchy.from_values("county", ["x", "y"]), "age": PRODUCT.attributes[1].hierarchy})
    elsewhere = pd.DataFrame({"county": ["x", "y"], "age": ["a0", "a1"]})
    with pytest.raises(ValueError, match=r"prior: .*labels"):
        tt.release_tables(elsewhere, other, BUDGET, neighboring="add_remove", tables=[("county", "age")], prior=earlier)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_is_public": True}, "prior_is_public: .*there is none"),
        ({"prior": public_counts().rename(columns={"count": "n"}), "prior_is_public": True}, "prior: .*'count'"),
        ({"prior": public_counts()[["count"]], "prior_is_public": True}, "prior: .*columns of the hierarchies"),
        ({"prior": public_counts()[["county", "count"]], "prior_is_public": True}, "prior: .*'county' and not 'state'"),
        ({"prior": public_counts().replace("c03", "c99"), "prior_is_public": True}, "prior: .*'county'"),
        (
            {"prior": public_counts().rename(columns={"age": "aeg"}), "prior_is_public": True},
            "prior: column 'aeg' is none .*leave out others: it may have 'state', 'county', 'age', 'count'",
        ),
        ({"prior": public_counts().assign(year=2020), "prior_is_public": True}, "prior: column 'year' is none"),
        ({"prior": public_counts().assign(count=-1), "prior_is_public": True}, "prior: .*count"),
        ({"prior": public_counts().assign(count=2**52), "prior_is_public": True}, "prior: .*2\\^50"),
    ],
)  # fmt: skip
def test_priors_that_cannot_be_used_are_refused_with_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        release(2, **options)


def test_prior_is_public_is_yes_or_no():
    with pytest.raises(TypeError, match=r"prior_is_public"):
        release(2, prior=public_counts(), prior_is_public="yes")


def test_a_mechanism_without_pooling_takes_none(earlier):
    with pytest.raises(ValueError, match=r"prior: .*LeastSquares"):
        release(2, prior=earlier, mechanism=tt.tables.LeastSquares(pooling="none"))


# --- What it does not change ---


def test_shares_scales_and_what_is_measured_are_those_without_it(earlier):
    with_it, without = release(2, prior=earlier), release(2)
    assert with_it.statement["levels"] == without.statement["levels"]
    assert with_it.statement["spent"] == without.statement["spent"]
    for table in TABLES:
        measured = [each.measurements(".".join(table) or "all").drop(["value"]) for each in (with_it, without)]
        assert measured[0].equals(measured[1])


def test_unbiased_estimates_follow_from_the_measurements_alone(earlier):
    """With a prior that is wrong everywhere their errors are those of their noise: 1,800 cells, 4 standard errors."""
    wrong = public_counts().assign(count=1_000)
    squares, stated = [], []
    for seed in range(30):
        made = release(2, prior=wrong, prior_is_public=True, seed=seed)
        rows = made.table("county", "age", unbiased=True).to_pandas()
        true = records(2).groupby(["county", "age"]).size()
        true = true.reindex(pd.MultiIndex.from_frame(rows[["county", "age"]])).fillna(0).to_numpy()
        squares.append(np.mean((rows["unbiased"] - true) ** 2))
        stated.append(np.mean(rows["std_dev"] ** 2))
    assert np.mean(squares) == pytest.approx(np.mean(stated), rel=4 * np.sqrt(2 / 1_800))


def test_an_object_whose_files_were_changed_since_it_was_loaded_is_refused(earlier, tmp_path):
    folder = earlier.save(tmp_path / "earlier")
    loaded = tt.Release.load(folder)
    assert release(2, prior=loaded).statement["prior"]["release"] == earlier.statement["release"]["id"]
    release(5).save(tmp_path / "other")
    shutil.copy(tmp_path / "other/tables/county.parquet", folder / "tables/county.parquet")
    with pytest.raises(ValueError, match=r"prior: .*is missing or was changed"):
        release(2, prior=loaded)


def test_a_prior_that_counts_nothing_is_taken(earlier):
    empty = public_counts().assign(count=0)
    assert release(2, prior=empty, prior_is_public=True).statement["prior"]["share_in_cells"] == 1.0


# --- The ledger ---


@pytest.fixture
def books(tmp_path):
    secret = tt.new_secret(tmp_path / "secret")
    return {"ledger": tmp_path / "ledger.db", "dataset": "people", "secret": secret}


def test_the_entry_has_the_digest_of_the_prior_and_its_release(books, tmp_path):
    first = release(1, **books, run="2026-01")
    second = release(2, **books, run="2026-02", prior=first)
    third = release(3, **books, run="2026-03", prior=public_counts(), prior_is_public=True)
    entries = Ledger(books["ledger"]).entries("people")
    assert [entry.prior for entry in entries] == [
        None,
        {"prior": second.statement["prior"]["digest"], "release": first.statement["release"]["id"]},
        {"prior": third.statement["prior"]["digest"]},
    ]


def test_a_repeated_run_has_the_same_prior_or_is_refused(books):
    first = release(1, **books, run="2026-01")
    made = release(2, **books, run="2026-02", prior=first)
    again = release(2, **books, run="2026-02", prior=first)
    assert again.statement["release"]["id"] == made.statement["release"]["id"]
    for table in TABLES:
        assert again.table(*table).equals(made.table(*table))
    for other in (
        {},
        {"prior": public_counts(), "prior_is_public": True},
        {"prior": release(9), "prior_is_public": True},
    ):
        with pytest.raises(ValueError, match=r"run: .*the prior"):
            release(2, **books, run="2026-02", **other)
    assert len(Ledger(books["ledger"]).entries("people")) == 2
    release(3, **books, run="2026-03", prior=public_counts(), prior_is_public=True)
    with pytest.raises(ValueError, match=r"run: .*the prior"):  # all but its numbers is the same
        release(3, **books, run="2026-03", prior=public_counts(5), prior_is_public=True)


def test_a_release_of_the_data_set_that_the_ledger_lacks_is_refused(books, tmp_path):
    other = books | {"ledger": tmp_path / "other.db"}
    elsewhere = release(1, **other, run="2026-01")
    with pytest.raises(ValueError, match=r"prior: the ledger 'ledger.db' does not have"):
        release(2, **books, run="2026-02", prior=elsewhere)
    assert not (tmp_path / "ledger.db").exists() or Ledger(books["ledger"]).entries("people") == ()
    others = books | {"dataset": "others"}
    with pytest.raises(ValueError, match=r"prior: .*published, prior_is_public=True"):
        release(2, **others, run="2026-02", prior=elsewhere)
    made = release(2, **others, run="2026-02", prior=elsewhere, prior_is_public=True)
    assert made.statement["prior"]["said_to_be_public"]
    with pytest.raises(ValueError, match=r"prior: the ledger 'ledger.db' does not have"):
        release(2, **books, run="2026-02", prior=elsewhere, prior_is_public=True)


def test_a_release_that_no_ledger_has_is_refused_beside_a_ledger_unless_it_is_said_to_be_public(books, earlier):
    with pytest.raises(ValueError, match=r"prior: the ledger 'ledger.db' does not have"):
        release(2, **books, run="2026-02", prior=earlier)
    made = release(2, **books, run="2026-02", prior=earlier, prior_is_public=True)
    assert made.statement["prior"] | {"digest": ""} == {
        "digest": "", "release": earlier.statement["release"]["id"], "said_to_be_public": True, "share_in_cells": 1.0,
        "spent": earlier.statement["spent"], "neighboring": "add_remove", "max_contributions": 1,
        "invariants": ["the hierarchies"],
    }  # fmt: skip


def test_a_release_of_a_ledger_is_refused_for_one_without(books):
    first = release(1, **books, run="2026-01")
    with pytest.raises(ValueError, match=r"prior: .*would not be added up"):
        release(2, prior=first)
    assert release(2, prior=first, prior_is_public=True).statement["prior"]["said_to_be_public"]


def test_a_release_of_another_data_set_of_the_ledger_is_taken(books):
    first = release(1, **books, run="2026-01")
    made = release(2, **(books | {"dataset": "others"}), run="2026-02", prior=first)
    assert not made.statement["prior"]["said_to_be_public"]


# --- Revisions ---


def test_a_revision_has_what_it_revises_as_prior_and_is_charged_and_measured_anew(books, tmp_path):
    first = release(1, **books, run="2026-01")
    folder = first.save(tmp_path / "first")
    revised = release(4, **books, run="2026-01", revises=folder)
    assert revised.statement["prior"]["release"] == first.statement["release"]["id"]
    assert len(Ledger(books["ledger"]).entries("people")) == 2
    was, now = (each.measurements("county.age").column("value").to_numpy() for each in (first, revised))
    assert np.mean(was == now) < 0.3  # of independent noise of std_dev 5 or more on like numbers: less than 0.1


def test_a_revision_of_a_release_that_the_ledger_lacks_says_what_can_be_done(books, earlier, tmp_path):
    folder = earlier.save(tmp_path / "first")
    with pytest.raises(ValueError, match=r"revises: the ledger .*pooling='none'"):
        release(4, **books, run="again", revises=folder)
    alone = tt.tables.LeastSquares(pooling="none")
    assert "prior" not in release(4, **books, run="again", revises=folder, mechanism=alone).statement


def test_a_revision_without_pooling_has_no_prior(earlier, tmp_path):
    alone = tt.tables.LeastSquares(pooling="none")
    folder = release(1, mechanism=alone).save(tmp_path / "first")
    assert "prior" not in release(2, mechanism=alone, revises=folder).statement


def test_a_release_whose_prior_was_changed_after_planning_does_not_run(earlier):
    planned = plan_tables(
        TablesArguments(records(2), PRODUCT, BUDGET, neighboring="add_remove", tables=TABLES, prior=earlier)
    )
    for cells in planned.prior.tables.values():
        cells += 1
    with pytest.raises(tt.BudgetExceeded, match=r"changed"):
        make_release(planned)


def test_a_saved_release_with_a_prior_reads_back(earlier, tmp_path):
    folder = release(2, prior=earlier).save(tmp_path / "now")
    assert tt.Release.load(folder).statement["prior"]["release"] == earlier.statement["release"]["id"]
    assert json.loads((folder / "release.json").read_text())["spec"]["prior"].startswith("release ")
    shutil.rmtree(folder)


# --- Runs without a name ---


def test_the_prior_of_a_run_without_a_name_is_the_last_release_and_not_that_of_another_without(books, tmp_path):
    first = release(1, **books, run="january").save(tmp_path / "1")
    unnamed = {name: books[name] for name in ("ledger", "dataset")}
    release(2, **unnamed, prior=first)
    release(1, **books, run="january", revises=first).save(tmp_path / "2")
    found = folder_of_run("january", tmp_path / "3", Ledger(books["ledger"]), "people", None)
    assert found.name == "2"
