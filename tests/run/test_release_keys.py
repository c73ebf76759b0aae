"""The keys of a release: what they depend on, and what they do not."""

import dataclasses

import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import CountsArguments, release_keys

PEOPLE = pa.table({"state": ["A", "A", "B"], "county": ["x", "y", "x"]})
AREAS = tt.Hierarchy.from_table(PEOPLE, ["state", "county"])
PLAN, OTHER_PLAN = "a" * 64, "b" * 64


@pytest.fixture
def options(tmp_path):
    secret = tt.new_secret(tmp_path / "secret")
    return CountsArguments(
        PEOPLE, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", ledger=tmp_path / "ledger", dataset="people",
        run="Monday", secret=secret,
    )  # fmt: skip


def keys(options, statistics=b"statistics", plan=PLAN, release_id="0" * 32):
    """Every key that is derived: of the records that count, of the noise, of the digest of the statistics."""
    release = release_keys.release_key(options)
    made = release_keys.ReleaseKeys(release, options.secret is not None, statistics, "asked", plan)
    return release, made.noise(release_id), made.keyed_digest(release_id)


def test_the_same_run_has_the_same_keys_and_they_are_unrelated_to_each_other(options):
    release, noise, digest = keys(options)
    assert keys(options) == (release, noise, digest)
    assert len({release, noise, bytes.fromhex(digest)}) == 3


def test_each_key_depends_on_what_it_has_to_and_on_nothing_else(options, tmp_path):
    release, noise, digest = keys(options)
    for changes in ({"run": "Tuesday"}, {"dataset": "homes"}, {"secret": tt.new_secret(tmp_path / "other")}):
        others = keys(dataclasses.replace(options, **changes))
        assert not {*others} & {release, noise, digest}
    # The choice of the records that count comes before the statistics: its key knows neither them nor the plan.
    assert keys(options, statistics=b"others", plan=OTHER_PLAN, release_id="1" * 32)[0] == release
    for changes in ({"statistics": b"others"}, {"plan": OTHER_PLAN}, {"release_id": "1" * 32}):
        assert keys(options, **changes)[1] != noise
    for changes in ({"statistics": b"others"}, {"release_id": "1" * 32}):
        assert keys(options, **changes)[2] != digest
    # The ledger finds the statistics again whatever the plan: it compares the plan by itself.
    assert keys(options, plan=OTHER_PLAN)[2] == digest


def test_without_a_secret_keys_are_fresh_and_there_is_no_digest_of_the_statistics(options):
    without = dataclasses.replace(options, secret=None)
    assert len({release_keys.release_key(without) for _ in range(4)}) == 4
    made = release_keys.ReleaseKeys(release_keys.release_key(without), False, b"statistics", "asked", PLAN)
    assert made.noise("0") == made.noise("1")
    with pytest.raises(ValueError, match=r"^secret: a digest of the statistics needs one"):
        made.keyed_digest("0")


def leaves(*rows):
    states, counties = zip(*rows, strict=True)
    return tt.Hierarchy.from_table(pa.table({"state": list(states), "county": list(counties)}), ["state", "county"])


def test_the_plan_digest_knows_every_label_of_the_tree_and_their_order():
    trees = [
        leaves(("A", "x"), ("A", "y"), ("B", "x")),
        leaves(("A", "y"), ("A", "x"), ("B", "x")),
        leaves(("A", "x"), ("A", "yz"), ("B", "x")),
        leaves(("A", "xy"), ("A", "z"), ("B", "x")),
        leaves(("A", "x"), ("B", "y"), ("B", "x")),
        tt.Product({"p": leaves(("A", "x"), ("A", "y")), "q": leaves(("B", "x"), ("B", "y"))}, order=["p", "q"] * 2),
        tt.Product({"p": leaves(("A", "x"), ("A", "y")), "q": leaves(("B", "x"), ("B", "y"))}, order=["q", "p"] * 2),
    ]
    digests = [release_keys.plan_digest("asked", tree) for tree in trees]
    assert len({*digests}) == len(trees)
    assert release_keys.plan_digest("other", trees[0]) not in digests
    again = leaves(("A", "x"), ("A", "y"), ("B", "x"))
    sliced = dataclasses.replace(
        again, labels=tuple(pa.chunked_array([each]).combine_chunks() for each in again.labels)
    )
    assert release_keys.plan_digest("asked", sliced) == digests[0]
