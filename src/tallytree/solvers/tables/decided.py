"""The tables of every level of a tree, decided from the root down and from coarse tables to fine ones.

Each table of a level has an estimate and a variance of every cell. Where the level has enough areas, these are the
posterior mean and variance given what is expected of the cell (`pooling`, `laws`), else the least-squares estimate and
its variance. The nearest non-negative table with the sums that are decided is taken (`coarse`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tallytree.solvers.laws import ALONE, learned_laws
from tallytree.solvers.posteriors import MOST_MOVED, posteriors
from tallytree.solvers.tables.coarse import CoarseSums, nonnegative_families, wanted_sums
from tallytree.solvers.tables.linear import Level, downward, tables
from tallytree.solvers.tables.marginals import Lattice, Marginal
from tallytree.solvers.tables.moves import add_moves, costs_of_moves, hold_far
from tallytree.solvers.tables.pooling import (
    Coarser,
    coarser_tables,
    expected_cells,
    own_parts,
    own_variances,
    reached_errors,
)
from tallytree.solvers.tables.prior import PriorOfTables, expected_by_prior, prior_rows, with_prior
from tallytree.solvers.tables.variance import Table
from tallytree.support.arrays import BoolArray, FloatArray, IntArray, families_of, rows_at
from tallytree.support.large_arrays import LargeArrays

logger = logging.getLogger(__name__)

LEAST_AREAS = 8
"""A level with fewer areas is not pooled."""
LEAST_VARIANCE, MOST_VARIANCE = 1e-4, 4.0
"""No cell is held firmer than with this part of the variance of its estimate, and none gets more of what a column lacks
than so many of its family do on average: an outlier, which others do not expect, would get nearly all of it."""
LEAST_DEVIATION = 0.01
"""A standard deviation counts as this at least, where a cell is to be held firmly."""
SURE = 5.0
"""An estimate of more than so many standard deviations is no noise. Its cell is held within `MOST_MOVED` of them."""
FAR = 0.5
"""A cell that lies outside by less than this is left there."""


@dataclass(frozen=True, eq=False)
class Decided:
    """The tables of one level.

    Attributes:
        tables: (areas, P) non-negative tables.
        own: (areas, P) the variances of the own part of each cell.
        errors: (areas, P) the variance of each cell's error.
    """

    tables: FloatArray
    own: FloatArray
    errors: FloatArray


def decided_tables(
    levels: Sequence[Level],
    families: Sequence[IntArray],
    sums: Sequence[CoarseSums],
    std_devs: Sequence[FloatArray],
    least: float,
    exact: Sequence[IntArray],
    zero: Sequence[BoolArray],
    wanted: Sequence[Iterable[Marginal]],
    estimates: dict[Table, FloatArray],
    *,
    prior: PriorOfTables | None,
    pooled: bool,
    arrays: LargeArrays,
    progress: Callable[[str], None],
) -> list[Decided]:
    """The tables of every level, root first.

    Args:
        levels: what the measurements say of each.
        families: per level but the last, where the children of each area begin.
        sums: per level, what tables have to add up to.
        std_devs: per level, (K,) the standard deviation of a cell of each table.
        least: sums need not be met more exactly than to this standard deviation.
        exact: per level from the root, the exact totals; shorter where deeper levels have none.
        zero: per level, bool (areas or 1, detail cells), those that are 0; one row is of all areas.
        wanted: per level, the marginals whose least-squares estimates are added to `estimates`.
        estimates: gets them.
        prior: see `fit`.
        pooled: whether cells learn from each other.
        arrays: makes what is decided.
        progress: is told what is done.
    """
    priors = prior_rows([level.lattice for level in levels], families, prior or PriorOfTables({}))
    root = levels[0]
    components = root.components(slice(0, 1)).copy()
    if exact:
        components[:, 0] = exact[0] / root.lattice.whole.cells
    bases = [np.ones(int(families[-1][-1]) if families else 1)]
    for family in reversed(families):
        bases.insert(0, np.add.reduceat(bases[0], family[:-1]))
    nothing = np.zeros((1, int(root.lattice.rows.begin[-1])))
    # No area is above the root; without a prior all its cells are alike, as far as its coarser tables say.
    above = Decided(root.lattice.rows.size[None], nothing, nothing)
    decided: list[Decided] = []
    for depth, level in enumerate(levels):
        of_parents = depth - 1 if depth else 0
        embedded = levels[of_parents].lattice.embedded(level.lattice)[0]
        areas = _Areas(
            levels[of_parents].lattice,
            level,
            families[of_parents] if depth else np.array([0, 1], dtype=np.int64),
            decided[-1] if depth else above,
            sums[depth],
            std_devs[depth],
            np.maximum(np.stack([std_devs[depth], std_devs[of_parents][embedded]]), least),
            level.lattice.holds_all(zero[depth]),
            exact[depth] if depth < len(exact) else None,
            bases[depth],
            arrays,
            *priors[depth],
            prior,
            depth,
        )
        components = areas.estimated(components)
        estimates |= {(depth, marginal): areas.copied(areas.tables, marginal) for marginal in wanted[depth]}
        decided.append(areas.decided(pooled))
        logger.info("level %d: %d tables of families have sums without a common solution", depth, sum(areas.unmet))
        if depth:
            progress(f"decided the tables of level {depth}: {len(areas.tables):,} areas")
    return decided


@dataclass(frozen=True, eq=False)
class _Areas:
    """The areas of one level, and their tables as they are decided.

    Attributes:
        above: the lattice of the areas above.
        below: what the measurements say of the children.
        family: (areas + 1,) where the children of each area begin.
        parents: the tables of the areas above; of the root, a row by which all cells are alike.
        sums: what the children's tables have to add up to.
        std_devs: (K,) of a cell of each table.
        limits: (2, K) see `nonnegative_table`.
        zero: (children or 1, P) the cells that are 0; one row is of all children.
        totals: the children's exact totals; None where they are not known.
        base: (children,) the number of finest areas of each.
        arrays: makes the tables.
        prior_rows: (children, P) the cells of the prior, not a number where it has none; None where it has no cell.
        prior_errors: (K,) of a cell of each table of these, a root mean square; not a number where it is not known.
        prior: see `fit`.
        depth: their level; 0 is that of the root.
        tables: (children, P) estimates, then tables.
        own: (children, P), see `Decided`.
        errors: (children, P), see `Decided`.
        unmet: how often a table of a family did not reach its sums; several numbers.
    """

    above: Lattice
    below: Level
    family: IntArray
    parents: Decided
    sums: CoarseSums
    std_devs: FloatArray
    limits: FloatArray
    zero: BoolArray
    totals: IntArray | None
    base: FloatArray
    arrays: LargeArrays
    prior_rows: FloatArray | None
    prior_errors: FloatArray
    prior: PriorOfTables | None
    depth: int
    tables: FloatArray = field(init=False)
    own: FloatArray = field(init=False)
    errors: FloatArray = field(init=False)
    unmet: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        for name in ("tables", "own", "errors"):
            shape = int(self.family[-1]), int(self.below.lattice.rows.begin[-1])
            object.__setattr__(self, name, self.arrays.zeros(shape))

    def copied(self, of: FloatArray, marginal: Marginal) -> FloatArray:
        """One table of all children, (children, cells), of rows of all tables."""
        place = self.below.lattice.places[marginal]
        found = self.arrays.empty((len(of), place.stop - place.start))

        def work(part: slice) -> None:
            found[part] = of[part, place]

        self.arrays.each(work, np.full(*found.shape), np.full(*of.shape))
        return found

    @property
    def rooted(self) -> bool:
        """Whether they are the root."""
        return self.depth == 0

    def estimated(self, above: FloatArray) -> FloatArray:
        """The children's estimates, as components, from those of the areas above; the tables begin with them."""
        if self.rooted:
            self.tables[:] = tables(self.below.lattice, above)
            return above
        components = self.arrays.empty(self.tables.shape)

        def work(part: slice) -> None:
            family, children = families_of(self.family, part)
            exact = None if self.totals is None else self.totals[children]
            components[children] = downward(self.below, above[part], family, children, self.above, exact)
            self.tables[children] = tables(self.below.lattice, components[children])

        self._each(work, self.tables.shape[1])
        return components

    def decided(self, pooled: bool) -> Decided:
        """All tables, the coarsest first."""
        _, cells = self.above.embedded(self.below.lattice)
        above = Decided(
            *(self._of_parents(each, cells) for each in (self.parents.tables, self.parents.own, self.parents.errors))
        )
        lattice = self.below.lattice
        free = wanted_sums(lattice, self.std_devs, free=True)
        coarser, own = coarser_tables(lattice), own_variances(lattice, self.std_devs)
        spread = own_parts(lattice, self.below.inverse(slice(0, len(self.tables))))
        for k in range(len(self.below.lattice.known)):
            if k == 0 and self.totals is not None:
                continue
            learns = pooled and (len(self.tables) >= LEAST_AREAS or self.prior_rows is not None)
            if not (learns and self._pooled(k, above, free, coarser, spread[:, k])):
                self._alone(k, above, own[k])
        return Decided(self.tables, self.own, self.errors)

    def _of_parents(self, rows: FloatArray, cells: IntArray) -> FloatArray:
        """Rows of the areas above, in the children's cells."""
        found = self.arrays.empty((len(rows), len(cells)))

        def work(part: slice) -> None:
            found[part] = rows[part][:, cells]

        self.arrays.each(work, np.full(len(rows), len(cells)))
        return found

    def _alone(self, k: int, above: Decided, own: float) -> None:
        """Decide a table from its estimate, whose own part has this variance."""
        place = self.below.lattice.places[self.below.lattice.known[k]]

        def work(part: slice) -> None:
            family, children = families_of(self.family, part)
            size = self.below.lattice.rows.size[place]
            spread = self.below.inverse(children)[:, k : k + 1]
            variances = np.broadcast_to(spread * size, (children.stop - children.start, len(size))).copy()
            found = self.tables[children]
            barred = rows_at(self.zero, children)
            self._nearest(k, family, found, found[:, place].copy(), variances, above.tables[part], self.sums, barred)
            possible = ~barred[:, place]
            self.own[children, place] = own * possible
            self.errors[children, place] = self.std_devs[k] ** 2 * possible

        self._each(work, place.stop - place.start)

    def _pooled(self, k: int, above: Decided, sums: CoarseSums, coarser: Coarser, spread: FloatArray) -> bool:
        """Decide a table whose cells learn from each other; whether there are enough."""
        lattice, areas = self.below.lattice, len(self.tables)
        place = lattice.places[lattice.known[k]]
        width, counts = place.stop - place.start, np.diff(self.family)
        spread = np.broadcast_to(spread, areas)
        share = spread / np.repeat(np.add.reduceat(spread, self.family[:-1]), counts) * (not self.rooted)
        deviations = np.sqrt(spread * (1 - share))
        y, expected = self.arrays.empty((areas, width)), self.arrays.empty((areas, width))

        def moved(part: slice) -> None:
            family, own = families_of(self.family, part)
            expected_cells(
                lattice.rows, coarser, k, family, self.base[own], share[own], self.tables[own], above.tables[part],
                above.errors[part], rows_at(self.zero, own), y[own], expected[own],
            )  # fmt: skip

        self._each(moved, width)
        laws = learned_laws(y, expected, deviations, arrays=self.arrays)
        by_prior = self._by_prior(k, above, expected)
        if self.prior is not None and by_prior is not None:
            laws, expected = with_prior(
                y, expected, by_prior[0], deviations, laws, error=by_prior[1], revised=self.prior.revised,
                laplace=any(each.laplace for each in self.below.measured),
            )  # fmt: skip
        if laws is None or (laws.parts is ALONE and areas < LEAST_AREAS):
            return False

        def work(part: slice) -> None:
            family, own = families_of(self.family, part)
            mean, variances, held = (np.empty_like(y[own]) for _ in range(3))
            posteriors(
                y[own], expected[own], deviations[own], laws.stratum, laws.weights, laws.guarded, laws.parts,
                mean, variances, held,
            )  # fmt: skip
            firm = LEAST_VARIANCE * np.maximum(deviations[own], LEAST_DEVIATION) ** 2
            costs = np.empty_like(variances)
            costs_of_moves(family, variances, held, firm, MOST_VARIANCE, costs)
            found, near = self.tables[own], mean.copy()
            estimate = found[:, place].copy()
            barred = rows_at(self.zero, own)
            self._nearest(k, family, found, near, costs, above.tables[part], sums, barred)
            self._hold(k, family, found, estimate, firm, mean.copy(), costs, above.tables[part], sums, barred)
            add_moves(found, place.start, mean, held, laws.part, variances)
            reached_errors(
                lattice.rows, coarser, k, family, share[own], expected[own], deviations[own], variances,
                above.own[part], self.own[own], self.errors[own],
            )  # fmt: skip

            for each in (self.own, self.errors):
                each[own, place] *= ~barred[:, place]
            for pair in range(int(sums.begin[k]), int(sums.begin[k + 1])):
                if not np.isfinite(sums.slack[pair]):  # what was free is the sum of this table
                    freed, cells = lattice.known[sums.table[pair]], lattice.known[k]
                    for each in (self.tables, self.errors):
                        each[own, lattice.places[freed]] = lattice.whole.summed(each[own, place], freed, within=cells)
                    self.own[own, lattice.places[freed]] = 0.0

        self._each(work, width)
        return True

    def _by_prior(self, k: int, above: Decided, expected: FloatArray) -> tuple[FloatArray, float] | None:
        """What the prior expects of a table, (children, n), and its error; None where it has no cell of it.

        Its errors are scaled with its numbers.

        Args:
            k: the table.
            above: the tables of the areas above.
            expected: (children, n) M without the prior.
        """
        place = self.below.lattice.places[self.below.lattice.known[k]]
        if self.prior_rows is None or np.isnan(self.prior_rows[:, place]).all():
            return None
        prior, found = np.ascontiguousarray(self.prior_rows[:, place]), np.empty_like(expected)
        known = ~np.isnan(prior)
        all_known = prior[known].sum()
        if self.rooted and not known.all() and all_known > 0:  # others are as `expected` has them
            prior = prior * (expected[known].sum() / all_known)
        parents = prior if self.rooted else np.ascontiguousarray(above.tables[:, place])

        def work(part: slice) -> None:
            family, own = families_of(self.family, part)
            expected_by_prior(
                self.below.lattice.rows, k, family, self.base[own], self.tables[own], parents[part], prior[own],
                expected[own], found[own],
            )  # fmt: skip

        self._each(work, place.stop - place.start)
        scale = found[known].sum() / all_known if all_known > 0 else 1.0
        return found, float(self.prior_errors[k] * scale)

    def _hold(
        self,
        k: int,
        family: IntArray,
        tables: FloatArray,
        estimate: FloatArray,
        firm: FloatArray,
        mean: FloatArray,
        costs: FloatArray,
        parents: FloatArray,
        sums: CoarseSums,
        barred: BoolArray,
    ) -> None:
        """Decide families again in which a cell that is no noise was moved too far to meet its sums: it is held nearer.

        Such a cell is an outlier. The others of its area expect a part of what it has, so it would pay for them.
        """
        place, counts = self.below.lattice.places[self.below.lattice.known[k]], np.diff(family)
        again, s = np.zeros(len(counts), dtype=np.bool_), self.std_devs[k]
        hold_far(family, tables, place.start, estimate, SURE * s, MOST_MOVED * s, FAR, firm, mean, costs, again)
        if again.any():
            rows = np.flatnonzero(np.repeat(again, counts))
            some, families = tables[rows], np.concatenate([[0], np.cumsum(counts[again])])
            above = np.ascontiguousarray(parents[again])
            self._nearest(k, families, some, mean[rows], costs[rows], above, sums, rows_at(barred, rows))
            tables[rows, place] = some[:, place]

    def _nearest(
        self,
        k: int,
        family: IntArray,
        found: FloatArray,
        mean: FloatArray,
        variances: FloatArray,
        parents: FloatArray,
        sums: CoarseSums,
        barred: BoolArray,
    ) -> None:
        unmet = nonnegative_families(
            self.below.lattice.rows, sums, k, family, found, mean, variances, parents, not self.rooted, barred,
            self.limits,
        )  # fmt: skip
        self.unmet.append(unmet)

    def _each(self, work: Callable[[slice], None], width: int) -> None:
        """Do the work for all areas above, some at a time."""
        children, rows = np.diff(self.family), self.tables.shape[1]
        self.arrays.each(work, children * width, children * (3 * rows + 2 * width))
