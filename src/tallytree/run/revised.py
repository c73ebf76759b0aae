"""The earlier release that a release takes the place of (`revises`): which one it is, and whether it may.

A revision is a new release: it has an entry and noise of its own, and is charged like any other. With a secret its
noise key has its own release id in it (`release_keys`), also under the name of the run that it revises, and whether the
records have changed or not. So two outputs never have one noise, and that they differ tells nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallytree.accounting.periods import Period
from tallytree.hierarchy import Hierarchy
from tallytree.ledger import Account
from tallytree.product import Product
from tallytree.release import Release
from tallytree.run.release_keys import plan_digest


@dataclass(frozen=True)
class Revised:
    """An earlier release.

    Attributes:
        release: what was published.
        release_id: its id.
        folder: the name of its folder, without those above.
    """

    release: Release
    release_id: str
    folder: str

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Revised:
        """The release in a folder.

        Raises:
            ValueError: there is none, it is damaged, or it is a part of another.
        """
        try:
            release = Release.load(folder)
        except ValueError as error:
            raise ValueError(f"revises: {str(error).removeprefix('folder: ')}") from None
        name = os.path.basename(os.path.abspath(folder))  # noqa: PTH100, PTH119  (as Release.load finds it)
        if "part_of" in release.statement:  # its id is that of the whole release, which would count as revised
            raise ValueError(
                f"revises: {name!r} is a part of a release of persons and households, and is revised with the other "
                "part; give the folder of the whole release"
            )
        return cls(release, release.statement["release"]["id"], name)

    @property
    def stated(self) -> dict[str, str]:
        """As the statement of the later release names it."""
        return {"id": self.release_id, "folder": self.folder}

    def refuse_other(
        self,
        statement: Mapping[str, Any],
        tree: Hierarchy | Product,
        days: Period | None,
        account: Account | None,
    ) -> None:
        """Refuse to revise a release of other numbers, or one that is counted elsewhere.

        Args:
            statement: of the release that is to take the place of this one.
            tree: its public tree.
            days: the days that its records are about; None where they are not known.
            account: its place in a ledger; None without one.

        Raises:
            ValueError: another statistic, period or public tree; other levels; a release that is not private, or the
                other way round; a release of another data set, or one that the ledger does not have.
        """
        earlier, name = self.release.statement, repr(self.folder)
        for what, before, now in (
            ("statistic", earlier["statistic"], statement["statistic"]),
            ("levels", ", ".join(_levels(earlier)), ", ".join(_levels(statement))),
            ("period", _period(earlier["release"].get("period")), _period(days)),
        ):
            if before != now:
                raise ValueError(
                    f"revises: the release in {name} has the {what} {before}, and this one {now}; a revision is of the "
                    "same numbers, so keep to them, or leave revises out"
                )
        if self.release.tree is None or plan_digest("", self.release.tree) != plan_digest("", tree):
            raise ValueError(
                f"revises: the release in {name} has another public hierarchy; a revision has the same nodes, so keep "
                "to it, or leave revises out"
            )
        if earlier["private"] != statement["private"]:
            raise ValueError(
                f"revises: of the release in {name} and this one, one has a seed and is not private; leave revises out"
            )
        dataset = (earlier.get("ledger") or {}).get("dataset")
        if dataset not in (None, None if account is None else account.posting.dataset):
            raise ValueError(
                f"revises: the release in {name} is counted for the data set {dataset!r}, so its revision is, too; "
                "give that dataset and its ledger"
            )
        if dataset is not None and account is not None:
            refuse_unrecorded(self.release, account, "revises", f"the release in {name}")


def refuse_unrecorded(
    release: Release,
    account: Account,
    argument: str,
    what: str,
    remedy: str = "give the ledger that it was recorded in",
) -> None:
    """Refuse an earlier release of the same data set that the ledger does not have.

    Args:
        release: the earlier one.
        account: the place of the release that is made, in the ledger.
        argument: the argument that names the earlier one.
        what: what messages call it.
        remedy: what messages say to do.

    Raises:
        ValueError: the two would not be added up.
    """
    ledger = account.ledger
    known = [entry.release_id for entry in ledger.entries()] if ledger.path.exists() else []
    if release.statement["release"]["id"] not in known:
        raise ValueError(
            f"{argument}: the ledger {ledger.path.name!r} does not have {what}, so the two would not be added "
            f"up; {remedy}"
        )


def _period(days: object) -> str:
    return "of no dates" if days is None else str(days)


def _levels(statement: Any) -> list[str]:
    """The names of the levels; of tables, of those that were asked for."""
    return [each["level"] for each in statement["levels"] if each.get("asked", True)]
