"""How well all records are estimated from bounded ones: a made-up week of trips, in which heavy users crowd some zones.

`python benchmarks/all_records.py` releases the week with at most 5 trips a person, and prints for each level how often
the published 90 % intervals, and those of `Release.scaled`, hold the number of all trips, with mean widths. The spread
is the stated 0.5, or that of an earlier week, whose people are others and whose heavy users live elsewhere in part.
Two widths are there to compare with: those with the true spread of this week in place of both, and those with the true
share of every area, which nobody could publish: they hold the noise of the count alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import tallytree as tt
from tallytree.numbers.all_records import spread_between
from tallytree.run.counted_records import bounded_and_all
from tallytree.support.arrays import FloatArray, IntArray

DISTRICTS, ZONES, PEOPLE, M = 20, 80, 30_000, 5
ASSUMED = 0.5
"""Stated before any week was drawn: "most areas have between 0 and 2 times as many left out"."""
ALPHA = 0.1
HEAVY = 0.05
"""The median share of heavy users among the people of a zone."""
DRIFT = 0.2
"""By how much the logarithm of that share changes from one week to the next."""


@dataclass(frozen=True, eq=False)
class Week:
    """The trips of a week: one row each, with the card and the zone's path."""

    trips: pa.Table
    zones: IntArray


def hierarchy() -> tt.Hierarchy:
    """A city with 20 districts of 4 zones each."""
    return tt.Hierarchy.from_table(_paths(np.arange(ZONES)), levels=["district", "zone"])


def _paths(zones: IntArray) -> pa.Table:
    districts = [f"d{zone * DISTRICTS // ZONES:02d}" for zone in range(ZONES)]
    every = pa.table({"district": districts, "zone": [f"z{zone:02d}" for zone in range(ZONES)]})
    return every.take(pa.array(zones))


def two_weeks(rng: np.random.Generator, concentration: float) -> tuple[Week, Week]:
    """The week that is released, and an earlier one.

    Args:
        rng: draws them.
        concentration: the standard deviation, between zones, of the logarithm of the share of heavy users.
    """
    sizes = rng.lognormal(0, 0.8, ZONES)
    heavy = HEAVY * rng.lognormal(0, concentration, ZONES)
    return _week(rng, sizes, heavy), _week(rng, sizes, heavy)


def _week(rng: np.random.Generator, sizes: FloatArray, heavy: FloatArray) -> Week:
    """One week: most people make 1 to 6 trips, heavy users 9 to 100; six in ten trips end in the zone of home."""
    home = rng.choice(ZONES, PEOPLE, p=sizes / sizes.sum())
    rate = np.minimum(heavy * rng.lognormal(0, DRIFT, ZONES), 0.7)
    few, many = 1 + rng.poisson(2.0, PEOPLE), 8 + rng.geometric(1 / 12, PEOPLE)
    trips = np.minimum(np.where(rng.random(PEOPLE) < rate[home], many, few), 100)
    card = np.repeat(np.arange(PEOPLE), trips)
    elsewhere = rng.choice(ZONES, len(card), p=sizes / sizes.sum())
    zones = np.where(rng.random(len(card)) < 0.6, home[card], elsewhere)
    return Week(_paths(zones).append_column("card", pa.array(card)), zones)


@dataclass(frozen=True)
class Run:
    """A level of one release.

    Attributes:
        level: its name.
        published: the share of its areas whose published interval holds the number of all trips.
        assumed, earlier: the same of the estimates, with the stated spread and with the earlier week's.
        widths: mean widths: with the stated spread, the earlier week's, the true spread, the true share by area.
        spread: the true spread.
    """

    level: str
    published: float
    assumed: float
    earlier: float
    widths: tuple[float, float, float, float]
    spread: float


def runs(epsilon: float, concentration: float, number: int, key: int) -> Iterator[Run]:
    """Release so many weeks, and compare every level with the truth; the noise is drawn from `key`."""
    areas = hierarchy()
    for run in range(number):
        week, earlier = two_weeks(np.random.default_rng([key, run]), concentration)
        release = tt.release_counts(
            week.trips,
            areas,
            tt.Budget(epsilon=epsilon),
            neighboring="add_remove",
            person="card",
            max_contributions=M,
            contributions=tt.Contributions(share=0.1, at_most=100),
            seed=key + run,
        )
        kept, _ = bounded_and_all(
            week.trips, areas, person="card", most=M, count=None, distinct=False, argument="trips"
        )
        bounded = np.zeros(ZONES)
        bounded[kept[0][0]] = kept[1]
        for level, of_zone in (("district", np.arange(ZONES) * DISTRICTS // ZONES), ("zone", np.arange(ZONES))):
            every = np.bincount(of_zone, np.bincount(week.zones, minlength=ZONES))
            counted = np.bincount(of_zone, bounded)
            true = spread_between(counted, every).relative
            published = _compared(release.table(level, alpha=ALPHA), every)
            own_share = float(np.mean(published[2] * every / counted))
            found = [
                _compared(release.scaled(level, alpha=ALPHA, **given), every)
                for given in ({"spread": ASSUMED}, {"like": earlier.trips}, {"spread": true})
            ]
            widths = (*(float(each[1]) for each in found), own_share)
            yield Run(level, published[0], found[0][0], found[1][0], widths, true)


def _compared(table: pa.Table, truth: FloatArray) -> tuple[float, float, FloatArray]:
    """How many intervals hold the truth, their mean width, and all widths."""
    lower, upper = (table.column(name).to_numpy() for name in ("ci_lower", "ci_upper"))
    return float(np.mean((lower <= truth) & (truth <= upper))), float(np.mean(upper - lower)), upper - lower


def mean_of(found: list[Run], level: str) -> dict[str, Any]:
    """The means over the runs of a level."""
    of_level = [each for each in found if each.level == level]
    means = {name: float(np.mean([getattr(each, name) for each in of_level])) for name in ("published", "assumed")}
    means |= {name: float(np.mean([getattr(each, name) for each in of_level])) for name in ("earlier", "spread")}
    widths = np.mean([each.widths for each in of_level], axis=0)
    return means | dict(zip(("wide_assumed", "wide_earlier", "wide_true", "wide_share"), widths.tolist(), strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="weeks of each row")
    arguments = parser.parse_args()
    print(
        "| ε | zones differ | level | true spread | published | spread 0.5 | earlier week | width ÷ with the true ",
        end="",
    )
    print("spread | width ÷ with the true shares |\n| " + " | ".join(["---"] * 9) + " |")
    for epsilon in (0.1, 1.0, 10.0):
        for concentration in (0.3, 0.7, 1.0):
            found = [*runs(epsilon, concentration, arguments.runs, key=2029)]
            for level in ("district", "zone"):
                each = mean_of(found, level)
                covered = " | ".join(f"{100 * each[name]:.0f} %" for name in ("published", "assumed", "earlier"))
                ratios = " | ".join(
                    f"{each['wide_assumed'] / each[by]:.1f}, {each['wide_earlier'] / each[by]:.1f}"
                    for by in ("wide_true", "wide_share")
                )
                print(
                    f"| {epsilon:g} | {concentration} | {level} | {each['spread']:.2f} | {covered} | {ratios} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
