"""A mechanism from outside is tried on made-up statistics before a release is paid for.

A mechanism that fails, or breaks a promise, would do so after the payment. So it is run before, on statistics of the
shape that is planned: the same levels, the same noise, the same options, but made-up records, in a tree that is cut to
some hundred leaves where it has more. Nothing private is tabulated by then. The records and the noise follow from fixed
seeds under a label of their own, so what is tried is public, and no release has that noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallytree.kinds.foreign import is_foreign
from tallytree.private import KeyedNoise, entropy
from tallytree.run.measured_contributions import PublishedContributions
from tallytree.run.promises import broken, described, in_words
from tallytree.support.stages import stage

LABEL = "rehearsal"
"""Keys are derived under this label, those of releases and replicates under others."""
RECORDS = (400, 2, 0)
"""Leaves with records in each data set, at most; in the last there is nothing."""


def rehearse(mechanism: Any, made_up: Callable[[int], tuple[Any, Any]]) -> None:
    """Try a mechanism from outside; those of this library are tested, and not tried.

    Args:
        mechanism: the mechanism.
        made_up: see `PlannedRecords.made_up`.

    Raises:
        ValueError: the mechanism fails, or breaks a promise that it does not declare.
    """
    if not is_foreign(mechanism):
        return
    who = described(mechanism)
    with stage("rehearse"):
        for number, records in enumerate(RECORDS):
            planned, true = made_up(records)
            key = entropy.derive(entropy.key_from_seed(0), LABEL, number)
            try:
                made = planned.reconcile_levels(true, KeyedNoise(key), _not_shown, None, PublishedContributions())
            except Exception as error:  # any code runs here, and all that it has seen is made up
                raise ValueError(
                    f"mechanism: {who} was tried on made-up statistics with records in at most {records} leaves, and "
                    f"failed ({type(error).__name__}: {error}). Nothing was spent; correct it"
                ) from error
            names = broken(mechanism, made.about)
            if names:
                declared = ", ".join(f'"{name}"' for name in sorted({*names, *mechanism.breaks}))
                raise ValueError(
                    f"mechanism: {who} was tried on made-up statistics, and in what it made of them it does not hold "
                    f"{in_words(names)}. Nothing was spent; correct it, or declare it: breaks = "
                    f"frozenset({{{declared}}})"
                )


def _not_shown(level: str) -> None:
    """Show no progress."""
