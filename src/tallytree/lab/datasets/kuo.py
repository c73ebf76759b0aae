"""Data sets like those of Kuo et al. (2018), section 6.1, drawn from published totals, and a reader of theirs."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.lab.datasets.group_sizes import GroupSizes, centred_normal, count_rows, household_weights
from tallytree.lab.datasets.united_states import STATES, county_paths, county_shares, numbers, state_of_county

HOUSING_GROUPS = 240_908_081
HOUSING_MAX_SIZE = 10_000
OUTLIERS_PER_STATE = 50

BLOCKS = 11_155_486
WHITE_PEOPLE = 226_378_365
WHITE_MAX_SIZE = 10_000
HAWAIIAN_PEOPLE = 540_383
HAWAIIAN_MAX_SIZE = 1_000
TAXI_PICKUPS = 130_962_398
TAXI_MAX_SIZE = 6_000
WEST_COAST = ("California", "Oregon", "Washington")

# Of each neighbourhood of Manhattan in 2013: taxis with a pickup there, their pickups, and the standard deviation of a
# taxi's pickups over their mean. Sums of public records; the first 18 are in the lower half.
_NEIGHBOURHOODS = (
    (13432, 7168271, 0.61), (13452, 13998111, 0.41), (13432, 5857536, 0.47), (13437, 6217599, 0.46),
    (13466, 23538474, 0.37), (13434, 9722059, 0.37), (13438, 6644131, 0.38), (13418, 3937064, 0.42),
    (13422, 4648179, 0.47), (13439, 10480993, 0.44), (13437, 7168007, 0.42), (13408, 3530382, 0.52),
    (13392, 2271387, 0.49), (13335, 747174, 0.63), (13428, 5889298, 0.46), (13419, 4176626, 0.52),
    (13439, 10512339, 0.49), (13307, 527106, 0.91), (4961, 7513, 0.99), (12718, 129276, 1.56),
    (12953, 137454, 1.03), (13017, 128353, 0.98), (13369, 1453608, 0.93), (13269, 443500, 1.37),
    (13361, 1018729, 0.73), (13294, 459953, 0.97), (9420, 20474, 0.8), (12975, 128802, 1.13),
)  # fmt: skip
_IN_LOWER_HALF = 18
TAXI_ARRAY, HAWAIIAN_ARRAY = "taxi_level3.npy", "Hawaiian_nation_H.npy"
_OCCASIONAL_TAXIS = 0.02

# Households of 1, 2, … 6 members and of 7 or more, in per cent: those of the Census, less large ones, as the paper's
# mean without outliers is 2.459.
_HOUSEHOLD_SHARES = (28.3, 33.9, 16.2, 12.5, 5.7, 2.05, 1.35)


def housing(*, seed: int = 2010) -> GroupSizes:
    """Generate the partially synthetic housing: 240,908,081 groups, some 605 million people.

    Distributions:

    * **Counties**: 3,144 in 52 states. States share the groups as they share the population of 2010; a county's share
      of its state is log-normal (σ = 1.4). Groups are multinomial over the counties, independently of their size,
      as in the paper.
    * **Household sizes**: multinomial in each state: 28.3, 33.9, 16.2, 12.5, 5.7, 2.05 % have 1 … 6 members and 1.35 %
      have 7 or more. With r = n_7/n_6 the numbers of size 8, 9, … are n_7·r, n_7·r², … in expectation. Shares are
      tilted by exp(t·size), with t normal (σ = 0.03, weighted mean 0) per state, so every state has its own r.
    * **Outliers**: 50 of the groups of every state, with sizes uniform on 1 … 10,000. (50 in all cannot give the 2,352
      sizes that occur in the paper; 50 a state do.)
    * No group is empty: the paper names no vacant housing.

    The number of groups is the paper's; people are within 1 % of its 605,304,918.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The groups by county and size, for levels country, state, county (1, 52, 3,144 nodes); N = 10,000. The paper's
        experiments give mechanisms an N ten times as large.
    """
    rng = np.random.default_rng(seed)
    state = state_of_county()
    share = county_shares(rng, numbers("people"), spread=1.4)
    of_state = np.bincount(state, share).astype(np.float64)
    weights = household_weights(_HOUSEHOLD_SHARES, centred_normal(rng, 0.03, of_state), largest=HOUSING_MAX_SIZE)
    n_outliers = OUTLIERS_PER_STATE * len(STATES)
    groups = rng.multinomial(rng.multinomial(HOUSING_GROUPS - n_outliers, share), weights[state])
    leaf, size = np.nonzero(groups)
    return count_rows(
        county_paths(),
        np.concatenate([leaf, _outlier_counties(rng, share, state)]),
        np.concatenate([size + 1, rng.integers(1, HOUSING_MAX_SIZE, n_outliers, endpoint=True)]),
        np.concatenate([groups[leaf, size], np.ones(n_outliers, dtype=np.int64)]),
        largest=HOUSING_MAX_SIZE,
    )


def white(*, seed: int = 2010) -> GroupSizes:
    """Generate how many white people live in each census block: 11,155,486 groups, 226,378,365 people.

    Distributions:

    * **Blocks** are the groups, those without white people included. Counties: 3,144 in 52 states; multinomial, with
      the states' numbers of blocks in 2010 times log-normal shares of the counties (σ = 0.8).
    * **People per block and county**: log-normal (σ = 0.4), scaled to the white people of each state in 2010.
    * **Sizes**: 53 % of a county's blocks are inhabited (binomial; fewer where there are fewer people than that) and
      have 1 person; the other people are multinomial over these blocks, ∝ the county's mean times a log-normal a block
      (σ = 1.05), cut at 8,000 in expectation.

    Both totals are the paper's.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The blocks by county and size, 0 included, for levels country, state, county (1, 52, 3,144 nodes); N = 10,000.
    """
    return _blocks_of_one_race(
        np.random.default_rng(seed),
        people=WHITE_PEOPLE,
        of_state=numbers("people") * numbers("percent_white"),
        county_spread=0.4,
        block_spread=1.05,
        inhabited_at_most=0.53,
        least_mean=1.0,
        largest=WHITE_MAX_SIZE,
    )


def hawaiian(*, seed: int = 2010) -> GroupSizes:
    """Generate how many native Hawaiians live in each census block: 11,155,486 groups, 540,383 people.

    Distributions: blocks as in `white`.

    * **People per block and county**: log-normal (σ = 0.6), scaled to each state's native Hawaiians and other Pacific
      Islanders of 2010; a quarter of them live in Hawaii, another in California.
    * **Sizes**: m people per block make a share m/3.05 of the county's blocks inhabited, but 40 % at most (binomial);
      so 99 of 100 blocks have size 0. An inhabited block has 1 person; the other people are multinomial over these
      blocks, ∝ the county's mean times a log-normal per block (σ = 1.6), cut at 800 in expectation.

    Both totals are the paper's.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The blocks by county and size, 0 included, for levels country, state, county (1, 52, 3,144 nodes); N = 1,000.
    """
    return _blocks_of_one_race(
        np.random.default_rng(seed),
        people=HAWAIIAN_PEOPLE,
        of_state=numbers("pacific_islanders"),
        county_spread=0.6,
        block_spread=1.6,
        inhabited_at_most=0.4,
        least_mean=3.05,
        largest=HAWAIIAN_MAX_SIZE,
    )


def taxi(*, seed: int = 2013) -> GroupSizes:
    """Generate the taxis of Manhattan by their pickups in each neighbourhood: 360,872 groups, 130,962,398 pickups.

    A taxi is a group of each neighbourhood where it has a pickup. Distributions:

    * **Neighbourhoods**: 28, of which 18 are in the lower half. Each has the taxis and the pickups of 2013.
    * **Pickups**: one for every taxi; the others are multinomial, with probability ∝ a weight per taxi. The weight has
      the neighbourhood's coefficient of variation: gamma where that is below 0.7, log-normal otherwise. 2 % of the
      taxis have few pickups: log-uniform, from 1 expected pickup to the mean. No weight is above 4,800 pickups.

    Taxis and pickups of each neighbourhood are those of the paper's data. The weights' laws were chosen by their
    quantiles. Sizes of one taxi in different neighbourhoods are independent here, which they are not in truth.

    Args:
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The taxis by neighbourhood and number of pickups, for levels half, neighbourhood (2, 28 nodes); N = 6,000. The
        root, Manhattan, has no column.
    """
    rng = np.random.default_rng(seed)
    sizes = [_pickups_of_taxis(rng, *each) for each in _NEIGHBOURHOODS]
    leaf = np.repeat(np.arange(len(sizes)), [len(each) for each in sizes])
    size = np.concatenate(sizes)
    ones = np.ones(len(size), dtype=np.int64)
    return count_rows(_neighbourhood_paths(), leaf, size, ones, largest=TAXI_MAX_SIZE)


class Coco(NamedTuple):
    """The data that the authors of the paper published.

    Attributes:
        taxi: taxis of Manhattan in 2013, for levels half, neighbourhood; rows as in `taxi`.
        hawaiian: native Hawaiians by census block in 2010, of the nation alone; level nation.
    """

    taxi: GroupSizes
    hawaiian: GroupSizes


def read_coco(folder: str | os.PathLike[str]) -> Coco:
    """Read the authors' own data: the folder `data` of github.com/yzk5145/coco (at be89e04).

    `taxi_level3.npy` has one row per neighbourhood, the first 18 of the lower half, and one column per number of
    pickups from 1 on. `Hawaiian_nation_H.npy` has one cell per number of people in a block from 0 on. Cells are
    numbers of groups. The two other files are sums of the first.

    Args:
        folder: has both files.

    Returns:
        Both data sets, with the paper's numbers of groups, members and sizes (360,872 / 130,962,398 / 3,128 and
        11,155,486 / 540,383 / 224). Neighbourhoods have no names there; they are called lower-00 … upper-27.

    Raises:
        FileNotFoundError: one of the files is not in the folder.
        ValueError: a file is no array of numbers of groups in that shape.
    """
    taxis = _cells(Path(folder) / TAXI_ARRAY, n_dimensions=2)
    blocks = _cells(Path(folder) / HAWAIIAN_ARRAY, n_dimensions=1)
    if len(taxis) != len(_NEIGHBOURHOODS):
        raise ValueError(
            f"folder: {TAXI_ARRAY} has {len(taxis)} rows, where the authors' has {len(_NEIGHBOURHOODS)} neighbourhoods"
        )
    row, column = np.nonzero(taxis)
    (size,) = np.nonzero(blocks)
    nation = pa.table({"nation": ["United States"]})
    return Coco(
        count_rows(_neighbourhood_paths(), row, column + 1, taxis[row, column], largest=taxis.shape[1]),
        count_rows(nation, np.zeros_like(size), size, blocks[size], largest=len(blocks) - 1),
    )


def _cells(place: Path, *, n_dimensions: int) -> npt.NDArray[np.int64]:
    """Numbers of groups from a NumPy file, int64.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another kind of file or shape, or a cell that is negative, not whole or not finite.
    """
    if not place.is_file():
        raise FileNotFoundError(
            f"folder: {str(place)!r} does not exist; give the folder data of a copy of github.com/yzk5145/coco"
        )
    try:
        found = np.load(place, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"folder: {place.name} is no NumPy array of numbers; copy it again") from error
    if found.ndim != n_dimensions or found.dtype.kind not in "iuf" or found.size == 0:
        raise ValueError(
            f"folder: {place.name} has shape {found.shape} and type {found.dtype}; {n_dimensions} dimensions of "
            "numbers are expected"
        )
    if not (np.isfinite(found).all() and (found >= 0).all() and (found == np.floor(found)).all()):
        raise ValueError(f"folder: {place.name} has a cell that is no whole number ≥ 0; copy it again")
    cells: npt.NDArray[np.int64] = found.astype(np.int64)
    return cells


def _neighbourhood_paths() -> pa.Table:
    names = [f"{'lower' if i < _IN_LOWER_HALF else 'upper'}-{i:02}" for i in range(len(_NEIGHBOURHOODS))]
    return pa.table({"half": [name.partition("-")[0] for name in names], "neighbourhood": names})


def _pickups_of_taxis(rng: np.random.Generator, taxis: int, pickups: int, variation: float) -> npt.NDArray[np.int64]:
    """The pickups of each taxi of a neighbourhood, ≥ 1: int64 (taxis,)."""
    mean = pickups / taxis
    if variation < 0.7:
        weight = rng.gamma(1 / variation**2, size=taxis) * variation**2
    else:
        spread = np.log1p(variation**2)
        weight = rng.lognormal(-spread / 2, np.sqrt(spread), taxis)
    occasional = rng.random(taxis) < _OCCASIONAL_TAXIS
    weight = np.minimum(np.where(occasional, mean ** (rng.random(taxis) - 1), weight), 4_800 / mean)
    return 1 + rng.multinomial(pickups - taxis, weight / weight.sum())


def west_coast(data: GroupSizes) -> GroupSizes:
    """California, Oregon and Washington of a data set of the country: the paper's root for some of its figures.

    Args:
        data: from `housing`, `white`, `hawaiian`, or the census of Fioretto et al.

    Returns:
        The groups of 3 states and 133 counties; the top level is `region`, with the one value `West Coast`.
    """

    def restricted(table: pa.Table) -> pa.Table:
        kept = table.filter(pc.is_in(table["state"], pa.array(WEST_COAST)))
        return kept.set_column(0, "region", pa.array(["West Coast"] * kept.num_rows, pa.string()))

    leaves = restricted(data.leaves)
    return dataclasses.replace(data, rows=restricted(data.rows), leaves=leaves, levels=tuple(leaves.column_names))


def _outlier_counties(
    rng: np.random.Generator, share: npt.NDArray[np.float64], state: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Counties for 50 outliers of every state, drawn with probabilities ∝ their share of the state."""
    ends = np.cumsum(share)
    last = np.searchsorted(state, np.arange(len(STATES)), side="right") - 1
    first = np.concatenate([[0], last[:-1] + 1])
    start = np.concatenate([[0.0], ends[last[:-1]]])
    position = start[:, None] + rng.random((len(STATES), OUTLIERS_PER_STATE)) * (ends[last] - start)[:, None]
    county = np.clip(np.searchsorted(ends, position, side="right"), first[:, None], last[:, None])
    return np.asarray(county.ravel(), dtype=np.int64)


