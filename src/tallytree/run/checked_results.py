"""What a mechanism from outside has made, checked before it becomes tables; the library's own are tested instead.

What cannot be a table is refused. Numbers that break a promise are kept, and counted; `marked` says what follows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tallytree.counts import CountsMechanism, ReleasedCounts
from tallytree.counts.released_counts import dense_level
from tallytree.hierarchy import Tree
from tallytree.kinds.foreign import code_of, is_foreign
from tallytree.kinds.measurements import Measures, NoisyAnswers, Statistic
from tallytree.kinds.mechanism import PROMISES, Mechanism, Promise
from tallytree.kinds.registry import kind_of
from tallytree.release.statement import BROKEN
from tallytree.sizes import ReleasedSizes, SizesDomain, SizesMechanism
from tallytree.support.arrays import FloatArray, IntArray, NumberArray
from tallytree.tables import FittedTables, PublicTotals, TableLayout, TablesMechanism

logger = logging.getLogger(__name__)

SIGNALS = 128
"""A program that a signal ends has this exit code, and the signal's number added."""
MOST = 2**62
"""No released number is larger, so that sums of two stay within 64 bits."""


def counts_by(
    mechanism: CountsMechanism, tree: Tree, total: int | None, measurer: Measures, **prior: Any
) -> Sequence[ReleasedCounts]:
    """What a mechanism makes of its measurements, checked where it is from outside; only the library's take a prior."""
    if not is_foreign(mechanism):
        return mechanism.reconcile_and_tell(tree, total, measurer, **prior)[0]
    with _going_on(mechanism):
        made = mechanism.reconcile(tree, total, NoisyAnswers(measurer))
    return checked_counts(tree, made)


def sizes_by(mechanism: SizesMechanism, domain: SizesDomain, measurer: Measures) -> Sequence[ReleasedSizes]:
    """See `counts_by`."""
    if not is_foreign(mechanism):
        return mechanism.reconcile(domain, measurer)
    with _going_on(mechanism):
        made = mechanism.reconcile(domain, NoisyAnswers(measurer))
    return checked_sizes(domain, made)


def tables_by(
    mechanism: TablesMechanism,
    layout: TableLayout,
    measured: Mapping[str, Statistic],
    totals: PublicTotals | None,
    measurer: Measures,
    **prior: Any,
) -> FittedTables:
    """See `counts_by`; only the library's own take a prior."""
    if not is_foreign(mechanism):
        return mechanism.reconcile(layout, measured, totals, measurer, **prior)
    with _going_on(mechanism):
        made = mechanism.reconcile(layout, measured, totals, NoisyAnswers(measurer))
    return checked_tables(layout, made)


@contextmanager
def _going_on(mechanism: Mechanism) -> Iterator[None]:
    """Code from outside does not end the program with a code of its own, such as 0; a signal does, with 128 and more.

    Raises:
        RuntimeError: it tried.
    """
    try:
        yield
    except SystemExit as error:
        if isinstance(error.code, int) and error.code >= SIGNALS:
            raise
        raise RuntimeError(f"mechanism: {code_of(type(mechanism))} ended the program; correct it") from None


def checked_counts(tree: Tree, levels: Any) -> list[ReleasedCounts]:
    """The released counts of every level as they are published: all nodes of a hierarchy, of a product those ≠ 0.

    Args:
        tree: the public tree.
        levels: what the mechanism returned.

    Raises:
        TypeError, ValueError: it is not what `CountsMechanism.reconcile` returns.
    """
    found = []
    for depth, level in enumerate(_one_per_level(levels, tree.levels, ReleasedCounts)):
        where = f"of the level {tree.levels[depth]!r}"
        nodes = _integers(level.nodes, f"nodes {where}")
        _check_between(nodes, tree.size(depth), f"nodes {where}")
        counts = _numbers(level.counts, len(nodes), f"counts {where}")
        known = ("std_dev", "typical_error", "unbiased")
        errors = {name: getattr(level, name) for name in known if getattr(level, name) is not None}
        for name, values in errors.items():
            _errors(values, (len(nodes),), f"{name} {where}")
        if tree.enumerated and len(nodes) < tree.size(depth) and (errors or level.errors is not None):
            raise ValueError(f"mechanism: nodes {where} must be all of them where they have std_dev")
        if level.errors is None:  # a mechanism of the library that was subclassed has its rows in order
            kept = _ascending(nodes, where)
            kept = kept if tree.enumerated else kept[counts[kept] != 0]
            nodes, counts = nodes[kept], counts[kept]
            errors = {name: np.asarray(values, dtype=np.float64)[kept] for name, values in errors.items()}
        made = replace(level, nodes=nodes, counts=counts, **errors)
        found.append(dense_level(tree, depth, made) if tree.enumerated and len(nodes) < tree.size(depth) else made)
    return found


