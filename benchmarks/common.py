"""What the benchmarks of group sizes share: data sets ready to be measured, their errors, time and memory."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from ratios import LeftOut as LeftOut  # what a benchmark gives to `make bench`; see ratios.py

import tallytree as tt
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.private.tabulate.true_sizes import TrueSizes
from tallytree.run import SizesArguments, plan_group_sizes
from tallytree.sizes import Matching, SizesDomain

SHARED = Path(__file__).resolve().parents[2] / "shared"
CELLS_AT_ONCE = 4_000_000


class Data:
    """A data set with its hierarchy and its true statistics, and a job for each mechanism."""

    def __init__(self, rows: Any, leaves: Any, levels: Sequence[str], largest: int, smallest: int = 0) -> None:
        self.hierarchy = tt.Hierarchy.from_table(leaves, levels=list(levels))
        self.rows, self.largest, self.smallest = rows, largest, smallest
        job = self.job(Matching(), 1.0, None)
        self.leaf, self.size, self.groups = job._groups_of_leaves()
        per_leaf = np.bincount(self.leaf, self.groups, minlength=self.hierarchy.n_leaves).astype(np.int64)
        self.domain = SizesDomain.from_leaves(self.hierarchy, per_leaf, job.smallest, largest)
        self.true = TrueSizes(
            self.hierarchy, self.leaf, self.size, self.groups, self.domain.groups, job.smallest, largest
        )

    def job(self, mechanism: Any, epsilon: float, split: Any) -> Any:
        given = SizesArguments(
            self.rows, self.hierarchy, tt.Budget(epsilon=epsilon), neighboring="add_remove", mechanism=mechanism,
            budget_split=split or "even", size="size", groups="groups", max_group_size=self.largest,
            min_group_size=self.smallest,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some are for comparison only, as here
            return plan_group_sizes(given)

    def timed(self, mechanism: Any, epsilon: float, seed: int, split: Any = None) -> tuple[Any, float, float]:
        """The released levels, seconds of measuring, and seconds of all else; one seed is one set of noisy counts."""
        plan = self.job(mechanism, epsilon, split).plan
        timed = Timed(Measurer(self.true, plan, KeyedNoise(seed.to_bytes(32, "big"))))
        begin = time.perf_counter()
        levels = mechanism.reconcile(self.domain, timed)
        return levels, timed.seconds, time.perf_counter() - begin - timed.seconds

    def run(self, mechanism: Any, epsilon: float, seed: int, split: Any = None) -> tuple[list[float], float]:
        """Errors per level, and seconds without measuring."""
        levels, _, seconds = self.timed(mechanism, epsilon, seed, split)
        return self.errors([(level.nodes, level.sizes, level.groups) for level in levels]), seconds

    def errors(self, levels: Sequence[tuple[Any, Any, Any]]) -> list[float]:
        """Mean earth mover's distance per node and level."""
        errors = []
        nodes, true = self.leaf, (self.size, self.groups)
        by_depth = [nodes]
        for depth in range(len(self.hierarchy.levels) - 1, 0, -1):
            by_depth.append(self.hierarchy.parents(depth, by_depth[-1]))
        width = self.largest + 2
        at_once = max(1, CELLS_AT_ONCE // width)
        for depth, (found, true_nodes) in enumerate(zip(levels, reversed(by_depth), strict=True)):
            total, count = 0.0, self.hierarchy.size(depth)
            for begin in range(0, count, at_once):  # a table of some nodes at a time
                table = np.zeros((min(at_once, count - begin), width))  # floats, for fractions of groups
                for sign, (node, size, groups) in ((1, found), (-1, (true_nodes, *true))):
                    here = (node >= begin) & (node < begin + at_once)
                    np.add.at(table, (node[here] - begin, size[here]), sign * groups[here])
                total += float(np.abs(table[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]).sum())
            errors.append(total / count)
        return errors


class Timed:
    """A measurer that keeps the time it takes."""

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer
        self.seconds = 0.0

    def measure(self, *arguments: Any) -> Any:
        begin = time.perf_counter()
        measured = self._measurer.measure(*arguments)
        self.seconds += time.perf_counter() - begin
        return measured


def taxi(data: Path, largest: int) -> Data:
    rows = pq.read_table(data / "taxi_2013_manhattan.parquet")
    path = ["half", "neighbourhood"]
    return Data(rows, rows.group_by(path).aggregate([]), path, largest, smallest=0)


def generated(data: Any, largest: int | None = None) -> Data:
    return Data(data.rows, data.leaves, data.levels, largest or data.largest)


def root_alone(rows: Any, largest: int) -> Data:
    """All groups of a table with the columns `size` and `groups`, as those of one node."""
    sums = rows.group_by(["size"]).aggregate([("groups", "sum")]).rename_columns(["size", "groups"])
    sums = sums.append_column("all", [["all"] * sums.num_rows])
    return Data(sums, sums.group_by(["all"]).aggregate([]), ["all"], largest)


def mean_and_error(values: Sequence[float]) -> str:
    """A mean and its standard error, as text."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    digits = 0 if np.mean(values) >= 1_000 else (1 if np.mean(values) >= 10 else 2)
    return f"{np.mean(values):,.{digits}f} ({error:,.{digits}f})"


def peak_gibibytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
