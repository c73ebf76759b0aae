"""What a prior expects of tables: an earlier table, or one from elsewhere, that is about as these are.

Areas grow and shrink, so a prior's cell is scaled to what is decided, as the parent's table is (`pooling`). How far
cells lie from it is learned from the noisy numbers (`laws`). Whether M follows from the prior is decided for each table
of a level by the evidence: the probability of the noisy numbers by the laws that are learned with it, and by those
without it. So a prior that has nothing to do with the tables changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tallytree.solvers.held_out import held_out_part
from tallytree.solvers.laws import LEAST_CELLS, REVISED, WITH_PRIOR, Laws, evidence, learned_laws
from tallytree.solvers.tables.marginals import Lattice, Rows
from tallytree.solvers.tables.pooling import scaled_to_coarser
from tallytree.solvers.tables.variance import Table
from tallytree.support.arrays import FloatArray, IntArray
from tallytree.support.kernels import kernel

PARTS_OF_PRIOR = (0.5, 0.9, 1.0)
"""The parts of M that are tried; the rest is what is expected without a prior."""
LEAST_PART = 0.02
"""M is this part of what is expected without the prior at least, so that a 0 in the prior may have records."""
COMPARED = 50_000
"""The most cells by which M with a prior is compared with M without."""
MANY, MOST_AGAINST, LEAST_FOR = 1_000, 2.0, 3.0
"""Of so many cells or more, the evidence against the prior, a logarithm of odds, up to which it is believed: where the
noise tells little of both, the prior knows more. Of fewer, the evidence that has to be for it: laws of few cells fit by
chance."""


@dataclass(frozen=True, eq=False)
class PriorOfTables:
    """A prior of tables.

    Attributes:
        tables: by level of areas and marginal, float64 (areas, cells) ≥ 0, the cells of an earlier table, or of one
            from elsewhere, of about the same. What it does not know is not a number.
        errors: of a cell of these tables, and of sums of them: root mean squares. What is missing, or not a number, is
            not known; 0 is a table without error.
        revised: whether it is of the same records, but for corrections: then tables of a few cells take it too.
    """

    tables: Mapping[Table, FloatArray]
    errors: Mapping[Table, float] = field(default_factory=dict)
    revised: bool = False


def prior_rows(
    lattices: Sequence[Lattice], families: Sequence[IntArray], prior: PriorOfTables
) -> list[tuple[FloatArray | None, FloatArray]]:
    """The prior's cells of all known tables, and their errors.

    Args:
        lattices: per level of areas, root first.
        families: per level but the last, where the children of each area begin.
        prior: what is given.

    Returns:
        Per level, (areas, P): of each table the cells that are given, else the sums of the coarsest given table of the
        level that is finer, else those of the children's, if it has all of them. Not a number where there is nothing;
        None where nothing is known of a level. And (K,) the error of a cell of each table: as it is given, else that of
        such a sum of independent cells.
    """
    given = prior.tables
    if not given:
        return [(None, np.zeros(0))] * len(lattices)
    found: list[tuple[FloatArray | None, FloatArray]] = []
    for depth in range(len(lattices) - 1, -1, -1):
        lattice, (below, errors_below) = lattices[depth], found[-1] if found else (None, np.zeros(0))
        areas = len(families[depth]) - 1 if depth < len(families) else int(families[-1][-1]) if families else 1
        rows, errors = np.full((areas, int(lattice.rows.begin[-1])), np.nan), np.full(len(lattice.known), np.nan)
        if below is not None:
            tables, cells = lattice.embedded(lattices[depth + 1])
            rows[:, cells] = np.add.reduceat(below, families[depth][:-1], axis=0)
            errors[tables] = errors_below * np.sqrt(len(below) / areas)
        for k, marginal in enumerate(lattice.known):
            finer = [t for at, t in given if at == depth and all(map(int.__ge__, t, marginal))]
            if finer:
                best = min(finer, key=lattice.whole.size)
                rows[:, lattice.places[marginal]] = lattice.whole.summed(given[depth, best], marginal, within=best)
                summed = lattice.whole.size(best) / lattice.whole.size(marginal)
                errors[k] = prior.errors.get((depth, best), np.nan) * np.sqrt(summed)
            errors[k] = prior.errors.get((depth, marginal), errors[k])
        found.append((None if np.isnan(rows).all() else rows, errors))
    return found[::-1]


@kernel
def expected_by_prior(
    lattice: Rows,
    k: int,
    families: IntArray,
    base: FloatArray,
    tables: FloatArray,
    parents: FloatArray,
    prior: FloatArray,
    expected: FloatArray,
    found: FloatArray,
) -> None:
    """Write what a prior expects: its cells, scaled to the parent's table and to the coarser tables.

    Args:
        lattice: the marginals.
        k: the table.
        families: (areas + 1,) where the children of each area begin.
        base: (children,) how large a child is beside its siblings, where nothing is known of it.
        tables: (children, P) the tables: decided ones before the k-th.
        parents: (areas, n) the parents' tables.
        prior: (children, n) the prior's cells, ≥ 0; not a number where it has none.
        expected: (children, n) M; of such cells it is taken, and of those that are 0 in every area.
        found: (children, n), written.
    """
    n = lattice.begin[k + 1] - lattice.begin[k]
    scale = np.empty(n)
    for i in range(len(parents)):
        for g in range(n):
            whole, known, all_base = 0.0, 0.0, 0.0
            for c in range(families[i], families[i + 1]):
                all_base += base[c]
                if not np.isnan(prior[c, g]):
                    known += base[c]
                    whole += prior[c, g]
            scale[g] = parents[i, g] * known / all_base / whole if whole > 0.0 else 0.0
        for c in range(families[i], families[i + 1]):
            for g in range(n):
                known_cell = expected[c, g] > 0.0 and not np.isnan(prior[c, g])
                found[c, g] = prior[c, g] * scale[g] if known_cell else expected[c, g]
            scaled_to_coarser(lattice, k, tables[c], found[c])


def with_prior(
    y: FloatArray,
    expected: FloatArray,
    by_prior: FloatArray,
    deviations: FloatArray,
    laws: Laws | None,
    *,
    error: float = 0.0,
    revised: bool = False,
    laplace: bool = False,
) -> tuple[Laws | None, FloatArray]:
    """The laws and M with a prior, where the estimates are more probable by these; else those without it.

    Args:
        y: (areas, cells) estimates.
        expected: (areas, cells) M without the prior.
        by_prior: (areas, cells) what the prior expects.
        deviations: (areas,) s.
        laws: those of M without it; None where there are too few cells.
        error: of the cells of `by_prior`, a root mean square: nothing is nearer to it than that. Where it is not a
            number, it is not known, and taken to be that of the estimates.
        revised: whether the prior is of the same records, but for corrections. Then a few cells take it too.
        laplace: whether the noise of the estimates is Laplace noise.
    """
    parts, least = (REVISED, 1) if revised else (WITH_PRIOR, LEAST_CELLS)
    known = deviations[deviations > 0]
    near = error / float(np.median(known)) if len(known) else 0.0
    parts = parts.no_nearer_than(1.0 if np.isnan(near) else near)
    step = max(1, y.size // COMPARED)

    def of(m: FloatArray, learned: Laws) -> float:
        return evidence(y, m, deviations, learned.stratum, learned.weights, learned.parts, step)

    # Laws with more parts fit better, whatever M is; so M without the prior is tried with as many.
    as_many = learned_laws(y, expected, deviations, parts)
    best = max((of(expected, each) for each in (laws, as_many) if each is not None), default=-np.inf)
    best += LEAST_FOR if y.size < MANY and not revised else -MOST_AGAINST
    chosen: tuple[Laws | None, FloatArray] = laws, expected
    for part in PARTS_OF_PRIOR:
        mixed = np.maximum(part * by_prior + (1 - part) * expected, LEAST_PART * expected)
        learned = learned_laws(y, mixed, deviations, parts, least)
        if learned is not None and (found := of(mixed, learned)) > best:
            best, chosen = found, (learned, mixed)
    laws, mixed = chosen
    if laws is not None and laws.parts is parts:
        laws = replace(laws, part=held_out_part(y, mixed, deviations, laws, laplace=laplace))
    return laws, mixed
