"""Counts: one number for every node of a hierarchy, or of a product of hierarchies on a chain of levels."""

from __future__ import annotations

from tallytree.kinds.columns import FITTED, LISTED
from tallytree.kinds.kind import Kind, KindWords

MADE_AGAIN = "tallytree reconcile (in Python tallytree.mechanisms.reconcile_counts)"
"""Makes tables of counts, or of flows, again from the measurements."""

COUNTS = Kind(
    name="counts",
    unit="record",
    words=KindWords(
        title="Counts",
        meaning="one number for each area",
        what="how many records there are in every area",
        listed="Counts of records",
        domain="All tables of records that each belong to a leaf of the public hierarchy",
    ),
    errors=(*FITTED, *LISTED),
    made_again_by=MADE_AGAIN,
)
