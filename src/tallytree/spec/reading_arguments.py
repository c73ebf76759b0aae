"""How a spec reads the arguments of a public function, by their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from tallytree.budget import Budget
from tallytree.counts import CountsMechanism
from tallytree.engines import Engine
from tallytree.hierarchy import Hierarchy
from tallytree.kinds.contributions import Contributions
from tallytree.ledger import Ledger
from tallytree.product import Product
from tallytree.sizes import PrivateMaximum, SizesMechanism
from tallytree.spec.scalars import (
    Flag,
    Integer,
    Numbers,
    Probability,
    RecordsOfAPerson,
    Split,
    TableNames,
    Text,
    TextOrTexts,
    Texts,
    Words,
)
from tallytree.spec.sections import (
    BudgetSpec,
    ContributionsOption,
    EngineOption,
    HierarchySpec,
    LargestSize,
    MechanismSpec,
    TreeSpec,
)
from tallytree.spec.table_values import Table
from tallytree.tables import TablesMechanism

READ_AS: tuple[tuple[Any, Any], ...] = (
    ("table", Table),
    ("tables", TableNames),
    ("by table", Split),
    ("number by table", Numbers),
    ("contribution bound", RecordsOfAPerson),
    ("share", Probability),
    ("words", Words),
    ("text or texts", TextOrTexts),
    (Product, TreeSpec),
    (Hierarchy, HierarchySpec),
    (Budget, BudgetSpec),
    *((mechanism, MechanismSpec) for mechanism in (CountsMechanism, SizesMechanism, TablesMechanism)),
    (Engine, EngineOption),
    (Ledger, Text),
    (PrivateMaximum, LargestSize),
    (Contributions, ContributionsOption),
    (Mapping, Split),
    (Sequence, Texts),
    (bool, Flag),
    (int, Integer),
    (str, Text),
    (Literal, Text),
)
"""How a spec reads an argument, by its type: of a union, the first of these that is in it."""


def read_as(kind: Any) -> Any:
    """How a spec reads an argument of this type."""
    return dict(READ_AS)[read_by(kind)]


def read_by(kind: Any) -> Any:
    """The entry of `READ_AS` for an argument of this type."""
    if get_origin(kind) is Annotated:
        return get_args(kind)[1]
    found = {get_origin(part) or part for part in (kind, *get_args(kind))}
    return next(entry for entry, _ in READ_AS if entry in found)
