"""Persons and households that agree: tables of persons, and households by size, two releases in one."""

from __future__ import annotations

from tallytree.kinds.kind import Kind, KindWords

PERSONS, SIZES = PARTS = "persons", "households"
"""The parts, by the names of their folders: tables, and group sizes."""

HOUSEHOLDS = Kind(
    name="households",
    unit="record",
    words=KindWords(
        cells="cells",
        level="table",
        outside="areas or categories",
        title="Persons and households",
        meaning="persons by area and attributes, and households by area and size",
        what="tables of persons by area and by attributes, and households by size",
        published="numbers of {}, and households by size",
        listed="Tables of persons by areas and attributes, and households by size and area, that agree",
        domain="All tables of persons who each belong to a leaf of every public hierarchy, and to a household in that "
        "leaf or to none",
    ),
    has_tree=False,
    nested=False,
    has_attributes=True,
    parts=PARTS,
)
