"""What the jobs of all statistics share: how noise is paid for and keyed, and how measurements are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tallytree.accounting import Plan, StabilityPlan
from tallytree.accounting.sensitivity import largest_size_sensitivity, level_sensitivities
from tallytree.accounting.spending import Loss
from tallytree.errors import BudgetExceeded
from tallytree.hierarchy import Tree, nodes_per_level
from tallytree.ledger import Account
from tallytree.measurements import Measurement, Statistic
from tallytree.private.noise import entropy
from tallytree.private.noise.noise_source import KeyedNoise, NoiseSource, OpenDPNoise
from tallytree.release import LevelTable
from tallytree.release.measured_table import MeasuredTable
from tallytree.terms import Terms


def canonical(spec: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """All that was asked for and how it is measured, as one text; fails before anything is spent if it cannot be."""
    return json.dumps([spec, statement], sort_keys=True, ensure_ascii=False, allow_nan=False)


def check_room(account: Account | None) -> None:
    """Refuse what the ledger would not take, before a private row is read."""
    if account is not None:
        account.check()


def paid_noise(account: Account | None, plan: Plan, terms: Terms, asked: str, digest: bytes) -> NoiseSource:
    """Noise, once the ledger has the release on the disk: what can be refused was refused, and no key exists yet."""
    if account is not None:
        posting = account.posting
        planned = (posting.loss, posting.neighboring, posting.max_contributions, None)
        if planned != (Loss.of(plan), terms.neighboring, terms.max_contributions, terms.seed):
            raise BudgetExceeded("ledger: the job was changed after its place in the ledger was planned; plan it anew")
        account.record()
    return _noise_source(terms, asked, digest)


def check_plan(
    plan: Plan,
    statistics: Mapping[str, Statistic],
    terms: Terms,
    tree: Tree,
    *,
    max_quantity: int = 1,
    private_maximum: bool = False,
) -> None:
    """Refuse a plan that is not about this job: a job may have been altered since it was planned.

    Raises:
        BudgetExceeded: a level's statistic or sensitivity is another than the job's own fields say, or that of the
            largest size is; or it is to be measured although it is public, or the other way round.
    """
    planned = {level: (each.statistic, each.sensitivity) for level, each in plan.levels.items()}
    needed = level_sensitivities(
        statistics, terms.neighboring, terms.max_contributions, max_quantity=max_quantity, nodes=nodes_per_level(tree)
    )
    maximum = None
    if plan.maximum is not None:
        maximum = (plan.maximum.level, plan.maximum.statistic, plan.maximum.sensitivity)
    wanted = None
    if private_maximum:
        bound = largest_size_sensitivity(terms.neighboring, terms.max_contributions, max_quantity=max_quantity)
        wanted = (tree.levels[0], "largest_size", bound)
    lost = plan.stable.most_lost if isinstance(plan, StabilityPlan) else terms.max_contributions
    if (planned, maximum, lost) != (needed, wanted, terms.max_contributions):
        raise BudgetExceeded("budget: the job was changed after its noise was planned; plan it anew")


def dataset(account: Account | None) -> str | None:
    """The data set's name in the ledger, if the release is recorded in one."""
    return None if account is None else account.posting.dataset


def _noise_source(terms: Terms, asked: str, digest: bytes) -> NoiseSource:
    """Noise that belongs to these statistics, measured in this way, in this run, and to nothing else."""
    if terms.noise == "opendp":
        return OpenDPNoise()
    release_key = entropy.fresh_key() if terms.seed is None else entropy.key_from_seed(terms.seed)
    return KeyedNoise(entropy.derive(release_key, "noise", digest.hex(), asked))


def measurement_tables(
    tree: Tree, taken: Sequence[Measurement], column: Literal["value", "values"]
) -> dict[str, LevelTable]:
    """The noisy measurements of every level, in the order they were taken; levels not measured have no rows."""
    return {
        level: MeasuredTable.of(tree, depth, [each for each in taken if each.level == level], column)
        for depth, level in enumerate(tree.levels)
    }


def table_name(table: Any) -> str | None:
    """How a spec names a table: a file without the publisher's folders, anything in memory by its type."""
    if table is None:
        return None
    return Path(table).name if isinstance(table, str | os.PathLike) else f"<{type(table).__name__}>"
