"""The same noise for several mechanisms, for experiments alone: two such releases show more than each one states.

The noise of a release follows from its key, its statistics and its plan, so that the same noise never meets another
plan. In a paired comparison the plan is left out: mechanisms that measure the same cells with the same scale get equal
noisy answers, and their errors differ by what they do with these. With another scale the answers are close.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from tallytree.lab._internals import ReleaseKeys, entropy

LABEL = "shared noise of a comparison"
"""Keys are derived under this label, those of releases under another."""


@contextmanager
def shared_noise(seed: int) -> Iterator[None]:
    """Releases within that have this seed get noise that does not depend on their mechanism.

    Only they: a release without a seed, or with another one, has another key, and its noise stays its own.
    """
    own, key = ReleaseKeys.noise, entropy.key_from_seed(seed)

    def noise(keys: ReleaseKeys, release_id: str) -> bytes:
        if keys.from_secret or keys.key != key:
            return own(keys, release_id)
        return entropy.derive(key, LABEL, keys.statistics.hex())

    with mock.patch.object(ReleaseKeys, "noise", noise):
        yield
