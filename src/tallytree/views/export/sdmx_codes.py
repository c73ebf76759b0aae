"""Codes for the nodes of hierarchies, as SDMX has them: paths of labels, with the labels as names, and parents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.hierarchy import Hierarchy
from tallytree.release.remainders import NOT_LISTED
from tallytree.release.view.sides import TreeSide

WHOLE = "_T"
"""The code of a root that was added: SDMX's code for a total."""
BELOW = "@"
"""What stands between the labels of a path: ids may hold it, and escaped labels do not."""
REST = f"{BELOW}_X"
"""What follows the code of a node in the code of what is not listed of it: SDMX's code for what is not specified."""
LONGEST = 100
"""Characters of a code; a longer one is cut, and the digest of all of it follows."""
CODES_AT_ONCE = 100_000
_ESCAPED = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, eq=False)
class SideCodes:
    """The codes of one hierarchy.

    A code is the path of labels from the top down, such as `01@001`, with what ids may not hold escaped (`escaped`). So
    it follows from the node's own path alone, whatever other nodes there are and in which order, and no two nodes have
    the same. A path of more than `LONGEST` characters is cut, and `$H` and a digest of 128 bits follow.

    What is not listed of a node has a code of its own, such as `01@_X`. It has no parent, so that a sum over the
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
    def by_level(self) -> tuple[pa.Array, ...]:
        """Per level, the codes of its nodes, large_string (n,)."""
        tree, paths = self.hierarchy, [_codes_of(labels.cast(pa.large_string())) for labels in self.hierarchy.labels]
        if tree.root_added:
            paths[0] = pa.array([WHOLE], pa.large_string())
        for depth in range(2 if tree.root_added else 1, len(paths)):
            above = paths[depth - 1].take(pa.array(tree.parent[depth]))
            paths[depth] = pc.binary_join_element_wise(above, paths[depth], pa.scalar(BELOW, pa.large_string()))
        return tuple(map(_cut, paths))

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

    def in_slices(self, depth: int) -> Iterator[list[dict[str, Any]]]:
        """The codes of a level as SDMX-JSON has them: `id`, `name` and, below the root, `parent`.

        The name is that of the node in the first language, or its label; `names` has those in languages.
        """
        labels, own = self.hierarchy.labels[depth], self.by_level[depth]
        named = self.hierarchy.names.get(self.hierarchy.levels[depth], {})
        first = pc.coalesce(next(iter(named.values())), labels.cast(pa.large_string())) if named else labels
        for start in range(0, len(own), CODES_AT_ONCE):
            part = slice(start, start + CODES_AT_ONCE)
            made: list[dict[str, Any]] = [
                {"id": id_, "name": xml_text(name)}
                for id_, name in zip(own[part].to_pylist(), first[part].to_pylist(), strict=True)
            ]
            for language in filter(None, named):
                for code, name in zip(made, named[language][part].to_pylist(), strict=True):
                    code |= {"names": code.get("names", {}) | {language: xml_text(name)}} if name else {}
            if depth:
                above = self.hierarchy.parent[depth][part]
                parents = self.by_level[depth - 1].take(pa.array(above)).to_pylist()
                made = [code | {"parent": parent} for code, parent in zip(made, parents, strict=True)]
            yield made


def _codes_of(labels: pa.Array) -> pa.Array:
    """The escaped labels; most need no escape, and are not touched."""
    return _mended(labels, pc.match_substring_regex(labels, r"^[A-Za-z0-9-][A-Za-z0-9_-]*$"), escaped)


def _cut(paths: pa.Array) -> pa.Array:
    """The paths as codes; see `LONGEST`."""
    return _mended(paths, pc.less_equal(pc.binary_length(paths), LONGEST), _digested)


def _mended(texts: pa.Array, right: pa.Array, mend: Callable[[str], str]) -> pa.Array:
    made = pa.array([mend(each) for each in texts.filter(pc.invert(right)).to_pylist()], pa.large_string())
    return pc.replace_with_mask(texts, pc.invert(right), made)


def _digested(path: str) -> str:
    digest = hashlib.sha256(path.encode()).hexdigest()[:32]
    return f"{path[: LONGEST - len(digest) - 2]}$H{digest}"


def escaped(label: str) -> str:
    """A label as an id of SDMX (letters, digits, `_`, `-` and `$`): other characters are `$` and two hex digits.

    Each byte of such a character in UTF-8 is escaped by itself, so `95+` is `95$2B`. `$` is `$24`, and no text at all
    is `$`: so labels follow from codes again, and two labels never have the same code. Of the labels `_T` and `_X`,
    which stand for something else, the first character is escaped.
    """
    if not label:
        return "$"
    code = _ESCAPED.sub(lambda found: "".join(f"${byte:02X}" for byte in found[0].encode()), label)
    return f"$5F{code[1:]}" if code in ("_T", "_X") else code


def xml_text(text: str) -> str:
    """Text that every SDMX message can hold: no character that XML forbids, and not empty."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text) or "-"
