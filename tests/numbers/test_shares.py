"""Shares of counts and of tables: their errors are those of the dense covariance of the fit."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from tallytree.numbers.accuracy.fitted_errors import FittedTree
from tallytree.numbers.accuracy.replicate_errors import stated_plan
from tallytree.release.view.areas import Block, SummedAreas
from tallytree.release.view.release_view import ReleaseView

SEX = tt.Hierarchy.from_values("sex", ["f", "m"])
AGES = tt.Hierarchy.from_table(pa.table({"band": ["young", "young", "old"], "age": ["0", "1", "2"]}), ["band", "age"])
PEOPLE = tt.Product({"area": small.TREE, "age": AGES, "sex": SEX})
TABLES = [("county", "age", "sex"), ("county", "sex"), ("state", "band"), ()]


def tables(seed=1, counts=None, **changes):
    where = np.unravel_index(np.arange(30), (5, 3, 2))
    numbers = np.full(30, 400) if counts is None else np.asarray(counts).ravel()
    records = small.AREAS.take(pa.array(where[0]))
    for name, values in (("band", ["young", "young", "old"]), ("age", ["0", "1", "2"])):
        records = records.append_column(name, pa.array(np.array(values)[where[1]]))
    records = records.append_column("sex", pa.array(np.array(["f", "m"])[where[2]]))
    given = {"neighboring": "add_remove", "tables": TABLES, "count": "n", "seed": seed} | changes
    return tt.release_tables(records.append_column("n", pa.array(numbers)), PEOPLE, tt.Budget(rho=0.02), **given)


def test_shares_of_counties_have_the_error_of_the_dense_fit():
    made = small.release()
    dense = small.covariance(made)
    unbiased = {level: made.table(level, unbiased=True)["unbiased"].to_numpy() for level in made.levels}
    for within, place in ((("state",), [1, 1, 1, 2, 2]), ((), [0] * 5)):
        rows = made.share("county", within=within).to_pylist()
        estimates = np.concatenate([unbiased[level] for level in made.levels])
        for county, (row, whole) in enumerate(zip(rows, place, strict=True)):
            numbers = row["count"], row["of"]
            assert row["share"] == numbers[0] / numbers[1]
            wanted = small.ratio_std_dev(
                dense, np.eye(5)[county], small.ROWS[whole], numbers, (estimates[3 + county], estimates[whole])
            )
            assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)
            assert 0 <= row["ci_lower"] < row["share"] < row["ci_upper"] <= 1
    assert [row["of"] for row in made.share("county", within="state").to_pylist()[3:]] == [
        made.table("state")["count"][1].as_py()
    ] * 2


def test_the_share_of_a_whole_in_itself_is_known():
    made = small.release()
    for row in made.share("state", within="state").to_pylist():
        assert row["share"] == 1
        assert row["std_dev"] == pytest.approx(0, abs=1e-6)


def test_nodes_that_were_not_kept_have_shares_too():
    made = small.release(counts=np.array([900, 400, 350, 0, 0]))
    rows = made.share("county", within="state").to_pylist()
    whole = made.table("state")["count"][1].as_py()
    assert {row["of"] for row in rows[3:]} == {whole}
    assert all(row["ci_lower"] is not None and 0 <= row["ci_lower"] <= row["ci_upper"] <= 1 for row in rows)


def test_parts_of_deep_trees_have_the_covariance_of_sums():
    """A level of only children, nodes that were not kept, and three levels between: as `variances` of two sums say."""
    rng = np.random.default_rng(3)
    place = np.arange(24)
    paths = {"a": place // 12, "b": place // 12, "c": place // 4, "d": place // 2, "e": place}
    leaves = pa.table({name: pa.array([f"{name}{each}" for each in values]) for name, values in paths.items()})
    tree = tt.Hierarchy.from_table(leaves, list(paths))
    counts = np.where(rng.random(24) < 0.5, 0, rng.integers(1, 60, 24))
    counts[8:12] = 0
    made = tt.release_counts(leaves.append_column("n", pa.array(counts)), tree, tt.Budget(epsilon=1), seed=3,
                             neighboring="add_remove", count="n")  # fmt: skip
    view = ReleaseView(made)
    published = view.all_published()
    assert (published[-1].numbers == 0).sum() > 4
    fitted = FittedTree.of(view.known_tree, stated_plan(view).levels, published)
    for depth, above in ((5, 0), (5, 1), (5, 2), (5, 3), (4, 2), (3, 1), (2, 1), (4, 4)):
        nodes = np.arange(tree.size(depth))
        ancestors = nodes
        for at in range(depth, above, -1):
            ancestors = tree.parents(at, ancestors)
        pair = [_each_alone(tree, at, each) for at, each in ((depth, nodes), (above, ancestors))]
        own, whole, both = fitted.variances(pair[0]), fitted.variances(pair[1]), fitted.variances(*pair)
        assert fitted.parts(depth, above, nodes) * whole == pytest.approx((both - own - whole) / 2, rel=1e-7, abs=1e-7)


def _each_alone(tree, depth, nodes):
    """An area of each of some nodes of a level."""
    areas = np.arange(len(nodes))
    return SummedAreas(tree, None, pa.nulls(len(nodes), pa.string()), (Block((depth,), depth, (nodes,), areas),))


def test_shares_by_replicates_are_near_the_exact_ones():
    """200 replicates know a standard deviation to 5 %: 25 % are five standard errors."""
    made = small.release()
    exact = made.share("county", within="state")["std_dev"].to_numpy()
    found = made.share("county", within="state", replicates=200, seed=5)["std_dev"].to_numpy()
    assert found == pytest.approx(exact, rel=0.25)
    top = small.release(mechanism=tt.counts.TopDown())
    assert top.share("county", within="state", seed=5)["std_dev"].null_count == 0


@pytest.mark.filterwarnings("ignore:mechanism")
def test_leaves_with_independent_noise():
    made = small.release(mechanism=tt.counts.LeafGaussian())
    noise = next(each["noise"]["std_dev"] for each in made.statement["levels"] if each["level"] == "county")
    for row, leaves in zip(made.share("county", within="state").to_pylist(), [3, 3, 3, 2, 2], strict=True):
        theta = row["count"] / row["of"]
        wanted = noise * np.sqrt(1 - 2 * theta + theta**2 * leaves) / row["of"]
        assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("level", "within"),
    [
        (("county", "sex"), ("county",)),
        (("county", "age", "sex"), ("county", "sex")),
        (("county", "age", "sex"), ("state", "band")),
        (("state", "band"), ()),
        (("county", "sex"), ("sex",)),
    ],
)
def test_shares_in_tables_have_the_covariance_of_sums(level, within):
    """The same numbers by another way: `ratio` adds up weights of cells over one set of areas."""
    made = tables()
    rows = made.share(*level, within=within).to_pylist()
    attributes = ("band", "age", "sex")
    for row in rows[:: max(1, len(rows) // 6)]:
        one = {name: row[name] for name in attributes if name in row}
        kept = {"age": ("band", "age"), "band": ("band",), "sex": ("sex",)}
        whole = {name: row[name] for each in within for name in kept.get(each, ())}
        if ("county" in level) != ("county" in within) or ("state" in level) != ("state" in within):
            continue
        areas = pa.table({name: [row[name]] for name in ("state", "county") if name in row})
        (wanted,) = made.ratio(one, whole, areas=areas).to_pylist()
        assert (row["count"], row["of"]) == (wanted["numerator"], wanted["denominator"])
        assert row["std_dev"] == pytest.approx(wanted["std_dev"], rel=1e-7)
        assert row["ci_lower"] == pytest.approx(wanted["ci_lower"], rel=1e-7)


@pytest.mark.slow
def test_stated_errors_of_shares_are_those_of_repeated_releases():
    """100 releases: a standard deviation is known to 7 %, so errors of 30 % are seen; 25 shares of two kinds."""
    found = {within: [] for within in (("county",), ())}
    for seed in range(100):
        made = tables(seed)
        for within, rows in found.items():
            rows.append(made.share("county", "sex", within=within))
    for within, rows in found.items():
        errors = np.array([table["share"].to_numpy() for table in rows]) - (0.5 if within else 0.1)
        stated = rows[0]["std_dev"].to_numpy()
        assert np.sqrt((errors**2).mean(axis=0)) == pytest.approx(stated, rel=0.3)
        covered = [
            (table["ci_lower"].to_numpy() <= truth) & (truth <= table["ci_upper"].to_numpy())
            for table, truth in zip(rows, [0.5 if within else 0.1] * 100, strict=True)
        ]
        assert np.mean(covered) > 0.86


def test_cells_that_are_impossible_are_no_part():
    never = pa.table({"age": ["0"], "sex": ["m"]})
    people = tt.Product({"area": small.TREE, "age": tt.Hierarchy.from_values("age", ["0", "1"]), "sex": SEX},
                        impossible=never)  # fmt: skip
    records = pa.table({"state": ["A"] * 3, "county": list("vwx"), "age": ["0", "1", "1"], "sex": ["f", "f", "m"]})
    made = tt.release_tables(records.append_column("n", pa.array([500, 400, 300])), people, tt.Budget(rho=0.1),
                             neighboring="add_remove", tables=[("county", "age", "sex"), ("county", "age")],
                             count="n", seed=1)  # fmt: skip
    row = made.share("county", "age", "sex", within=("county", "age")).to_pylist()[1]
    assert (row["age"], row["sex"], row["count"], row["share"], row["std_dev"]) == ("0", "m", 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("level", "options", "message"),
    [
        (("state",), {"within": ("county",)}, r"within: 'county' is below 'state'"),
        (("state",), {"within": ("village",)}, r"within: .*'village'.* must be one of the levels all, state, county"),
        (("state",), {"within": 3}, r"within: 3 must be the name of a level"),
        (("state",), {"alpha": 2}, r"alpha: 2 must lie strictly between 0 and 1"),
        (("state",), {"replicates": 3}, r"replicates: 3 are too few"),
        (("town",), {}, r"level: 'town' is not one of the release's levels"),
    ],
)
def test_what_cannot_be_is_refused(level, options, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        small.release().share(*level, **options)


def test_tables_refuse_what_is_not_coarser_or_not_known():
    made = tables()
    with pytest.raises(ValueError, match=r"^within: county, age is not a coarser table than county, sex"):
        made.share("county", "sex", within=("county", "age"))
    with pytest.raises(ValueError, match=r"^replicates: 50, but shares in tables have exact errors"):
        made.share("county", "sex", replicates=50)
    some = tables(tables=[("county", "age"), ()])
    with pytest.raises(ValueError, match=r"^within: no table of the release has a level of state"):
        some.share("county", "age", within=("state",))


def test_flows_that_are_not_all_listed_are_refused(areas):
    made = releases.flows(areas, seed=1)
    with pytest.raises(ValueError, match=r"^release: not all of its cells are listed"):
        made.share(made.levels[-1])


@pytest.mark.filterwarnings("ignore:mechanism")
def test_flows_with_independent_leaves_have_shares_and_ratios(areas):
    """A pair of counties is one leaf of sixteen."""
    made = releases.flows(areas, seed=1, mechanism=tt.counts.LeafGaussian(), budget=tt.Budget(epsilon=20, delta=1e-8))
    noise = next(each["noise"]["std_dev"] for each in made.statement["levels"] if each["measured"])
    leaves = areas.n_leaves
    for row in made.share(made.levels[-1]).to_pylist():
        theta = row["count"] / row["of"]
        wanted = noise * np.sqrt(1 - 2 * theta + theta**2 * leaves**2) / row["of"]
        assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)
    states = [pa.table({"o_state": [name]}) for name in ("A", "B")]
    (row,) = made.ratio(*states).to_pylist()
    theta = row["ratio"]
    of_a = leaves * sum(path.startswith("A") for path in areas.leaf_table()["state"].to_pylist())
    wanted = noise * np.sqrt(of_a + theta**2 * (leaves**2 - of_a)) / row["denominator"]
    assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)


def test_group_sizes_have_no_shares(areas):
    with pytest.raises(ValueError, match=r"^release: .*'group_sizes', and share is of counts, flows, tables"):
        releases.group_sizes(areas, seed=1).share("state")
