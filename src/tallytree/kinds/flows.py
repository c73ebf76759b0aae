"""Flows: counts of trips by origin and destination, two hierarchies."""

from __future__ import annotations

from tallytree.kinds.columns import FITTED, LISTED
from tallytree.kinds.counts import MADE_AGAIN
from tallytree.kinds.kind import Kind, KindWords

FLOWS = Kind(
    name="flows",
    unit="trip",
    words=KindWords(
        noun="trips",
        one="trip",
        several="trips",
        cells="pairs of areas",
        title="Flows",
        meaning="trips by origin and destination",
        what="how many trips go from each origin to each destination",
        listed="Counts of trips between origins and destinations",
        domain="All tables of trips whose origins and destinations are leaves of the public hierarchies",
    ),
    errors=(*FITTED, *LISTED),
    sides=("origin", "destination"),
    private_table="trips",
    trees=("origins", "destinations"),
    made_again_by=MADE_AGAIN,
)
