"""Which tables are measured, and with what shares of the budget: from public facts only."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tallytree.product import Product
from tallytree.solvers.tables.shares import auto_shares
from tallytree.tables.layout import Table, TableLayout, sizes_of

MAX_CANDIDATES = 96
"""More tables are not tried: choosing shares takes time that grows with their number."""


def follows(product: Product, table: Table, finer: Table) -> bool:
    """Whether a table is a sum of the cells of another one."""
    return all(
        r <= f or side.size(r) == side.size(f)
        for side, r, f in zip(product.attributes, table.refined, finer.refined, strict=True)
    )


def helpful_tables(product: Product, published: Sequence[Table]) -> list[Table]:
    """Coarser tables than the published ones, whose measurements may make these more accurate.

    Of each published table: its marginals, at its own area level and at all above. Of more than `MAX_CANDIDATES` the
    nearest to a published table are kept, and the total.
    """
    found: dict[tuple[int, ...], tuple[int, Table]] = {sizes_of(product, table): (0, table) for table in published}
    for table in published:
        for refined in itertools.product(*(range(depth + 1) for depth in table.refined)):
            names = zip(product.attributes, refined, strict=True)
            coarser = Table(tuple(side.columns[depth - 1] for side, depth in names if depth > 0), refined)
            far = sum(table.refined) - sum(refined)
            key = sizes_of(product, coarser)
            found[key] = min(found.get(key, (far, coarser)), (far, coarser), key=lambda each: each[0])
    total = found.pop((1,) * len(product.attributes))
    others = sorted((each for each in found.values() if each[0] > 0), key=lambda each: each[0])
    room = max(MAX_CANDIDATES - len(published), 0)
    return [table for far, table in (total, *others[:room]) if far > 0]


def shares_for(
    layout: TableLayout,
    candidates: Sequence[str],
    *,
    wishes: Mapping[str, float],
    std_devs: Mapping[str, float],
    gaussian: bool,
    exact_level: int | None,
    keep_all: bool,
) -> dict[str, Fraction]:
    """The shares that make the worst ratio of a published table's std_dev to its wish as small as possible.

    Args:
        layout: all tables.
        candidates: those that may be measured.
        wishes: the wanted standard deviation of every table that was asked for; these always have a share.
        std_devs: of each candidate's noise, if it had all of the budget.
        gaussian: whether a share is one of ρ, so that variances are proportional to 1/share and not to 1/share².
        exact_level: the area level whose totals are public, with those above it; None without one.
        keep_all: whether every candidate gets a share; otherwise those that do not help get none.

    Returns:
        The share of each table that is measured; they add up to 1.
    """
    place = {name: (layout.area_level(depth), layout.marginal(depth)) for depth, name in enumerate(layout.levels)}

    def chosen(names: Sequence[str], *, keep_all: bool) -> dict[str, Fraction]:
        found = auto_shares(
            layout.detail,
            layout.areas_per_level,
            {place[name]: std_devs[name] ** 2 for name in names},
            {place[name]: wish for name, wish in wishes.items()},
            gaussian=gaussian,
            keep_all=keep_all,
            public_totals_level=exact_level,
        )
        return {name: found[place[name]] for name in names if place[name] in found}

    if keep_all:
        return chosen(candidates, keep_all=True)
    best = chosen(candidates, keep_all=False)
    kept = [name for name in candidates if name in best or name in wishes]
    return best if len(kept) == len(best) else chosen(kept, keep_all=True)
