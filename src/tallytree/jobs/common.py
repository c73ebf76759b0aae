"""A release as a job: planned and checked without opening private data, then run once.

`publish` makes a job and runs it; `tallytree check` only makes it. The order of `run` is what keeps noise safe: the
true statistics are complete before the noise key exists, and the key is bound to a digest of them and to the job's
spec, so the same noise never meets different statistics. The ledger has the release before the key exists, too: after
the statistics, so that records which are refused spend nothing, and before anything is drawn, so that nothing is drawn
unrecorded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree.arrays import IntArray, chunks
from tallytree.counts import CountsMechanism
from tallytree.engines.engine import Engine
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import Hierarchy, Tree, level_sizes
from tallytree.measure import Measurer
from tallytree.measurements import Measurement
from tallytree.privacy import entropy
from tallytree.privacy.accounting import NoisePlan
from tallytree.privacy.ledger import Account
from tallytree.privacy.sources import KeyedNoise, NoiseSource, OpenDPNoise
from tallytree.privacy.spending import Loss
from tallytree.product import Product
from tallytree.progress import level_progress
from tallytree.release import LevelTable, NodeTable, Release
from tallytree.sizes import SizesDomain, SizesMechanism
from tallytree.statement import privacy_statement
from tallytree.tabulate.levels import CountLevels, SizeLevels
from tallytree.tabulate.records import LeafKey
from tallytree.terms import Terms

MOST_LIST_CELLS = 2**30
"""A list array of Arrow addresses its cells with 32 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class CountsJob:
    """A planned release of counts.

    Attributes:
        records: the private table.
        tree: a `Hierarchy` or a `Product`.
        keys: the records' columns for each hierarchy of the tree.
        count: the column with the number of records per row, or None where each row is one.
        mechanism: turns measurements into counts.
        plan: the noise of every measured level.
        terms: the shared arguments.
        engine: where records are tabulated.
        argument: the name of `records` in messages.
        statistic: `"counts"` or `"flows"`.
        progress: whether to show progress.
        account: where the release is recorded, if it is.
    """

    records: Any
    tree: Hierarchy | Product
    keys: tuple[LeafKey, ...]
    count: str | None
    mechanism: CountsMechanism
    plan: NoisePlan
    terms: Terms
    engine: Engine
    argument: str
    statistic: str
    progress: bool
    account: Account | None = None

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"CountsJob({self.tree!r}, measuring {', '.join(self.plan.levels) or 'nothing'})"

    def check(self) -> None:
        """Check the records' schema, reading no row, and that the ledger has room."""
        _check_room(self.account)
        self.engine.check_counts(self.records, self.keys, count=self.count, argument=self.argument)

    def run(self) -> Release:
        """Tabulate, measure, reconcile; the budget is spent here."""
        spec: dict[str, Any] = {
            "statistic": self.statistic,
            "tree": repr(self.tree),
            "columns": [list(key.columns) for key in self.keys],
            "count": self.count,
        }
        statement = self.statement()
        asked = _canonical(spec, statement)
        _check_room(self.account)
        true = self._tabulate()
        total = true.total if self.terms.total_is_public else None
        with level_progress(self.progress, self.plan.levels) as on_measure:
            source = _paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            measurer = Measurer(true, self.plan, source, on_measure)
            levels = self.mechanism.release_counts(self.tree, total, measurer)
        tables = {
            level: NodeTable(self.tree, depth, released.nodes, pa.table({"count": released.counts}))
            for depth, (level, released) in enumerate(zip(self.tree.levels, levels, strict=True))
        }
        spec[self.argument] = _table_name(self.records)
        return Release(statement, spec, tables, _measurement_tables(self.tree, measurer.taken, "value"))

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        invariants = ["the hierarchy"]
        if self.terms.total_is_public:
            invariants.append("the total number of records")
        counted = f"Each row stands for as many records as its column {self.count!r} says."
        return privacy_statement(
            statistic=self.statistic,
            levels=level_sizes(self.tree),
            plan=self.plan,
            terms=self.terms,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=[] if self.count is None else [counted],
            dataset=_dataset(self.account),
        )

    def _tabulate(self) -> CountLevels:
        true = self.engine.count_records(
            self.records, self.keys, count=self.count, on_unknown=self.terms.on_unknown, argument=self.argument
        )
        leaves = self.tree.leaf_numbers(true.parts) if isinstance(self.tree, Product) else true.parts[0]
        return CountLevels(self.tree, leaves, true.counts)


