"""What the statement of a release of group sizes says in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tallytree.accounting import NoisePlan
from tallytree.kinds.terms import Invariants
from tallytree.run.arguments import SizesArguments
from tallytree.sizes.private_maximum import margin


@dataclass(frozen=True, eq=False)
class SizesNotes:
    """The sentences about a planned release of group sizes.

    Attributes:
        given: its arguments.
        plan: the noise of every measured level.
        invariants: which numbers of groups are public.
        smallest: the least size that is published.
        largest: K; where K is private, what it is at most.
        caution: what must be said of the mechanism, if anything.
        reason_of_split: why the levels have their shares, where they were chosen.
    """

    given: SizesArguments
    plan: NoisePlan
    invariants: Invariants
    smallest: int
    largest: int
    caution: str | None
    reason_of_split: str | None = None

    def of_invariants(self) -> Iterator[str]:
        """What is published exactly."""
        yield "the hierarchy"
        if self.invariants == "groups":
            yield "the number of groups in every leaf (that a group exists, and where)"
        elif self.invariants == "total":
            yield f"the total number of {self._counted().lower()}"
        if self.smallest > (0 if self.invariants == "groups" else 1):
            yield f"no group has fewer than {self.smallest} members (smaller ones are set to that)"

    def of_measurements(self) -> Iterator[str]:
        """What was measured, what is assumed, and what is not protected."""
        given, smallest = self.given, self.smallest
        if self.caution is not None:
            yield self.caution
        if self.reason_of_split is not None:
            yield self.reason_of_split
        if given.quantity is not None:
            yield (
                f"The size of a group is the sum of its records' column {given.quantity!r}, each cut to "
                f"{given.max_quantity}."
            )
        yield f"Sizes are clamped into [{smallest}, {self.largest}] before they are measured."
        if self.plan.maximum is not None:
            yield (
                "The largest size is measured before anything else. K, which is published as maximum.max_group_size, "
                f"is that noisy value plus {margin(self.plan.maximum.noise)} (five standard deviations of its noise), "
                f"but at least {smallest + 1} and at most {self.largest}; then larger groups are set to K."
            )
        largest = self.largest if self.plan.maximum is None else "K"
        yield _CELLS[self.invariants].format(smallest=smallest, next=smallest + 1, K=largest)
        if given.group is None and given.max_quantity > 1:
            yield f"That no record adds more than {given.max_quantity} to a size is assumed, not enforced."
        if self.invariants != "groups":
            yield f"{self._counted()} are counted, so sizes begin with {smallest}."
        if self.invariants == "total":
            yield (
                f"The number of {self._counted().lower()} is published exactly, so neighbouring data sets have the "
                "same: that a person's coming, going or change adds or ends such a group is not protected where that "
                "number shows it."
            )
        if self.invariants == "groups" and smallest == 1:
            yield (
                "It is published that every group has a member, so the presence of a group's only member is not "
                "protected."
            )

    def _counted(self) -> str:
        """Which groups are counted where their numbers are private."""
        quantity = self.given.quantity
        of = "members" if quantity is None else f"a sum of {quantity!r} of at least 1"
        inside = " inside the hierarchy" if self.given.on_unknown == "drop" else ""
        inside += " in the period" if self.given.checked_period is not None else ""
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
