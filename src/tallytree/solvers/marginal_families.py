"""The non-negative estimate of a family of areas whose sum is known, in the norm of the marginals.

Children c have estimates z_c with precisions Π_c = Σ_S π_cS P_S (`marginals`), given as h_c = Π_c z_c, and the parent
has the values X:

    minimise  ½ Σ_c (x_c − z_c)ᵀ Π_c (x_c − z_c)   subject to  x ≥ 0,  Σ_c x_c = X

where the total of each child may be known too. A cell-by-cell projection, which forgets Π, ruins the marginals.

Solved by ADMM (Boyd et al. 2011, section 3, with over-relaxation) between the quadratic with its sums, solved by
component, and x ≥ 0 with the sums, solved by column. One state t per cell holds both the non-negative copy t⁺ and the
scaled multiplier t⁻. The dual point is that of the iterations, ν for the sums and ρ t⁻ for x ≥ 0; with y, the copy
scaled to its sums, the residual e = Π (y − z) − ν − ρ t⁻ bounds the distance from the optimum x:
½ (y − x)ᵀΠ(y − x) ≤ ½ eᵀΠ⁻¹e. That is in units of the noise: what an unconstrained estimate errs by is ½ a cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tallytree.compute.arrays import FloatArray
from tallytree.compute.kernels import kernel
from tallytree.solvers.marginal_kernels import Pyramid, lift, lower, square, weigh

RELAXATION = 1.7
MAX_ITERATIONS = 1000
TOLERANCE = 1e-4
"""The duality gap of a family is at most this times its cells. The noise itself is ½ a cell."""
BALANCE_EVERY = 10


class Norm(NamedTuple):
    """The precisions of a family's children, and what follows from them; rows of children, or one row of all."""

    precision: FloatArray
    """(rows, components) π > 0."""
    rho: FloatArray
    """(rows,) of the penalty; 0 for the solution without x ≥ 0."""
    share: FloatArray
    """(rows, components) weights by marginal of Σ_S P_S/(π_S + ρ)."""
    together: FloatArray
    """(components,) weights by marginal of Σ_S P_S/Σ_c(1/(π_cS + ρ_c))."""
    forward: FloatArray
    """(rows, components) weights by marginal of Π."""
    inverse: FloatArray
    """(rows, components) weights by marginal of Π⁻¹."""
    fixed: bool
    """Whether the children's totals are known: component 0 is then left out of all of these."""


@kernel
def _norm(pyramid: Pyramid, precision: FloatArray, fixed: bool) -> Norm:
    rows, n = precision.shape
    rho = np.zeros(rows)
    norm = Norm(precision, rho, np.empty((rows, n)), np.empty(n), np.empty((rows, n)), np.empty((rows, n)), fixed)
    factors = np.zeros(n)
    for i in range(rows):
        for s in range(int(fixed), n):
            factors[s] = precision[i, s]
        weigh(pyramid, factors, norm.forward[i])
        for s in range(int(fixed), n):
            factors[s] = 1.0 / precision[i, s]
        weigh(pyramid, factors, norm.inverse[i])
    return norm


@kernel
def _set_rho(pyramid: Pyramid, norm: Norm, children: int) -> None:
    """Make the weights of the present penalties."""
    rows, n = norm.precision.shape
    factors, sums = np.zeros(n), np.zeros(n)
    for i in range(rows):
        for s in range(int(norm.fixed), n):
            factors[s] = 1.0 / (norm.precision[i, s] + norm.rho[i])
            sums[s] += factors[s] * (children if rows == 1 else 1)
        weigh(pyramid, factors, norm.share[i])
    for s in range(int(norm.fixed), n):
        sums[s] = 1.0 / sums[s]
    weigh(pyramid, sums, norm.together)


@kernel
def _start_rho(norm: Norm) -> None:
    """ρ = sqrt(π_min π_max) of each child."""
    for i in range(len(norm.rho)):
        least, most = np.inf, 0.0
        for s in range(int(norm.fixed), norm.precision.shape[1]):
            least, most = min(least, norm.precision[i, s]), max(most, norm.precision[i, s])
        norm.rho[i] = np.sqrt(least) * np.sqrt(most) if most > 0.0 else 1.0


