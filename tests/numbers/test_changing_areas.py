"""Changes between releases whose areas were merged, split and renamed, by a public crosswalk."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallytree as tt
from helpers import dense_trees as small
from helpers import releases

NEW = pa.table({"state": list("AABBB"), "county": ["v", "x", "y", "q", "r"]})
NEW_COUNTS = np.array([1320, 340, 700, 100, 40])
MOVES = {"old": ["w", "z", "z"], "new": ["v", "q", "r"], "weight": [1.0, 0.7, 0.3]}
"""w became a part of v, and z was divided."""


def later(seed=2, counts=NEW_COUNTS, areas=NEW, **changes):
    given = {"neighboring": "add_remove", "count": "n", "seed": seed} | changes
    tree = tt.Hierarchy.from_table(areas, ["state", "county"])
    return tt.release_counts(areas.append_column("n", pa.array(counts)), tree, tt.Budget(epsilon=0.5), **given)


@pytest.fixture(scope="module")
def pair():
    return small.release(1), later()


def test_merged_and_split_areas_have_the_error_of_their_sum(pair):
    made = tt.change(*pair, "county", crosswalk=pa.table(MOVES)).to_pandas()
    assert made["county"].tolist() == ["v", "x", "y", "q", "r"]
    assert made["areas"].tolist() == ["merged", "same", "same", "by weight", "by weight"]
    sums = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0.7], [0, 0, 0, 0, 0.3]])
    old = pair[0].table("county", unbiased=True)
    assert made["earlier"].tolist() == np.rint(sums @ old["count"].to_numpy()).tolist()
    assert (made["change"] == made["later"] - made["earlier"]).all()
    dense = sums @ small.covariance(pair[0]) @ sums.T
    own = pair[1].table("county", unbiased=True)
    assert made["std_dev"].to_numpy() == pytest.approx(np.sqrt(np.diag(dense) + own["std_dev"].to_numpy() ** 2))
    middle = own["unbiased"].to_numpy() - sums @ old["unbiased"].to_numpy()
    half = (made["ci_upper"] - made["ci_lower"]).to_numpy() / 2
    assert np.abs(half - 1.645 * made["std_dev"].to_numpy()).max() < 1.5
    assert np.abs((made["ci_upper"] + made["ci_lower"]).to_numpy() / 2 - middle).max() < 1.5


def test_rounded_weights_count_as_what_they_are_parts_of(pair):
    rounded, exact = (
        tt.change(*pair, "county", crosswalk=pa.table(MOVES | {"weight": [1.0, *parts]})).to_pandas()
        for parts in ([0.66667, 0.33334], [2 / 3, 1 / 3])
    )
    assert rounded["std_dev"].to_numpy() == pytest.approx(exact["std_dev"].to_numpy(), rel=1e-4)
    assert rounded["areas"].tolist() == exact["areas"].tolist()
    nearly_all = {"old": ["w", "z"], "new": ["v", "q"], "weight": [0.99999, 1.0]}
    made = tt.change(*pair, "county", crosswalk=pa.table(nearly_all)).to_pandas()
    assert made["areas"].tolist() == ["merged", "same", "same", "renamed", "only later"]
    little = {"old": ["w", "z", "z"], "new": ["v", "q", "r"], "weight": [1.0, 0.99995, 0.00005]}
    made = tt.change(*pair, "county", crosswalk=pa.table(little)).to_pandas()
    assert made["areas"].tolist() == ["merged", "same", "same", "by weight", "by weight"]


def test_a_crosswalk_of_a_finer_level_is_refused(pair):
    """What became of a county says nothing of its state, whose label it has too."""
    paths = pa.table({"old_state": ["B"], "old_county": ["z"], "new_state": ["A"], "new_county": ["v"]})
    with pytest.raises(ValueError, match=r"^crosswalk: its column 'old_county' is of a finer level than 'state',"):
        tt.change(*pair, "state", crosswalk=paths)


def test_without_a_crosswalk_the_areas_of_both_are_compared_and_the_others_are_named(pair):
    made = tt.change(*pair, "county").to_pandas()
    assert dict(zip(made["county"], made["areas"], strict=True)) == {
        "v": "same", "x": "same", "y": "same", "q": "only later", "r": "only later",
        "w": "only earlier", "z": "only earlier",
    }  # fmt: skip
    lost = made[made["areas"] != "same"]
    assert lost[["change", "std_dev", "ci_lower", "verdict"]].isna().all(axis=None)
    assert lost["earlier"].isna().tolist() == [True, True, False, False]
    assert "areas" not in tt.change(*pair, "state").column_names


def test_areas_are_named_by_paths_where_labels_repeat(tmp_path):
    areas = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})
    newer = pa.table({"state": ["A", "B"], "county": ["x", "x"]})
    pair = later(1, [50, 60, 70], areas), later(2, [110, 70], newer)
    with pytest.raises(ValueError, match=r"^crosswalk: new='x' names several areas; give the columns new_state, new_c"):
        tt.change(*pair, "county", crosswalk=pa.table({"old": ["y"], "new": ["x"]}))
    file = tmp_path / "moves.csv"
    file.write_text("old_state,old_county,new_state,new_county,note\nA,y,A,x,merged in 2024\n")
    made = tt.change(*pair, "county", crosswalk=file)
    assert made["areas"].to_pylist() == ["merged", "same"]
    first = pair[0].table("county")["count"].to_pylist()
    assert made["earlier"].to_pylist() == [first[0] + first[1], first[2]]


def test_an_area_that_moves_to_another_parent_is_renamed():
    moved = pa.table({"state": list("AABBB"), "county": list("vwxyz")})
    pair = small.release(1), later(2, small.COUNTS, moved)
    made = tt.change(*pair, "county", crosswalk=pa.table({"old": ["x"], "new": ["x"]}))
    assert made["areas"].to_pylist() == ["same", "same", "renamed", "same", "same"]
    assert made["earlier"].to_pylist() == pair[0].table("county")["count"].to_pylist()


def tables(seed, county, labels, **given):
    side = {"state": ["A"] * len(labels), "county": labels}
    product = {"area": tt.Hierarchy.from_table(pa.table(side), ["state", "county"])}
    product["sex"] = tt.Hierarchy.from_values("sex", ["f", "m"])
    rows = pd.DataFrame({"state": "A", "county": county, "sex": ["f", "m"] * (len(county) // 2)})
    budget = tt.Budget(epsilon=1)
    names = [("county", "sex"), ("county",), ()]
    return tt.release_tables(
        rows, tt.Product(product), budget, neighboring="add_remove", tables=names, seed=seed, **given
    )


def test_tables_are_summed_cell_by_cell():
    pair = tables(1, list("xxxxyyyyzz") * 9, list("xyz")), tables(2, list("xxxxzz") * 9, list("xz"))
    moves = {"old": ["y", "z"], "new": ["x", "c"]}
    with pytest.raises(ValueError, match=r"^crosswalk: new='c' is no county of the later release; name areas of the"):
        tt.change(*pair, ("county", "sex"), crosswalk=pa.table(moves))
    made = tt.change(*pair, ("county", "sex"), crosswalk=pa.table({"old": ["y"], "new": ["x"]})).to_pandas()
    assert made["areas"].tolist() == ["merged", "merged", "same", "same"]
    both = pa.table({"county": ["x", "y"]})
    for sex, row in zip("fm", made.itertuples(), strict=False):
        total = pair[0].total(both, where={"sex": sex}).to_pylist()[0]
        assert row.earlier == total["count"]
        own = pair[1].table("county", "sex").to_pandas().set_index(["county", "sex"])["std_dev"]["x", sex]
        assert row.std_dev == pytest.approx(np.hypot(total["std_dev"], own))


def test_a_series_has_the_areas_of_the_last_release(pair, tmp_path):
    folders = [each.save(tmp_path / name) for name, each in zip(("2022", "2024"), pair, strict=True)]
    middle = small.release(5).save(tmp_path / "2023")
    made = tt.series([folders[0], middle, folders[1]], "county", crosswalk=pa.table(MOVES)).to_pandas()
    assert made["release"].tolist() == ["2022", "2023", "2024"] * 5
    alone = tt.change(middle, folders[1], "county", crosswalk=pa.table(MOVES)).to_pandas()
    last = made[made["release"] == "2024"]
    for of_series, of_change in (
        ("count", "later"), ("change", "change"), ("change_std_dev", "std_dev"), ("change_ci_lower", "ci_lower"),
        ("verdict", "verdict"),
    ):  # fmt: skip
        assert last[of_series].tolist() == alone[of_change].tolist()
    first = made[made["release"] == "2022"]
    assert first[["change", "change_std_dev", "verdict"]].isna().all(axis=None)
    assert first["areas"].tolist() == ["merged", "same", "same", "by weight", "by weight"]
    assert (made["ci_lower"] <= made["count"]).all()
    assert (made["count"] <= made["ci_upper"]).all()
    plain = tt.series(pair, "county", names=["a", "b"]).to_pandas()
    assert plain[plain["county"] == "w"]["release"].tolist() == ["a"]
    assert tt.series([small.release(1), small.release(2)], "state")["release"].to_pylist() == ["1", "2"] * 2


def test_a_series_needs_to_know_when_an_area_changed_that_stays():
    several = [small.release(1), small.release(2), small.release(3)]
    moves = pa.table({"old": ["v", "v"], "new": ["v", "w"], "weight": [0.5, 0.5]})
    with pytest.raises(ValueError, match=r"^crosswalk: old='v' is also in the last release and in several before it"):
        tt.series(several, "county", crosswalk=moves)
    made = tt.series(several, "county", crosswalk=[moves, None], names=list("abc")).to_pandas()
    assert made[made["county"] == "w"]["areas"].tolist() == ["by weight", "same", "same"]


def test_what_cannot_be_is_refused(pair, areas):
    def by(**columns):
        return lambda: tt.change(*pair, "county", crosswalk=pa.table(columns))

    flows = [releases.flows(areas, seed=seed) for seed in (1, 2)]
    walk = pa.table({"old": ["w"], "new": ["v"]})
    for call, message in (
        (by(old=["w"], area=["v"]), r"crosswalk: it has the columns 'old', 'area'; it needs 'old' and 'new' with lab"),
        (by(old=["u"], new=["v"]), r"crosswalk: old='u' is no county of the earlier release; name areas of the table"),
        (by(old=["w"], new=["u"]), r"crosswalk: new='u' is no county of the later release"),
        (by(old=["w", "w"], new=["v", "v"]), r"crosswalk: old='w', new='v' is listed twice; list it once"),
        (by(old=["w", None], new=["v", "v"]), r"crosswalk: .*old.* null.*give each row its areas"),
        (by(old=["z", "z"], new=["q", "r"]), r"crosswalk: old='z' became 2 areas; give a column 'weight' with the sh"),
        (by(**MOVES | {"weight": [1, 0.5, 0.3]}), r"crosswalk: the weights of old='z' add up to 0.8; list all areas"),
        (by(**MOVES | {"weight": [1, 1.3, -0.3]}), r"crosswalk: row 3 has weight=-0.3, which must be a number of 0 or"),
        (by(**MOVES | {"weight": [1, 0.7, None]}), r"crosswalk: row 3 has weight=None"),
        (by(**MOVES | {"weight": ["a", "b", "c"]}), r"crosswalk: the column 'weight' has values that are no numbers"),
        (by(old=pa.array([], pa.string()), new=pa.array([], pa.string())), r"crosswalk: the table has no rows"),
        (lambda: tt.change(*pair, crosswalk=walk), r"crosswalk: the table that is compared has no areas"),
        (lambda: tt.change(*flows, flows[0].levels[-1], crosswalk=walk), r"crosswalk: it is for counts and tables; le"),
        (
            lambda: tt.change(later(1, [9], pa.table({"state": ["C"], "county": ["u"]})), pair[1], "county"),
            r"earlier: none of the 6 areas or cells of the table is in two of the releases; give releases over the sam",
        ),
        (lambda: tt.series(pair[0]), r"releases: .* must be a list of releases"),
        (lambda: tt.series(pair[:1]), r"releases: the list has 1; give at least two"),
        (lambda: tt.series(pair, names=["a"]), r"names: \['a'\] must be 2 different names"),
        (lambda: tt.series(pair, names="ab"), r"names: .* must be a list of texts"),
        (lambda: tt.series(pair, crosswalk=[walk, walk]), r"crosswalk: the list has 2 tables; give 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()


@pytest.mark.slow
def test_90_percent_of_intervals_of_merged_areas_hold_the_true_change():
    """200 pairs of releases, 2 merged areas and 2 by weight each: the standard error of 90 % is 2 points at most."""
    covered = []
    newer = pa.table({"state": list("AABB"), "county": ["v", "x", "q", "r"]})
    moves = pa.table({"old": ["w", "y", "z", "z"], "new": ["v", "q", "q", "r"], "weight": [1, 1, 0.6, 0.4]})
    sums = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0.6], [0, 0, 0, 0, 0.4]])
    counts = np.array([1320, 340, 800, 60])
    for seed in range(0, 400, 2):
        made = tt.change(small.release(seed), later(seed + 1, counts, newer), "county", crosswalk=moves).to_pandas()
        true = counts - sums @ small.COUNTS
        covered.append((made["ci_lower"] <= true) & (true <= made["ci_upper"]))
    share = np.mean(covered, axis=0)
    assert (share > 0.85).all()
    assert 0.88 < share.mean() < 0.94
