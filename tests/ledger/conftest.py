"""A ledger in a folder of its own, and checks that nothing private was read or drawn."""

import pytest

import tallytree as tt
from helpers.inside import KeyedNoise, entropy
from tallytree.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    return Ledger(path)


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Fails the test if a key or noise is made, or a private row is read."""

    def refuse(*arguments, **options):
        pytest.fail("noise was drawn, or the records were read")

    monkeypatch.setattr(KeyedNoise, "draw", refuse)
    monkeypatch.setattr(entropy, "fresh_key", refuse)
    monkeypatch.setattr(tt.engines.Local, "tabulate", refuse)


@pytest.fixture
def no_noise(monkeypatch):
    """Fails the test if noise is drawn; records may be read."""
    monkeypatch.setattr(KeyedNoise, "draw", lambda *arguments: pytest.fail("noise was drawn"))
