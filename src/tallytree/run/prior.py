"""A prior: a public table, or an earlier release, that numbers are expected to resemble.

**It costs no privacy.** Noise is drawn for a plan that does not depend on the prior: neither what is measured nor its
scales do. Given the noisy measurements, what is published is a function of these and of the prior. Where the prior is
public, that is post-processing. Where it is a release that was made of the same people, it was paid for by itself, and
the pair (prior, measurements) loses the sum of both; a function of the pair loses no more. The ledger adds up that sum,
so a release has to be in it; of one that is published already, and of other people, the publisher can say so. So all
that has to be shown is that nothing else gets in as a prior, and this module refuses: a release with a seed, whose
noise is known; a folder that was changed (`Release.load`); the private records; a release of the same data set that the
ledger does not have, so that the sum would be too small; and a table without a statement of what it was made of, unless
the publisher says that it is public. The digest of the prior is in the plan, so another prior is another plan, with
other noise.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tallytree.ledger import Account, Ledger, checked_run
from tallytree.release import Release
from tallytree.release.level_tables import FileTable
from tallytree.release.statement import prior_note
from tallytree.release.view.release_view import ReleaseView
from tallytree.run.options import PriorOptions
from tallytree.run.revised import refuse_unrecorded
from tallytree.sources.addresses import published_name, scheme_of
from tallytree.sources.same_tables import identities, refuse_private
from tallytree.support.arrays import NumberArray

NOT_PAID = (
    "give the ledger that it was recorded in, or, if it is of another data set and published, prior_is_public=True"
)
REVISED_NOT_PAID = (
    "give the ledger that it was recorded in, or a mechanism that takes no prior, such as LeastSquares(pooling='none') "
    "of tables or TopDown of counts"
)


@dataclass(frozen=True, eq=False)
class Prior:
    """What a release takes from a prior.

    Attributes:
        tables: of tables, by level of the areas and marginal, float64 (areas, cells); of counts see `prior_of_counts`.
            Cells whose labels it does not have are not numbers.
        errors: of a cell of each, a root mean square, by the same keys but for counts, where the key is the level.
        found: the least share, over its tables, of what it counts in cells of the hierarchies.
        release: the release that it is, where it is one.
        revised: whether the release that is made takes its place.
        said_to_be_public: whether the publisher says that it is public.
    """

    tables: Mapping[Any, NumberArray]
    errors: Mapping[Any, float]
    found: float
    release: Release | None
    revised: bool = False
    said_to_be_public: bool = False

    @property
    def digest(self) -> str:
        """A digest of all that the fit takes: 64 hexadecimal digits."""
        digest = hashlib.sha256(b"revised" if self.revised else b"")  # the same numbers are then fitted in another way
        digest.update(json.dumps(sorted(self.errors.items())).encode())
        for place in sorted(self.tables):
            numbers = np.ascontiguousarray(self.tables[place])
            digest.update(json.dumps([*place, *numbers.shape]).encode())
            digest.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """What the statement says of it."""
        of_release = {} if self.release is None else self.release.statement
        return {
            "digest": self.digest,
            "release": of_release["release"]["id"] if of_release else None,
            "said_to_be_public": self.said_to_be_public,
            **{key: of_release.get(key) for key in ("spent", "neighboring", "max_contributions", "invariants")},
            "share_in_cells": float(f"{self.found:.3g}"),
        }

    @property
    def note(self) -> str:
        """What the statement's notes say of it."""
        return prior_note(self.facts)

    @property
    def recorded(self) -> dict[str, str]:
        """What the ledger's entry says of it."""
        facts = self.facts
        return {"prior": facts["digest"]} | ({"release": facts["release"]} if facts["release"] else {})

    def refuse_unpaid(self, account: Account | None, *, seeded: bool) -> None:
        """Refuse a release whose loss is not added up with that of the release that is made.

        Where both are in no ledger, nobody adds up anything, and the statement has what the prior spent.

        Args:
            account: the place of the release that is made, in a ledger; None without one.
            seeded: whether that has a seed, and is not private anyway.

        Raises:
            ValueError: the ledger does not have it, and nobody says that it is public; or it is of the same data set.
        """
        if self.release is None or seeded:
            return
        dataset = (self.release.statement.get("ledger") or {}).get("dataset")
        if account is not None:
            if self.revised:
                refuse_unrecorded(self.release, account, "revises", "the release that is revised", REVISED_NOT_PAID)
            elif dataset == account.posting.dataset:
                refuse_unrecorded(self.release, account, "prior", "the release")
            elif not self.said_to_be_public:
                refuse_unrecorded(self.release, account, "prior", "the release", NOT_PAID)
        elif dataset is not None and not self.said_to_be_public:
            raise ValueError(
                f"prior: the release is counted for the data set {dataset!r} in a ledger, and this one in none, so the "
                "two would not be added up; give the ledger, or prior_is_public=True if that release is published"
            )


