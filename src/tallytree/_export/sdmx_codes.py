"""Codes for the nodes of hierarchies, as SDMX has them: short ids, with the labels as names and their parents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.sides import TreeSide

WHOLE = "_T"
"""The code of a root that was added: SDMX's code for a total."""
REST = "@X"
"""What follows the code of a node in the code of what is not listed of it."""
CODES_AT_ONCE = 100_000
_LEGAL = r"^[A-Za-z0-9_@$\-]{1,100}$"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, eq=False)
class SideCodes:
    """The codes of one hierarchy.

    A label is its own code if all labels of the hierarchy are legal ids and none is there twice. Otherwise a code is
    the letter L, the number of the level, and the number of the node within it, such as `L2_17`.

    What is not listed of a node has a code of its own, such as `L1_3@X`. It has no parent, so that a sum over the
    children of a node is one over nodes.

    Attributes:
        side: where the hierarchy is in the tables.
        partly_listed: whether tables have rows that say how much is not listed.
    """

    side: TreeSide
    partly_listed: bool = False

    @property
    def hierarchy(self) -> Hierarchy:
        """The public tree."""
        return self.side.hierarchy

    @cached_property
    def labels_are_codes(self) -> bool:
        """Whether codes are the labels."""
        labels = pa.chunked_array([each.cast(pa.large_string()) for each in self._with_columns])
        distinct = len(labels.unique()) == len(labels) and not pc.any(pc.equal(labels, WHOLE)).as_py()
        if self.partly_listed and pc.any(pc.ends_with(labels, REST)).as_py():
            return False
        return distinct and bool(pc.all(pc.match_substring_regex(labels, _LEGAL)).as_py())

    @property
    def _with_columns(self) -> Sequence[pa.Array]:
        return self.hierarchy.labels[1:] if self.hierarchy.root_added else self.hierarchy.labels

    @cached_property
    def by_level(self) -> tuple[pa.Array, ...]:
        """Per level, the codes of its nodes, large_string (n,)."""
        made = []
        for depth, labels in enumerate(self.hierarchy.labels):
            if depth == 0 and self.hierarchy.root_added:
                made.append(pa.array([WHOLE], pa.large_string()))
            elif self.labels_are_codes:
                made.append(labels.cast(pa.large_string()))
            else:
                numbers = pa.array(np.arange(len(labels))).cast(pa.large_string())
                prefix = pa.scalar(f"L{depth}", pa.large_string())
                made.append(pc.binary_join_element_wise(prefix, numbers, pa.scalar("_", pa.large_string())))
        return tuple(made)

    def of_rows(self, rows: pa.Table) -> pa.Array:
        """The code of the node that each row is about; rows with dictionaries or strings."""
        columns = [name for name in self.side.columns if name in rows.column_names]
        if self.partly_listed and columns and rows.column(columns[-1]).null_count:
            return self._of_partly_named(rows, columns)
        return self._of_named(rows, columns)

    def _of_named(self, rows: pa.Table, columns: Sequence[str]) -> pa.Array:
        """The code of the node that each row names by these columns, of which none is null."""
        if not columns:
            return pa.repeat(self.by_level[0][0], rows.num_rows)
        if self.labels_are_codes:
            return rows.column(columns[-1]).cast(pa.large_string()).combine_chunks()
        nodes = self.side.nodes([rows.column(name) for name in columns], rows.num_rows)
        return self.by_level[self.side.depth(len(columns))].take(pa.array(nodes))

    def _of_partly_named(self, rows: pa.Table, columns: Sequence[str]) -> pa.Array:
        """The same, of rows that may be null in the finer columns: these get the code of the rest of what they name."""
        named = np.sum([rows.column(name).is_valid().to_numpy() for name in columns], axis=0, dtype=np.int64)
        codes, places = [], []
        for number in np.unique(named).tolist():
            here = np.flatnonzero(named == number)
            found = self._of_named(rows.take(pa.array(here)), columns[:number])
            if number < len(columns):
                found = pc.binary_join_element_wise(
                    found, pa.scalar(REST, pa.large_string()), pa.scalar("", pa.large_string())
                )
            codes.append(found)
            places.append(here)
        back = np.argsort(np.concatenate(places))
        return pa.concat_arrays(codes).take(pa.array(back))

    def rests(self, depth: int) -> list[dict[str, str]]:
        """The codes of what is not listed of the nodes of a level, as SDMX-JSON has them; none of the lowest level."""
        if not self.partly_listed or depth == len(self.by_level) - 1:
            return []
        labels, codes = self.hierarchy.labels[depth].to_pylist(), self.by_level[depth].to_pylist()
        return [
            {"id": f"{code}{REST}", "name": xml_text(f"{NOT_LISTED}, of {label}")}
            for code, label in zip(codes, labels, strict=True)
        ]

    def in_slices(self, depth: int) -> Iterator[list[dict[str, str]]]:
        """The codes of a level as SDMX-JSON has them: `id`, `name` (the label) and, below the root, `parent`."""
        labels, own = self.hierarchy.labels[depth], self.by_level[depth]
        for start in range(0, len(own), CODES_AT_ONCE):
            names = map(xml_text, labels.slice(start, CODES_AT_ONCE).to_pylist())
            ids = own.slice(start, CODES_AT_ONCE).to_pylist()
            if depth == 0:
                yield [{"id": id_, "name": name} for id_, name in zip(ids, names, strict=True)]
                continue
            above = self.hierarchy.parent[depth][start : start + CODES_AT_ONCE]
            parents = self.by_level[depth - 1].take(pa.array(above)).to_pylist()
            yield [
                {"id": id_, "name": name, "parent": parent}
                for id_, name, parent in zip(ids, names, parents, strict=True)
            ]


def xml_text(text: str) -> str:
    """Text that every SDMX message can hold: no character that XML forbids, and not empty."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text) or "-"
