"""The bounds on InfTDA's error beside its errors on the papers' complete data sets, as Markdown.

    python benchmarks/bounds.py [--runs 10] [--shared ../shared]

Epsilon 1, delta 1e-8, the paper's accounting, beta = 0.05. Theorem 4 itself is for trees with one number of children.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import SHARED
from projections import planned

import tallytree as tt
from tallytree.evaluate.error_bounds import plan_error_bound, theorem_4_bound
from tallytree.private.measurer import Measurer
from tallytree.private.noise.noise_source import KeyedNoise

BRANCHING = {"random_complete": None, "binary_complete": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/")
    arguments = parser.parse_args()
    print("\n| data | level | largest error, mean | of all runs | bound | Theorem 4 |\n" + "| --- " * 6 + "|")
    for name, branching in BRANCHING.items():
        job, _ = planned(arguments.shared / "data", name, tt.counts.TopDown())
        true, tree = job.tabulate(), job.tree
        exact = [
            true.cells(level, np.arange(tree.size(d)), "counts" if d else "total")[0]
            for d, level in enumerate(tree.levels)
        ]
        errors = np.zeros((arguments.runs, len(exact)))
        for run in range(arguments.runs):
            measurer = Measurer(true, job.plan, KeyedNoise(run.to_bytes(32, "big")))
            for depth, level in enumerate(job.mechanism.reconcile(tree, true.total, measurer)):
                off = exact[depth].copy()
                off[level.nodes] -= level.counts
                errors[run, depth] = np.abs(off).max()
        bounds = list(plan_error_bound(tree, job.plan).values())
        sigma = float(next(iter(job.plan.levels.values())).noise.scale)
        for depth in sorted({1, len(exact) // 2, len(exact) - 1}):
            theorem = "–" if branching is None else f"{theorem_4_bound(branching, depth, sigma):,.0f}"
            print(
                f"| {name} | {depth} | {errors[:, depth].mean():.0f} | {errors[:, depth].max():.0f} "
                f"| {bounds[depth]:,} | {theorem} |"
            )


if __name__ == "__main__":
    main()
