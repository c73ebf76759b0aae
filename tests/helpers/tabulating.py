"""What an engine is asked for, in one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from helpers.inside import CountGroups, CountRecords, GroupRows, LeafCounts, LeafGroups, LeafKey
from tallytree.engines import Engine


def count_records(engine: Engine, table: Any, keys: Sequence[LeafKey], **options: Any) -> LeafCounts:
    return engine.tabulate(table, CountRecords(tuple(keys), **options))


def group_sizes(engine: Engine, table: Any, key: LeafKey, **options: Any) -> LeafGroups:
    return engine.tabulate(table, CountGroups(key, **options))


def group_rows(engine: Engine, table: Any, key: LeafKey, **options: Any) -> LeafGroups:
    return engine.tabulate(table, GroupRows(key, **options))


def check_counts(engine: Engine, table: Any, keys: Sequence[LeafKey], **options: Any) -> None:
    engine.check(table, CountRecords(tuple(keys), **options))


def check_group_sizes(engine: Engine, table: Any, key: LeafKey, **options: Any) -> None:
    engine.check(table, CountGroups(key, **options))


def check_group_rows(engine: Engine, table: Any, key: LeafKey, **options: Any) -> None:
    engine.check(table, GroupRows(key, **options))
