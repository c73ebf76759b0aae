"""Households by size given persons (`release_households`) beside `Joint` on the same noisy tail counts.

    python benchmarks/households.py [--data demo office eusilc sparse nation] [--sizes 7] [--epsilons 1] [--runs 10]

Noise is discrete Laplace, add_remove; the shares of the levels are even, or mostly the leaves'. Printed for each level:
the mean earth mover's distance per node (ours / `Joint`), its difference in standard errors, the shares of 90 %
intervals that hold for households by size and for mean household size, and the largest difference of persons implied by
the sizes from those that are given. `eusilc` needs the package pyreadr, and r-cran-laeken of Debian (`real_sets.py`).
"""

from __future__ import annotations

import argparse
import itertools
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from common import peak_gibibytes
from tallytree.datasets.households import households

from tallytree.kinds.measurements import Noise
from tallytree.sizes.given_persons import MeasuredRanks, sizes_given_persons
from tallytree.solvers.sizes import joint_families

Z = 1.6449
"""Of a 90 % interval."""


def of_leaves(leaf: Any, size: Any, above: list[Any], k: int) -> tuple[list[Any], list[Any]]:
    """True ranks of persons by level, root first, and first children. `above`: each leaf's node at every level."""
    nodes = int(above[-1][-1]) + 1
    counts = np.zeros((nodes, k + 1), np.int64)
    np.add.at(counts, (leaf, np.minimum(size, k)), 1)
    ranks = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    excess = np.bincount(leaf, np.maximum(size - k, 0), nodes).astype(np.int64)
    return added_up(np.column_stack([ranks, excess]), above)


def added_up(leaves: Any, above: list[Any]) -> tuple[list[Any], list[Any]]:
    """The ranks of all levels from those of the leaves."""
    begin = [np.flatnonzero(np.diff(level, prepend=-1)) for level in above]
    true = [np.add.reduceat(leaves, first) for first in begin]
    children = [np.searchsorted(low, [*high, len(leaves)]) for high, low in itertools.pairwise(begin)]
    return true, [*children, np.zeros(len(leaves) + 1, np.int64)]


def demo(k: int) -> tuple[list[Any], list[Any]]:
    found = households(20_000)
    leaves = found.households.to_pandas()[["country", "state", "county"]].reset_index(drop=True)
    people = found.people.to_pandas().merge(leaves.assign(leaf=leaves.index), on=list(leaves.columns))
    each = people.groupby("household_id")["leaf"].agg(["first", "size"])
    above = [np.zeros(len(leaves), np.int64), pd.factorize(leaves["state"])[0], leaves.index.to_numpy()]
    return of_leaves(each["first"].to_numpy(), each["size"].to_numpy(), above, k)


def office(k: int) -> tuple[list[Any], list[Any]]:
    """2.0 million persons in 5 regions, 40 provinces, 600 municipalities and 3,000 districts; made up."""
    rng = np.random.default_rng(2025)
    region = np.sort(np.r_[np.arange(5), rng.integers(0, 5, 35)])
    province = np.sort(np.r_[np.arange(40), rng.integers(0, 40, 560)])
    town = np.sort(np.r_[np.arange(600), rng.choice(600, 2_400, p=rng.dirichlet(np.full(600, 0.5)))])
    weight = rng.lognormal(0, 1.1, 3_000)
    size = np.clip(1 + rng.negative_binomial(1.6, 0.56, 1_063_000), 1, 12)
    size = np.where(rng.random(len(size)) < 0.3, 1, size)
    above = [np.zeros(3_000, np.int64), region[province[town]], province[town], town, np.arange(3_000)]
    return of_leaves(rng.choice(3_000, len(size), p=weight / weight.sum()), size, above, k)


