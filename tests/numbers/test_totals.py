"""`Release.total`: sums of published numbers over any areas, and the error of each sum."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.releases import HOUSEHOLDS, PUBLIC
from helpers.replicated import TREE
from tallytree.release.intervals import LevelErrors, interval, number_intervals
from tallytree.release.view.areas import read_areas

RELATIONS = ("change_one", "add_remove")  # a public total, and a measured one


@pytest.fixture(scope="module")
def tree():
    return tt.Hierarchy.from_table(TREE, ["state", "county"])


def sparse(tree, **options):
    """20 counties, most without people, so that many nodes are pruned."""
    people = tree.leaf_table().append_column("n", pa.array([0, 9, 0, 0, 300, *[0] * 12, 2, 0, 40]))
    given = {"budget": tt.Budget(epsilon=1), "neighboring": "add_remove", "count": "n", "seed": 2} | options
    return tt.release_counts(people, tree, given.pop("budget"), **given)


def each_node(release, level):
    """A table of the nodes of a level, every one its own area."""
    table = release.table(level)
    paths = table.select(
        [name for name in table.column_names if name not in ("count", "std_dev", "typical_error", "quality")]
    )
    return paths.append_column("area", pa.array([str(i) for i in range(table.num_rows)]))


# --- Exact errors ---


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_a_single_node_has_the_error_that_its_table_states(tree, neighboring, tmp_path):
    release = sparse(tree, neighboring=neighboring)
    assert (release.table("county")["count"].to_numpy() == 0).sum() > 5
    release.save(tmp_path / "out")
    for made in (release, tt.Release.load(tmp_path / "out")):
        for level in ("state", "county"):
            table = made.table(level, alpha=0.05)
            found = made.total(each_node(made, level), by="area", alpha=0.05)
            assert found.column_names == ["area", "count", "std_dev", "ci_lower", "ci_upper", "quality"]
            np.testing.assert_allclose(found["std_dev"], table["std_dev"], rtol=1e-9)
            assert found["count"].equals(table["count"])
            # A total is around the unbiased estimate; a number of a table has that interval, and its typical error.
            assert (found["ci_lower"].to_numpy() >= table["ci_lower"].to_numpy()).all()
            assert (found["ci_upper"].to_numpy() <= table["ci_upper"].to_numpy()).all()


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_all_leaves_are_the_total_with_its_error(tree, neighboring):
    release = sparse(tree, neighboring=neighboring)
    (row,) = release.total(tree.leaf_table()).to_pylist()
    (root,) = release.table("all", alpha=0.1, unbiased=True).to_pylist()
    assert {name: row[name] for name in ("count", "std_dev")} == {name: root[name] for name in ("count", "std_dev")}
    stated = pa.table({name: [root[name]] for name in ("count", "std_dev", "unbiased")})
    lower, upper = (end.item() for end in number_intervals(stated, 0.1, LevelErrors()))
    assert row["ci_lower"] <= lower <= upper <= row["ci_upper"]  # as of a sum of single counts
    assert (row["std_dev"] == 0) == (neighboring == "change_one")


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_levels_that_repeat_the_one_above_are_named_like_others(neighboring):
    leaves = {"state": [*"AAABBB"], "county": [*"aaabbb"], "town": [*"uvwxyz"], "street": [*"uvwxyz"]}
    tree = tt.Hierarchy.from_table(pa.table(leaves), list(leaves))
    people = tree.leaf_table().append_column("n", pa.array([90, 0, 0, 400, 0, 20]))
    release = tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring=neighboring, count="n", seed=3)
    for level in release.levels[1:]:
        found = release.total(each_node(release, level), by="area")
        np.testing.assert_allclose(found["std_dev"], release.table(level)["std_dev"], rtol=1e-9)
        assert found["count"].equals(release.table(level)["count"])


def test_a_part_of_what_lies_below_a_pruned_node_is_taken_as_all_of_it(tree):
    release = sparse(tree)
    assert release.table("state")["count"].to_pylist()[1] == 0  # state B was pruned, and its counties never measured
    some, all_of_it = (release.total(tree.leaf_table().slice(5, n)).to_pylist() for n in (2, 5))
    assert all_of_it == release.total(pa.table({"state": ["B"]})).to_pylist()
    assert {name: some[0][name] for name in ("count", "std_dev")} == {"count": 0, "std_dev": all_of_it[0]["std_dev"]}


def test_the_error_of_a_sum_is_not_made_of_the_errors_of_its_parts(tree):
    """Counties of one state err in opposite directions, as their sum was measured too."""
    people = tree.leaf_table().append_column("n", pa.array([1000] * 20))
    release = tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="change_one", count="n")
    (row,) = release.total(tree.leaf_table().slice(0, 5)).to_pylist()
    parts = release.table("county")["std_dev"].to_numpy()[:5]
    assert row["std_dev"] == pytest.approx(release.table("state")["std_dev"][0].as_py())
    assert row["std_dev"] < 0.8 * np.sqrt((parts**2).sum())


def test_the_error_is_that_of_dense_generalised_least_squares(tree):
    """All nodes are measured and kept: the covariance is (BᵀW⁻¹B)⁻¹ over the leaves, of the 20 + 4 + 1 measurements."""
    people = tree.leaf_table().append_column("n", pa.array([1000] * 20))
    release = tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="add_remove", count="n")
    noise = [level["noise"]["std_dev"] ** 2 for level in release.statement["levels"]]
    b = np.concatenate([np.ones((1, 20)), np.repeat(np.eye(4), 5, axis=1), np.eye(20)])
    weights = 1 / np.repeat(noise, [1, 4, 20])
    covariance = np.linalg.inv(b.T @ (weights[:, None] * b))
    random = np.random.default_rng(5)
    for _ in range(20):
        chosen = np.flatnonzero(random.random(20) < 0.5)
        (row,) = release.total(tree.leaf_table().take(pa.array(chosen))).to_pylist()
        inside = np.isin(np.arange(20), chosen)
        assert row["std_dev"] ** 2 == pytest.approx(inside @ covariance @ inside, rel=1e-9)
        assert row["count"] == release.table("county")["count"].to_numpy()[inside].sum()


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", RELATIONS)
def test_the_error_is_that_of_repeated_releases(tree, neighboring):
    """200 releases of 3 areas across states: 600 squared errors over their variances have the mean 1 ± 0.06.

    Half the errors of independent parts would be far off: the variance of a state's sum is 0.3 of the parts' sum.
    """
    numbers = np.arange(20) * 40 + 500
    people = tree.leaf_table().append_column("n", pa.array(numbers))
    district = np.arange(20) % 3
    table = tree.leaf_table().append_column("d", pa.array(district))
    truth = np.bincount(district, numbers)
    squares = []
    for seed in range(200):
        release = tt.release_counts(people, tree, tt.Budget(epsilon=0.5), neighboring=neighboring, count="n", seed=seed)
        found = release.total(table, by="d")
        squares.append((found["count"].to_numpy() - truth) ** 2 / found["std_dev"].to_numpy() ** 2)
    assert np.mean(squares) == pytest.approx(1, abs=0.15)


@pytest.mark.filterwarnings("ignore:mechanism")
def test_noisy_leaves_alone_have_independent_errors(tree):
    release = sparse(tree, mechanism=tt.counts.LeafGaussian())
    assert "std_dev" not in release.table("state").column_names
    (row,) = release.total(pa.table({"state": ["A", "B"]})).to_pylist()
    assert row["std_dev"] == pytest.approx(np.sqrt(10) * release.statement["levels"][-1]["noise"]["std_dev"])
    assert row["count"] == sum(release.table("state")["count"].to_pylist()[:2])


def test_a_release_of_nothing_errs_by_the_noise_of_its_root():
    tree = tt.Hierarchy.from_table(pa.table({"town": ["A", "B"]}), ["town"])
    for seed in range(20):
        nobody = pa.table({"town": pa.array([], pa.string())})
        release = tt.release_counts(nobody, tree, tt.Budget(epsilon=1), neighboring="add_remove", seed=seed)
        if release.table("all")["count"].to_pylist() == [0]:
            break
    (row,) = release.total(pa.table({"town": ["A"]})).to_pylist()
    assert (row["count"], row["std_dev"]) == (0, release.table("town")["std_dev"][0].as_py())


# --- Flows ---


@pytest.fixture(scope="module")
def trips(tree):
    random = np.random.default_rng(3)
    sides = {
        f"{side}_{name}": tree.leaf_table()[name].take(pa.array(random.geometric(0.2, 4000) % 20))
        for side in "od"
        for name in ("state", "county")
    }
    return tt.release_flows(
        pa.table(sides),
        origins=tree,
        destinations=tree,
        origin=["o_state", "o_county"],
        destination=["d_state", "d_county"],
        budget=tt.Budget(epsilon=1, delta=1e-6),
        neighboring="add_remove",
        seed=1,
    )


def test_pairs_are_summed_and_a_single_pair_has_the_noise_of_its_measurement(trips):
    """Cells are listed by their measurements, so sums of published numbers would be too large."""
    for about in trips.statement["levels"][1:]:
        table = trips.table(about["level"], alpha=0.1)
        found = trips.total(each_node(trips, about["level"]), by="area")
        np.testing.assert_allclose(found["std_dev"], about["noise"]["std_dev"], rtol=1e-9)
        assert found["count"].equals(table["count"])
        for end, sign in (("ci_lower", -1), ("ci_upper", 1)):
            assert (sign * (found[end].to_numpy() - found["count"].to_numpy()) >= 0).all()


def test_a_side_that_is_left_out_is_the_whole_side(trips):
    table = trips.table(trips.levels[-1])
    pairs = table.select(["o_state", "o_county", "d_state", "d_county"])
    from_a = np.array(pairs["o_state"].to_pylist()) == "A"
    (whole,) = trips.total(pa.table({"o_state": ["A"]})).to_pylist()
    assert whole["count"] == table["count"].to_numpy()[from_a].sum()
    by_destination = pa.table({"o_state": ["A"] * 4, "d_state": list("ABCD")})
    assert trips.total(by_destination).to_pylist() == [whole]
    mixed = pa.table({"o_state": ["A"] * 8, "d_state": [*"AAAAABCD"], "d_county": [*"vwxyz", None, None, None]})
    (found,) = trips.total(mixed).to_pylist()
    assert found["count"] == whole["count"]
    assert found["std_dev"] == pytest.approx(whole["std_dev"])


# --- Errors from replicates ---


@pytest.mark.parametrize("mechanism", [tt.counts.TopDown(), tt.counts.LeastSquares(sparsity=2)], ids=repr)
def test_other_mechanisms_have_errors_from_replicates_of_the_sums(tree, mechanism):
    release = sparse(tree, mechanism=mechanism, neighboring="change_one")
    table = release.table("county").append_column("d", pa.array(["x", "y"] * 10))
    found = release.total(table, by="d", replicates=20, seed=1)
    assert found.equals(release.total(table, by="d", replicates=20, seed=1))
    counts = release.table("county")["count"].to_numpy()
    assert found["count"].to_pylist() == [counts[::2].sum(), counts[1::2].sum()]
    # Two areas are all there is and the total is public, so that one errs as the other.
    one, other = found["std_dev"].to_pylist()
    assert one == pytest.approx(other)
    assert one > 0
    (whole,) = release.total(tree.leaf_table(), replicates=10).to_pylist()
    assert whole == {"count": 351, "std_dev": 0.0, "ci_lower": 351, "ci_upper": 351, "quality": "reliable"}


def test_replicates_of_single_nodes_are_those_of_the_tables(tree):
    release = sparse(tree, mechanism=tt.counts.TopDown())
    table = tt.replicate_errors(release, 12, seed=4).table("county")
    found = release.total(each_node(release, "county"), by="area", replicates=12, seed=4)
    for name in ("std_dev", "ci_lower", "ci_upper"):
        assert found[name].equals(table[name])


def test_replicates_are_used_where_they_gave_the_errors_of_the_tables(tree):
    release = tt.replicate_errors(sparse(tree), 12)
    found = release.total(tree.leaf_table().slice(0, 3), seed=1)
    assert found.equals(release.total(tree.leaf_table().slice(0, 3), seed=1, replicates=12))


def test_what_lies_below_a_threshold_has_no_error(tree):
    budget, stable = tt.Budget(epsilon=1, delta=1e-6), tt.counts.StabilityHistogram()
    release = sparse(tree, mechanism=stable, budget=budget)
    found = release.total(pa.table({"state": ["A"]}))
    assert found.to_pydict() == {"count": [release.table("state")["count"][0].as_py()]}
    with pytest.raises(ValueError, match="replicates: 10 of them cannot show what lies below the threshold"):
        release.total(pa.table({"state": ["A"]}), replicates=10)


@pytest.mark.parametrize("mechanism", [tt.sizes.Matching(), tt.sizes.BottomUp()], ids=repr)
def test_group_sizes_have_a_row_for_each_area_and_size(mechanism):
    tree = tt.Hierarchy.from_table(PUBLIC, ["state", "county"])
    release = tt.release_group_sizes(
        HOUSEHOLDS,
        tree,
        tt.Budget(epsilon=1),
        neighboring="add_remove",
        group="household",
        public_groups=PUBLIC,
        max_group_size=20,
        mechanism=mechanism,
    )
    leaves = release.table("county")
    areas = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"], "zone": ["n", "s", "s"]})
    found = release.total(areas, by="zone", replicates=10)
    assert found.column_names == ["zone", "size", "groups", "std_dev", "ci_lower", "ci_upper", "quality"]
    zone = [{"Ax": "n", "Ay": "s", "Bx": "s"}[row["state"] + row["county"]] for row in leaves.to_pylist()]
    summed = leaves.append_column("zone", pa.array(zone)).group_by(["zone", "size"]).aggregate([("groups", "sum")])
    expected = {(row["zone"], row["size"]): row["groups_sum"] for row in summed.to_pylist()}
    assert {(row["zone"], row["size"]): row["groups"] for row in found.to_pylist()} == expected
    assert (found["ci_lower"].to_numpy() <= found["groups"].to_numpy()).all()


def test_a_table_of_people_by_their_records_has_no_areas():
    people = pa.table({"state": ["A", "A", "B"], "who": [1, 1, 2]})
    areas = tt.Hierarchy.from_table(pa.table({"state": ["A", "B"]}), ["state"])
    release = tt.release_contributions(people, areas, tt.Budget(epsilon=1), neighboring="add_remove", person="who")
    with pytest.raises(ValueError, match=r"release: .*'contributions', and total is of counts, flows"):
        release.total(pa.table({"state": ["A"]}))


# --- The table of areas ---


def test_areas_come_in_the_order_of_their_first_rows_and_from_a_file(tree, tmp_path):
    release = sparse(tree)
    (tmp_path / "areas.csv").write_text("state,county,zone,note\nB,v,2,x\nA,,1,\nB,w,2,\n")
    with pytest.raises(ValueError, match=r"^by: 'count' is a column"):
        release.total(release.table("state"), by="count")
    found = release.total(str(tmp_path / "areas.csv"), by="zone")
    assert found["zone"].to_pylist() == ["2", "1"]
    counts = release.table("state")["count"].to_pylist()
    assert found["count"][1].as_py() == counts[0]


def test_a_top_level_with_one_value_may_be_left_out():
    table = pa.table({"country": ["X", "X"], "town": ["a", "b"]})
    tree = tt.Hierarchy.from_table(table, ["country", "town"])
    people = pa.table({"country": ["X"] * 90, "town": ["a"] * 90})
    release = tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="add_remove")
    without = release.total(pa.table({"town": ["a"]}))
    assert without.equals(release.total(pa.table({"country": ["X"], "town": ["a"]})))
    (total,) = release.total(pa.table({"country": ["X"]})).to_pylist()
    (row,) = release.table("country", alpha=0.1).to_pylist()
    assert (total["count"], total["std_dev"]) == (row["count"], row["std_dev"])
    assert row["ci_lower"] <= total["ci_lower"] <= total["ci_upper"] <= row["ci_upper"]


@pytest.mark.parametrize(
    ("table", "by", "message"),
    [
        ({"state": ["A", "A"]}, None, r"^areas: state='A' is listed twice"),
        ({"state": ["A", "A"], "county": [None, "v"]}, None, r"^areas: state='A'(, county='v')? overlaps another row"),
        ({"state": ["Q"]}, None, r"^areas: row 1 names state='Q', which is not in the hierarchy"),
        ({"state": ["A", "A"], "county": ["v", "q"]}, None, r"^areas: row 2 names state='A', county='q'"),
        ({"state": [None], "county": ["v"]}, None, r"^areas: row 1 has county='v', but no state"),
        ({"county": ["v"]}, None, r"^areas: row 1 has county='v', but no state"),
        ({"state": ["A", None]}, None, r"^areas: row 2 names no node"),
        ({"state": pa.array([], pa.string())}, None, r"^areas: the table has no rows"),
        ({"x": ["A"]}, None, r"^areas: it has none of the columns state, county"),
        ({"state": ["A"], "conty": ["v"]}, None, r"^areas: column 'conty' is none of state, county, of which 'county'"),
        ({"state": ["A", "B"], "d": [None, "x"]}, "d", r"^areas: column 'd' has null"),
        ({"state": ["A"]}, "d", r"^areas: column 'd' is missing"),
    ],
)
def test_a_table_of_areas_that_cannot_be_used_is_refused(tree, table, by, message):
    with pytest.raises(ValueError, match=message):
        read_areas(tree, pa.table(table), by)


@pytest.mark.parametrize(("table", "by"), [(5, None), ({"state": [1.5]}, None), ({"state": ["A"]}, 5)])
def test_what_is_no_table_of_text_is_refused(tree, table, by):
    with pytest.raises(TypeError, match=r"^(areas|by): "):
        read_areas(tree, pa.table(table) if isinstance(table, dict) else table, by)


def test_pairs_that_overlap_on_both_sides_are_refused(trips):
    with pytest.raises(ValueError, match=r"^areas: .* overlaps another row"):
        trips.total(pa.table({"o_state": ["A", None], "d_state": [None, "B"]}))
    with pytest.raises(ValueError, match=r"^areas: row 1 names no node"):
        trips.total(pa.table({"o_state": pa.array([None], pa.string()), "d_state": pa.array([None], pa.string())}))


def test_options_out_of_range_are_refused(tree):
    release = sparse(tree)
    table = pa.table({"state": ["A"]})
    with pytest.raises(ValueError, match="replicates: 3 are too few"):
        release.total(table, replicates=3)
    with pytest.raises(ValueError, match="alpha: 2 must lie strictly"):
        release.total(table, alpha=2)


def test_the_interval_is_that_of_every_other_number(tree):
    (row,) = sparse(tree).total(pa.table({"state": ["A", "B"]}), alpha=0.3).to_pylist()
    ends = interval(np.array([row["count"]]), np.array([row["std_dev"]]), 0.3, LevelErrors())
    assert (row["ci_lower"], row["ci_upper"]) == (ends[0][0], ends[1][0])
