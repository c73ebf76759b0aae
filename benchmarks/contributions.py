"""What a contribution bound leaves out: a mobility publisher's 1,430,000 trips, of which 1,099,806 count with m = 3.

`python benchmarks/contributions.py` releases synthetic trips with these two numbers at ε = 1, with and without
`contributions`, prints what is recommended, and then how often the intervals of what is left out cover the truth, in
so many releases of the numbers of people (`--runs 1000`; the trips are tabulated once). The trips per person have a
heavy tail: a Pareto distribution of what is over m, cut at 200 trips.
"""

from __future__ import annotations

import argparse
import math
import time
from fractions import Fraction

import numpy as np
import pyarrow as pa

import tallytree as tt
from tallytree.accounting import laplace_for
from tallytree.accounting.left_out import ALPHA, left_out
from tallytree.accounting.sensitivity import sensitivity
from tallytree.kinds.contributions import contribution_bins
from tallytree.private.noise.discrete import KeyedNoise
from tallytree.private.noise.entropy import fresh_key
from tallytree.support.arrays import IntArray

TRIPS, KEPT, M = 1_430_000, 1_099_806, 3
WITH_AT_LEAST = (460_000, 360_000, 279_806)
"""People with at least 1, 2, 3 trips: they add up to what is kept."""
MOST, TAIL = 200, 1.3
LEVELS = ["state", "county"]
SETTINGS = [(0.01, 200), (0.05, 200), (0.05, 1_000), (0.2, 1_000)]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000, help="releases of the numbers of people, for each setting")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of a release")
    arguments = parser.parse_args()
    trips = trips_per_person()
    show_release(trips, arguments.epsilon)
    print("\n| share of ε | at_most | runs | share left out, true | covered | records, true | covered | mean width |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for share, at_most in SETTINGS:
        show_coverage(trips, share, at_most, arguments)


def trips_per_person() -> IntArray:
    """How many trips each person has: 1,430,000 in all, of which 1,099,806 are among the first three of a person."""
    over = TRIPS - KEPT
    people = over
    while True:
        quantiles = (np.arange(people) + 0.5) / people
        beyond = np.minimum(np.ceil(quantiles ** (-1 / TAIL)), MOST - M).astype(np.int64)
        if beyond.sum() <= over:
            break
        people = min(int(people * over / beyond.sum()), people - 1)
    beyond = np.concatenate([beyond, np.ones(over - int(beyond.sum()), dtype=np.int64)])
    trips = np.ones(WITH_AT_LEAST[0], dtype=np.int64)
    for more in WITH_AT_LEAST[1:]:
        trips[:more] += 1
    trips[: len(beyond)] += beyond
    if (trips.sum(), np.minimum(trips, M).sum()) != (TRIPS, KEPT):
        raise RuntimeError("the synthetic trips do not add up")
    return trips


def show_release(trips: IntArray, epsilon: float) -> None:
    """Print what is released of them."""
    rng = np.random.default_rng(13)
    places = np.arange(100)
    areas = tt.Hierarchy.from_table(
        pa.table({"state": (places // 10).astype(str), "county": places.astype(str)}), levels=LEVELS
    )
    where = rng.integers(0, 100, int(trips.sum()))
    table = pa.table(
        {
            "who": np.repeat(np.arange(len(trips)), trips),
            "state": pa.array(places // 10).cast(pa.string()).take(pa.array(where)),
            "county": pa.array(places).cast(pa.string()).take(pa.array(where)),
        }
    )
    budget = tt.Budget(epsilon=epsilon)
    given = {"neighboring": "add_remove", "person": "who", "max_contributions": M}
    asked = tt.Contributions(share=0.05, at_most=MOST)
    for name, options in [("without contributions", {}), ("contributions, share 0.05", {"contributions": asked})]:
        begin = time.perf_counter()
        release = tt.release_counts(table, areas, budget, **given, **options)
        seconds = time.perf_counter() - begin
        row = release.table("all", alpha=0.1).to_pylist()[0]
        print(f"{name}: {row['count']:,}, interval {row['ci_lower']:,} to {row['ci_upper']:,}; {seconds:.1f} s")
    print(release.statement["contributions"]["summary"])
    alone = tt.release_contributions(table, areas, budget, **given, share=0.05, at_most=MOST)
    print("recommended:", alone.statement["contributions"]["recommended"]["max_contributions"])


def show_coverage(trips: IntArray, share: float, at_most: int, arguments: argparse.Namespace) -> None:
    """Print a row: how often the intervals cover the truth, with the standard error of that share."""
    bins = contribution_bins(M, at_most)
    people = np.array([np.count_nonzero((trips >= first) & (trips <= last)) for first, last in bins])
    noise = laplace_for(sensitivity("contributions", "add_remove"), Fraction(str(share)) * Fraction(arguments.epsilon))
    true = (1 - KEPT / TRIPS, TRIPS - KEPT)
    covered, width = np.zeros(2, dtype=int), 0.0
    for _ in range(arguments.runs):
        drawn = KeyedNoise(fresh_key()).draw(noise, ("benchmark",), np.arange(len(bins)))
        found = left_out(bins, people + drawn, noise, M)
        covered += [
            each.ci_lower <= right <= each.ci_upper
            for each, right in zip((found.share, found.records), true, strict=True)
        ]
        width += (found.share.ci_upper - found.share.ci_lower) / arguments.runs
    shares = [
        f"{part:.3f} ± {math.sqrt(max(part * (1 - part), 1 / arguments.runs**2) / arguments.runs):.3f}"
        for part in covered / arguments.runs
    ]
    print(
        f"| {share} | {at_most} | {arguments.runs} | {true[0]:.3f} | {shares[0]} | {true[1]:,} | {shares[1]} | "
        f"{width:.3f} |",
        flush=True,
    )
    if (covered / arguments.runs < 1 - ALPHA - 4 * math.sqrt(ALPHA / arguments.runs)).any():
        raise RuntimeError("an interval covers the truth less often than it says")


if __name__ == "__main__":
    main()
