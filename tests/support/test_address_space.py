"""A limit on the address space that a release does not fit in is refused before anything begins."""

from __future__ import annotations

import resource

import pytest

from helpers.releases import counts
from tallytree.support.machine import available_threads, require_address_space


def limited(monkeypatch, bytes_of_address_space):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (bytes_of_address_space, resource.RLIM_INFINITY))


def test_without_a_limit_nothing_is_refused(monkeypatch):
    limited(monkeypatch, resource.RLIM_INFINITY)
    require_address_space(threads=1_024)


def test_what_is_needed_grows_with_the_threads(monkeypatch):
    limited(monkeypatch, 10**9 * 3 + 2 * 10**8 * available_threads())
    require_address_space(threads=1)
    with pytest.raises(MemoryError, match=r"^engine: the address space of this process is limited to \d\.\d GB"):
        require_address_space(threads=100)


def test_a_release_is_refused_before_its_records_are_read_or_anything_is_paid(areas, monkeypatch, tmp_path):
    limited(monkeypatch, 10**9)
    with pytest.raises(MemoryError, match=r"\(ulimit -v\), but a release takes .* raise that limit"):
        counts(areas, ledger=tmp_path / "ledger.db", dataset="people")
    assert not (tmp_path / "ledger.db").exists()
