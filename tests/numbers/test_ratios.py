"""Ratios of sums of counts and of tables: their errors are those of the dense covariance of the fit."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases
from tallytree.numbers.accuracy.fitted_errors import FittedTree
from tallytree.numbers.accuracy.replicate_errors import stated_plan
from tallytree.release.view.areas import read_areas
from tallytree.release.view.release_view import ReleaseView

COUNTIES = dict(zip("vwxyz", np.eye(5), strict=True))


def counties(names):
    state = dict(zip("vwxyz", "AAABB", strict=True))
    return pa.table({"state": [state[name] for name in names], "county": list(names)})


def rows_of(names):
    return sum(COUNTIES[name] for name in names)


@pytest.mark.parametrize(("first", "second"), [("v", "w"), ("vy", "xz"), ("vw", "wx"), ("w", "vwx"), ("vwxy", "yz")])
def test_ratios_of_counts_have_the_error_of_the_dense_fit(first, second):
    """Disjoint sums, sums that overlap, and one within the other."""
    made = small.release()
    (row,) = made.ratio(counties(first), counties(second)).to_pylist()
    counts = made.table("county", unbiased=True)
    published, unbiased = counts["count"].to_numpy(), counts["unbiased"].to_numpy()
    n, d = rows_of(first), rows_of(second)
    assert (row["numerator"], row["denominator"]) == (n @ published, d @ published)
    assert row["ratio"] == row["numerator"] / row["denominator"]
    wanted = small.ratio_std_dev(
        small.covariance(made), n, d, (n @ published, d @ published), (n @ unbiased, d @ unbiased)
    )
    assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)
    assert row["ci_lower"] < row["ratio"] < row["ci_upper"]
    assert row["quality"] == "reliable"


def test_rows_of_several_levels_may_overlap_between_numerator_and_denominator():
    made = small.release()
    state = pa.table({"state": ["A"], "county": pa.nulls(1, pa.string())})
    (row,) = made.ratio(counties("vy"), state).to_pylist()
    (same,) = made.ratio(counties("vy"), counties("vwx")).to_pylist()
    assert row["std_dev"] == pytest.approx(same["std_dev"], rel=1e-9)


def test_nodes_that_were_not_kept_count_as_often_as_they_are_named():
    """Counties w and z were not kept: they are measured nodes without descendants, and the dense fit has them so."""
    made = small.release(counts=np.array([900, 0, 350, 700, 0]), seed=1)
    view = ReleaseView(made)
    tree, dense = view.known_tree, small.covariance(made)
    assert [made.table("county")["count"][place].as_py() for place in (1, 4)] == [0, 0]
    fitted = FittedTree.of(tree, stated_plan(view).levels, view.all_published())
    for first, second in (("wy", "wz"), ("wz", "vwxyz"), ("vy", "wz"), ("z", "z")):
        areas = [read_areas(tree, counties(each), None) for each in (first, second)]
        weights = rows_of(first) + rows_of(second)
        assert fitted.variances(*areas)[0] == pytest.approx(weights @ dense @ weights, rel=1e-9)


def test_areas_are_matched_by_name():
    made = small.release()
    first = counties("vwxy").append_column("district", pa.array(["p", "p", "q", "r"]))
    second = counties("zyxwv").append_column("district", pa.array(["other", "r", "q", "q", "p"]))
    found = made.ratio(first, second, by="district").to_pylist()
    assert [row["district"] for row in found] == ["p", "q", "r"]
    for row, pair in zip(found, [("vw", "v"), ("x", "xw"), ("y", "y")], strict=True):
        (alone,) = made.ratio(counties(pair[0]), counties(pair[1])).to_pylist()
        assert {name: alone[name] for name in alone} == pytest.approx({n: row[n] for n in alone})
    missing = first.filter(pa.array([True, False, True, False]))
    with pytest.raises(ValueError, match=r"^denominator: it has no rows with district='r', as the numerator has"):
        made.ratio(first, missing, by="district")


def test_a_denominator_that_may_be_0_has_no_upper_end():
    made = small.release(counts=np.array([900, 400, 350, 700, 0]))
    (row,) = made.ratio(counties("v"), counties("z")).to_pylist()
    assert row["std_dev"] is None
    assert row["ci_upper"] is None
    assert row["quality"] is None
    assert row["ci_lower"] > 5


def test_replicates_are_near_the_exact_error():
    """200 replicates know a standard deviation to 5 %: 25 % are five standard errors."""
    made = small.release()
    (exact,) = made.ratio(counties("vw"), counties("wx")).to_pylist()
    (found,) = made.ratio(counties("vw"), counties("wx"), replicates=200, seed=5).to_pylist()
    assert found["std_dev"] == pytest.approx(exact["std_dev"], rel=0.25)


@pytest.mark.filterwarnings("ignore:mechanism")
def test_leaves_with_independent_noise():
    made = small.release(mechanism=tt.counts.LeafGaussian())
    noise = next(each["noise"]["std_dev"] for each in made.statement["levels"] if each["level"] == "county")
    (row,) = made.ratio(counties("vw"), counties("wx")).to_pylist()
    theta = row["ratio"]
    wanted = noise * np.sqrt(2 - 2 * theta + 2 * theta**2) / row["denominator"]
    assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)


PEOPLE = tt.Product({"area": small.TREE, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})


def tables(seed=1, **changes):
    """Five counties by sex, 400 people in each cell."""
    records = small.AREAS.take(pa.array(np.repeat(np.arange(5), 2))).append_column("sex", pa.array(["f", "m"] * 5))
    given = {"neighboring": "add_remove", "tables": [("county", "sex"), ("county",)], "count": "n", "seed": seed}
    return tt.release_tables(records.append_column("n", pa.array(np.full(10, 400))), PEOPLE, tt.Budget(rho=0.02),
                             **given | changes)  # fmt: skip


def test_ratios_in_tables_have_the_error_of_the_dense_fit():
    """The cells f, m of a county, and their sum, are all that is measured of it: three numbers, two unknowns."""
    made = tables()
    noise = {each["level"]: each["noise"]["std_dev"] for each in made.statement["levels"] if each["measured"]}
    assert set(noise) == {"county.sex", "county"}
    rows = np.array([[1 / noise["county.sex"], 0], [0, 1 / noise["county.sex"]], [1 / noise["county"]] * 2])
    dense = np.linalg.inv(rows.T @ rows)
    found = made.ratio({"sex": "f"}, {"sex": "m"}, by="county").to_pylist()
    cells = made.table("county", "sex", unbiased=True)
    for county, row in enumerate(found):
        f, m = (cells["count"][2 * county + sex].as_py() for sex in (0, 1))
        assert (row["county"], row["numerator"], row["denominator"]) == ("vwxyz"[county], f, m)
        estimate = cells["unbiased"][2 * county + 1].as_py()
        wanted = small.ratio_std_dev(dense, [1, 0], [0, 1], (f, m), (None, estimate))
        assert row["std_dev"] == pytest.approx(wanted, rel=1e-9)
    (whole,) = made.ratio({"sex": "f"}, {}).to_pylist()
    assert whole["denominator"] == sum(made.table("county")["count"].to_pylist())
    assert made.ratio({"sex": "f"}, {}, by="county")["std_dev"].to_numpy() == pytest.approx(
        made.share("county", "sex", within=("county",))["std_dev"].to_numpy()[::2], rel=1e-9
    )


def test_districts_in_tables():
    made = tables()
    district = small.AREAS.append_column("district", pa.array(["p", "p", "q", "q", "q"]))
    found = made.ratio({"sex": "f"}, {"sex": "m"}, areas=district, by="district").to_pylist()
    counts = made.table("county", "sex")["count"].to_numpy().reshape(5, 2)
    assert [(row["district"], row["numerator"]) for row in found] == [
        ("p", counts[:2, 0].sum()),
        ("q", counts[2:, 0].sum()),
    ]


@pytest.mark.slow
def test_intervals_of_ratios_cover_the_truth():
    """150 releases of 3 ratios: the standard error of a coverage of 90 % is 1.4 points."""
    covered = []
    for seed in range(150):
        made = small.release(seed)
        for first, second in (("v", "w"), ("xz", "vwxyz"), ("vy", "xz")):
            (row,) = made.ratio(counties(first), counties(second)).to_pylist()
            true = (rows_of(first) @ small.COUNTS) / (rows_of(second) @ small.COUNTS)
            covered.append(row["ci_lower"] <= true <= row["ci_upper"])
    assert 0.86 < np.mean(covered) < 0.97


def test_what_cannot_be_is_refused(areas):
    counts, made = small.release(), tables()
    for call, message in (
        (lambda: counts.ratio(counties("v"), pa.table({"state": ["C"]})), r"denominator: row 1 names state='C'"),
        (lambda: counts.ratio(None, counties("v")), r"numerator: "),
        (lambda: counts.ratio(counties("v"), counties("w"), areas=counties("v")), r"areas: of counts the numerator"),
        (lambda: counts.ratio(counties("v"), counties("w"), alpha=0), r"alpha: 0 must lie strictly between"),
        (lambda: made.ratio({"sex": "x"}, {}), r"numerator: 'x' is no label of 'sex'"),
        (lambda: made.ratio({}, {"age": 3}), r"denominator: 'age' is no column of an attribute"),
        (
            lambda: made.ratio({}, {}, by="town"),
            r"by: 'town' is no level of the hierarchies, which are state, county, sex;",
        ),
        (lambda: made.ratio({}, {}, replicates=50), r"replicates: 50, but ratios in tables have exact errors"),
        (lambda: releases.flows(areas, seed=1).ratio(counties("v"), counties("w")), r"release: not all of its cells"),
        (
            lambda: releases.group_sizes(areas, seed=1).ratio({}, {}),
            r"release: its statistic is 'group_sizes', and ratio is of",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()
