"""A run that is finished and is to be left as it is (`if_exists="skip"`), and whether its input was replaced since."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tallytree.accounting.spending import Entry, Posting
from tallytree.errors import InputMayHaveChanged
from tallytree.ledger import Ledger, OnChanged, checked_name, checked_run, which_parts
from tallytree.release import Release
from tallytree.run.output import Output
from tallytree.run.planning import warn_caller
from tallytree.run.release_keys import InputsSince, inputs_digest, inputs_since
from tallytree.run.revised import Revised


@dataclass(frozen=True)
class Finished:
    """A run that is finished.

    Attributes:
        release: the release in the folder.
        inputs: whether the files that it, or its last revision, was made from are the same now.
        revised_by: the number of the entry of its last revision; None without one.
    """

    release: Release
    inputs: InputsSince
    revised_by: int | None


def finished_run(
    output: Output,
    statistic: str,
    run: str | None,
    ledger: Ledger | None,
    dataset: str | None,
    *,
    table: Any = None,
    plan: Callable[[], Posting] | None = None,
    secret: str | os.PathLike[str] | None = None,
    revises: str | os.PathLike[str] | None = None,
    on_changed: OnChanged | None = None,
) -> Finished | None:
    """The release of the run in the folder, if `if_exists` is `"skip"` and the folder exists; else None.

    Every file is compared with its checksum, the release with its entry in the ledger, and the files of the private
    table with those that the release was made from; where it was revised, with those of its last revision.

    Args:
        output: the folder.
        statistic: what was to be released.
        run: the name of the run.
        ledger: the ledger.
        dataset: the data set's name in it.
        table: the private table, of which no row is read.
        plan: finds the entry of what was to be released; a warning says where its plan is another one.
        secret: the file with the publisher's secret.
        revises: the folder of the release that this one takes the place of.
        on_changed: what becomes of a run that has changed; None: `"error"`.

    Raises:
        InputMayHaveChanged: the files of the private table were replaced since.
        ValueError: no run or no ledger is named; or the folder does not hold a private release of this run; or the
            ledger does not have it; or it revises another release.
        OSError: the ledger or the secret cannot be read.
    """
    if output.if_exists != "skip":
        return None
    if run is None or ledger is None or dataset is None:
        raise ValueError(
            'if_exists: "skip" leaves a finished run as it is; name the run, and the ledger that says which folder '
            "belongs to it (run, ledger, dataset)"
        )
    if not os.path.lexists(output.folder):
        return None
    release = output.loaded()
    run, dataset, name = checked_run(run), checked_name(dataset), repr(os.fspath(output.folder))
    about = release.statement.get("ledger") or {}
    found = (release.statement["statistic"], release.statement["release"].get("run"), about.get("dataset"))
    if found != (statistic, run, dataset) or not release.statement["private"]:
        raise ValueError(
            f"folder: {name} holds another release than {statistic} of the run {run!r} of this data set; choose "
            "another folder"
        )
    entries = ledger.entries() if ledger.path.exists() else ()
    entry = _entry_of(release, entries)
    if entry is None:
        raise ValueError(
            f"folder: the ledger {ledger.path.name!r} does not have the release in {name} as a release of the run "
            f"{run!r}; give the ledger that it was recorded in, or choose another folder"
        )
    wanted = None if revises is None else Revised.load(revises).release_id
    if entry.revises != wanted:
        which = "none" if entry.revises is None else "another one"
        remedy = "name that one with revises (--revises), or " if wanted is None else ""
        raise ValueError(f"folder: {name} holds a release that revises {which}; {remedy}choose another folder")
    last = _last_revision(entry, entries)
    since = inputs_since(last, inputs_digest(secret, dataset, last.run, table, "records"))
    if since == "changed":
        raise InputMayHaveChanged(
            f"run: the input may have changed since the release of {run!r} in {name}: the sizes or times of its files, "
            "or the secret, are others. Nothing was done or spent. If records were corrected, release them with "
            f"--revises and another --out, which is charged; {_if_not(last is entry and on_changed in (None, 'error'))}"
        )
    if plan is not None and entry.plan != (posting := plan()).plan:
        warn_caller(
            f"run: the release of {run!r} in the folder has another plan ({which_parts(entry, posting)}); it stays, "
            "and this spec is not released"
        )
    return Finished(release, since, None if last is entry else last.number)


def _if_not(repeatable: bool) -> str:
    """What to do where no record was corrected; only the last entry of a run can be repeated."""
    if not repeatable:
        return "if not, leave the release as it is"
    return (
        "if not, repeat the run with --if-exists replace: free of charge where plan, records and secret are the same, "
        "and refused otherwise"
    )


def _last_revision(entry: Entry, entries: Sequence[Entry]) -> Entry:
    """The last finished release that takes the place of one, or of one that does; the release itself without any.

    Args:
        entry: of the release.
        entries: those of the ledger, in order.
    """
    line, last = {entry.release_id}, entry
    for each in entries:
        if each.revises in line and each.state == "finished" and each.number > entry.number:
            line.add(each.release_id)
            last = each
    return last


def _entry_of(release: Release, entries: Sequence[Entry]) -> Entry | None:
    """The entry of a saved release, as this run under this plan; None where there is none."""
    made, about = release.statement["release"], release.statement.get("ledger") or {}
    wanted = (made.get("id"), about.get("dataset"), made.get("run"), made.get("plan"))
    found = (each for each in entries if (each.release_id, each.dataset, each.run, each.plan) == wanted)
    return next(found, None)