def _blocks_of_one_race(
    rng: np.random.Generator,
    *,
    people: int,
    of_state: npt.NDArray[np.float64],
    county_spread: float,
    block_spread: float,
    inhabited_at_most: float,
    least_mean: float,
    largest: int,
) -> GroupSizes:
    """Draw blocks with the distributions in `white` and `hawaiian`.

    Args:
        rng: draws.
        people: in all, exactly.
        of_state: the states' people, up to a factor.
        county_spread: σ of the people per block, between counties.
        block_spread: σ of the people, between a county's inhabited blocks.
        inhabited_at_most: the greatest share of a county's blocks that are inhabited.
        least_mean: people per inhabited block where fewer blocks than that are inhabited.
        largest: N.
    """
    state = state_of_county()
    blocks = rng.multinomial(BLOCKS, county_shares(rng, numbers("blocks"), spread=0.8))
    weight = blocks * rng.lognormal(sigma=county_spread, size=len(state))
    expected = people * of_state[state] / of_state.sum() * weight / np.bincount(state, weight)[state]
    per_block = expected / np.maximum(blocks, 1)
    share = np.minimum(inhabited_at_most, per_block / least_mean)
    inhabited = rng.binomial(blocks, share)

    leaf = np.repeat(np.arange(len(state)), inhabited)
    mean_of_others = np.maximum(per_block[leaf] / share[leaf] - 1, 0)
    others = mean_of_others * rng.lognormal(-(block_spread**2) / 2, block_spread, len(leaf))
    others = np.minimum(others, 0.8 * largest)  # a fifth is left for the multinomial's own spread
    size = 1 + rng.multinomial(people - len(leaf), others / others.sum())
    return count_rows(
        county_paths(),
        np.concatenate([leaf, np.arange(len(state))]),
        np.concatenate([size, np.zeros(len(state), dtype=np.int64)]),
        np.concatenate([np.ones(len(leaf), dtype=np.int64), blocks - inhabited]),
        largest=largest,
    )
