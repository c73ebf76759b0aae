"""Runs: when a release under a run's name is the one that was made before, which is charged once.

A run is made again where the name of the run, the plan and the keyed digest of the statistics are those of an entry.
Its key is derived from them and from the secret, so the noise is the same noise on the same numbers, and what comes out
is the same release: a function of what was released before, which loses nothing more. Anything else under the same name
is another release: other noise, and another loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tallytree.accounting.spending import DataSet, Entry, Posting

OnChanged = Literal["error", "charge"]
"""What becomes of a release under the name of an earlier run that is another release: refused, or charged as one."""

_SAME = ("statistic", "mechanism", "max_contributions", "unit", "loss")


def made_before(known: DataSet | None, posting: Posting, statistics: str | None) -> Entry | None:
    """The entry of the same run, made of the same statistics under the same plan; None where there is none.

    Raises:
        ValueError: that entry spent something else, which one plan cannot.
    """
    if statistics is None:
        return None
    return next((entry for entry in _of_plan(known, posting) if entry.statistics == statistics), None)


def may_be_made_before(known: DataSet | None, posting: Posting) -> bool:
    """Whether an entry is of the same run and plan, and has a digest of its statistics, which are not known yet."""
    return any(entry.statistics is not None for entry in _of_plan(known, posting))


def check_run_is_new(
    known: DataSet | None, posting: Posting, statistics: str | None, *, on_changed: OnChanged, counted: bool = True
) -> None:
    """Refuse another release under the name of an earlier run, unless it is to be charged as one.

    Args:
        known: the data set.
        posting: the release, which `made_before` does not have.
        statistics: the keyed digest of its statistics.
        on_changed: whether it is refused.
        counted: whether the statistics are known.

    Raises:
        ValueError: an entry has the name of this run, and the release is another one.
    """
    earlier = _of_run(known, posting)
    if not earlier or on_changed == "charge":
        return
    same_plan = _of_plan(known, posting)
    entry = (same_plan or earlier)[-1]
    if not same_plan:
        why = "its plan differs: the spec, a public table or the version of the software"
    elif all(each.statistics is None for each in same_plan):
        why = "that one was made without a secret, so the same release cannot be made again"
    elif statistics is None and counted:
        why = "no secret was given, so the same release cannot be made again"
    else:
        why = "its statistics differ: the records, or the secret"
    raise ValueError(
        f"run: {posting.run!r} is the run of entry {entry.number} of the data set {posting.dataset!r}, and this "
        f'release is another one: {why}; give another run name, or on_changed="charge" (`--on-changed charge`) to '
        "spend its budget as well"
    )


def _of_run(known: DataSet | None, posting: Posting) -> Sequence[Entry]:
    if known is None or posting.run is None:
        return []
    return [entry for entry in known.entries if entry.run == posting.run]


def _of_plan(known: DataSet | None, posting: Posting) -> Sequence[Entry]:
    """The entries of the same run and plan.

    Raises:
        ValueError: one of them spent something else: the same noise would be drawn at another scale.
    """
    found = [entry for entry in _of_run(known, posting) if entry.plan is not None and entry.plan == posting.plan]
    for entry in found:
        if any(getattr(entry, name) != getattr(posting, name) for name in _SAME):
            raise ValueError(
                f"plan: entry {entry.number} of the data set {posting.dataset!r} has the digest of this plan, and "
                "another mechanism, contribution bound or loss; give another run name"
            )
    return found
