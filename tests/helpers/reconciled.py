"""Releases of group sizes that are made again, and releases with parts exchanged."""

import dataclasses

import pyarrow as pa

import tallytree as tt
from tallytree.release.level_tables import PlainTable

ROWS = pa.table(
    {
        "state": ["A", "A", "A", "B", "B"],
        "county": ["x", "x", "y", "x", "x"],
        "n": [0, 3, 1, 9, 4],
        "households": [5, 40, 7, 12, 30],
    }
)


def released(areas, **changes):
    arguments = {
        "budget": tt.Budget(epsilon=2),
        "neighboring": "add_remove",
        "size": "n",
        "groups": "households",
        "max_group_size": 12,
    } | changes
    return tt.release_group_sizes(arguments.pop("records", ROWS), areas, **arguments)


def with_measurements(release, **tables):
    """The release with other measurements at some levels."""

    return dataclasses.replace(
        release,
        _measurements={**release._measurements, **{level: PlainTable(table) for level, table in tables.items()}},
    )


def with_tables(release, **tables):
    changed = with_measurements(release, **tables)._measurements
    return dataclasses.replace(release, _tables={**release._tables, **{level: changed[level] for level in tables}})


def with_statement(release, **changes):
    return dataclasses.replace(release, statement={**release.statement, **changes})


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)
