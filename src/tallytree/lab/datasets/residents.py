"""Synthetic residents by county, age and sex: a tree of areas with two small attributes, one with a rare value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LEVELS = ("region", "province", "county")
"""The levels of the areas, from the top."""
AGES = (*(f"{age}-{age + 4}" for age in range(0, 85, 5)), "85+")
SEXES = ("female", "male", "unknown")
SHARES = (0.51, 0.4894, 0.0006)
"""Of the sexes."""
COUNTIES_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Residents:
    """Synthetic residents, and the public trees of their attributes.

    Attributes:
        cells: int32 (counties, 18 · 3): the residents of each county by age and sex, sex varying fastest. It would be
            private if it were real.
        areas: one row per county: `region`, `province`, `county`, in their order. Public.
        ages: one row per age group: `age`. Public.
        sexes: one row per sex: `sex`. Public.
    """

    cells: npt.NDArray[np.int32]
    areas: pa.Table
    ages: pa.Table
    sexes: pa.Table

    def records(self) -> pa.Table:
        """One row per county, age and sex with residents: `region`, `province`, `county`, `age`, `sex`, `count`."""
        county, cell = np.nonzero(self.cells)
        rows = self.areas.take(pa.array(county))
        age, sex = np.divmod(cell, len(SEXES))
        return (
            rows.append_column("age", self.ages["age"].take(pa.array(age)))
            .append_column("sex", self.sexes["sex"].take(pa.array(sex)))
            .append_column("count", pa.array(self.cells[county, cell].astype(np.int64)))
        )


def residents(
    counties: int = 197, *, provinces: int = 30, regions: int = 6, log_size: float = 7.0, seed: int = 2026
) -> Residents:
    """Generate residents.

    Distributions:

    * **Areas**: each region has a province and each province a county; further ones are in any of them, uniformly.
    * **Sizes** of counties: log-normal (mean of the logarithm `log_size`, σ = 1.2).
    * **Ages**: the shares of 18 groups of 5 years are a normal density of the group, with mean 7 and standard
      deviation 6, times a log-normal factor (σ = 0.3) of each county and age.
    * **Sex**: 0.51, 0.4894, and 0.0006 unknown, a rare value.
    * **Cells**: Poisson.

    Args:
        counties: how many, at least as many as provinces.
        provinces: how many, at least as many as regions.
        regions: how many, at least 1.
        log_size: the mean of the logarithm of a county's expected residents.
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The residents by county, age and sex, and the public trees.

    Raises:
        ValueError: fewer counties than provinces, or fewer provinces than regions, or no region.
    """
    if not 1 <= regions <= provinces <= counties:
        raise ValueError(
            f"counties={counties}, provinces={provinces}, regions={regions}: give at least one region, as many "
            "provinces as regions, and as many counties as provinces"
        )
    rng = np.random.default_rng(seed)
    region = np.sort(np.concatenate([np.arange(regions), rng.integers(0, regions, provinces - regions)]))
    province = np.sort(np.concatenate([np.arange(provinces), rng.integers(0, provinces, counties - provinces)]))
    by_age = np.exp(-(((np.arange(len(AGES)) - 7) / 6) ** 2) / 2)
    by_cell = np.outer(by_age / by_age.sum(), SHARES)
    size = rng.lognormal(log_size, 1.2, counties)
    cells = np.empty((counties, by_cell.size), dtype=np.int32)
    for begin in range(0, counties, COUNTIES_AT_ONCE):
        some = size[begin : begin + COUNTIES_AT_ONCE]
        factor = rng.lognormal(0, 0.3, (len(some), len(AGES)))
        expected = some[:, None, None] * factor[:, :, None] * by_cell
        cells[begin : begin + len(some)] = rng.poisson(expected).reshape(len(some), -1)
    areas = pa.table(
        {
            "region": _names("region", regions)[region[province]],
            "province": _names("province", provinces)[province],
            "county": _names("county", counties),
        }
    )
    return Residents(cells, areas, pa.table({"age": AGES}), pa.table({"sex": SEXES}))


def _names(kind: str, number: int) -> npt.NDArray[np.str_]:
    width = len(str(number))
    return np.array([f"{kind} {i + 1:0{width}}" for i in range(number)])
