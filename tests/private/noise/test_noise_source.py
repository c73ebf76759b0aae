"""The noise of a task that knows subkeys only is the release's, below the addresses that it was given."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from helpers.inside import KeyedNoise
from tallytree.errors import BudgetExceeded
from tallytree.mechanisms import Noise

KEY = bytes(range(32))
LAPLACE, GAUSSIAN = Noise("discrete_laplace", Fraction(5, 3)), Noise("discrete_gaussian", Fraction(1_000))
CELLS = np.array([5, 0, 2**40, 77])


@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN, Noise("discrete_gaussian", Fraction(7, 2))], ids=str)
def test_subkeys_draw_the_same_noise(noise):
    whole, address = KeyedNoise(KEY), ("county", "counts")
    part = whole.below([(noise, address)])
    for cells in (CELLS, np.arange(300_000), CELLS[:0]):
        assert np.array_equal(part.draw(noise, address, cells), whole.draw(noise, address, cells))


@pytest.mark.parametrize(
    ("noise", "address"),
    [(LAPLACE, ("state", "counts")), (LAPLACE, ("county", "total")), (GAUSSIAN, ("county", "counts"))],
)
def test_other_noise_cannot_be_drawn(noise, address):
    part = KeyedNoise(KEY).below([(LAPLACE, ("county", "counts"))])
    with pytest.raises(BudgetExceeded, match="a task has no key for"):
        part.draw(noise, address, CELLS)


def test_subkeys_are_neither_the_key_nor_each_other_and_are_not_shown_or_pickled():
    asked = [(noise, (level, "counts")) for noise in (LAPLACE, GAUSSIAN) for level in ("state", "county")]
    part = KeyedNoise(KEY).below(asked)
    assert len({KEY, *part.shown_to_task().values()}) == 5
    assert repr(part) == "SubkeyNoise(<secret>)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(part)