def checked_sizes(domain: SizesDomain, levels: Any) -> list[ReleasedSizes]:
    """The released group sizes of every level, those ≠ 0.

    Args:
        domain: the public facts.
        levels: what the mechanism returned.

    Raises:
        TypeError, ValueError: it is not what `SizesMechanism.reconcile` returns.
    """
    tree, found = domain.hierarchy, []
    for depth, level in enumerate(_one_per_level(levels, tree.levels, ReleasedSizes)):
        where = f"of the level {tree.levels[depth]!r}"
        nodes, sizes = _integers(level.nodes, f"nodes {where}"), _integers(level.sizes, f"sizes {where}")
        groups = _numbers(level.groups, len(nodes), f"groups {where}")
        if len(sizes) != len(nodes):
            raise ValueError(f"mechanism: sizes {where} must be as many as its nodes, {len(nodes)}, not {len(sizes)}")
        _check_between(nodes, tree.size(depth), f"nodes {where}")
        _check_between(sizes, domain.largest + 1, f"sizes {where}")
        kept = _ascending(nodes * (domain.largest + 1) + sizes, where)
        kept = kept[groups[kept] != 0]
        std_dev = level.std_dev
        if std_dev is not None:
            std_dev = _errors(std_dev, (len(nodes),), f"std_dev {where}")[kept]
        found.append(ReleasedSizes(nodes[kept], sizes[kept], groups[kept], std_dev))
    return found


def checked_tables(layout: TableLayout, made: Any) -> FittedTables:
    """The fitted tables.

    Args:
        layout: the tables.
        made: what the mechanism returned.

    Raises:
        TypeError, ValueError: it is not what `TablesMechanism.reconcile` returns.
    """
    if not isinstance(made, FittedTables):
        raise TypeError(f"mechanism: {type(made).__name__} was returned; return tallytree.mechanisms.FittedTables")
    shape = (layout.areas_per_level[-1], layout.detail.cells)
    _numbers(made.leaves, shape, "leaves")
    if layout.impossible is not None and np.any(np.where(layout.impossible, made.leaves, 0)):
        raise ValueError(
            "mechanism: leaves must be 0 in cells that are impossible (layout.impossible), whatever was measured there"
        )
    for what in ("std_devs", "typical_errors", "unbiased"):
        by_name = getattr(made, what)
        if by_name and not made.std_devs:
            raise ValueError(f"mechanism: {what} are given without std_devs; give both, or none")
        for depth, name in enumerate(layout.levels if by_name else ()):
            if name not in by_name:
                raise ValueError(f"mechanism: {what} must have the table {name!r}, or no table")
            areas, width = layout.areas(depth), layout.width(depth)
            alike = what == "std_devs" and np.shape(by_name[name]) == (areas, 1)  # for all cells of an area
            _errors(by_name[name], (areas, 1 if alike else width), f"{what} of {name!r}")
    misses = {str(name): float(miss) for name, miss in made.misses.items() if name in layout.levels}
    rounding = {str(name): float(added) for name, added in made.rounding.items() if name in layout.levels}
    return replace(made, misses=misses, rounding=rounding)


def about_foreign_counts(levels: Sequence[ReleasedCounts], total: int | None) -> dict[str, Any]:
    """What the statement says of checked counts, beside what it says of all."""
    fractions = sum(int(np.count_nonzero(level.counts != np.rint(level.counts))) for level in levels)
    kept = {} if total is None else {"public_total_kept": levels[0].counts.tolist() == [total]}
    return {"fractional_numbers": fractions, **kept}


def about_foreign_tables(layout: TableLayout, made: FittedTables, totals: PublicTotals | None) -> dict[str, Any]:
    """What the statement says of checked tables, beside what it says of all."""
    about: dict[str, Any] = {"fractional_numbers": int(np.count_nonzero(made.leaves != np.rint(made.leaves)))}
    if totals is None:
        return about
    found = np.rint(made.leaves).sum(axis=1).astype(np.int64)
    for offsets in reversed(layout.families[totals.area_level :]):
        found = np.add.reduceat(found, offsets[:-1])
    return {**about, "public_total_kept": bool(np.array_equal(found, totals.totals))}


