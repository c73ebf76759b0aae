"""What no linear unbiased strategy can beat, what smoothing adds, and where the mechanisms stand, as Markdown.

    python benchmarks/limits.py [--only trees|tables|counts|sizes] [--runs 3] [--shared ../shared]

* trees: the variance of a count by level, over the variance that it has where its level gets the entire budget.
* tables: the same for tables of areas and attributes.
* counts: errors of `LeastSquares` on the paper's data over those of the linear estimate at the same shares.
* sizes: levels of the papers' group sizes with nearly the entire budget, with and without smoothing, and with rates
  from sums without noise; and all levels together.

docs/explanation/limits.md says where the bounds are from.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from common import SHARED, Data, generated, taxi
from projections import planned
from scipy.optimize import minimize
from tallytree.datasets.residents import LEVELS, residents

import tallytree as tt
from tallytree.counts.auto_split import auto_split
from tallytree.datasets import kuo
from tallytree.hierarchy import nodes_per_level
from tallytree.numbers.accuracy.expected_errors import expected_errors
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import TablesArguments, plan_tables
from tallytree.sizes import Matching
from tallytree.sizes.joint import Joint, joint

LARGEST_SPECTRUM = 4_096
"""Leaves up to which singular values are computed; for larger regular trees they are known."""


class Families:
    """A tree as the offsets of each level's children; with the variances of least squares on it."""

    def __init__(self, families: Sequence[np.ndarray]) -> None:
        self.families = families
        self.nodes = [1, *(int(first[-1]) for first in families)]

    def variances(self, precisions: np.ndarray) -> np.ndarray:
        """The mean variance of a count, by level, from measurements of all nodes with these precisions by level."""
        up = [np.full(self.nodes[-1], precisions[-1])]
        for own, first in zip(precisions[-2::-1], self.families[::-1], strict=True):
            up.insert(0, own + 1 / np.add.reduceat(1 / up[0], first[:-1]))
        found = [1 / up[0]]
        for first, below in zip(self.families, up[1:], strict=True):
            together = np.add.reduceat(1 / below, first[:-1])
            less = np.repeat((together - found[-1]) / together**2, np.diff(first))
            found.append(1 / below - less / below**2)
        return np.array([each.mean() for each in found])

    def bound(self, weights: np.ndarray) -> float:
        """The least weighted sum of the levels' mean variances by any linear unbiased strategy.

        See docs/explanation/limits.md.
        """
        n, values = self.nodes[-1], weights / self.nodes
        first = [np.arange(n + 1)]
        for family in self.families[::-1]:
            first.insert(0, first[0][family])
        if all(len(np.unique(np.diff(each))) == 1 for each in self.families):
            below = np.cumsum((values * n / self.nodes)[::-1])[::-1]
            spectrum = np.repeat(below, np.diff(self.nodes, prepend=0))
        elif n <= LARGEST_SPECTRUM:
            gram = np.zeros((n, n))
            for value, leaves in zip(values, first, strict=True):
                for begin, end in itertools.pairwise(leaves.tolist()):
                    gram[begin:end, begin:end] += value
            spectrum = np.maximum(np.linalg.eigvalsh(gram), 0)
        else:
            return float("nan")
        return float(np.sqrt(spectrum).sum() ** 2 / n)


def regular(*fan_outs: int) -> Families:
    nodes = np.cumprod([1, *fan_outs])
    return Families([np.arange(0, n * b + 1, b) for n, b in zip(nodes, fan_outs, strict=False)])


def of_hierarchy(tree: Any) -> Families:
    return Families([np.asarray(first) for first in tree.first_child[: len(tree.levels) - 1]])


def best_shares(levels: int, error: Callable[[np.ndarray], float], power: int) -> np.ndarray:
    """The precisions by level, the shares to the `power`, with the least error."""

    def precisions(logits: np.ndarray) -> np.ndarray:
        shares = np.exp(logits - logits.max())
        return np.maximum(shares / shares.sum(), 1e-9) ** power

    starts = [np.zeros(levels), *(3.0 * np.eye(levels)[[0, -1]])]
    found = [minimize(lambda x: error(precisions(x)), start, method="BFGS") for start in starts]
    return precisions(min(found, key=lambda each: each.fun).x)


