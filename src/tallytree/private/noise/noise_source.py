"""Where a release's noise comes from: keyed (the default), or drawn by OpenDP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn, Protocol

import numpy as np

from tallytree.errors import BudgetExceeded
from tallytree.kinds.measurements import Noise
from tallytree.private.noise import discrete
from tallytree.support.arrays import IntArray


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

    def below(self, asked: Iterable[tuple[Noise, tuple[str | int, ...]]]) -> SubkeyNoise:
        """The noise below some addresses, for a task elsewhere: it draws the same, and knows nothing of other noise.

        Args:
            asked: the distributions and addresses.
        """
        return SubkeyNoise({each: discrete.subkey_of(each[0], self._key, each[1]) for each in asked})


class SubkeyNoise:
    """The noise of `KeyedNoise` below some addresses, drawn with their subkeys. No key can be computed from a subkey.

    Args:
        subkeys: by distribution and address, 32 bytes.
    """

    def __init__(self, subkeys: Mapping[tuple[Noise, tuple[str | int, ...]], bytes]) -> None:
        self._subkeys = dict(subkeys)

    def __repr__(self) -> str:
        """Nothing of the subkeys."""
        return "SubkeyNoise(<secret>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, so that no closure holds a subkey; `shown_to_task` is the way to a task."""
        raise TypeError("SubkeyNoise holds secret keys and cannot be pickled")

    def shown_to_task(self) -> dict[tuple[Noise, tuple[str | int, ...]], bytes]:
        """The subkeys, for the connection over which a task fetches them; they are written nowhere."""
        return dict(self._subkeys)

    def draw(self, noise: Noise, address: tuple[str | int, ...], cells: IntArray) -> IntArray:
        """Noise for `cells` below `address`.

        Raises:
            BudgetExceeded: the subkey was not given.
        """
        subkey = self._subkeys.get((noise, address))
        if subkey is None:
            raise BudgetExceeded(f"noise: a task has no key for {address}, so it cannot measure there")
        return discrete.drawn_with(subkey, noise, cells)


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