@dataclass(frozen=True, eq=False, repr=False)
class GroupSizesJob:
    """A planned release of group sizes.

    Attributes:
        records: the private table: entity rows, or (leaf, size, groups) rows.
        key: the records' path columns and their hierarchy.
        group: the column that names an entity's group; None for (leaf, size, groups) rows.
        size: the column with a group's size; None for entity rows.
        groups: the column with the number of groups of that size; None for entity rows.
        public_groups: for entity rows, the public table of groups per leaf.
        smallest: sizes are raised to this.
        largest: K, sizes are cut to this.
        mechanism: turns measurements into group sizes.
        plan: the noise of every measured level.
        terms: the shared arguments.
        engine: where records are tabulated.
        progress: whether to show progress.
        account: where the release is recorded, if it is.
    """

    records: Any
    key: LeafKey
    group: str | None
    size: str | None
    groups: str | None
    public_groups: Any
    smallest: int
    largest: int
    mechanism: SizesMechanism
    plan: NoisePlan
    terms: Terms
    engine: Engine
    progress: bool
    account: Account | None = None

    def __repr__(self) -> str:
        """What would be measured; nothing of the records."""
        return f"GroupSizesJob({self.hierarchy!r}, measuring {', '.join(self.plan.levels)})"

    @property
    def hierarchy(self) -> Hierarchy:
        """The public tree."""
        return self.key.hierarchy

    def check(self) -> None:
        """Check the ledger's room and the records' schema, reading no private row; the public groups are read whole."""
        _check_room(self.account)
        if self.group is not None:
            self.engine.check_group_sizes(self.records, self.key, group=self.group, argument="records")
            self._public_groups()
        else:
            self.engine.check_group_rows(
                self.records, self.key, size=str(self.size), groups=str(self.groups), argument="records"
            )

    def run(self) -> Release:
        """Tabulate, measure, reconcile; the budget is spent here."""
        spec: dict[str, Any] = {
            "statistic": "group_sizes",
            "tree": repr(self.hierarchy),
            "columns": list(self.key.columns),
            "group": self.group,
            "size": self.size,
            "groups": self.groups,
            "min_group_size": self.smallest,
            "max_group_size": self.largest,
        }
        statement = self.statement()
        asked = _canonical(spec, statement)
        _check_room(self.account)
        leaves, sizes, groups = self._tabulate()
        groups_per_leaf = np.zeros(self.hierarchy.n_leaves, dtype=np.int64)
        np.add.at(groups_per_leaf, leaves, groups)
        domain = SizesDomain.from_leaves(self.hierarchy, groups_per_leaf, self.smallest, self.largest)
        true = SizeLevels(self.hierarchy, leaves, sizes, groups, domain.groups, self.smallest, self.largest)
        with level_progress(self.progress, self.plan.levels) as on_measure:
            source = _paid_noise(self.account, self.plan, self.terms, asked, true.digest())
            measurer = Measurer(true, self.plan, source, on_measure)
            levels = self.mechanism.release_sizes(domain, measurer)
        tables = {
            level: NodeTable(
                self.hierarchy, depth, released.nodes, pa.table({"size": released.sizes, "groups": released.groups})
            )
            for depth, (level, released) in enumerate(zip(self.hierarchy.levels, levels, strict=True))
        }
        spec |= {"records": _table_name(self.records), "public_groups": _table_name(self.public_groups)}
        return Release(statement, spec, tables, _measurement_tables(self.hierarchy, measurer.taken, "values"))

    def finish(self) -> None:
        """Note in the ledger that the release was handed over, or saved."""
        if self.account is not None:
            self.account.finish()

    def statement(self) -> dict[str, Any]:
        """The privacy statement; it follows from the plan alone, so it is known before anything is spent."""
        invariants = ["the hierarchy", "the number of groups in every leaf (that a group exists, and where)"]
        if self.smallest:
            invariants.append(f"no group has fewer than {self.smallest} members (smaller ones are set to that)")
        return privacy_statement(
            statistic="group_sizes",
            levels=level_sizes(self.hierarchy),
            plan=self.plan,
            terms=self.terms,
            mechanism=self.mechanism,
            invariants=invariants,
            notes=self._notes(),
            dataset=_dataset(self.account),
        )

    def _tabulate(self) -> tuple[IntArray, IntArray, IntArray]:
        """Leaf, size and number of groups of every (leaf, size) that has groups."""
        if self.group is None:
            true = self.engine.group_rows(
                self.records,
                self.key,
                size=str(self.size),
                groups=str(self.groups),
                smallest=self.smallest,
                largest=self.largest,
                on_unknown=self.terms.on_unknown,
                argument="records",
            )
            return true.leaves, true.sizes, true.groups
        public = self._public_groups()
        true = self.engine.group_sizes(
            self.records,
            self.key,
            group=self.group,
            smallest=self.smallest,
            largest=self.largest,
            on_unknown=self.terms.on_unknown,
            argument="records",
        )
        empty = public.copy()
        np.subtract.at(empty, true.leaves, true.groups)
        if (empty < 0).any():
            leaf = self.hierarchy.leaf_table().slice(int(np.argmax(empty < 0)), 1).to_pylist()[0]
            raise ValueError(
                f"public_groups: the records hold more groups than it says in the leaf {leaf}; "
                "correct the public number of groups, or the group column"
            )
        without_members = np.flatnonzero(empty)
        return (
            np.concatenate([true.leaves, without_members]),
            np.concatenate([true.sizes, np.full(len(without_members), max(0, self.smallest))]),
            np.concatenate([true.groups, empty[without_members]]),
        )

    def _public_groups(self) -> IntArray:
        """The public number of groups of every leaf; a leaf that is not listed has none."""
        key = LeafKey(self.hierarchy, self.hierarchy.columns)
        listed = self.engine.count_records(
            self.public_groups, (key,), count="groups", on_unknown="error", argument="public_groups"
        )
        groups = np.zeros(self.hierarchy.n_leaves, dtype=np.int64)
        groups[listed.parts[0]] = listed.counts
        return groups

    def _notes(self) -> list[str]:
        notes = [
            f"Sizes are clamped into [{self.smallest}, {self.largest}] before they are measured.",
            f"tail_counts: groups of size >= s, for s = {self.smallest + 1} … {self.largest}; "
            f"histogram: groups of size s, for s = {self.smallest} … {self.largest}; "
            "sorted_sizes: the sizes of a node's groups, ascending.",
        ]
        if self.smallest == 1:
            notes.append(
                "It is published that every group has a member, so the presence of a group's only member is not "
                "protected."
            )
        return notes


