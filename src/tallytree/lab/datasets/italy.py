"""Commutes like those of Italy's census of 2011: areas, trips and pairs as Boninsegna (2025) counts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tallytree.lab.datasets.flows import SIDES, Flows, side_columns
from tallytree.lab.datasets.italy_areas import Country, country
from tallytree.support.arrays import FloatArray, IntArray, chunks, sum_by_key

Level = Literal["municipality", "section"]
Pairs = tuple[IntArray, IntArray, IntArray]
"""Rows of the origin and of the destination in the table of areas, and the trips between them: int64 (pairs,) each."""

TRIPS = 28_805_440

_NEAR_KM, _NEAR_POWER, _NEAR_PEOPLE = 16.205, 1.4642, 0.896
_FAR_KM, _FAR_PEOPLE = 45.466, 3.0
_FAR_SHARE = 1.0926e-5
_ATTRACTION_SIGMA = 2.028
_PARTIES_OF_TWO = 0.69
_SAME_SECTION, _SAME_SECTION_AREA = 0.05, 0.25

_ORIGINS_AT_ONCE = 256
_TRIPS_AT_ONCE = 1_000_000


def od_flows(level: Level = "municipality", *, seed: int = 2011, scale: float = 1.0) -> Flows:
    """Generate commutes between 8,092 municipalities or 362,292 census sections: 28,805,440 trips.

    Distributions:

    * **Areas**: as `tallytree.lab.datasets.italy_areas.country` says.
    * **Trips by origin**: multinomial over the municipalities, ∝ people; 12 % of them per power of ten of the
      municipality's people (at most 75 %) stay there.
    * **Destinations** of the others: parties of two trips (69 %) or one are multinomial over the other municipalities,
      with a weight of e^(2.028 z) · (p^0.896 · exp(−(d/16.205 km)^1.4642) + 1.0926e-5 · p³ · exp(−d/45.466 km)). d is
      the distance, p the destination's people over their geometric mean, z standard normal, one for each destination.
    * **Sections**: a trip's origin is a section of its municipality, ∝ gamma(1.5). Of the trips that stay in the
      municipality, 5 % stay in the section and 25 % in its section area; all others go to a section of the
      destination, ∝ its jobs, log-normal (σ = 2.5).

    The constants were fitted, on seed 2011, to the pairs with trips that the authors' notebook shows at each level of
    the destination tree (20, 236, 948, 4,129, 47,765 and 556,120) and to those of them with one or two trips (0, 19,
    67, 545, 12,735, 266,386). Seeds 1 to 3 are within 10 % of the pairs.

    Args:
        level: how deep the flows go: `"municipality"` (three levels) or `"section"` (five).
        seed: of the data. Equal arguments give equal tables; the sections' flows of a seed add up to its
            municipalities'.
        scale: of the numbers of municipalities, section areas, sections and trips, for tests; regions and provinces
            stay.

    Returns:
        The flows and the areas. The path columns of the flows are dictionary-encoded strings.

    Raises:
        ValueError: an unknown level, or a scale that is not in (0, 1].
    """
    made = _areas(level, seed, scale)
    rows = list(_pairs(made, level, seed, scale))
    origin, destination, count = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    areas = made.table(level)
    return Flows(_table(areas, origin, destination, count), areas, tuple(areas.column_names))


def write_od_flows(
    path: str | os.PathLike[str],
    level: Level = "municipality",
    *,
    seed: int = 2011,
    scale: float = 1.0,
    days: int | None = None,
) -> pa.Table:
    """Write the flows of `od_flows` to a Parquet file, some million trips at a time.

    Args:
        path: of the file.
        level: see `od_flows`.
        seed: see `od_flows`.
        scale: see `od_flows`.
        days: write the trips of so many days, one day after the other, with a column `day` (text, from `1`) before
            `count`. Every day has as many trips; the first has those of `od_flows`, the others are drawn anew.

    Returns:
        The table of areas.
    """
    made = _areas(level, seed, scale)
    areas = made.table(level)
    columns = [*side_columns(SIDES[0], tuple(areas.column_names)), *side_columns(SIDES[1], tuple(areas.column_names))]
    columns += ["day"] if days is not None else []
    schema = pa.schema([*((column, pa.string()) for column in columns), ("count", pa.int64())])
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for day in range(days or 1):
            for pairs in _pairs(made, level, seed + day, scale):
                rows = _table(areas, *pairs)
                if days is not None:
                    named = pa.array([str(day + 1)] * rows.num_rows).dictionary_encode()
                    rows = rows.add_column(rows.num_columns - 1, "day", named)
                writer.write_table(rows.cast(schema))
    return areas


def _areas(level: str, seed: int, scale: float) -> Country:
    if level not in get_args(Level):
        raise ValueError(f'level: {level!r} is not known; choose "municipality" or "section"')
    if not 0 < scale <= 1:
        raise ValueError(f"scale: {scale!r} must be greater than 0 and at most 1, which is all of Italy")
    return country(seed=seed, scale=scale)


def _pairs(made: Country, level: Level, seed: int, scale: float) -> Iterator[Pairs]:
    between = _between_municipalities(made, np.random.default_rng([seed, 1]), round(TRIPS * scale))
    if level == "municipality":
        yield from between
        return
    rng = np.random.default_rng([seed, 2])
    municipal = tuple(np.concatenate(parts) for parts in zip(*between, strict=True))
    for part in chunks(municipal[2], _TRIPS_AT_ONCE):
        yield _between_sections(made, rng, *(column[part] for column in municipal))


def _between_municipalities(made: Country, rng: np.random.Generator, trips: int) -> Iterator[Pairs]:
    """Pairs of municipalities with trips, some origins at a time; all origins × destinations are never in memory."""
    n = len(made.people)
    attraction = rng.lognormal(sigma=_ATTRACTION_SIGMA, size=n)
    relative = made.people / np.exp(np.log(made.people).mean())
    near, far = attraction * relative**_NEAR_PEOPLE, _FAR_SHARE * attraction * relative**_FAR_PEOPLE
    leaving = rng.multinomial(trips, made.people / made.people.sum())
    staying = rng.binomial(leaving, np.clip(0.12 * np.log10(made.people), 0, 0.75))
    away = leaving - staying
    twos = np.minimum(rng.binomial(away, _PARTIES_OF_TWO / (1 + _PARTIES_OF_TWO)), away // 2)
    for start in range(0, n, _ORIGINS_AT_ONCE):
        here = np.arange(start, min(start + _ORIGINS_AT_ONCE, n))
        distance = np.hypot(*(made.place[here, None, axis] - made.place[None, :, axis] for axis in (0, 1)))
        weight = near * np.exp(-((distance / _NEAR_KM) ** _NEAR_POWER)) + far * np.exp(-distance / _FAR_KM)
        weight[np.arange(len(here)), here] = 0
        weight /= weight.sum(axis=1, keepdims=True)
        cells = rng.multinomial((away - 2 * twos)[here], weight) + 2 * rng.multinomial(twos[here], weight)
        cells[np.arange(len(here)), here] = staying[here]
        origin, destination = np.nonzero(cells)
        yield here[origin], destination.astype(np.int64), cells[origin, destination]


def _between_sections(
    made: Country, rng: np.random.Generator, origin: IntArray, destination: IntArray, count: IntArray
) -> Pairs:
    """Distribute the trips between municipalities over their sections; all trips of a pair must be in one call."""
    first = made.first_section
    home, away = np.repeat(origin, count), np.repeat(destination, count)
    from_section = _draw(rng, made.workers, first[home], first[home + 1])
    begin, end = first[away], first[away + 1]
    nearness = np.where(home == away, rng.random(len(home)), 1.0)
    near = nearness < _SAME_SECTION + _SAME_SECTION_AREA
    area = made.area_of_section[from_section[near]]
    begin[near], end[near] = made.first_section_of_area[area], made.first_section_of_area[area + 1]
    same = nearness < _SAME_SECTION
    begin[same], end[same] = from_section[same], from_section[same] + 1
    to_section = _draw(rng, made.jobs, begin, end)
    n = len(made.area_of_section)
    keys, trips = sum_by_key(from_section * n + to_section, np.ones(len(home), dtype=np.int64))
    sections = np.divmod(keys, n)
    return sections[0], sections[1], trips


def _draw(rng: np.random.Generator, weight: FloatArray, begin: IntArray, end: IntArray) -> IntArray:
    """For every pair one of the integers begin … end − 1, with a probability ∝ its weight."""
    ends = np.concatenate([[0.0], np.cumsum(weight)])
    position = ends[begin] + rng.random(len(begin)) * (ends[end] - ends[begin])
    drawn = np.searchsorted(ends, position, side="right") - 1
    within: IntArray = np.clip(drawn, begin, end - 1)  # a rounded sum may fall on the neighbor
    return within


def _table(areas: pa.Table, origin: IntArray, destination: IntArray, count: IntArray) -> pa.Table:
    """The pairs as a table whose path columns share one dictionary per level."""
    encoded = [column.combine_chunks().dictionary_encode() for column in areas.columns]
    columns = {
        name: pa.DictionaryArray.from_arrays(pc.take(level.indices, pa.array(rows)), level.dictionary)
        for side, rows in zip(SIDES, (origin, destination), strict=True)
        for name, level in zip(side_columns(side, tuple(areas.column_names)), encoded, strict=True)
    }
    return pa.table({**columns, "count": pa.array(count)})