def trees(shared: Path) -> None:
    areas = tt.Hierarchy.from_table(shared / "data/od_random_areas.parquet", [f"level{i}" for i in range(1, 5)])
    hawaiian = kuo.hawaiian()
    cases = {
        "binary, 16 levels": regular(*[2] * 16),
        "10 × 10 × 10": regular(10, 10, 10),
        "areas of random": of_hierarchy(areas),
        "3,144 counties": of_hierarchy(tt.Hierarchy.from_table(hawaiian.leaves, hawaiian.levels)),
    }
    print("\n### Trees\n\n| tree | noise | even | `auto` | optimal | bound | even, by level | optimal, by level |")
    print("| --- " * 8 + "|")
    for name, tree in cases.items():
        levels = len(tree.nodes)
        for noise, power in (("Gaussian", 1), ("Laplace", 2)):
            even = tree.variances(np.full(levels, levels ** -float(power)))
            std_devs = {str(depth): 1.0 for depth in range(levels)}
            shares = auto_split(tree.nodes, std_devs, gaussian=power == 1, root_is_public=False, upward=True)
            auto = tree.variances(np.array([float(share) for share in shares.values()]) ** power)
            best = tree.variances(best_shares(levels, lambda p, tree=tree: float(tree.variances(p).mean()), power))
            bound = tree.bound(np.full(levels, 1 / levels))
            means = " | ".join(f"{each:.2f}" for each in (even.mean(), auto.mean(), best.mean(), bound))
            print(f"| {name} | {noise} | {means} | {by_level(even)} | {by_level(best)} |", flush=True)


