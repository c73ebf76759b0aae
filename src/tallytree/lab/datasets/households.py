"""Synthetic households in a country of six states and sixty counties, for the demo and for first experiments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COUNTRY = "Meridia"
STATES = ("Aldermoor", "Brackwater", "Corvane", "Dunmarch", "Estmere", "Fallowfield")
COUNTIES_PER_STATE = (14, 12, 10, 9, 8, 7)
MAX_GROUP_QUARTERS = 480

_FIRST = (
    "Ash",
    "Bram",
    "Cald",
    "Dray",
    "Elm",
    "Farn",
    "Gels",
    "Hart",
    "Ink",
    "Kest",
    "Lang",
    "Mar",
    "Nor",
    "Oak",
    "Pem",
)
_LAST = ("bury", "combe", "ford", "ham", "ley", "mere", "stead", "ton", "wick")

# Shares of households of 0 (vacant), 1, … 12 members, in an average county.
_SIZE_SHARES = (8.5, 27.0, 30.5, 13.5, 11.0, 5.2, 2.3, 1.0, 0.5, 0.25, 0.12, 0.08, 0.05)


@dataclass(frozen=True)
class Households:
    """A synthetic population.

    Attributes:
        people: one row per person: `country`, `state`, `county` and `household_id`. It would be private if it
            were real.
        households: one row per county: `country`, `state`, `county` and `groups`, the number of its households,
            empty ones included. Public; it lists every county once, so it is also the table of leaves of the hierarchy.
        group_quarters: the ids of dormitories, prisons and care homes, sorted int64. A register of dwellings would say
            so, whoever lives there.
    """

    people: pa.Table
    households: pa.Table
    group_quarters: pa.Array


def households(n_households: int = 20_000, *, n_group_quarters: int = 40, seed: int = 2010) -> Households:
    """Generate people in households.

    Distributions:

    * **Counties**: 60 in 6 states; names are unique only within a state, so a county is identified by its path. Its
      share of the households is log-normal (σ = 0.8) times a log-normal share of its state (σ = 0.5).
    * **Household sizes**: 0 to 12, multinomial in each county. The country's shares (mean 2.2, 8.5 % vacant) are tilted
      by exp(t·size), with t normal (σ = 0.06) per county: some counties have larger households.
    * **Group quarters** (dormitories, prisons, care homes): `n_group_quarters` of the groups, in counties drawn by
      their share; sizes are 15 plus a log-normal (median 50, σ = 0.9), at most 480.
    * **Ids** are a random permutation, and rows are in random order.

    Args:
        n_households: how many groups there are, vacant ones and group quarters included.
        n_group_quarters: how many of them are group quarters.
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The people, the public numbers of households, and which of these are group quarters.
    """
    rng = np.random.default_rng(seed)
    state_of_county = np.repeat(np.arange(len(STATES)), COUNTIES_PER_STATE)
    share = (
        rng.lognormal(sigma=0.8, size=len(state_of_county))
        * rng.lognormal(sigma=0.5, size=len(STATES))[state_of_county]
    )
    share /= share.sum()

    ordinary = rng.multinomial(n_households - n_group_quarters, share)
    sizes = np.arange(len(_SIZE_SHARES))
    tilt = rng.normal(scale=0.06, size=len(share))
    weights = np.array(_SIZE_SHARES) * np.exp(np.outer(tilt, sizes))
    per_size = rng.multinomial(ordinary, weights / weights.sum(axis=1, keepdims=True))
    county = np.repeat(np.repeat(np.arange(len(share)), len(sizes)), per_size.ravel())
    size = np.repeat(np.tile(sizes, len(share)), per_size.ravel())

    quarters_county = rng.choice(len(share), n_group_quarters, p=share)
    quarters_size = np.minimum(15 + rng.lognormal(np.log(50), 0.9, n_group_quarters), MAX_GROUP_QUARTERS).astype(int)
    county = np.concatenate([county, quarters_county])
    size = np.concatenate([size, quarters_size])

    household_id = rng.permutation(len(size)).astype(np.int64) + 100_000
    person = rng.permutation(np.repeat(np.arange(len(size)), size))
    paths = _county_paths(rng, state_of_county)
    return Households(
        people=paths.take(county[person]).append_column("household_id", pa.array(household_id[person])),
        households=paths.append_column("groups", pa.array(np.bincount(county, minlength=len(share)))),
        group_quarters=pa.array(np.sort(household_id[len(size) - n_group_quarters :])),
    )


def _county_paths(rng: np.random.Generator, state_of_county: npt.NDArray[np.int64]) -> pa.Table:
    """The counties, one row each; names are drawn without repetition within a state."""
    names = np.array([first + last for first in _FIRST for last in _LAST])
    chosen = [rng.choice(names, n, replace=False) for n in COUNTIES_PER_STATE]
    return pa.table(
        {
            "country": [COUNTRY] * len(state_of_county),
            "state": [STATES[state] for state in state_of_county],
            "county": np.concatenate(chosen).tolist(),
        }
    )
