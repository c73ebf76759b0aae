"""Keys of a revision, and of the digest of inputs: none is ever that of another release, or of another purpose."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.inside import entropy
from tallytree.run import CountsArguments, finish, make_release, plan_counts
from tallytree.run.order import paid_noise
from tallytree.run.release_keys import inputs_digest, run_key

AREAS = tt.Hierarchy.from_values("state", ["A", "B"])
PEOPLE = pa.table({"state": ["A", "A", "B"] * 50})


@pytest.fixture
def given(tmp_path):
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    terms = {"ledger": tmp_path / "ledger.db", "dataset": "people", "run": "2026-03-04"}
    secret = tt.new_secret(tmp_path / "secret")
    return CountsArguments(
        tmp_path / "people.parquet", AREAS, tt.Budget(epsilon=1), neighboring="add_remove", secret=secret, **terms
    )


def test_the_noise_key_of_a_revision_is_another_one_on_any_data(given, tmp_path):
    """The same secret, data set, run and plan: the release id alone is new, and it is a part of the key.

    `TopDown` takes no prior; else the plan of a revision has the release that it revises.
    """
    given = dataclasses.replace(given, mechanism=tt.counts.TopDown())
    first = plan_counts(given)
    release = make_release(first)
    release.save(tmp_path / "day")
    finish(first)
    again = plan_counts(dataclasses.replace(given, revises=tmp_path / "day"))
    assert again.plan_digest == first.plan_digest
    true = again.tabulate()
    again.account.check()
    paid = paid_noise(again, again.sealed_text, true.digest())
    earlier = release.statement["release"]["id"]
    assert paid.release_id != earlier
    assert paid.keys.key == run_key(given.secret, "people", "2026-03-04")  # so the records that count are the same
    assert paid.keys.noise(paid.release_id) != paid.keys.noise(earlier)
    other = dataclasses.replace(paid.keys, statistics=bytes(32))
    assert len({keys.noise(each) for keys in (paid.keys, other) for each in (paid.release_id, earlier)}) == 4


def test_the_digest_of_inputs_has_a_key_and_a_domain_of_its_own(given):
    def digest(dataset="people", run="2026-03-04", release_id="00" * 16):
        return inputs_digest(given.secret, dataset, run, given.records, "records")(release_id)

    assert digest() == digest()
    found = {digest(), digest("homes"), digest(run="2026-03-05"), digest(release_id="01" * 16)}
    assert len(found) == 4
    assert all(len(each) == 64 for each in found)
    key = run_key(given.secret, "people", "2026-03-04")
    assert digest() != entropy.derive(key, "statistics", "00" * 16, "").hex()
    assert inputs_digest(None, "people", "2026-03-04", given.records, "records") is None
    assert inputs_digest(given.secret, "people", "2026-03-04", PEOPLE, "records") is None


def test_files_are_looked_at_before_their_records_are_read(given, monkeypatch, tmp_path):
    """A file that is replaced while it is read has another stamp afterwards."""
    from tallytree.engines import Local

    real = Local.tabulate

    def replaced_meanwhile(self, table, request):
        found = real(self, table, request)
        pq.write_table(PEOPLE.slice(1), tmp_path / "people.parquet")
        return found

    monkeypatch.setattr(Local, "tabulate", replaced_meanwhile)
    planned = plan_counts(given)
    make_release(planned)
    (entry,) = planned.account.ledger.entries()
    now = inputs_digest(given.secret, "people", "2026-03-04", given.records, "records")
    assert entry.inputs != now(entry.release_id)
