"""Data sets like those of Fioretto et al. (2021), section 11, drawn from published totals."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.lab.datasets.group_sizes import GroupSizes, centred_normal, count_rows, household_weights
from tallytree.lab.datasets.united_states import county_paths, county_shares, numbers

CENSUS_GROUPS = 117_630_445
CENSUS_OUTLIERS = 50
MIN_OUTLIER = 10

TAXIS = 13_282
PICKUPS = 24_489_743
ZONES = {"Bronx": 43, "Brooklyn": 61, "EWR": 1, "Manhattan": 69, "Queens": 69, "Staten Island": 20}

# Households of 1, 2, … 6 members and of 7 or more, in per cent: near the 2010 Census, with the paper's mean of 2.595
# where the tail has this ratio, that of households of "7 or more" to those of 6 in the Census (2.26 and 3.09 million).
# The paper does not give its ratio. This one was chosen because Table 7 then agrees with noise of ε for each level.
_HOUSEHOLD_SHARES = (27.2, 32.9, 16.05, 13.25, 6.35, 2.6, 1.9)
_TAIL_RATIO = 0.73
_LAST_HOUSEHOLD = 400
# Yellow taxis' pickups by borough, in per cent, in the order of ZONES.
_PICKUP_SHARES = (0.3, 3.0, 0.1, 90.5, 6.0, 0.1)


def census_like(*, seed: int = 2010, n_sizes: int = 1_000, tail_ratio: float = _TAIL_RATIO) -> GroupSizes:
    """Generate the households and group quarters of the United States: 117,630,445 groups, some 305 million people.

    Distributions:

    * **Counties**: 3,144 in 52 states. States share the groups as they share the population of 2010; a county's share
      of its state is log-normal (σ = 1.4). Groups are multinomial over the counties.
    * **Household sizes**: multinomial in each county. 27.2, 32.9, 16.05, 13.25, 6.35, 2.6 % have 1 … 6 members and
      1.9 % have 7 or more. The Census aggregates sizes of 7 and more, and the paper divides them by a constant ratio r:
      the numbers of size 8, 9, … are n_7·r, n_7·r², … The paper does not give r; 0.73 (households of 7 or more over
      those of 6) was chosen by the errors of its Table 7, read as noise of ε for each level. Shares are tilted by
      exp(t·size), with t normal (σ = 0.03, weighted mean 0) per county, so every county has its own r.
    * **Outliers**: 50 of the groups, in counties drawn by their share, with sizes uniform on 10 … `n_sizes`.

    The number of groups is the paper's; people are within 1 % of its 305,276,358.

    Args:
        seed: of the data. Equal arguments give equal tables.
        n_sizes: N, the greatest size.
        tail_ratio: r, in (0, 1).

    Returns:
        The groups by county and size, for levels country, state, county (1, 52, 3,144 nodes).

    Raises:
        ValueError: `n_sizes` leaves no room for the outliers, or `tail_ratio` is not between 0 and 1.
    """
    if n_sizes < MIN_OUTLIER:
        raise ValueError(f"n_sizes: {n_sizes} is below the smallest outlier; give at least {MIN_OUTLIER}")
    if not 0 < tail_ratio < 1:
        raise ValueError(f"tail_ratio: {tail_ratio} is not between 0 and 1")
    rng = np.random.default_rng(seed)
    share = county_shares(rng, numbers("people"), spread=1.4)
    tilt = centred_normal(rng, 0.03, share)
    weights = household_weights(_HOUSEHOLD_SHARES, tilt, largest=n_sizes, ratio=tail_ratio, last=_LAST_HOUSEHOLD)
    groups = rng.multinomial(rng.multinomial(CENSUS_GROUPS - CENSUS_OUTLIERS, share), weights)
    leaf, size = np.nonzero(groups)
    return count_rows(
        county_paths(),
        np.concatenate([leaf, rng.choice(len(share), CENSUS_OUTLIERS, p=share)]),
        np.concatenate([size + 1, rng.integers(MIN_OUTLIER, n_sizes, CENSUS_OUTLIERS, endpoint=True)]),
        np.concatenate([groups[leaf, size], np.ones(CENSUS_OUTLIERS, dtype=np.int64)]),
        largest=n_sizes,
    )


def taxi_like(*, seed: int = 2014) -> GroupSizes:
    """Generate the taxis of New York as groups, and their pickups as members: 13,282 groups, 24,489,743 members.

    Every taxi belongs to one zone, and its size is the number of its pickups, as the paper's text says.
    `pickups_by_taxi` has the same totals under the other interpretation, which explains the errors in the paper.

    Distributions:

    * **Zones**: 263 in 6 boroughs, as many in each as New York has. Boroughs have 0.3, 3, 0.1, 90.5, 6 and 0.1 % of the
      taxis (the order of `ZONES`), zones log-normal shares of their borough (σ = 1.2); taxis are multinomial over them.
    * **Pickups**: one for every taxi; the others are multinomial, with probability ∝ a weight per taxi. The weight is
      gamma (shape 2.5) for 92 % of the taxis; for 8 %, which drive rarely, it is log-uniform, from 1
      expected pickup to the mean. No weight is above 6.5 times the mean, so no taxi has more than 13,282 pickups.

    Both totals are the paper's.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The taxis by zone and number of pickups, for levels city, borough, zone (1, 6, 263 nodes); N = 13,282.
    """
    rng = np.random.default_rng(seed)
    zone = np.repeat(np.arange(sum(ZONES.values())), rng.multinomial(TAXIS, _zone_shares(rng)))
    return count_rows(_zone_paths(), zone, _pickups(rng), np.ones(TAXIS, dtype=np.int64), largest=TAXIS)


def pickups_by_taxi(*, seed: int = 2014) -> GroupSizes:
    """Generate pickups as groups, with the number of their taxi as the size: 24,489,743 groups, N = 13,282.

    Table 7 of the paper implies this interpretation. TopDown's errors at the first level are N·2/ε for ε = 0.1, 0.5 and
    1, which is the noise itself, on one cell per taxi, all far above 0. The error of 13,282 groups could not exceed
    26,564 in all. So cell s of a zone holds the pickups of taxi s. Sizes are labels here: `n_members` has no meaning,
    and quantities that depend on the order of sizes (cumulative counts, distances) have little.

    Distributions: taxis' pickups as in `taxi_like`; each taxi's are multinomial over the zones, all with shares as the
    zones have there. Taxis and pickups are as many as the paper's.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The pickups by zone and taxi (1 … 13,282, in the column `size`), for levels city, borough, zone.
    """
    rng = np.random.default_rng(seed)
    groups = rng.multinomial(_pickups(rng), _zone_shares(rng)).T
    leaf, taxi = np.nonzero(groups)
    return count_rows(_zone_paths(), leaf, taxi + 1, groups[leaf, taxi], largest=TAXIS)


def truncated(data: GroupSizes, largest: int) -> GroupSizes:
    """The same data without the groups above a size: the paper's synthetic series, N = 5 … 50 in its Figure 7.

    Args:
        data: any groups.
        largest: N of the result, ≥ 1.

    Returns:
        The remaining groups on the same hierarchy; leaves that lose all their groups stay.

    Raises:
        ValueError: `largest` is below 1 or above what the data have already.
    """
    if not 1 <= largest <= data.largest:
        raise ValueError(f"largest: {largest} is not a size of these data; give one from 1 to {data.largest}")
    return dataclasses.replace(data, rows=data.rows.filter(pc.less_equal(data.rows["size"], largest)), largest=largest)


def _pickups(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The pickups of every taxi, 1 … 13,282, with the paper's total."""
    mean = PICKUPS / TAXIS
    occasional = rng.random(TAXIS) < 0.08
    weight = np.where(occasional, mean ** (rng.random(TAXIS) - 1), rng.gamma(2.5, size=TAXIS) / 2.5)
    weight = np.minimum(weight / weight.mean(), 6.5)
    return 1 + rng.multinomial(PICKUPS - TAXIS, weight / weight.sum())


def _zone_shares(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    borough = np.repeat(np.arange(len(ZONES)), list(ZONES.values()))
    within = rng.lognormal(sigma=1.2, size=len(borough))
    share = np.array(_PICKUP_SHARES)[borough] * within / np.bincount(borough, within)[borough]
    return np.asarray(share / share.sum(), dtype=np.float64)


def _zone_paths() -> pa.Table:
    return pa.table(
        {
            "city": ["New York"] * sum(ZONES.values()),
            "borough": [borough for borough, zones in ZONES.items() for _ in range(zones)],
            "zone": [f"{borough} {i + 1:02}" for borough, zones in ZONES.items() for i in range(zones)],
        }
    )
