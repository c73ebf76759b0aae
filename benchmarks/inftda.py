"""Counts on the paper's six data sets beside the published InfTDA (Boninsegna and Silvestri 2025), as Markdown tables.

    python benchmarks/inftda.py [--runs 10] [--reference ../shared/reference]
                                [--only table|levels|split|frontier|sparsity] [--svg FILE]

The data sets are made by `tallytree.datasets.boninsegna`; only the published figures have to lie beside the repository.
All mechanisms of a run are given the same noise, so that their differences are not noise's.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from drawing import panels

import tallytree as tt
from tallytree.counts import LeastSquares, StabilityHistogram, TopDown
from tallytree.datasets import boninsegna
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.run import FlowsArguments, plan_flows

SHARED = Path(__file__).resolve().parents[2] / "shared"
EPSILONS = (0.1, 1, 10)
DELTA = 1e-8
SETS = [f"{partition}_{density}" for partition in ("binary", "random") for density in ("complete", "dense", "sparse")]
SPARSITIES = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Flows:
    """One of the six data sets with its true statistics."""

    name: str

    @cached_property
    def made(self) -> Any:
        return boninsegna.od_flows(*self.name.split("_"))

    @cached_property
    def areas(self) -> tt.Hierarchy:
        return tt.Hierarchy.from_table(self.made.areas, levels=self.made.levels)

    @cached_property
    def true(self) -> Any:
        return self.job(TopDown(), 1, "pld").tabulate()

    def job(self, mechanism: Any, epsilon: float, accounting: str | None, split: Any = None) -> Any:
        given = FlowsArguments(
            self.made.flows, origins=self.areas, destinations=self.areas, origin=self.made.origin,
            destination=self.made.destination, count="count", budget=tt.Budget(epsilon=epsilon, delta=DELTA),
            neighboring="change_one", mechanism=mechanism, accounting=accounting, budget_split=split,
        )  # fmt: skip
        return plan_flows(given)

    def figures(self, mechanism: Any, epsilon: float, accounting: str | None, runs: int, split: Any = None) -> Any:
        """(levels below the root, 4): mean maximum error, false discoveries %, false negatives %, mean error."""
        return np.mean(self.by_run(mechanism, epsilon, accounting, runs, split), axis=0)

    def by_run(self, mechanism: Any, epsilon: float, accounting: str | None, runs: int, split: Any = None) -> Any:
        """(runs, levels below the root, 4): as `figures`, of every run."""
        job = self.job(mechanism, epsilon, accounting, split)
        return np.array([self.run(job, run) for run in range(runs)])

    def run(self, job: Any, run: int) -> Any:
        measurer = Measurer(self.true, job.plan, KeyedNoise(run.to_bytes(32, "big")))
        total = self.true.total if job._total_is_published else None
        released = job.mechanism.reconcile(job.tree, total, measurer)
        found = []
        for depth, level in enumerate(job.tree.levels[1:], 1):
            true = self.true.cells(level, np.arange(job.tree.size(depth)), "counts")[0]
            counts = np.zeros(len(true), dtype=np.int64)
            counts[released[depth].nodes] = released[depth].counts
            errors, positive = np.abs(counts - true), counts > 0
            false = (true[positive] == 0).mean() if positive.any() else 0.0
            found.append((errors.max(), 100 * false, 100 * (counts[true > 0] == 0).mean(), errors.mean()))
        return found


class Published:
    """The paper's figures."""

    def __init__(self, reference: Path) -> None:
        self.rows = pd.read_csv(reference / "inftda_published.csv")

    def levels(self, data: str, epsilon: float, mechanism: str = "InfTDA") -> Any:
        """(levels below the root, 2): mean maximum error, false discoveries %."""
        rows = self.rows
        rows = rows[(rows.dataset == data) & (rows.mechanism == mechanism) & (rows.epsilon == epsilon)]
        rows = rows[rows.level > 0].sort_values("level")
        return rows[["max_abs_error_mean", "false_discovery_pct"]].to_numpy()


