"""What the releases of every mechanism keep, and what becomes of one from outside that does not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tallytree.kinds.foreign import code_of, is_foreign
from tallytree.kinds.mechanism import PROMISES, Mechanism, Promise
from tallytree.release.statement import BROKEN

logger = logging.getLogger(__name__)

_REMEDY = {
    "group_sizes": "tallytree reconcile (in Python tallytree.reconcile_group_sizes)",
    "counts": "tallytree reconcile (in Python tallytree.mechanisms.reconcile_counts)",
    "flows": "tallytree reconcile (in Python tallytree.mechanisms.reconcile_counts)",
}
"""What makes the tables again from the measurements, by statistic."""


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
    remedy = _REMEDY.get(statement["statistic"]) if statement.get("measurements_kept", True) else None
    again = f": {remedy} makes them again from these measurements, by another mechanism" if remedy else ""
    note = (
        f"BROKEN PROMISE. {described(mechanism)} broke a promise on these data that it had kept on made-up ones: in "
        f"the released numbers it does not hold {in_words(names)}. The noisy measurements are right, and the "
        f"guarantee holds. Do not publish the numbers as they are{again}."
    )
    logger.warning("%s", note)
    return {**statement, BROKEN: names, "notes": [note, *statement["notes"]]}