class Tables:
    """Total, age, sex and age x sex of residents at four levels of areas, as in benchmarks/tables.py."""

    levels = ("country", *LEVELS)
    parts: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1))
    names = ("age", "sex")

    def __init__(self) -> None:
        self.data = residents()
        self.areas = tt.Hierarchy.from_table(self.data.areas, levels=list(LEVELS))
        ages = tt.Hierarchy.from_table(self.data.ages, levels=["age"])
        sexes = tt.Hierarchy.from_table(self.data.sexes, levels=["sex"])
        self.product = tt.Product({"area": self.areas, "age": ages, "sex": sexes})
        self.sizes = ages.n_leaves, sexes.n_leaves
        self.tables = list(itertools.product(range(4), self.parts))
        tree = of_hierarchy(self.areas)
        first = [np.arange(tree.nodes[-1] + 1)]
        for family in tree.families[::-1]:
            first.insert(0, first[0][family])
        below = [np.repeat(np.arange(len(each) - 1), np.diff(each)) for each in first]
        same_area = np.array([each[:, None] == each for each in below], dtype=float)
        self.of_tables = same_area[[depth for depth, _ in self.tables]]
        """(tables, areas, areas), whether two of the lowest areas are in one area of the table's level."""
        self.cells = np.array([tree.nodes[depth] * self._size(parts) for depth, parts in self.tables])

    def _size(self, parts: Sequence[int]) -> float:
        return float(np.prod([self.sizes[i] for i in parts]))

    def variances(self, split: str) -> np.ndarray:
        """Of the cells of each table, over the variance with the entire budget."""
        asked = [(self.levels[d], *(self.names[i] for i in parts)) for d, parts in self.tables]
        without_country = [tuple(name for name in table if name != "country") for table in asked]
        arguments = TablesArguments(
            self.data.records(), self.product, tt.Budget(rho=0.5e-6), neighboring="add_remove",
            tables=without_country, budget_split=split, count="count",
        )  # fmt: skip
        return np.array([each.std_dev**2 / 1e6 for each in expected_errors(plan_tables(arguments))])

    def bound(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The least weighted sum of the tables' mean variances, and those variances."""
        roots, parts = 0.0, np.zeros(len(weights))
        for component in self.parts:
            scales = np.zeros((len(self.tables), 1, 1))
            for i, (_, kept) in enumerate(self.tables):
                if set(component) <= set(kept):
                    scales[i] = self._size([j for j in (0, 1) if j not in kept]) / self.cells[i]
            grams = scales * self.of_tables
            values, vectors = np.linalg.eigh(np.tensordot(weights, grams, 1))
            root = np.sqrt(np.maximum(values, values.max() * 1e-14))
            rank = np.prod([self.sizes[i] - 1 for i in component])
            roots += rank * root.sum()
            parts += rank * np.tensordot(grams, (vectors / root) @ vectors.T, 2)
        n = self._size((0, 1)) * len(self.of_tables[0])
        return float(roots**2 / n), roots / n * parts

    def largest_bound(self) -> float:
        """The greatest bound of the largest variance: its weights are found by multiplicative steps."""
        weights, best = np.full(len(self.tables), 1 / len(self.tables)), 0.0
        for _ in range(100):
            value, variances = self.bound(weights)
            best = max(best, value)
            weights *= np.sqrt(variances)
            weights /= weights.sum()
        return best


def tables() -> None:
    case = Tables()
    largest = case.largest_bound()
    mean = case.bound(np.full(len(case.tables), 1 / len(case.tables)))[0]
    print("\n### Tables\n\n| shares | mean variance | bound | largest variance | bound |\n" + "| --- " * 5 + "|")
    for split in ("even", "auto"):
        found = case.variances(split)
        print(f"| {split} | {found.mean():.2f} | {mean:.2f} | {found.max():.2f} | {largest:.2f} |", flush=True)


def counts(shared: Path, runs: int) -> None:
    print("\n### Counts: root mean square error over that of the linear estimate, by level\n")
    for name in ("binary_complete", "random_complete", "binary_sparse", "random_sparse"):
        job, _ = planned(shared / "data", name, tt.counts.LeastSquares())
        true, tree = job.tabulate(), job.tree
        expected = [each.std_dev for each in expected_errors(job)]
        squares = np.zeros((runs, len(tree.levels)))
        for run in range(runs):
            measurer = Measurer(true, job.plan, KeyedNoise(run.to_bytes(32, "big")))
            for depth, level in enumerate(job.mechanism.reconcile(tree, true.total, measurer)):
                statistic = "counts" if depth else "total"
                off = true.cells(tree.levels[depth], np.arange(tree.size(depth)), statistic)[0].astype(float)
                off[level.nodes] -= level.counts
                squares[run, depth] = np.square(off).mean()
        ratios = [np.sqrt(each.mean()) / std if std else np.nan for each, std in zip(squares.T, expected, strict=True)]
        print(f"{name} ({runs} runs): {by_level(np.array(ratios[1:]))}", flush=True)


def sizes(shared: Path, runs: int, names: Sequence[str], epsilons: Sequence[float]) -> None:
    print("\n### Group sizes: mean earth mover's distance of a level that gets 0.998 of the budget\n")
    print("| data | epsilon | level | linear | Matching | not smoothed | Joint | rates from exact sums | auto |")
    print("| --- " * 9 + "|")
    for name in names:
        data = taxi(shared / "data", 20_000) if name == "taxi" else generated(getattr(kuo, name)())
        levels = data.hierarchy.levels
        for epsilon in epsilons:
            chosen = errors(data, Joint(), epsilon, "auto", runs)
            for depth, level in enumerate(levels):
                split = {each: 0.998 if each == level else 0.002 / (len(levels) - 1) for each in levels}
                found = [errors(data, each, epsilon, split, runs)[depth] for each in (Matching(), Joint(0), Joint())]
                with patch.object(joint, "raw_sums", exact_sums(data)):
                    found.append(errors(data, Joint(), epsilon, split, runs)[depth])
                # The mean magnitude of Laplace noise is its scale.
                found = [data.largest / (0.998 * epsilon), *found, chosen[depth]]
                print(f"| {name} | {epsilon} | {level} | {' | '.join(map(shown, found))} |", flush=True)


def errors(data: Data, mechanism: Any, epsilon: float, split: Any, runs: int) -> np.ndarray:
    return np.mean([data.run(mechanism, epsilon, seed, split)[0] for seed in range(1, runs + 1)], axis=0)


def exact_sums(data: Data) -> Callable[..., Any]:
    """`raw_sums` with the true tail counts in place of the noisy ones; the variances are those of the noisy ones."""
    real = joint.raw_sums

    def exact(levels: Any, under: Any = None) -> Any:
        sums = real(levels, under)
        for each in sums:
            if len(each.values):
                nodes = np.arange(len(each.values))
                level = next(level for level, size in nodes_per_level(data.hierarchy).items() if size == len(nodes))
                each.values[:] = data.true.cells(level, nodes, "tail_counts")[0].reshape(each.values.shape)
        return sums

    return exact


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def by_level(values: np.ndarray) -> str:
    return " / ".join(f"{each:.2f}" for each in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["trees", "tables", "counts", "sizes"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--names", nargs="*", default=["taxi", "hawaiian"], help="of group sizes; white, housing")
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.3, 1.0, 3.0], help="of group sizes")
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/")
    arguments = parser.parse_args()
    if arguments.only in (None, "trees"):
        trees(arguments.shared)
    if arguments.only in (None, "tables"):
        tables()
    if arguments.only in (None, "counts"):
        counts(arguments.shared, arguments.runs)
    if arguments.only in (None, "sizes"):
        sizes(arguments.shared, arguments.runs, arguments.names, arguments.epsilons)


if __name__ == "__main__":
    main()
