"""Tables: counts by levels of several hierarchies, of which the first has the areas and the others are attributes."""

from __future__ import annotations

from tallytree.kinds.columns import FITTED
from tallytree.kinds.kind import Kind, KindWords

TABLES = Kind(
    name="tables",
    unit="record",
    words=KindWords(
        cells="cells",
        level="table",
        outside="areas or categories",
        title="Tables of counts",
        meaning="records by area and attributes",
        what="tables of records by area and by attributes",
        listed="Tables of counts of records, by areas and attributes",
        domain="All tables of records that each belong to a leaf of every public hierarchy",
    ),
    errors=FITTED,
    nested=False,
    has_tables=True,
    has_attributes=True,
    shows_unbiased=True,
)
