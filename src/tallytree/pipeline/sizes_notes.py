"""What the statement of a release of group sizes says in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tallytree.sizes.private_maximum import margin
from tallytree.terms import Invariants

if TYPE_CHECKING:
    from tallytree.pipeline.planned_sizes import PlannedSizes


def invariants_in_words(planned: PlannedSizes) -> Iterator[str]:
    """What is published exactly."""
    yield "the hierarchy"
    if planned.invariants == "groups":
        yield "the number of groups in every leaf (that a group exists, and where)"
    elif planned.invariants == "total":
        yield f"the total number of {_counted(planned).lower()}"
    if planned.smallest > (0 if planned.invariants == "groups" else 1):
        yield f"no group has fewer than {planned.smallest} members (smaller ones are set to that)"


def notes(planned: PlannedSizes) -> Iterator[str]:
    """What was measured, what is assumed, and what is not protected."""
    given, smallest = planned.arguments, planned.smallest
    if planned.caution is not None:
        yield planned.caution
    if given.quantity is not None:
        yield (
            f"The size of a group is the sum of its records' column {given.quantity!r}, each cut to "
            f"{given.max_quantity}."
        )
    yield f"Sizes are clamped into [{smallest}, {planned.largest}] before they are measured."
    if planned.plan.maximum is not None:
        yield (
            "The largest size is measured before anything else. K, which is published as maximum.max_group_size, "
            f"is that noisy value plus {margin(planned.plan.maximum.noise)} (five standard deviations of its noise), "
            f"but at least {smallest + 1} and at most {planned.largest}; then larger groups are set to K."
        )
    largest = planned.largest if planned.plan.maximum is None else "K"
    yield _CELLS[planned.invariants].format(smallest=smallest, next=smallest + 1, K=largest)
    if given.group is None and given.max_quantity > 1:
        yield f"That no record adds more than {given.max_quantity} to a size is assumed, not enforced."
    if planned.invariants != "groups":
        yield f"{_counted(planned)} are counted, so sizes begin with {smallest}."
    if planned.invariants == "total":
        yield (
            f"The number of {_counted(planned).lower()} is published exactly, so neighbouring data sets have the "
            "same: that a person's coming, going or change adds or ends such a group is not protected where that "
            "number shows it."
        )
    if planned.invariants == "groups" and smallest == 1:
        yield (
            "It is published that every group has a member, so the presence of a group's only member is not protected."
        )


def _counted(planned: PlannedSizes) -> str:
    """Which groups are counted where their numbers are private."""
    quantity = planned.arguments.quantity
    of = "members" if quantity is None else f"a sum of {quantity!r} of at least 1"
    inside = " inside the hierarchy" if planned.terms.on_unknown == "drop" else ""
    return f"Groups with {of}{inside}"


_CELLS: dict[Invariants, str] = {
    "groups": "tail_counts: groups of size >= s, for s = {next} … {K}; histogram: groups of size s, for s = {smallest} "
    "… {K}; sorted_sizes: the sizes of a node's groups, ascending; chain_tail_counts: for s = {smallest} … {K} the "
    "level's groups that are larger than s, or of size s in this node or a later one.",
    "total": "tail_counts: groups of size >= s, for s = {smallest} … {K} (at the root, where it is G, "
    "for s = {next} … {K}); histogram: groups of size s, for s = {smallest} … {K}; chain_tail_counts: for those s the "
    "level's groups that are larger than s, or of size s in this node or a later one.",
    "none": "tail_counts: groups of size >= s, for s = {smallest} … {K}; histogram: groups of size s, for those s; "
    "chain_tail_counts: for those s the level's groups that are larger than s, or of size s in this node or a later "
    "one.",
}