def release_of(given: PriorOptions) -> Release | None:
    """The release that is given as the prior; None where it is a table, or nothing is given.

    Raises:
        ValueError: it may not be used.
    """
    prior, release = given.prior, None
    if prior is None:
        if given.prior_is_public:
            raise ValueError("prior_is_public: it is about a prior, and there is none; give prior, or leave it out")
        return None
    if isinstance(prior, Release):
        release = _as_it_lies(prior)
    elif isinstance(prior, str | os.PathLike) and os.path.isfile(os.path.join(prior, "release.json")):  # noqa: PTH113, PTH118
        try:
            release = Release.load(prior)
        except ValueError as error:
            raise ValueError(f"prior: {str(error).removeprefix('folder: ')}") from None
    if release is None:
        if isinstance(prior, str | os.PathLike) and names_missing_file(prior):
            raise FileNotFoundError(
                f"prior: no file or folder at {os.fspath(prior)!r}; give that of a release or a table"
            )
        refuse_private(prior, "prior", given.private_table, given.private_argument)
        _refuse_file_of_release(prior)
        if not given.prior_is_public:
            raise ValueError(
                "prior: a table does not say what it was made of, and what is not public must not decide published "
                "numbers; give the folder of a release, or prior_is_public=True if the table is public, such as a "
                "register or the last census"
            )
        return None
    if not release.statement["private"] and given.seed is None:
        raise ValueError(
            "prior: it was made with a seed, so it is not private, and what follows from it is not; give a release "
            "without a seed"
        )
    return release


def _refuse_file_of_release(prior: Any) -> None:
    """Refuse a file that a release wrote: its folder says whether it is private, and what was spent, and it does not.

    Raises:
        ValueError: its folder, or the one above, is that of a release.
    """
    for file in sorted(each for each in identities(prior) if isinstance(each, Path)):
        for folder in file.parents[:2]:
            if (folder / "release.json").is_file():
                raise ValueError(
                    f"prior: {file.name!r} is a file of the release in {folder.name!r}; give the folder of the release"
                )


def names_missing_file(prior: str | os.PathLike[str]) -> bool:
    """Whether a path, which is no pattern and no address, has nothing there."""
    path = os.fspath(prior)
    return not glob.has_magic(path) and scheme_of(path) is None and not os.path.lexists(path)


def _as_it_lies(release: Release) -> Release:
    """A release as it is; one that was loaded is loaded again, since its files are read now and may have changed since.

    Raises:
        ValueError: they have.
    """
    part = ReleaseView(release).release
    files = [table for table in part.level_tables.values() if isinstance(table, FileTable) and table.folder is None]
    if not files:
        return release
    try:
        again = Release.load(files[0].path.parent.parent)
    except ValueError as error:
        raise ValueError(f"prior: {str(error).removeprefix('folder: ')}") from None
    if again.statement != part.statement:
        raise ValueError("prior: the folder of the release has another one since it was loaded; load it again")
    return again


def prior_name(prior: Any) -> Any:
    """How the published spec names a prior: a release by its id, a table or a folder as it is named."""
    return f"release {prior.statement['release']['id']}" if isinstance(prior, Release) else published_name(prior)


def folder_of_run(
    run: str, folder: str | os.PathLike[str], ledger: Ledger | None, dataset: str | None, own: str | None
) -> Path:
    """The folder with the last release of a run, among those that lie beside a folder.

    Where the ledger has the run that is made already, with a release of that run as prior, it is this release: a run
    that is repeated has the prior that it had, also if that was revised since.

    Args:
        run: the name of the run.
        folder: the folder of the release that is made.
        ledger: has the run.
        dataset: the data set's name in it.
        own: the name of the run that is made; None without one.

    Raises:
        ValueError: no ledger is named, it does not have the run, no folder has the release, or several do and differ.
        OSError: the ledger, or a folder, cannot be read.
    """
    if ledger is None or dataset is None:
        raise ValueError(
            "prior_run: the ledger says which release is that of a run; name ledger and dataset, or give prior"
        )
    entries = ledger.entries(dataset)
    found = [entry.release_id for entry in entries if entry.run == checked_run(run)]
    priors = [entry.prior or {} for entry in entries if own is not None and entry.run == own]
    before = [prior["release"] for prior in priors if "release" in prior]
    if not found:
        raise ValueError(
            f"prior_run: the ledger {ledger.path.name!r} has no run {run!r} of {dataset!r}; name one that it has"
        )
    wanted = before[-1] if before and before[-1] in found else found[-1]
    beside = Path(os.path.abspath(folder)).parent  # noqa: PTH100  (as the release is saved)
    folders: dict[str, Path] = {}  # one of each digest
    for file in sorted(beside.glob("*/release.json"), reverse=True):
        try:
            manifest = json.loads(file.read_bytes())
            if manifest["statement"]["release"]["id"] == wanted:
                folders[manifest["digest"]] = file.parent
        except (ValueError, KeyError, TypeError):  # of something else; what is found is checked when it is loaded
            continue
    if not folders:
        raise ValueError(
            f"prior_run: no folder in {beside.name!r} has the release of the run {run!r}; give its folder as prior"
        )
    if len(folders) > 1:
        named = ", ".join(sorted(repr(each.name) for each in folders.values()))
        raise ValueError(
            f"prior_run: folders in {beside.name!r} have the release of the run {run!r} and differ: {named}; give the "
            "one that is meant as prior"
        )
    return next(iter(folders.values()))
