"""Where a release's noise comes from: keyed (the default), or drawn by OpenDP."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from tallytree.compute.arrays import IntArray
from tallytree.errors import BudgetExceeded
from tallytree.measurements import Noise
from tallytree.private.noise import discrete


class NoiseSource(Protocol):
    """Draws the noise of cells that are known by an address and a number."""

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` (int64 (n,), distinct) below `address`: int64 (n,)."""


class KeyedNoise:
    """Noise as a function of a secret key and the cell's address: drawn twice, a cell gets the same noise.

    A recomputed cell is therefore not a second release. The key never leaves the object.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        """Nothing of the key."""
        return "KeyedNoise(<secret>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the key would leave the object."""
        raise TypeError("KeyedNoise holds a secret key and cannot be pickled")

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`."""
        draw = discrete.laplace_at if noise.distribution == "discrete_laplace" else discrete.gaussian_at
        return draw(noise.scale, self._key, address, cells)


class OpenDPNoise:
    """Noise drawn by OpenDP from the operating system's entropy, fresh at every call.

    A cell drawn twice would be a second release, so each cell is drawn once only.
    """

    def __init__(self) -> None:
        self._drawn: dict[tuple[str | int, ...], list[IntArray]] = {}

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`.

        Raises:
            BudgetExceeded: one of them was drawn before, or is asked for twice.
        """
        earlier = self._drawn.setdefault(address, [])
        if len(np.unique(cells)) < len(cells) or any(np.isin(cells, before).any() for before in earlier):
            raise BudgetExceeded(f"noise: a cell of {address} was measured before; measuring it again is not paid for")
        earlier.append(cells.copy())
        draw = discrete.opendp_laplace if noise.distribution == "discrete_laplace" else discrete.opendp_gaussian
        return draw(noise.scale, len(cells))
