"""Runs: when a release under a run's name is the one that was made before, which is charged once.

A run is repeated where its last entry has the same plan and the same keyed digest of the statistics. Its key is derived
from them and from the secret, so the noise is the same noise on the same numbers, and the same release results: a
function of what was released before, which loses nothing more. Anything else under the same name is another release:
other noise, and another loss.

Whether a release was repeated must not be seen in two outputs of one run: it says exactly whether the statistics have
changed. So only the last entry of a run is repeated; and where changes are charged, only one that is not finished,
whose output nobody has seen (`tallytree.run.release_keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tallytree.accounting.spending import Entry, Posting

OnChanged = Literal["error", "charge"]
"""What happens to a release under the name of an earlier run that is another release: refused, or charged as one."""

KeyedDigest = Callable[[str], str]
"""The keyed digest of a release's statistics, or of its inputs, 64 hex digits, for the entry with this release id."""

_SAME = ("statistic", "mechanism", "max_contributions", "unit", "loss")


def made_before(
    earlier: Sequence[Entry], posting: Posting, statistics: KeyedDigest | None, on_changed: OnChanged
) -> Entry | None:
    """The last entry of the run, if it is of the same plan and statistics and may be repeated; else None.

    Args:
        earlier: the entries of the run that decide about it (`OpenBooks.of_run`).
        posting: the release.
        statistics: the keyed digest of its statistics for a release id; None without a secret.
        on_changed: what happens to another release under this name.

    Raises:
        ValueError: an entry of the same plan spent something else, which one plan cannot.
    """
    last = _repeatable(earlier, posting, on_changed)
    if last is None or statistics is None:
        return None
    return last if last.statistics == statistics(last.release_id) else None


def may_be_made_before(earlier: Sequence[Entry], posting: Posting, on_changed: OnChanged) -> bool:
    """Whether the release may turn out to be the last entry of its run; its statistics are not known yet."""
    return _repeatable(earlier, posting, on_changed) is not None


def check_run_is_new(earlier: Sequence[Entry], posting: Posting, *, secret: bool, on_changed: OnChanged) -> None:
    """Refuse another release under the name of an earlier run, unless it is to be charged as one.

    Args:
        earlier: the entries of the run that decide about it (`OpenBooks.of_run`).
        posting: the release, which `made_before` does not have.
        secret: whether a secret was given, or it is not known yet.
        on_changed: whether it is refused.

    Raises:
        ValueError: an entry has the name of this run, and the release is another one.
    """
    if not earlier or on_changed == "charge" or _revises(posting, earlier[-1]):
        return
    last = earlier[-1]
    if last.revises != posting.revises:
        why = "that one is a revision" if posting.revises is None else "that one is not the release that it revises"
    elif last.statistics is None:  # before the plan, which a secret changes
        why = "that one was made without a secret, so the same release cannot be made again"
    elif not secret:
        why = "no secret was given, so the same release cannot be made again"
    elif last.plan is None or last.plan != posting.plan:
        why = f"its plan differs: {which_parts(last, posting)}"
    elif not _of_period(last, posting):
        why = f"its period differs: that one is of {last.period}"
    else:
        why = "its statistics differ: the records, or the secret"
    raise ValueError(
        f"run: {posting.run!r} is the run of entry {last.number} of the data set {posting.dataset!r}, and this "
        f'release is another one: {why}; give another run name, or on_changed="charge" (`--on-changed charge`) to '
        "spend its budget as well"
    )


def which_parts(entry: Entry, posting: Posting) -> str:
    """Which parts of the plan of a release are not those of an entry's, in words."""
    before, now = entry.parts, posting.parts
    if before is None or now is None:
        return "the spec, a public table, the version of the software, or whether a secret was given"
    return " and ".join(name for name in now if before.get(name) != now[name]) or "a public table"


def _repeatable(earlier: Sequence[Entry], posting: Posting, on_changed: OnChanged) -> Entry | None:
    """The last entry of the run, if it has the same plan, a keyed digest, and no output that a change could betray.

    Raises:
        ValueError: an entry of the same plan spent something else: the same noise would be drawn at another scale.
    """
    for entry in earlier:
        same = entry.plan is not None and entry.plan == posting.plan
        if same and any(getattr(entry, name) != getattr(posting, name) for name in _SAME):
            raise ValueError(
                f"plan: entry {entry.number} of the data set {posting.dataset!r} has the digest of this plan, and "
                "another mechanism, contribution bound or loss; give another run name"
            )
    last = earlier[-1] if earlier else None
    if last is None or last.plan is None or last.plan != posting.plan or last.statistics is None:
        return None
    if not _of_period(last, posting) or last.revises != posting.revises:
        return None
    return None if on_changed == "charge" and last.state == "finished" else last


def _revises(posting: Posting, entry: Entry) -> bool:
    """Whether a release revises the one of an entry: it is a new release, and is charged, whatever has changed."""
    return posting.revises is not None and posting.revises == entry.release_id


def _of_period(entry: Entry, posting: Posting) -> bool:
    """Whether an entry counts in all windows that a release is to count in; one without a period counts in each."""
    return entry.period is None or entry.period == posting.period