@kernel
def _shift(column: FloatArray, rho: FloatArray, t: FloatArray) -> None:
    """Shift each column by θ/ρ_c such that t⁺ has the sum: the projection on the sums and x ≥ 0 together.

    The quadratic does not see a common level of a column's multipliers, since ν takes it up. Without the shift the
    level moves by the parent's value over the number of children in an iteration: next to nothing in a large family.

    Michelot's algorithm (1986): the set that stays positive only shrinks, so the passes end.
    """
    m, n = t.shape
    theta, last = np.full(n, -np.inf), np.full(n, m + 1)
    changed = True
    while changed:
        excess, steps, count = -column, np.zeros(n), np.zeros(n, dtype=np.int64)
        for c in range(m):
            step = 1.0 / rho[c if len(rho) > 1 else 0]
            for j in range(n):
                if t[c, j] > theta[j] * step:
                    excess[j] += t[c, j]
                    steps[j] += step
                    count[j] += 1
        changed = False
        for j in range(n):
            if 0 < count[j] < last[j]:
                theta[j] = excess[j] / steps[j]
                last[j] = count[j]
                changed = True
    for c in range(m):
        step = 1.0 / rho[c if len(rho) > 1 else 0]
        for j in range(n):
            t[c, j] -= theta[j] * step


@kernel
def _quadratic(
    pyramid: Pyramid,
    column: FloatArray,
    h: FloatArray,
    totals: FloatArray,
    bound: bool,
    norm: Norm,
    t: FloatArray,
    x: FloatArray,
    nu: FloatArray,
) -> None:
    """Write x, the minimum of ½ Σ (x − z)ᵀΠ(x − z) + ½ ρ|x − |t||² with the sums, and nu, a full pyramid of ν."""
    m, n = h.shape
    row = np.empty(len(nu))
    nu[:n] = column
    for c in range(m):
        i = c if len(norm.rho) > 1 else 0
        rho = norm.rho[i]
        for j in range(n):
            row[j] = h[c, j] + rho * abs(t[c, j])
        lift(pyramid, row)
        lower(pyramid, norm.share[i], row, row)
        constant = totals[c] / n if norm.fixed else 0.0
        for j in range(n):
            x[c, j] = row[j] + constant
            nu[j] -= x[c, j]
    if not bound:
        nu[:] = 0.0
        return
    if len(norm.rho) == 1:
        for c in range(m):
            for j in range(n):
                x[c, j] += nu[j] / m
    lift(pyramid, nu)
    lower(pyramid, norm.together, nu, nu)
    lift(pyramid, nu)
    if len(norm.rho) > 1:
        for c in range(m):
            lower(pyramid, norm.share[c], nu, row)
            for j in range(n):
                x[c, j] += row[j]


@kernel
def _advance(x: FloatArray, rho: FloatArray, t: FloatArray) -> tuple[float, float]:
    """The step of the state; the squares of the primal and of the dual residual, both times ρ."""
    primal, dual = 0.0, 0.0
    for c in range(len(x)):
        near, moved = 0.0, 0.0
        for j in range(x.shape[1]):
            old = max(t[c, j], 0.0)
            t[c, j] = RELAXATION * x[c, j] - (RELAXATION - 1.0) * old + min(t[c, j], 0.0)
            new = max(t[c, j], 0.0)
            near += (x[c, j] - new) ** 2
            moved += (new - old) ** 2
        weight = rho[c if len(rho) > 1 else 0]
        primal += weight * near
        dual += weight * moved
    return primal, dual


@kernel
def _feasible(column: FloatArray, bound: bool, totals: FloatArray, fixed: bool, t: FloatArray, y: FloatArray) -> None:
    """Write t⁺, scaled to the totals where they are known and then to the sums."""
    m, n = t.shape
    sums = np.zeros(n)
    for c in range(m):
        total = 0.0
        for j in range(n):
            y[c, j] = max(t[c, j], 0.0)
            total += y[c, j]
        if fixed and total > 0.0:
            for j in range(n):
                y[c, j] *= totals[c] / total
        elif fixed:
            y[c] = totals[c] / n
        for j in range(n):
            sums[j] += y[c, j]
    if bound:
        for j in range(n):
            factor = column[j] / sums[j] if sums[j] > 0.0 else 0.0
            shift = 0.0 if sums[j] > 0.0 else column[j] / m
            for c in range(m):
                y[c, j] = y[c, j] * factor + shift


