"""Group sizes: for every node and size, how many groups have that many members."""

from __future__ import annotations

from tallytree.kinds.columns import ERRORS, MEMBER_COLUMNS, TAIL_COLUMNS
from tallytree.kinds.kind import Kind, KindWords

GROUP_SIZES = Kind(
    name="group_sizes",
    unit="membership",
    words=KindWords(
        noun="groups",
        one="membership of a group",
        several="memberships of groups",
        title="Numbers of groups by size",
        meaning="for each area and size, the number of groups of that size",
        what="how many groups{} of each size there are, for every area",
        published="of every node, the number of {} of each size",
        listed="Numbers of groups by their size",
        domain="All assignments of people to groups that lie at leaves of the public hierarchy",
    ),
    number="groups",
    keys=("size",),
    errors=(
        *ERRORS,
        *((*TAIL_COLUMNS, *errors) for errors in ERRORS),
        *((*MEMBER_COLUMNS, *errors) for errors in ERRORS[1:]),
    ),
    measured=("values",),
    beside=("maximum", "contributions"),
    made_again_by="tallytree reconcile (in Python tallytree.reconcile_group_sizes)",
)
