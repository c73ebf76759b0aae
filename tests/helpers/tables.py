"""Small trees of tables, and the covariance of their linear estimate by dense matrices."""

import numpy as np
from hypothesis import strategies as st

from tallytree.solvers.tables.marginals import Detail

FLAT = [[], [2], [1, 3], [3, 2], [2, 1, 2]]
BANDS = (np.zeros(4, dtype=np.int64), np.array([0, 0, 0, 1]), np.arange(4))
DEEP = (np.zeros(6, dtype=np.int64), np.array([0, 0, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 1, 2]), np.arange(6))
HALVES = (np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]), np.arange(4))
WITH_LEVELS = [
    Detail((BANDS, Detail.flat([2]).groups[0])), Detail((DEEP,)), Detail((BANDS, BANDS)), Detail((HALVES, BANDS)),
]  # fmt: skip


@st.composite
def table_trees(draw, details=None, most_levels=3, everything=False):
    """A detail, families, and the precision of each marginal measured at each level; perhaps of none."""
    detail = draw(st.sampled_from([Detail.flat(sizes) for sizes in FLAT] if details is None else details))
    families = []
    areas = 1
    for _ in range(draw(st.integers(0, most_levels - 1))):
        children = draw(st.lists(st.integers(1, 3), min_size=areas, max_size=areas))
        families.append(np.concatenate([[0], np.cumsum(children)]))
        areas = int(families[-1][-1])
    precision = st.floats(0.01, 10)
    measured = [
        draw(st.dictionaries(st.sampled_from(detail.components), precision, max_size=3))
        for _ in range(len(families) + 1)
    ]
    if everything:
        measured[-1][detail.finest] = draw(precision)
    return detail, families, measured


def matrix(detail, marginal):
    """Q_T."""
    found = np.zeros((detail.size(marginal), detail.cells))
    found[detail.cell_of(marginal), np.arange(detail.cells)] = 1
    return found


def below(families):
    """Per level, (areas, leaf areas) 0/1: which leaf areas lie in each area."""
    sizes = [1, *(int(offsets[-1]) for offsets in families)]
    found = [np.eye(sizes[-1])]
    for offsets in reversed(families):
        found.append(np.add.reduceat(found[-1], offsets[:-1], axis=0))
    return found[::-1]


class Dense:
    """The covariance of all cells of all leaf areas, where measured cells weigh u·m_T/n_g, and totals may be known."""

    def __init__(self, detail, families, precisions, known=None):
        self.detail = detail
        self.inside = below(families)
        rows, weights, variances = (
            [np.zeros((0, self.inside[-1].shape[1] * detail.cells))],
            [np.zeros(0)],
            [np.zeros(0)],
        )
        for inside, at_level in zip(self.inside, precisions, strict=True):
            for marginal, u in at_level.items():
                rows.append(np.kron(inside, matrix(detail, marginal)))
                sizes = np.tile(detail.group_sizes(marginal), len(inside))
                weights.append(u * detail.mean_group(marginal) / sizes)
                variances.append(np.full(len(sizes), 1 / u))
        x, w, variance = np.concatenate(rows), np.concatenate(weights), np.concatenate(variances)
        free = np.eye(x.shape[1])
        if known is not None:
            exact = np.kron(self.inside[known], np.ones((1, detail.cells)))
            free -= np.linalg.pinv(exact) @ exact
        norm = (x.T * w) @ x
        values, vectors = np.linalg.eigh(free @ norm @ free)
        seen = values > 1e-10 * np.trace(norm)
        inverse = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
        estimate = inverse @ (x.T * w)
        self.covariance = (estimate * variance) @ estimate.T
        self.unseen = free - vectors[:, seen] @ vectors[:, seen].T

    def variances(self, functionals):
        """The variance of each row of (functionals, leaf areas · cells); inf where it is not determined."""
        found = np.einsum("fi,ij,fj->f", functionals, self.covariance, functionals)
        found[np.abs(functionals @ self.unseen).max(axis=1) > 1e-6] = np.inf
        return found

    def variances_of(self, level, marginal):
        functionals = np.kron(self.inside[level], matrix(self.detail, marginal))
        return np.maximum(self.variances(functionals), 0).reshape(len(self.inside[level]), -1)


def simulated(detail, families, precisions, runs, rng):
    """The errors of the estimate, by its passes up and down with Gaussian noise: per level, [area] (runs, cells).

    Every component must be measured in the leaf areas.
    """
    depth = len(families) + 1
    sizes = [1, *(int(offsets[-1]) for offsets in families)]
    noise = [[np.zeros((runs, detail.cells)) for _ in range(size)] for size in sizes]
    for level, at_level in enumerate(precisions):
        for area in range(sizes[level]):
            for marginal, u in at_level.items():
                y = rng.normal(0, u**-0.5, (runs, detail.size(marginal)))
                noise[level][area] += u * detail.mean_group(marginal) * detail.averaged(y, marginal)
    children = [[range(offsets[v], offsets[v + 1]) for v in range(len(offsets) - 1)] for offsets in families]
    z, pi = [[] for _ in sizes], [[] for _ in sizes]
    for level in range(depth - 1, -1, -1):
        for area in range(sizes[level]):
            q, total = 0.0, 0.0
            if level < depth - 1:
                below = children[level][area]
                q = 1 / sum(1 / pi[level + 1][c] for c in below)
                total = detail.applied(q, sum(z[level + 1][c] for c in below))
            pi[level].append(detail.eigenvalues(precisions[level]) + q)
            z[level].append(detail.applied(1 / pi[level][area], noise[level][area] + total))
    x = [z[0]]
    for level in range(depth - 1):
        x.append([None] * sizes[level + 1])
        for area, below in enumerate(children[level]):
            rest = x[level][area] - sum(z[level + 1][c] for c in below)
            whole = sum(1 / pi[level + 1][c] for c in below)
            for c in below:
                x[-1][c] = z[level + 1][c] + detail.applied(1 / pi[level + 1][c] / whole, rest)
    return x
