"""`Pair`: a release that is to be made twice, of neighboring data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import ForcedCut, make_secret
from tallytree.ledger import Ledger
from tallytree.product import Product
from tallytree.release import Release

NEW_LEDGER, NEW_SECRET = "a new ledger", "a secret"
"""Stand for a file that is made for the release."""


@dataclass(frozen=True)
class Pair:
    """A release that is to be made twice.

    Attributes:
        function: of the public API.
        first: the private table.
        second: that of a neighbor.
        options: all other arguments, which are the same for both.
        cuts: where the tree is cut in a run with `memory`: it may follow from the data, so it must not be seen.
        kind: what the data are like: "" (some dozen records), or one of `KINDS`.
    """

    function: Callable[..., Release]
    first: pa.Table
    second: pa.Table
    options: Mapping[str, Any]
    cuts: tuple[ForcedCut | None, ForcedCut | None] = (None, None)
    kind: str = ""

    def values(self) -> frozenset[str]:
        """The values of its options, and the kind of its data; of trees, tables and names, that they are given."""
        name = self.function.__name__.removeprefix("release_")
        named = {option: value for option, value in self.options.items() if value is not None}
        found = {f"{option}={value!r}" if _is_choice(value) else option for option, value in named.items()}
        return frozenset(
            f"{name}: {each}" for each in {*found, f"kind={self.kind!r}", f"cut={self.cuts[0] is not None}"}
        )

    def release(self, private: pa.Table, folder: Path) -> Release:
        """Make the release of one of the data sets, with its ledger and secret in a folder of its own."""
        options = dict(self.options)
        if options.get("ledger") == NEW_LEDGER:
            options["ledger"] = Ledger.create(folder / "ledger.db")
        if options.get("secret") == NEW_SECRET:
            options["secret"] = make_secret(folder / "secret")
        return self.function(private, **options)

    def __str__(self) -> str:
        """The function, the options that are not the tree, and the cuts."""
        shown = {name: value for name, value in self.options.items() if not isinstance(value, Hierarchy | pa.Table)}
        given = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        cut = "" if self.cuts == (None, None) else f" cut at {self.cuts}"
        return f"{self.function.__name__}({given}){cut}{f' of {self.kind}' if self.kind else ''}"


KINDS = ("large numbers", "many areas", "many cells", "stray records", "too many records")
"""Counts of 10^4 to 10^9 in every place; so many areas that tables are pooled; a product of more than 2^20 cells; both
refused, with the same words."""


def _is_choice(value: object) -> bool:
    """Whether an option's value is one of a few."""
    return not isinstance(value, Hierarchy | Product | pa.Table | list | dict)
