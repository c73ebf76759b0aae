"""Fixtures of the tests of runs."""

import pytest

from helpers.inside import KeyedNoise


@pytest.fixture
def drawn(monkeypatch):
    """Every draw: its key, its noise and its address."""
    found, draw = [], KeyedNoise.draw

    def remembering(self, noise, address, numbers):
        found.append((self._key, noise, address))
        return draw(self, noise, address, numbers)

    monkeypatch.setattr(KeyedNoise, "draw", remembering)
    return found