def inner_ratio(found: Any, published: Any) -> float:
    """The maximum error over the published one, mean over inner levels."""
    return float((found[:-1, 0] / published[:-1, 0]).mean())


def table(published: Published, runs: int) -> None:
    """Each data set and budget: errors over the published, and how LeastSquares compares with TopDown."""
    print(
        "\n## Maximum error over the published InfTDA's, mean over inner levels; false discoveries at the leaves, %\n"
    )
    print("| data | ε | TopDown, paper | TopDown | LeastSquares, paper | LeastSquares | worst level, LS / TD |"
          " FDR published | TopDown | LeastSquares | most FDR above TopDown's |")  # fmt: skip
    print("|" + " --- |" * 11)
    for name, epsilon in product(SETS, EPSILONS):
        data, figure = Flows(name), published.levels(name, epsilon)
        found = {
            (mechanism, accounting): data.figures(mechanism, epsilon, accounting, runs)
            for mechanism in (TopDown(), LeastSquares())
            for accounting in ("paper", "pld")
        }
        ratios = [f"{inner_ratio(each, figure):.3f}" for each in found.values()]
        top_down, fit = found[TopDown(), "pld"], found[LeastSquares(), "pld"]
        worst, above = (fit[:, 0] / top_down[:, 0]).max(), (fit[:, 1] - top_down[:, 1]).max()
        rates = [f"{each[-1, 1]:.1f}" for each in (figure, top_down, fit)]
        print(
            f"| {name} | {epsilon} | {' | '.join(ratios)} | {worst:.2f} | {' | '.join(rates)} | {above:.1f} |",
            flush=True,
        )


def levels(published: Published, runs: int) -> None:
    """Every level, tight accounting."""
    print("\n## Every level, tight accounting: maximum error and false discoveries %\n")
    print("| data | ε | level | published | TopDown | LeastSquares | FDR published | TopDown | LeastSquares |")
    print("|" + " --- |" * 9)
    for name, epsilon in product(SETS, EPSILONS):
        figure = published.levels(name, epsilon)
        found = [Flows(name).figures(mechanism, epsilon, "pld", runs) for mechanism in (TopDown(), LeastSquares())]
        for level, row in enumerate(zip(figure, *found, strict=True), 1):
            errors, rates = (" | ".join(f"{each[i]:.1f}" for each in row) for i in (0, 1))
            print(f"| {name} | {epsilon} | {level} | {errors} | {rates} |", flush=True)


def split(published: Published, runs: int) -> None:
    """The automatic split beside the even one, ε = 1."""
    print('\n## budget_split="auto" beside "even", ε = 1: mean over levels of the maximum error, and the greatest\n')
    print("| data | mechanism | even | auto | even, greatest | auto, greatest |\n|" + " --- |" * 6)
    for name, mechanism in product(SETS, (TopDown(), LeastSquares())):
        even, auto = (Flows(name).figures(mechanism, 1, "pld", runs, each)[:, 0] for each in ("even", "auto"))
        print(f"| {name} | {type(mechanism).__name__} | {even.mean():.1f} | {auto.mean():.1f} | {even.max():.1f} "
              f"| {auto.max():.1f} |", flush=True)  # fmt: skip


