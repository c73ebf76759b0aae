"""Ranks of the persons of families as integers: monotone rows with known sums, columns that add up to the parent's.

A row is a node: its tail counts T(1) ≥ … ≥ T(K) ≥ 0, then the excess E ≥ 0, which is 0 where T(K) is. It adds up to the
node's persons. `docs/explanation/households.md` gives the reasons. Source: ours; ADMM as in `monotone_sums`.
"""

from __future__ import annotations

import numpy as np

from tallytree.support.arrays import BoolArray, FloatArray, IntArray
from tallytree.support.kernels import inlined, kernel

OVER_RELAXATION = 1.6
TOLERANCE = 0.02
"""Of both residuals, in persons: see `monotone_sums.fit_with_sums`."""
MAX_ITERATIONS = 300
NEARLY = 1e-9
"""What floats that stand for integers may miss them by."""


@kernel
def project_row(
    target: FloatArray, weight: FloatArray, total: float, out: FloatArray, scratch: FloatArray, first: IntArray
) -> None:
    """Minimise Σ weight·(out − target)² over out[0] ≥ … ≥ out[K − 1] ≥ 0 and out[K] ≥ 0 that add up to `total`.

    For a multiplier λ of the sum, the answer is the isotonic regression of target + λ / weight, clipped at 0. Its sum
    is piecewise linear in λ and does not fall: Newton's method, within a bracket that is halved where that leaves it.

    Args:
        target: (K + 1,)
        weight: (K + 1,) > 0.
        total: ≥ 0.
        out: (K + 1,)
        scratch: (3, >= K)
        first: (>= K,)
    """
    n = len(target) - 1
    mean, heavy, length = scratch[0], scratch[1], scratch[2]
    # With these multipliers all cells are at most 0, and at least the total.
    low, high = np.inf, -np.inf
    for i in range(n + 1):
        low, high = min(low, -target[i] * weight[i]), max(high, (total - target[i]) * weight[i])
    shift = min(max(0.0, low), high)
    for _ in range(200):
        blocks = 0
        for i in range(n):
            here, mass, count = target[i] + shift / weight[i], weight[i], 1.0
            start = i
            while blocks > 0 and mean[blocks - 1] <= here:
                blocks -= 1
                both = mass + heavy[blocks]
                here += (mean[blocks] - here) * (heavy[blocks] / both)
                mass = both
                count += length[blocks]
                start = first[blocks]
            mean[blocks], heavy[blocks], length[blocks], first[blocks] = here, mass, count, start
            blocks += 1
        last = target[n] + shift / weight[n]
        found, slope = max(last, 0.0), (1.0 / weight[n] if last > 0.0 else 0.0)
        for b in range(blocks):
            if mean[b] > 0.0:
                found += mean[b] * length[b]
                slope += length[b] * length[b] / heavy[b]
        miss = total - found
        if abs(miss) <= NEARLY * max(1.0, total) or high - low <= 1e-15 * (abs(low) + abs(high)):
            break
        if miss > 0.0:
            low = shift
        else:
            high = shift
        shift += miss / slope if slope > 0.0 else np.inf
        if not low < shift < high:
            shift = 0.5 * (low + high)
    for b in range(blocks):
        stop = first[b + 1] if b + 1 < blocks else n
        for i in range(first[b], stop):
            out[i] = max(mean[b], 0.0)
    out[n] = max(last, 0.0)


