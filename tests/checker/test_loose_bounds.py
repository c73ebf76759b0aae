"""What the checker allows to some releases does not hide forgeries: in them, and in others that take their names."""

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.forged import Forged
from helpers.tools import check_release

STATES = [f"s{i}" for i in range(4)]
LEAVES = pa.table({"s": [s for s in STATES for _ in "012"], "c": [s + c for s in STATES for c in "012"]})
AREAS = tt.Hierarchy.from_table(LEAVES, ["s", "c"])
UNEVEN = {"budget": tt.Budget(epsilon=8), "budget_split": {"total": 0.9, "s": 0.05, "c": 0.05}}
ADD_REMOVE = {"neighboring": "add_remove"}


def wrong(release, folder, edit):
    """What is found in a release that was changed and signed again."""
    forged = Forged(release.save(folder))
    edit(forged)
    forged.sign()
    return check_release.check(folder).wrong


def moved(sizes, groups, number):
    """So many groups of size 3 become groups of size 5."""
    change = {3: -number, 5: number}
    return [n + change.get(size, 0) for size, n in zip(sizes, groups, strict=True)]


@pytest.mark.parametrize("number", [0, 15])
def test_sizes_that_are_fitted_level_by_level_may_lie_as_far_off_as_the_loudest_noise(number, tmp_path):
    sizes = pa.array(range(1, 11))
    records = pa.concat_tables(
        LEAVES.take(pa.array([leaf] * 10)).append_column("size", sizes).append_column("groups", pa.array([50] * 10))
        for leaf in range(LEAVES.num_rows)
    )
    release = tt.release_group_sizes(
        records, AREAS, **UNEVEN, **ADD_REMOVE, size="size", groups="groups", invariants="none", max_group_size=12,
        mechanism=tt.sizes.HistogramProjection(),
    )  # fmt: skip

    def edit(forged):
        for level, leaves in zip(release.levels, (12, 3, 1), strict=True):
            name = f"tables/{level}.parquet"
            of = forged.read(name)["size"].to_pylist()
            forged.change(name, "groups", lambda n, of=of, leaves=leaves: moved(of, n, number * leaves))

    assert any("squares of" in sentence for sentence in wrong(release, tmp_path / "out", edit)) == (number > 0)


def test_counts_with_the_name_of_such_a_mechanism_have_the_bound_of_counts(tmp_path):
    records = LEAVES.take(pa.array(list(range(12)) * 100))
    release = tt.release_counts(records, AREAS, **UNEVEN, **ADD_REMOVE)

    def edit(forged):
        forged.statement["mechanism"]["name"] = "HistogramProjection"
        forged.change("tables/s.parquet", "count", lambda n: [n[0] + 40, n[1] - 40, n[2] + 40, n[3] - 40])
        forged.change(
            "tables/c.parquet",
            "count",
            lambda n: [x + (0 if i % 3 else (40, -40)[i // 3 % 2]) for i, x in enumerate(n)],
        )

    assert any("squares of" in sentence for sentence in wrong(release, tmp_path / "out", edit))


def test_a_listed_row_that_is_alone_is_not_known_exactly(tmp_path):
    other = tt.Hierarchy.from_table(LEAVES.rename_columns(["t", "d"]), ["t", "d"])
    pairs = tt.Product({"from": AREAS, "to": other}, order=["from", "to", "from", "to"])
    trips = pa.table({"s": ["s0"] * 400, "c": ["s00"] * 400, "t": ["s1"] * 400, "d": ["s11"] * 400})
    release = tt.release_counts(
        trips, pairs, tt.Budget(epsilon=1), neighboring="change_one", seed=1,
        mechanism=tt.counts.LeastSquares(sparsity="auto"),
    )  # fmt: skip
    assert release.table("s").num_rows == 1

    def edit(forged):
        forged.statement["unlisted"] = None
        forged.change("tables/s.parquet", "std_dev", lambda errors: [0.0])

    assert any("s: a smaller std_dev" in sentence for sentence in wrong(release, tmp_path / "out", edit))