def frontier(published: Published, runs: int, svg: Path | None = None) -> None:
    """Error against false discoveries on the sparse sets, ε = 1; drawn, too, where a file is named."""
    print("\n## Sparse data, ε = 1: false discoveries at the leaves against the maximum error over the published\n")
    print(
        "| data | mechanism | κ | error / published, inner levels | leaves | false discoveries % | false negatives % |"
    )
    print("|" + " --- |" * 7)
    drawn: dict[str, dict[str, list[tuple[float, float, str]]]] = {}
    for name in ("random_sparse", "binary_sparse"):
        data, figure = Flows(name), published.levels(name, 1)
        print(f"| {name} | InfTDA, published | | 1 | 1 | {figure[-1, 1]:.1f} | |")
        lines = drawn[name.replace("_", " ")] = {
            "TopDown": [],
            "LeastSquares": [],
            "InfTDA": [],
            "StabilityHistogram": [],
        }
        lines["InfTDA"].append((figure[-1, 1], 1.0, "InfTDA, published"))
        points = [(kind, {"sparsity": kappa}) for kind in (TopDown, LeastSquares) for kappa in SPARSITIES]
        for kind, options in [*points, (StabilityHistogram, {})]:
            found = data.figures(kind(**options), 1, "pld" if options else None, runs)
            ratio, leaf = inner_ratio(found, figure), found[-1, 0] / figure[-1, 0]
            kappa = options.get("sparsity", "")
            rates = f"{found[-1, 1]:.1f} | {found[-1, 2]:.1f}"
            print(f"| {name} | {kind.__name__} | {kappa} | {ratio:.2f} | {leaf:.2f} | {rates} |", flush=True)
            label = f"{kappa:g}" if options else kind.__name__
            lines[kind.__name__].append((found[-1, 1], ratio, label))
    if svg is not None:
        across, up = "false discoveries at the leaves, %", "maximum error / published InfTDA's, inner levels"
        svg.write_text(panels(drawn, across, up), encoding="utf-8")


def sparsity(published: Published, runs: int) -> None:
    """LeastSquares without a sparsity, with κ = 3 and with "auto": errors over those of 0, false discoveries by level.

    Ratios are those of means over runs, with the standard error of the paired difference.
    """
    print('\n## LeastSquares: κ = 0, κ = 3 and "auto"; errors relative to κ = 0, ± standard error\n')
    print("| data | ε | κ | maximum error, inner levels | mean error, inner levels | maximum error, leaves |"
          " mean error, leaves | false discoveries %, leaves | false negatives %, leaves |"
          " false discoveries %, last inner levels |")  # fmt: skip
    print("|" + " --- |" * 10)
    for name, epsilon in product(SETS, EPSILONS):
        data, figure = Flows(name), published.levels(name, epsilon)[:-1, 0]
        plain = None
        for kappa in (0, 3, "auto"):
            found = data.by_run(LeastSquares(sparsity=kappa), epsilon, "pld", runs)
            plain = found if plain is None else plain
            ratios = [
                ratio_of((found[:, :-1, 0] / figure).mean(axis=1), (plain[:, :-1, 0] / figure).mean(axis=1)),
                ratio_of(found[:, :-1, 3].mean(axis=1), plain[:, :-1, 3].mean(axis=1)),
                ratio_of(found[:, -1, 0], plain[:, -1, 0]),
                ratio_of(found[:, -1, 3], plain[:, -1, 3]),
            ]
            same = kappa == "auto" and np.array_equal(found, plain)
            rates = [f"{found[:, -1, i].mean():.1f} ± {standard_error(found[:, -1, i]):.1f}" for i in (1, 2)]
            inner = ", ".join(f"{each:.0f}" for each in found[:, -4:-1, 1].mean(axis=0))
            label = '"auto" (= 0)' if same else f'"{kappa}"' if kappa == "auto" else kappa
            print(f"| {name} | {epsilon} | {label} | {' | '.join([*ratios, *rates])} | {inner} |", flush=True)


def ratio_of(found: Any, plain: Any) -> str:
    """The ratio of two means over the same runs, and its standard error to first order."""
    ratio = found.mean() / plain.mean()
    return f"{ratio:.3f} ± {standard_error(found - ratio * plain) / plain.mean():.3f}"


def standard_error(values: Any) -> float:
    """Of the mean of some runs."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--reference", type=Path, default=SHARED / "reference")
    parser.add_argument("--only", choices=["table", "levels", "split", "frontier", "sparsity"])
    parser.add_argument("--svg", type=Path, help="draw the frontier into this file")
    arguments = parser.parse_args()
    published = Published(arguments.reference)
    for part in (table, levels, split, sparsity):
        if arguments.only in (None, part.__name__):
            part(published, arguments.runs)
    if arguments.only in (None, "frontier"):
        frontier(published, arguments.runs, arguments.svg)


if __name__ == "__main__":
    main()