@kernel
def fit_rows(
    target: FloatArray, weight: FloatArray, persons: IntArray, total: FloatArray, x: FloatArray
) -> tuple[int, float]:
    """Minimise Σ weight·(x − target)² over rows as `project_row` finds them, whose columns add up to `total`.

    ADMM with one copy of x for the rows (projected) and one for the columns (one shift each), as
    `monotone_sums.fit_with_sums`. If no rows meet all sums, the rows are kept.

    Args:
        target: (rows, K + 1)
        weight: (rows, K + 1) > 0.
        persons: (rows,) what each row adds up to.
        total: (K + 1,) what each column adds up to.
        x: (rows, K + 1) out: the copy whose rows are projected.

    Returns:
        Iterations, and the greater residual.
    """
    n, cells = target.shape
    m, t = target.copy(), target.copy()
    dm, dt = np.zeros((n, cells)), np.zeros((n, cells))
    row, moved, scratch, first = np.empty(cells), np.empty(cells), np.empty((3, cells)), np.empty(cells, np.int64)
    slack, excess, norm = np.zeros(cells), np.empty(cells), 0.0
    for c in range(n):
        for r in range(cells):
            slack[r] += 1.0 / weight[c, r]
            norm += weight[c, r]
    done, worst = 0, np.inf
    while done < MAX_ITERATIONS and worst > TOLERANCE:
        primal = dual = 0.0
        for r in range(cells):
            excess[r] = -total[r]
        for c in range(n):
            for r in range(cells):
                x[c, r] = (target[c, r] + m[c, r] - dm[c, r] + t[c, r] - dt[c, r]) / 3.0
                moved[r] = OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * m[c, r] + dm[c, r]
                excess[r] += OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * t[c, r] + dt[c, r]
            project_row(moved, weight[c], float(persons[c]), row, scratch, first)
            for r in range(cells):
                primal += weight[c, r] * (x[c, r] - row[r]) ** 2
                dual += weight[c, r] * (row[r] - m[c, r]) ** 2
                dm[c, r] = moved[r] - row[r]
                m[c, r] = row[r]
        for c in range(n):
            for r in range(cells):
                here = OVER_RELAXATION * x[c, r] + (1.0 - OVER_RELAXATION) * t[c, r] + dt[c, r]
                after = here - excess[r] / (slack[r] * weight[c, r])
                dt[c, r] = here - after
                primal += weight[c, r] * (x[c, r] - after) ** 2
                dual += weight[c, r] * (after - t[c, r]) ** 2
                t[c, r] = after
        done += 1
        worst = np.sqrt(max(primal, dual) / norm)
    x[:] = m
    return done, worst


@inlined
def _may_rise(t: IntArray, r: int) -> bool:
    """Whether cell r of an integer row may be one more."""
    k = len(t) - 1
    if r == k:
        return bool(t[k - 1] > 0)
    return bool(r == 0 or t[r] < t[r - 1])


@inlined
def _may_fall(t: IntArray, r: int) -> bool:
    """Whether cell r of an integer row may be one less."""
    k = len(t) - 1
    if r == k:
        return bool(t[k] > 0)
    if r == k - 1:
        return bool(t[r] > 1 or (t[r] == 1 and t[k] == 0))
    return bool(t[r] > t[r + 1])


@inlined
def _may_move(t: IntArray, a: int, b: int) -> bool:
    """Whether cell a may be one less and cell b one more, each of which may happen alone."""
    k = len(t) - 1
    if b == a + 1 and b < k:
        return bool(t[a] - t[b] > 1)
    if a == k - 1 and b == k:
        return bool(t[a] > 1)
    return True


@inlined
def _up(w: float, x: float, t: int) -> float:
    """What it costs that t becomes one more."""
    return w * (1.0 - 2.0 * (x - t))


@inlined
def _down(w: float, x: float, t: int) -> float:
    """What it costs that t becomes one less."""
    return w * (1.0 + 2.0 * (x - t))


@kernel
def round_row(x: FloatArray, weight: FloatArray, persons: int, t: IntArray) -> None:
    """Integers t near x, a row with all its constraints, which adds up to `persons` ≥ 0; x is as from `project_row`.

    Every number is rounded down; then the cell is raised (or lowered) for which that costs least, until the sum is met.
    T(1) may always be raised, and some cell may be lowered while there are persons.
    """
    n = len(x)
    missing = persons
    for r in range(n):
        t[r] = int(np.floor(x[r] + NEARLY))
        if 0 < r < n - 1:
            t[r] = min(t[r], t[r - 1])
    if t[n - 2] == 0:
        t[n - 1] = 0
    for r in range(n):
        missing -= t[r]
    while missing != 0:
        best, least = 0, np.inf
        for r in range(n):
            if missing > 0 and _may_rise(t, r):
                cost = _up(weight[r], x[r], t[r])
            elif missing < 0 and _may_fall(t, r):
                cost = _down(weight[r], x[r], t[r])
            else:
                continue
            if cost < least:
                best, least = r, cost
        t[best] += 1 if missing > 0 else -1
        missing += -1 if missing > 0 else 1


