"""`plan`: the expected error of every level and the risk of a spec; see `numbers.accuracy.error_plan`.

Nothing private is opened, nothing is drawn from a release's key, and nothing is spent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from tallytree.budget import Amount
from tallytree.kinds.terms import AUTO
from tallytree.numbers.accuracy.error_plan import ErrorPlan, PlannedSpec
from tallytree.numbers.accuracy.expected_errors import NO_ERRORS_OF_AUTO
from tallytree.numbers.accuracy.simulated_errors import DEFAULT_REPLICATES
from tallytree.numbers.accuracy.targets import Target
from tallytree.run.options import SharedArguments
from tallytree.sources.same_tables import same_table
from tallytree.spec.budget_changes import plain_mapping, with_budget
from tallytree.spec.changes import Changes
from tallytree.spec.known_mechanisms import known_mechanisms
from tallytree.spec.load import load_spec
from tallytree.spec.models import Spec
from tallytree.spec.scalars import NUMBER


def plan(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    epsilons: Sequence[Amount] | None = None,
    mechanisms: Sequence[str] | None = None,
    target: Target | None = None,
    like: Any = None,
    revises: str | os.PathLike[str] | None = None,
    replicates: int = DEFAULT_REPLICATES,
    seed: int | None = None,
    changes: Changes = (),
    allow_code: bool = False,
    progress: bool = False,
) -> ErrorPlan:
    """The expected error of every level and the risk of a release, before it is paid for; opens no private data.

    Args:
        spec: a YAML spec, or a mapping with the same keys; see `tallytree.spec.load_spec`. The private table need not
            exist.
        epsilons: the ε to compare with; by default a quarter, half, twice and four times that of the spec.
        mechanisms: names of mechanisms to compare the spec's with, at its budget; by default those of the statistic
            that are not kept for comparison only.
        target: the wanted `std_dev` of levels, such as `{"county": 50}`: the budget is then the least ε (in three
            digits; δ as in the spec) that gives all of them.
        like: public stand-in data: a release or its folder, or a public table with the columns of the leaves and
            `count` (of group sizes `size` and `groups`). All figures are then simulated on it. It must be public, since
            the figures are computed from it without noise.
        revises: the folder of the release that this one is to take the place of. Figures are then simulated on it,
            unless there is another stand-in: they say how many numbers move by how much, if no record changed.
        replicates: of a simulation.
        seed: makes a simulation reproducible.
        changes: keys in place of the spec's; see `load_spec`.
        allow_code: whether a mechanism that the spec names as `module:Class` is imported; see `load_spec`.
        progress: show a progress bar on standard error.

    Raises:
        SpecError: something in the spec is wrong.
        ValueError, TypeError: an argument cannot be used; a target that no budget reaches.
        OSError: a public table cannot be read.

    Example:
        >>> import tallytree as tt
        >>> tt.plan("examples/counts.yaml", target={"county": 50})  # doctest: +SKIP
        ErrorPlan(TopDown, Budget(rho=0.000803), std_dev: country 49.9, state 50, county 50)
    """
    loaded = load_spec(spec, changes=changes, allow_code=allow_code).with_options(revises=revises)
    like = revises if like is None else like
    _refuse_private_stand_in(loaded, like)
    arguments = loaded.arguments()
    if arguments.max_contributions == AUTO:
        raise loaded.document.error(("max_contributions",), f"auto is no number. {NO_ERRORS_OF_AUTO}")
    planned = PlannedSpec(
        _without_a_run(arguments),
        loaded.plan_of,
        partial(with_budget, plain_mapping(loaded.document, type(loaded).table_keys)),
        known_mechanisms(*type(loaded).mechanisms),
        like,
        replicates,
        seed,
        progress,
    )
    return planned.error_plan(target, epsilons, mechanisms)


def _without_a_run(arguments: SharedArguments) -> SharedArguments:
    """The arguments without what only a run needs: its ledger, its secret and its seed."""
    absent = dict.fromkeys(("ledger", "dataset", "run", "secret", "seed", "approved_by", "reason", "ticket"))
    period = None if arguments.days is None else str(arguments.days)  # which may be known by the run's name
    return replace(arguments, **absent, on_changed="error", period=period)  # type: ignore[arg-type]


def _refuse_private_stand_in(spec: Spec, like: Any) -> None:
    """Refuse the private table itself as a stand-in: what is simulated on it would be computed without noise.

    Raises:
        ValueError: it is.
    """
    if same_table(like, spec.table(spec.private_table)):
        raise ValueError(
            f"like: it is the private table that the spec names as {spec.private_table}, and what is simulated on it "
            "would show its numbers; give public data, such as last year's release"
        )


def parsed_target(text: str) -> tuple[str, Decimal]:
    """The level and the number of `county=50`; of a table the levels with commas.

    Raises:
        ValueError: not of this form.
    """
    level, sign, number = text.rpartition("=")
    if not sign or not level.strip() or not NUMBER.fullmatch(number.strip()):
        raise ValueError(f"target: {text[:80]!r} must be LEVEL=STD_DEV, such as county=50")
    return level.strip(), Decimal(number.strip().replace("_", ""))


def wanted_numbers(texts: Sequence[str], argument: str) -> list[Decimal]:
    """Numbers as they are written.

    Raises:
        ValueError: one is no number.
    """
    for each in texts:
        if not NUMBER.fullmatch(each.strip()):
            raise ValueError(f"{argument}: {each[:80]!r} must be a number, such as 0.5")
    return [Decimal(each.strip().replace("_", "")) for each in texts]
