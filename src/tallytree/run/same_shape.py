"""Whether a release may take the place of an earlier one: both are of the same numbers, of one data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallytree.run.release_keys import plan_digest

if TYPE_CHECKING:
    from tallytree.run.planned import Planned


def refuse_other_shape(planned: Planned[Any, Any]) -> None:
    """Refuse to revise a release of other numbers, or one that is counted elsewhere.

    Raises:
        ValueError: another statistic, period or public tree; other levels; a release that is not private, or the other
            way round; a release of another data set, or one that the ledger does not have.
    """
    revised = planned.arguments.revised
    if revised is None:
        return
    earlier, name = revised.release.statement, repr(revised.folder)
    for what, before, now in (
        ("statistic", earlier["statistic"], planned.statement["statistic"]),
        ("levels", ", ".join(_levels(earlier)), ", ".join(_levels(planned.statement))),
        ("period", _period(earlier["release"].get("period")), _period(planned.arguments.days)),
    ):
        if before != now:
            raise ValueError(
                f"revises: the release in {name} has the {what} {before}, and this one {now}; a revision is of the "
                "same numbers, so keep to them, or leave revises out"
            )
    tree = revised.release.tree
    if tree is None or plan_digest("", tree) != plan_digest("", planned.public_tree):
        raise ValueError(
            f"revises: the release in {name} has another public hierarchy; a revision has the same nodes, so keep to "
            "it, or leave revises out"
        )
    if earlier["private"] != (planned.arguments.seed is None):
        raise ValueError(
            f"revises: of the release in {name} and this one, one has a seed and is not private; leave revises out"
        )
    dataset = (earlier.get("ledger") or {}).get("dataset")
    if dataset not in (None, planned.dataset):
        raise ValueError(
            f"revises: the release in {name} is counted for the data set {dataset!r}, so its revision is, too; give "
            "that dataset and its ledger"
        )
    account = planned.account
    if dataset is not None and account is not None:
        known = (entry.release_id for entry in account.ledger.entries(dataset))
        if revised.release_id not in known:
            raise ValueError(
                f"revises: the ledger {account.ledger.path.name!r} does not have the release in {name}, so the two "
                "would not be added up; give the ledger that it was recorded in"
            )


def _period(given: object) -> str:
    return "of no dates" if given is None else str(given)


def _levels(statement: Any) -> list[str]:
    """The names of the levels; of tables, of those that were asked for."""
    return [each["level"] for each in statement["levels"] if each.get("asked", True)]