@kernel
def repair_columns(x: FloatArray, weight: FloatArray, t: IntArray, total: IntArray) -> int:
    """Move single persons between the ranks of a row until the columns add up to `total`, each move the cheapest.

    A move takes 1 from a column with a surplus and adds 1 to a column with a deficit, in one row, which keeps its sum.
    Where no row can do that, a chain of moves through other columns is looked for.

    Args:
        x: (rows, columns) where the rows should be.
        weight: (rows, columns)
        t: (rows, columns) integer rows with all their constraints; changed.
        total: (columns,) adds up to as much as all rows.

    Returns:
        Half of what the columns miss in the end: 0, unless no chain was found.
    """
    n, cells = x.shape
    surplus = np.zeros(cells, np.int64)
    left = 0
    for r in range(cells):
        for c in range(n):
            surplus[r] += t[c, r]
        surplus[r] -= total[r]
        left += max(surplus[r], 0)
    chains = 0
    while left > 0:
        least, row, lower, upper = np.inf, -1, 0, 0
        for c in range(n):
            first, second, at, then = np.inf, np.inf, -1, -1
            for b in range(cells):
                if surplus[b] < 0 and _may_rise(t[c], b):
                    cost = _up(weight[c, b], x[c, b], t[c, b])
                    if cost < first:
                        first, second, at, then = cost, first, b, at
                    elif cost < second:
                        second, then = cost, b
            if at < 0:
                continue
            for a in range(cells):
                if surplus[a] > 0 and _may_fall(t[c], a):
                    cost = _down(weight[c, a], x[c, a], t[c, a])
                    if _may_move(t[c], a, at):
                        if cost + first < least:
                            least, row, lower, upper = cost + first, c, a, at
                    elif then >= 0 and cost + second < least:
                        least, row, lower, upper = cost + second, c, a, then
        if row >= 0:
            t[row, lower] -= 1
            t[row, upper] += 1
            surplus[lower] -= 1
            surplus[upper] += 1
            left -= 1
            continue
        if chains >= 2 * cells or not _move_in_chain(t, surplus):
            break
        chains += 1
        left = 0
        for r in range(cells):
            left += max(surplus[r], 0)
    return left


@kernel
def _move_in_chain(t: IntArray, surplus: IntArray) -> bool:
    """Move a person from a column with a surplus to one with a deficit by the fewest moves, through other columns.

    Returns whether all moves of a chain could be made.
    """
    n, cells = t.shape
    via, came = np.full(cells, -1), np.full(cells, -1)
    queue, head, tail = np.empty(cells, np.int64), 0, 0
    for a in range(cells):
        if surplus[a] > 0:
            came[a] = a
            queue[tail] = a
            tail += 1
    end = -1
    while head < tail and end < 0:
        a = queue[head]
        head += 1
        for c in range(n):
            if not _may_fall(t[c], a):
                continue
            for b in range(cells):
                if came[b] < 0 and _may_rise(t[c], b) and _may_move(t[c], a, b):
                    came[b], via[b] = a, c
                    queue[tail] = b
                    tail += 1
                    if surplus[b] < 0 and end < 0:
                        end = b
    if end < 0:
        return False
    while came[end] != end:
        a, c = came[end], via[end]
        if not (_may_fall(t[c], a) and _may_rise(t[c], end) and _may_move(t[c], a, end)):
            return False
        t[c, a] -= 1
        t[c, end] += 1
        surplus[a] -= 1
        surplus[end] += 1
        end = a
    return True


@kernel
def round_families(
    first_child: IntArray,
    begin: int,
    end: int,
    target: FloatArray,
    weight: FloatArray,
    fixed: BoolArray,
    persons: IntArray,
    parents: IntArray,
    out: IntArray,
) -> None:
    """The integer ranks of the children of the parents begin … end − 1.

    Args:
        first_child: (parents + 1,) where each parent's children begin.
        begin: the first parent.
        end: one after the last parent.
        target: (children, K + 1) of the whole level; rows add up to `persons`, columns of a family to its parent.
        weight: (children, K + 1) > 0.
        fixed: (children,) whose ranks are already in `out`.
        persons: (children,)
        parents: (parents, K + 1) integers; the columns of a family add up to them where `repair_columns` finds a way.
        out: (children, K + 1)
    """
    for parent in range(begin, end):
        first, stop = first_child[parent], first_child[parent + 1]
        total = parents[parent].copy()
        if stop - first == 1 and not fixed[first]:
            out[first] = total
            continue
        kids = np.empty(stop - first, np.int64)
        n = 0
        for c in range(first, stop):
            if fixed[c]:
                total -= out[c]
            else:
                kids[n] = c
                n += 1
        kids = kids[:n]
        here, heavy, many, t = target[kids], weight[kids], persons[kids], out[kids]
        x = here.copy()
        inside = True
        for c in range(n):
            for r in range(x.shape[1]):
                low = x[c, r + 1] if r < x.shape[1] - 2 else 0.0
                inside = inside and x[c, r] >= low - NEARLY
        if not inside:
            fit_rows(here, heavy, many, total.astype(np.float64), x)
        for c in range(n):
            round_row(x[c], heavy[c], many[c], t[c])
        repair_columns(x, heavy, t, total)
        out[kids] = t