def eusilc(k: int) -> tuple[list[Any], list[Any]]:
    """14,827 people in 6,000 households in 9 regions; synthetic, after the Austrian EU-SILC, without its weights."""
    import subprocess
    import tempfile
    from pathlib import Path

    import pyreadr
    from real_sets import LAEKEN

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(LAEKEN.path()), folder], check=True)
        people = pyreadr.read_r(str(next(Path(folder).rglob("eusilc.RData"))))["eusilc"]
    each = people.groupby("db030")["db040"].agg(["first", "size"])
    region = pd.factorize(each["first"].astype(str), sort=True)[0]
    return of_leaves(region, each["size"].to_numpy(), [np.zeros(9, np.int64), np.arange(9)], k)


def sparse(k: int) -> tuple[list[Any], list[Any]]:
    """2,000 leaves of 3 households on average, a third of them with none or one; sizes differ by leaf; made up."""
    rng = np.random.default_rng(1)
    weight = rng.lognormal(0, 1.5, 2_000)
    leaf = np.repeat(np.arange(2_000), rng.poisson(3 * weight / weight.mean()))
    size = 1 + rng.poisson(rng.gamma(3, 0.5, 2_000)[leaf])
    leaves = np.arange(2_000)
    return of_leaves(leaf, size, [0 * leaves, leaves // 200, leaves // 20, leaves], k)


def nation(k: int) -> tuple[list[Any], list[Any]]:
    """337 million persons in 51 states, 3,143 counties and 85,000 tracts; made up."""
    rng = np.random.default_rng(5)
    weight = rng.lognormal(0, 1, 51)
    state = np.repeat(np.arange(51), rng.multinomial(3_143 - 51, weight / weight.sum()) + 1)
    weight = rng.lognormal(0, 1.3, 3_143)
    county = np.repeat(np.arange(3_143), rng.multinomial(85_000 - 3_143, weight / weight.sum()) + 1)
    number = rng.gamma(4, 1_530 / 4, 85_000).astype(np.int64)
    shares = np.array([28, 34.5, 15.3, 12.6, 5.8, 2.3, 1.2, 0.6, 0.3, 0.15, 0.1, 0.05, 0.04, 0.03, 0.02])
    tilt = rng.normal(0, 0.08, 51)[state][county] + rng.normal(0, 0.08, 3_143)[county] + rng.normal(0, 0.12, 85_000)
    chance = shares * np.exp(tilt[:, None] * np.arange(1, 16))
    drawn = rng.multinomial(number, chance / chance.sum(axis=1, keepdims=True))
    size = np.arange(1, 16)
    ranks = [drawn[:, size >= s].sum(axis=1) for s in range(1, k + 1)]
    leaves = np.column_stack([*ranks, (drawn * np.maximum(size - k, 0)).sum(axis=1)])
    return added_up(leaves, [np.zeros(85_000, np.int64), state[county], county, np.arange(85_000)])


DATA = {"demo": demo, "office": office, "eusilc": eusilc, "sparse": sparse, "nation": nation}


def joint_tails(noisy: list[Any], first_child: list[Any], scales: list[float]) -> list[Any]:
    """The tail counts that `Joint` finds from the same noisy cells; private numbers of groups."""
    levels = [
        joint_families.TailsLevel(np.ascontiguousarray(y[:, :-1]), f, b, True, np.full(len(y), np.inf))
        for y, f, b in zip(noisy, first_child, scales, strict=True)
    ]
    found = []
    for tails in joint_families.fit(levels, first_size=1).levels:
        cells = noisy[0].shape[1] - 1
        node = np.repeat(np.arange(len(tails.offsets) - 1), np.diff(tails.offsets))
        dense = np.zeros((len(tails.offsets) - 1, cells), np.int64)
        dense[node, tails.start] = tails.value
        last = np.zeros(dense.shape, np.int64)
        last[node, tails.start] = tails.start
        found.append(np.take_along_axis(dense, np.maximum.accumulate(last, axis=1), axis=1))
    return found


def one_run(true: list[Any], first_child: list[Any], scales: list[float], seed: int, beside: bool) -> list[Any]:
    """By level: distances of both, shares of intervals that hold (by size, of the mean), and the difference."""
    rng = np.random.default_rng(seed)
    draws = [rng.geometric(-np.expm1(-1 / b), (2, *t.shape)) for t, b in zip(true, scales, strict=True)]
    noisy = [t + d[0] - d[1] for t, d in zip(true, draws, strict=True)]
    noise = [Noise("discrete_laplace", Fraction(b)) for b in scales]
    persons = [t.sum(axis=1) for t in true]
    begin = time.perf_counter()
    given = [MeasuredRanks(y, law) for y, law in zip(noisy, noise, strict=True)]
    found = sizes_given_persons(given, persons, first_child)
    seconds = time.perf_counter() - begin
    joint = joint_tails(noisy, first_child, scales) if beside else [np.zeros_like(t[:, :-1]) for t in true]
    rows = []
    for level, t, n, other in zip(found.levels, true, persons, joint, strict=True):
        households = level.households
        tails, truth = households[:, ::-1].cumsum(axis=1)[:, ::-1], t[:, :-1]
        reach = np.maximum(Z * level.std_dev, 0.5)
        held = np.abs(households + np.diff(truth, axis=1, append=0)) <= reach
        some = (n > 0) & (tails[:, 0] > Z * level.households_std_dev)
        width = np.maximum(Z * level.households_std_dev, 0.5)[some]
        true_mean, low, high = n[some] / truth[some, 0], tails[some, 0] + width, tails[some, 0] - width
        mean_held = (n[some] / low <= true_mean) & (true_mean <= n[some] / np.maximum(high, 1e-9))
        off = np.abs((households * np.arange(1, households.shape[1] + 1)).sum(axis=1) + level.excess - n).max()
        far = [np.abs(each - truth).sum(axis=1).mean() for each in (tails, other)]
        rows.append([*far, held.mean(), mean_held.mean(), off, seconds, found.mended])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=list(DATA), default=["demo", "office", "sparse"])
    parser.add_argument("--sizes", type=int, nargs="*", default=[7])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--alone", action="store_true", help="without Joint")
    arguments = parser.parse_args()
    print(
        "| data, K | epsilon | shares | ours / Joint, by level | difference, s.e. | by size | mean | off | mended | s |"
    )
    print("| --- " * 10 + "|")
    for name in arguments.data:
        for k in arguments.sizes:
            true, first_child = DATA[name](k)
            depth = len(true)
            for epsilon in arguments.epsilons:
                for label, last in (("even", 1 / depth), ("leaves", 1 - 0.1 * (depth - 1))):
                    shares = [*[(1 - last) / (depth - 1)] * (depth - 1), last]
                    scales = [1 / (epsilon * share) for share in shares]
                    seeds = range(arguments.runs)
                    runs = [one_run(true, first_child, scales, seed, not arguments.alone) for seed in seeds]
                    found = np.array(runs)
                    mean, gap = found.mean(axis=0), found[:, :, 0] - found[:, :, 1]
                    error = gap.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.full(depth, np.nan)
                    apart = " / ".join(f"{x:.1f}" for x in gap.mean(axis=0) / np.maximum(error, 1e-12))
                    far = ", ".join(f"{a:.3g} / {b:.3g}" for a, b in mean[:, :2])
                    held = [" / ".join(f"{100 * x:.0f}" for x in mean[:, column]) for column in (2, 3)]
                    rest = f"{found[..., 4].max():.0f} | {mean[0, 6]:.1f} | {mean[0, 5]:.2f}"
                    print(f"| {name}, {k} | {epsilon} | {label} | {far} | {apart} | {' | '.join(held)} % | {rest} |")
    print(f"\n{arguments.runs} runs; peak memory {peak_gibibytes():.1f} GiB")


if __name__ == "__main__":
    main()