@kernel
def _gap(
    pyramid: Pyramid,
    h: FloatArray,
    totals: FloatArray,
    norm: Norm,
    t: FloatArray,
    y: FloatArray,
    nu: FloatArray,
) -> float:
    """The duality gap of y ≥ 0 with ν and the multipliers ρ t⁻ of x ≥ 0."""
    m, n = y.shape
    row = np.empty(len(nu))
    gap = 0.0
    for c in range(m):
        i = c if len(norm.rho) > 1 else 0
        row[:n] = y[c]
        total = 0.0
        lift(pyramid, row)
        lower(pyramid, norm.forward[i], row, row)
        for j in range(n):
            multiplier = -norm.rho[i] * min(t[c, j], 0.0)
            gap += multiplier * y[c, j]
            row[j] -= h[c, j] + nu[j] + multiplier
            total += y[c, j]
        lift(pyramid, row)
        gap += 0.5 * square(pyramid, norm.inverse[i], row)
        if norm.fixed:
            gap += 0.5 * norm.rho[i] * (total - totals[c]) ** 2 / n
    return gap


@kernel
def _balance(pyramid: Pyramid, norm: Norm, primal: float, dual: float, t: FloatArray) -> None:
    """Raise the penalties where the copies differ by more than they move, and lower them in the opposite case."""
    ratio = np.sqrt(primal / dual) if dual > 0.0 else 1.0
    if 0.25 < ratio < 4.0:
        return
    factor = min(max(np.sqrt(ratio), 0.2), 5.0)
    for i in range(len(norm.rho)):
        norm.rho[i] *= factor
    for c in range(len(t)):
        for j in range(t.shape[1]):
            if t[c, j] < 0.0:
                t[c, j] /= factor
    _set_rho(pyramid, norm, len(t))


@kernel
def solve_family(
    pyramid: Pyramid,
    column: FloatArray,
    h: FloatArray,
    precision: FloatArray,
    totals: FloatArray,
    fixed: bool,
    bound: bool,
    tolerance: float,
    most: int,
) -> Any:
    """The estimate of a family.

    Args:
        pyramid: of the detail.
        column: (cells,) the parent's values, ≥ 0; not used without `bound`.
        h: (children, cells) Π z.
        precision: (children, components) π > 0; or (1, components), where all children have the same.
        totals: (children,) where fixed.
        fixed: whether the children's totals are known.
        bound: whether their sums are.
        tolerance: the duality gap is at most this times the cells of the family.
        most: iterations; after them the result is feasible, and not the nearest.

    Returns:
        x ≥ 0, (children, cells), with the sums; the iterations; the gap at the end (0 where no iteration was needed).
    """
    m, n = h.shape
    t, x, nu = np.zeros((m, n)), np.empty((m, n)), np.empty(len(pyramid.inverse_size))
    norm = _norm(pyramid, precision, fixed)
    _set_rho(pyramid, norm, m)
    _quadratic(pyramid, column, h, totals, bound, norm, t, x, nu)
    if x.min() >= 0.0:
        return x, 0, 0.0
    t[:] = x
    _start_rho(norm)
    _set_rho(pyramid, norm, m)
    if bound:
        _shift(column, norm.rho, t)
    wanted, gap, check = tolerance * m * n, np.inf, 3
    for iteration in range(1, most + 1):
        _quadratic(pyramid, column, h, totals, bound, norm, t, x, nu)
        primal, dual = _advance(x, norm.rho, t)
        if bound:
            _shift(column, norm.rho, t)
        last = iteration == most
        if last or (iteration >= check and primal + dual <= 4.0 * wanted):
            check = iteration + 3
            _feasible(column, bound, totals, fixed, t, x)
            gap = _gap(pyramid, h, totals, norm, t, x, nu)
            if last or gap <= wanted:
                return x, iteration, gap
        if iteration % BALANCE_EVERY == 0 and iteration <= most // 2:
            _balance(pyramid, norm, primal, dual, t)
    return x, most, gap