def _one_per_level(levels: Any, names: Sequence[str], kind: type) -> list[Any]:
    found = list(levels) if isinstance(levels, Sequence) else levels
    if not isinstance(found, list) or len(found) != len(names) or not all(isinstance(each, kind) for each in found):
        raise TypeError(
            f"mechanism: reconcile must return a tallytree.mechanisms.{kind.__name__} for every level, root first: "
            f"{', '.join(names)}"
        )
    return found


def _integers(given: Any, what: str) -> IntArray:
    if not isinstance(given, np.ndarray) or given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(f"mechanism: {what} must be a flat array of integers, not {_kind(given)}")
    return given.astype(np.int64, copy=False)


def _numbers(given: Any, shape: int | tuple[int, ...], what: str) -> NumberArray:
    """Finite numbers: integers as int64, also where whole numbers were given as floats; else float64."""
    wanted = shape if isinstance(shape, tuple) else (shape,)
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iuf" or given.shape != wanted:
        raise TypeError(f"mechanism: {what} must be an array of numbers of the shape {wanted}, not {_kind(given)}")
    if not (np.isfinite(given).all() and (np.abs(given.astype(np.float64)) < MOST).all()):
        raise ValueError(f"mechanism: {what} must be finite, and smaller than 2^62")
    whole = given.dtype.kind in "iu" or bool((given == np.rint(given)).all())
    return given.astype(np.int64 if whole else np.float64, copy=False)


def _errors(given: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    """Sizes of errors; or unbiased estimates, which may be negative."""
    found = _numbers(given, shape, what).astype(np.float64)
    if not what.startswith("unbiased") and (found < 0).any():
        raise ValueError(f"mechanism: {what} must not be negative")
    return found


def _ascending(keys: IntArray, where: str) -> IntArray:
    """The places of the keys in ascending order.

    Raises:
        ValueError: a key is there twice.
    """
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        raise ValueError(f"mechanism: a node {where} is there twice, or one of its sizes")
    return order


def _check_between(numbers: IntArray, stop: int, what: str) -> None:
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < stop:
        raise ValueError(f"mechanism: {what} must lie between 0 and {stop - 1}")


def _kind(given: Any) -> str:
    return f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__


# --- Promises that are broken ---


def described(mechanism: Mechanism) -> str:
    """A mechanism from outside in a message: its class and where that is."""
    return f"{type(mechanism).__name__} ({code_of(type(mechanism))})"


def broken(mechanism: Any, about: Mapping[str, Any]) -> list[Promise]:
    """The promises that a mechanism from outside has broken without declaring it.

    Args:
        mechanism: the mechanism.
        about: what the statement says of the released numbers.
    """
    if not is_foreign(mechanism):
        return []
    fails: dict[Promise, bool] = {
        "adds_up": bool(about.get("constraint_violations")),
        "not_negative": bool(about.get("negative_numbers")),
        "integers": bool(about.get("fractional_numbers")),
        "public_numbers": not (about.get("public_groups_kept", True) and about.get("public_total_kept", True)),
    }
    return [name for name, failed in fails.items() if failed and name not in mechanism.breaks]


def in_words(names: list[Promise]) -> str:
    """Promises as the rest of a sentence that begins "it does not hold"."""
    return "; ".join(f"that {PROMISES[name]}" for name in names)


def marked(statement: dict[str, Any], mechanism: Any) -> dict[str, Any]:
    """The statement of a release, marked where its mechanism broke a promise; the budget is spent by then.

    It is logged and not raised: a paid release must not be lost.
    """
    names = broken(mechanism, statement)
    if not names:
        return statement
    remedy = kind_of(statement).made_again_by if statement.get("measurements_kept", True) else ""
    again = f": {remedy} makes them again from these measurements, by another mechanism" if remedy else ""
    note = (
        f"BROKEN PROMISE. {described(mechanism)} broke a promise on these data that it had kept on made-up ones: in "
        f"the released numbers it does not hold {in_words(names)}. The noisy measurements are right, and the "
        f"guarantee holds. Do not publish the numbers as they are{again}."
    )
    logger.warning("%s", note)
    return {**statement, BROKEN: names, "notes": [note, *statement["notes"]]}
