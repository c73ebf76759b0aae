"""Released cells give values and covariances of linear functionals, from which a derived number is a formula."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from helpers.inside import KINDS
from tallytree.numbers.cells import Replication
from tallytree.numbers.derived import cells_by, cells_of

EXACTLY = Replication(None, 1)


def difference(release, first, second, replication=EXACTLY):
    """A derived number that the library does not have: two sums, the second less the first."""
    pair = cells_of(release, "ratio").pair(first, second, None, None, replication)
    variance = pair.variances[0] + pair.variances[1] - 2 * pair.covariance
    return pair.middle[1] - pair.middle[0], np.sqrt(variance)


def county(name):
    return pa.table({"state": ["A" if name in "vwx" else "B"], "county": [name]})


@pytest.mark.parametrize(("first", "second"), ["vw", "vy", "zx"])
def test_a_difference_of_two_counties_has_the_error_of_the_dense_fit(first, second):
    made = small.release()
    weights = np.zeros(5)
    weights["vwxyz".index(second)], weights["vwxyz".index(first)] = 1, -1
    value, std_dev = difference(made, county(first), county(second))
    assert value[0] == pytest.approx(weights @ made.table("county", unbiased=True)["unbiased"].to_numpy())
    assert std_dev[0] == pytest.approx(np.sqrt(weights @ small.covariance(made) @ weights), rel=1e-9)


def test_independent_leaves_have_no_covariance():
    with pytest.warns(UserWarning, match="LeafGaussian"):
        made = small.release(mechanism=tt.counts.LeafGaussian(), budget=tt.Budget(rho=0.02))
    noise = made.measurements("county")["std_dev"][0].as_py()
    assert difference(made, county("v"), county("w"))[1][0] == pytest.approx(np.sqrt(2) * noise, rel=1e-6)
    pair = cells_of(made, "ratio").pair(county("v"), county("v"), None, None, EXACTLY)
    assert pair.covariance[0] == pytest.approx(pair.variances[0][0])


def test_replicates_estimate_the_same_covariance():
    """Within four standard deviations of a covariance from 300 replicates, which are less than it."""
    made, state = small.release(), pa.table({"state": ["A"], "county": pa.nulls(1, pa.string())})
    two = pa.concat_tables([county("v"), county("w")])
    exact, estimated = (
        cells_of(made, "ratio").pair(two, state, None, None, each) for each in (EXACTLY, Replication(300, 1))
    )
    (first, second), both = exact.variances[:, 0], exact.covariance[0]
    spread = np.sqrt((first * second + both**2) / 300)
    assert 4 * spread < both
    assert estimated.replicates == 300
    assert estimated.covariance[0] == pytest.approx(both, abs=4 * spread)


def test_the_parts_of_a_table_add_up_to_its_total_in_value_and_variance(areas):
    made = releases.tables(areas, neighboring="add_remove", seed=1)
    pair = cells_of(made, "ratio").pair({"sex": "f"}, {"sex": "m"}, None, "state", EXACTLY)
    total = made.total(by="state")
    assert [*np.sum(pair.published, axis=0)] == total["count"].to_pylist()
    both = pair.variances[0] + pair.variances[1] + 2 * pair.covariance
    alone = cells_of(made, "ratio").pair({}, {}, None, "state", EXACTLY)
    assert both == pytest.approx(alone.variances[0], rel=1e-9)
    assert alone.covariance == pytest.approx(alone.variances[0], rel=1e-9)


def test_what_is_derived_from_a_statistic_is_known_by_its_cells():
    """Persons and households have the cells of the tables of persons; people by their records have none."""
    cells = {name: cells_by(kind) for name, kind in KINDS.items()}
    assert {name for name, each in cells.items() if each is None} == {"households", "contributions"}
    derived = {name for each in cells.values() if each is not None for name in each.derives}
    assert derived == {"share", "ratio", "mean", "quantile", "total", "change", "series", "difference", "total_of"}
    with pytest.raises(ValueError, match=r"^earlier: .*'counts', and mean is of group_sizes, tables"):
        cells_of(small.release(), "mean", "earlier")
