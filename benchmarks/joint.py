"""`Joint` beside `Matching` and bottom-up: mean earth mover's distance per node, as Markdown tables (mean (s.e.)).

    python benchmarks/joint.py [--runs 10] [--large-runs 2] [--only taxi|split|shares|intervals|large|misfit]

Everything is measured with add_remove noise. "Bottom-up" spends all of the budget at the leaves, estimates each alone
(L1 isotonic regression) and adds them up.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from auto_split import held_out
from common import SHARED, Data, generated, mean_and_error, peak_gibibytes, root_alone, taxi
from tallytree.datasets.group_sizes import count_rows

from tallytree.datasets import kuo
from tallytree.release.intervals import LevelErrors, interval
from tallytree.sizes import BottomUp, Independent, Matching, MeanConsistency
from tallytree.sizes.joint import Joint

EPSILONS = (0.1, 0.3, 1.0, 3.0)
MECHANISMS = {"Joint": Joint(), "Matching": Matching(), "Bottom-up": BottomUp()}
BASELINES = {"Independent": Independent(), "Mean consistency": MeanConsistency()}
SHARES = ((1, 1, 1), (1, 1, 18), (1, 1, 98))
"""Weights of the root, of each level between, and of the leaves."""
PUBLISHED = {"all": 10_547, "half": 5_431.5, "neighbourhood": 1_601.8}


def compare(name: str, data: Data, epsilons: Sequence[float], runs: int, **further: Any) -> None:
    levels = data.hierarchy.levels
    print(f"\n### {name}: K = {data.largest:,}, even split, {runs} runs\n")
    print(f"| epsilon | mechanism | {' | '.join(levels)} | seconds |\n| --- | --- |{' --- |' * (len(levels) + 1)}")
    for epsilon in epsilons:
        for label, mechanism in (MECHANISMS | further).items():
            results = [data.run(mechanism, epsilon, seed) for seed in range(1, runs + 1)]
            cells = [mean_and_error(column) for column in np.transpose([errors for errors, _ in results])]
            seconds = float(np.median([s for _, s in results]))
            print(f"| {epsilon} | {label} | {' | '.join(cells)} | {seconds:.2f} |", flush=True)


def splits(data: Data, runs: int) -> None:
    print(f"\n### Taxi, epsilon = 1, K = {data.largest:,}, splits of the budget, {runs} runs\n")
    print("| split | all | half | neighbourhood | seconds | below the published figures by |")
    print("| --- | --- | --- | --- | --- | --- |")
    levels = data.hierarchy.levels
    for shares in ((1, 1, 1), (0.25, 0.25, 0.5), (0.2, 0.25, 0.55), (0.2, 0.2, 0.6), (0.1, 0.1, 0.8)):
        split = dict(zip(levels, shares, strict=True))
        results = [data.run(Joint(), 1.0, seed, split) for seed in range(1, runs + 1)]
        errors = np.transpose([errors for errors, _ in results])
        better = [f"{100 * (1 - np.mean(e) / PUBLISHED[x]):.0f} %" for e, x in zip(errors, levels, strict=True)]
        cells = " | ".join(mean_and_error(column) for column in errors)
        seconds = np.median([s for _, s in results])
        print(f"| {' / '.join(map(str, shares))} | {cells} | {seconds:.2f} | {', '.join(better)} |", flush=True)


def same_shares(name: str, data: Data, epsilons: Sequence[float], runs: int) -> None:
    """`Joint` beside `Matching` with the same shares, and bottom-up with what the leaves get of them.

    Says at which levels `Joint` has more error: by more than twice the standard error of the paired difference.
    """
    levels = data.hierarchy.levels
    print(f"\n### {name}: K = {data.largest:,}, the same shares, {runs} runs\n")
    print(
        "| epsilon | shares | Joint | Matching | Bottom-up, same leaf cells | Joint is behind at |\n"
        + "| --- " * 6
        + "|"
    )
    for epsilon in epsilons:
        for weights in SHARES:
            shares = np.array([weights[0], *[weights[1]] * (len(levels) - 2), weights[2]][-len(levels) :])
            shares = shares / shares.sum()
            split = dict(zip(levels, shares.tolist(), strict=True))
            seeds = range(1, runs + 1)
            errors = {
                "Joint": np.array([data.run(Joint(), epsilon, seed, split)[0] for seed in seeds]),
                "Matching": np.array([data.run(Matching(), epsilon, seed, split)[0] for seed in seeds]),
                "Bottom-up": np.array([data.run(BottomUp(), epsilon * shares[-1], seed)[0] for seed in seeds]),
            }
            behind = []
            for label in ("Matching", "Bottom-up"):
                more = errors["Joint"] - errors[label]
                spread = more.std(axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros(len(levels))
                for depth in np.flatnonzero(more.mean(axis=0) > 2 * spread):
                    ratio = errors["Joint"][:, depth].mean() / max(errors[label][:, depth].mean(), 1e-9)
                    behind.append(f"{levels[depth]}: {ratio:.2f} × {label}")
            cells = [" / ".join(mean_and_error(column) for column in each.T) for each in errors.values()]
            shown = " / ".join(f"{share:.3g}" for share in shares)
            print(f"| {epsilon} | {shown} | {' | '.join(cells)} | {', '.join(behind)} |", flush=True)


def intervals(name: str, data: Data, epsilons: Sequence[float], runs: int) -> None:
    """The share of published rows whose 90 % interval holds the true tail count, and the mean width, by level."""
    nodes = [data.leaf]
    for depth in range(len(data.hierarchy.levels) - 1, 0, -1):
        nodes.insert(0, data.hierarchy.parents(depth, nodes[0]))
    for epsilon in epsilons:
        for split in ("auto", "even"):
            held, rows, widths = np.zeros(len(nodes)), np.zeros(len(nodes)), np.zeros(len(nodes))
            for seed in range(1, runs + 1):
                for depth, level in enumerate(data.timed(Joint(), epsilon, seed, split)[0]):
                    true = tail_counts(nodes[depth], data.size, data.groups, level.nodes, level.sizes)
                    noisy = level.std_dev > 0  # numbers of groups are public
                    ends = interval(level.tail_counts()[noisy], level.std_dev[noisy], 0.1, LevelErrors())
                    held[depth] += ((ends[0] <= true[noisy]) & (true[noisy] <= ends[1])).sum()
                    rows[depth] += noisy.sum()
                    widths[depth] += (ends[1] - ends[0]).sum()
            shown = " | ".join(f"{100 * a:.1f} %, {b:.3g}" for a, b in zip(held / rows, widths / rows, strict=True))
            print(f"| {name} | {epsilon} | {split} | {runs} | {shown} |", flush=True)


def named(name: str, folder: Path) -> Data:
    if name == "taxi":
        return taxi(folder, 20_000)
    if name == "Chem97":
        from real_sets import pupils_of_schools  # needs a package of PyPI

        rows, levels = pupils_of_schools()
        schools = pa.Table.from_pandas(rows.astype(dict.fromkeys(levels, str)), preserve_index=False)
        return Data(schools, schools.group_by(levels).aggregate([]).select(levels), levels, 300)
    return generated(getattr(kuo, name)())


def tail_counts(node: np.ndarray, size: np.ndarray, groups: np.ndarray, nodes: np.ndarray, sizes: np.ndarray) -> Any:
    """The number of groups of at least the given sizes in the given nodes, of rows (node, size, groups)."""
    width = int(max(size.max(), sizes.max())) + 1
    key = node * width + size
    order = np.argsort(key)
    larger = np.append(np.cumsum(groups[order][::-1])[::-1], 0)
    first, after = np.searchsorted(key[order], [nodes * width + sizes, (nodes + 1) * width])
    return larger[first] - larger[after]


# --- Data that the smoothness does not fit ---


def misfits() -> dict[str, Data]:
    leaves, largest = 24, 1_000
    rng = np.random.default_rng(1)
    tables = {name: np.zeros((leaves, largest + 1), dtype=np.int64) for name in (
        "all of one size", "multiples of 5", "two far spikes", "heavy tail", "nearly empty leaves",
        "a third of the leaves empty", "size 0 nearly always", "all of size 0",
    )}  # fmt: skip
    tables["all of one size"][:, 37] = 500
    tables["two far spikes"][:, 3] = 400 + 20 * np.arange(leaves)
    tables["two far spikes"][:, largest - 50] = 7 + np.arange(leaves)
    tables["size 0 nearly always"][:, 0] = 3_000
    tables["all of size 0"][:, 0] = 3_000
    for leaf in range(leaves):
        sizes = {
            "multiples of 5": 5 * ((rng.geometric(0.02, 3_000) + 4) // 5),
            "heavy tail": (rng.pareto(0.8, 2_000) + 1).astype(np.int64),
            "nearly empty leaves": rng.geometric(0.01, rng.integers(0, 3)),
            "a third of the leaves empty": rng.geometric(0.05, 1_000 if leaf % 3 else 0),
            "size 0 nearly always": rng.geometric(0.3, 200) * rng.integers(1, 10, 200),
        }
        for name, drawn in sizes.items():
            np.add.at(tables[name][leaf], np.clip(drawn, 1, largest), 1)
    found = {}
    for name, table in tables.items():
        paths = {"h": [str(x) for x in np.repeat([0, 1, 2], [6, 8, 10])], "leaf": [str(i) for i in range(leaves)]}
        node, size = np.nonzero(table)
        tree = pa.table(paths)
        found[name] = generated(count_rows(tree, node, size, table[node, size], largest=largest))
    found["K = 1"] = generated(
        count_rows(tree, np.arange(leaves), np.ones(leaves, np.int64), np.full(leaves, 70), largest=1)
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--large-runs", type=int, default=2)
    parser.add_argument("--only", choices=["taxi", "split", "shares", "intervals", "large", "misfit"])
    parser.add_argument(
        "--names",
        nargs="*",
        default=["hawaiian", "white", "housing"],
        help="of the large ones; with shares and intervals also taxi, with intervals Chem97 and held-out",
    )
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    arguments = parser.parse_args()
    if arguments.only in (None, "split"):
        splits(taxi(arguments.data, 20_000), arguments.runs)
    if arguments.only in (None, "taxi"):
        compare("taxi", taxi(arguments.data, 20_000), arguments.epsilons, arguments.runs, **BASELINES)
        rows = pq.read_table(arguments.data / "hawaiian_2010_blocks_nation.parquet")
        root = root_alone(rows, 1_000)
        compare("hawaiian, the root alone", root, arguments.epsilons, arguments.runs)
    if arguments.only == "shares":
        for name in arguments.names:
            same_shares(name, named(name, arguments.data), arguments.epsilons, arguments.runs)
        return
    if arguments.only == "intervals":
        for name in arguments.names:
            if name == "held-out":
                for name_of_data, data in held_out():
                    intervals(name_of_data, data, arguments.epsilons, arguments.runs)
                continue
            intervals(name, named(name, arguments.data), arguments.epsilons, arguments.runs)
        return
    if arguments.only in (None, "misfit"):
        for name, data in misfits().items():
            compare(name, data, arguments.epsilons, arguments.runs)
    if arguments.only in (None, "large"):
        for name in arguments.names:
            data = generated(getattr(kuo, name)())
            compare(name, data, arguments.epsilons, arguments.large_runs)
            print(f"\nPeak memory of the process so far: {peak_gibibytes():.1f} GiB")


if __name__ == "__main__":
    main()
