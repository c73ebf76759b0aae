"""Which pairs are compared: such that every value of every option is in many of them, also values that are rare."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tallytree.lab.replay.pair import Pair

HOPELESS = 3
"""After so many refusals a value that was released in no pair is taken to be refused always."""


class Choice:
    """Chooses among candidates the pair with most of what was seen least.

    A pair that is refused shows what a refusal says. Its values may go with others, so they stay to be seen.

    Args:
        candidates: random pairs.
    """

    def __init__(self, candidates: Sequence[Pair]) -> None:
        self._left = [(pair, pair.values()) for pair in candidates]
        self._released: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._every = frozenset().union(*(values for _, values in self._left))

    @property
    def left(self) -> int:
        """How many candidates there are."""
        return len(self._left)

    def next(self) -> Pair:
        """The candidate whose values were seen least: the sum of 4^−n over its values, each seen n times."""
        place = max(range(len(self._left)), key=lambda place: sum(map(self._worth, self._left[place][1])))
        return self._left.pop(place)[0]

    def _worth(self, value: str) -> float:
        return math.pow(4, -(self._released[value] + self._refused[value] / 2))

    def note(self, pair: Pair, refused: bool) -> None:
        """A pair was compared, or refused."""
        (self._refused if refused else self._released).update(pair.values())

    def covered(self) -> Mapping[str, int]:
        """For every value that can be released, in how many pairs it was."""
        every = self._every | {*self._released}
        return {
            value: self._released[value]
            for value in sorted(every)
            if self._released[value] or self._refused[value] < HOPELESS
        }
