"""Which errors a release takes of its prior: those that are stated, and none that is no error."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, TablesArguments, plan_counts, plan_tables
from helpers.two_years import BUDGET, PRODUCT, TABLES, records, release
from tallytree.release.manifest import manifest_text

COUNTS = PRODUCT.attributes[0].hierarchy


@pytest.fixture(scope="module")
def earlier():
    return release(1)


def errors_of_tables(prior, tables, **options):
    """The errors that a release of tables takes of a prior, by level of areas and marginal."""
    given = {"neighboring": "add_remove", "tables": tables, "prior": prior} | options
    return plan_tables(TablesArguments(records(2), PRODUCT, BUDGET, **given)).prior.errors


def errors_of_counts(**options):
    """The errors that a release of counts takes of a prior, by level."""
    return plan_counts(CountsArguments(records(2), COUNTS, BUDGET, neighboring="add_remove", **options)).prior.errors


def stated(release, *table, column="typical_error"):
    """The root mean square of the errors that a release states of a table."""
    return np.sqrt(np.mean(release.table(*table)[column].to_numpy() ** 2))


def test_the_total_of_an_earlier_release_has_the_error_that_is_stated(earlier, tmp_path):
    assert errors_of_tables(earlier, TABLES)[0, (0,)] == pytest.approx(stated(earlier))
    counts = tt.release_counts(records(1), COUNTS, BUDGET, neighboring="add_remove")
    counts.save(tmp_path / "counts")
    for given in ({"prior": counts}, {"revises": tmp_path / "counts"}):
        assert errors_of_counts(**given)[0] == pytest.approx(stated(counts, "all", column="std_dev"))


def test_sums_of_an_earlier_table_have_the_errors_of_sums():
    fine = release(1, tables=[("county", "age")])
    expected = stated(fine, "county", "age") * 2  # of four counties each
    assert list(errors_of_tables(fine, [("state", "age")]).values()) == pytest.approx([expected])


def test_of_two_earlier_tables_that_give_the_same_cells_the_coarser_one_is_taken_with_its_error():
    for tables in ([("state", "age"), ("county", "age")], [("county", "age"), ("state", "age")]):
        both = release(1, tables=tables)
        assert errors_of_tables(both, [("state", "age")]) == {(1, (1,)): pytest.approx(stated(both, "state", "age"))}


def test_sums_that_are_a_prior_of_a_product_have_the_errors_of_sums_and_yield_to_coarser_tables():
    """Counts by state, then age, then county: of the earlier release, tables of states by age, and of states."""
    sides = dict(zip(("area", "age"), (each.hierarchy for each in PRODUCT.attributes), strict=True))
    tree = tt.Product(sides, order=["area", "area", "age"])
    options = {"neighboring": "add_remove", "unlisted": "remainder"}
    for tables, table, sums in (
        ([("state", "age")], ("state", "age"), 5),
        ([("state",), ("state", "age")], ("state",), 1),
        ([("state", "age"), ("state",)], ("state",), 1),
    ):
        earlier = release(1, tables=tables)
        planned = plan_counts(CountsArguments(records(2), tree, BUDGET, prior=earlier, **options))
        assert planned.prior.errors[1] == pytest.approx(stated(earlier, *table) * sums**0.5)
        rows = earlier.table(*table).to_pandas().groupby("state")["count"].sum()
        np.testing.assert_array_equal(planned.prior.tables[1, 1], rows.to_numpy())


def test_where_no_error_is_stated_it_is_that_of_the_noise_and_not_0():
    counts = tt.release_counts(records(1), COUNTS, BUDGET, neighboring="add_remove", mechanism=tt.counts.TopDown())
    assert "std_dev" not in counts.table("county").column_names
    measured = [counts.measurements(level)["std_dev"][0].as_py() for level in counts.levels]
    assert [errors_of_counts(prior=counts)[level] for level in range(3)] == pytest.approx(measured)
    histogram = tt.release_counts(
        records(1), COUNTS, tt.Budget(epsilon=1, delta=1e-6), neighboring="add_remove",
        mechanism=tt.counts.StabilityHistogram(),
    )  # fmt: skip
    assert all(error > 0 or np.isnan(error) for error in errors_of_counts(prior=histogram).values())


@pytest.mark.parametrize("error", [float("inf"), float("nan"), -5.0, 1e154])
def test_errors_that_are_none_are_refused_before_anything_is_spent(earlier, tmp_path, error):
    """Of a folder whose digests are those of its files."""
    counts = tt.release_counts(records(1), COUNTS, BUDGET, neighboring="add_remove")
    folders = [lying(earlier.save(tmp_path / "tables"), error), lying(counts.save(tmp_path / "counts"), error)]
    for argument in ("prior", "revises"):
        with pytest.raises(ValueError, match=rf"{argument}: its table '.*' has a (typical_error|std_dev) of .*; give"):
            release(2, **{argument: folders[0]})
        with pytest.raises(ValueError, match=rf"{argument}: its table '.*' has a (typical_error|std_dev) of .*; give"):
            tt.release_counts(records(2), COUNTS, BUDGET, neighboring="add_remove", **{argument: folders[1]})


def lying(folder, error):
    """A folder of a release whose tables state this error of each number."""
    manifest = json.loads((folder / "release.json").read_text())
    del manifest["digest"]
    for file in (folder / "tables").glob("*.parquet"):
        table = pq.read_table(file)
        for name in {"typical_error", "std_dev"} & set(table.column_names):
            column = pa.array([error] * len(table), table.schema.field(name).type)
            table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
        pq.write_table(table, file)
        stated = manifest["files"][f"tables/{file.name}"]
        stated |= {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    (folder / "release.json").write_text(manifest_text(manifest))
    return folder


def test_a_very_large_error_is_a_number_that_the_fit_can_take(earlier, tmp_path):
    folder = lying(earlier.save(tmp_path / "tables"), 1e140)
    assert set(errors_of_tables(folder, TABLES).values()) == {1e30}
    assert 2_000 <= release(2, prior=folder).table()["count"][0].as_py() <= 4_000