def _canonical(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """All that was asked for and how it is measured, as one text; fails before anything is spent if it cannot be."""
    return json.dumps([spec, statement], sort_keys=True, ensure_ascii=False, allow_nan=False)


def _check_room(account: Account | None) -> None:
    """Refuse what the ledger would not take, before a private row is read."""
    if account is not None:
        account.check()


def _paid_noise(account: Account | None, plan: NoisePlan, terms: Terms, asked: str, digest: bytes) -> NoiseSource:
    """Noise, once the ledger has the release on the disk: what can be refused was refused, and no key exists yet."""
    if account is not None:
        posting = account.posting
        planned = (posting.loss, posting.neighboring, posting.max_contributions, None)
        if planned != (Loss.of(plan), terms.neighboring, terms.max_contributions, terms.seed):
            raise BudgetExceeded("ledger: the job was changed after its place in the ledger was planned; plan it anew")
        account.record()
    return _noise_source(terms, asked, digest)


def _dataset(account: Account | None) -> str | None:
    return None if account is None else account.posting.dataset


def _noise_source(terms: Terms, asked: str, digest: bytes) -> NoiseSource:
    """Noise that belongs to these statistics, measured in this way, in this run, and to nothing else."""
    if terms.noise == "opendp":
        return OpenDPNoise()
    release_key = entropy.fresh_key() if terms.seed is None else entropy.key_from_seed(terms.seed)
    return KeyedNoise(entropy.derive(release_key, "noise", digest.hex(), asked))


def _measurement_tables(tree: Tree, taken: Sequence[Measurement], column: str) -> dict[str, LevelTable]:
    """The noisy measurements of every level, in the order they were taken; levels not measured have no rows."""
    tables: dict[str, LevelTable] = {}
    for depth, level in enumerate(tree.levels):
        here = [measurement for measurement in taken if measurement.level == level]
        nodes = np.concatenate([np.empty(0, dtype=np.int64), *(measurement.nodes for measurement in here)])
        kind = pa.list_(pa.int64()) if column == "values" else pa.int64()
        arrays = [array for measurement in here for array in _measured_arrays(measurement, column)]
        std_dev = np.full(len(nodes), here[0].noise.std_dev if here else 0.0)
        columns = pa.table({column: pa.chunked_array(arrays, kind), "std_dev": std_dev})
        tables[level] = NodeTable(tree, depth, nodes, columns)
    return tables


def _measured_arrays(measurement: Measurement, column: str) -> Iterator[pa.Array]:
    """One entry per node: its noisy value, or the list of its noisy values."""
    if column == "value":
        yield pa.array(measurement.values)
        return
    for part in chunks(np.diff(measurement.offsets), MOST_LIST_CELLS):
        offsets = measurement.offsets[part.start : part.stop + 1]
        values = pa.array(measurement.values[offsets[0] : offsets[-1]])
        yield pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), values)


def _table_name(table: Any) -> str | None:
    """How a spec names a table: a file without the publisher's folders, anything in memory by its type."""
    if table is None:
        return None
    return Path(table).name if isinstance(table, str | os.PathLike) else f"<{type(table).__name__}>"
