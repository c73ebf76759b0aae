"""A synthetic Italy: 20 regions with their true sizes, and synthetic areas below them, as many as in the census."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.support.arrays import FloatArray, IntArray, offsets_of

MUNICIPALITIES = 8_092
SECTION_AREAS = 52_000
SECTIONS = 362_292

LEVELS = ("region", "province", "municipality", "section_area", "section")

# Region: provinces (110 in all), municipalities and people of 2011, km², and its middle, in degrees east and north.
_REGIONS = np.array(
    [
        (8, 1206, 4_363_916, 25_402, 7.90, 45.05),  # Piemonte
        (1, 74, 126_806, 3_263, 7.40, 45.70),  # Valle d'Aosta
        (12, 1544, 9_704_151, 23_861, 9.80, 45.60),  # Lombardia
        (2, 333, 1_029_475, 13_607, 11.30, 46.40),  # Trentino-Alto Adige
        (7, 581, 4_857_210, 18_399, 11.90, 45.60),  # Veneto
        (4, 218, 1_218_985, 7_858, 13.10, 46.10),  # Friuli-Venezia Giulia
        (4, 235, 1_570_694, 5_422, 8.80, 44.30),  # Liguria
        (9, 348, 4_342_135, 22_446, 11.00, 44.60),  # Emilia-Romagna
        (10, 287, 3_672_202, 22_993, 11.10, 43.40),  # Toscana
        (2, 92, 884_268, 8_456, 12.50, 42.95),  # Umbria
        (5, 239, 1_541_319, 9_366, 13.10, 43.40),  # Marche
        (5, 378, 5_502_886, 17_236, 12.80, 41.95),  # Lazio
        (4, 305, 1_307_309, 10_763, 13.85, 42.20),  # Abruzzo
        (2, 136, 313_660, 4_438, 14.60, 41.70),  # Molise
        (5, 551, 5_766_810, 13_590, 14.80, 40.90),  # Campania
        (6, 258, 4_052_566, 19_358, 16.60, 41.00),  # Puglia
        (2, 131, 578_036, 9_995, 16.10, 40.50),  # Basilicata
        (5, 409, 1_959_050, 15_080, 16.40, 39.00),  # Calabria
        (9, 390, 5_002_904, 25_711, 14.10, 37.60),  # Sicilia
        (8, 377, 1_639_362, 24_090, 9.10, 40.10),  # Sardegna
    ]
)
_KM_PER_DEGREE = np.array([82.0, 111.0])


@dataclass(frozen=True, eq=False)
class Country:
    """The areas of a synthetic Italy, level by level. The children of an area have consecutive numbers.

    Attributes:
        region: int64 (provinces,), the region of each province.
        province: int64 (municipalities,).
        municipality: int64 (section areas,).
        area_of_section: int64 (sections,).
        people: float (municipalities,).
        place: float (municipalities, 2), km east and north.
        workers: float (sections,), ∝ the probability that a commuter from the municipality lives there.
        jobs: float (sections,), ∝ the probability that a commuter to the municipality works there.
    """

    region: IntArray
    province: IntArray
    municipality: IntArray
    area_of_section: IntArray
    people: FloatArray
    place: FloatArray
    workers: FloatArray
    jobs: FloatArray

    @property
    def first_section_of_area(self) -> IntArray:
        """The first section of each section area, and the number of sections: int64 (section areas + 1,)."""
        return offsets_of(np.bincount(self.area_of_section, minlength=len(self.municipality)).astype(np.int64))

    @property
    def first_section(self) -> IntArray:
        """The first section of each municipality, and the number of sections: int64 (municipalities + 1,)."""
        first_area = offsets_of(np.bincount(self.municipality, minlength=len(self.province)).astype(np.int64))
        return self.first_section_of_area[first_area]

    def table(self, level: str) -> pa.Table:
        """One row per area of the level, with its path in codes like ISTAT's: text with leading zeros."""
        codes = [_codes(None, np.arange(len(_REGIONS)) + 1, 2)]
        codes.append(_codes(None, np.arange(len(self.region)) + 1, 3))
        codes.append(_codes(codes[1].take(pa.array(self.province)), _number_within(self.province), 3))
        codes.append(_codes(codes[2].take(pa.array(self.municipality)), _number_within(self.municipality), 3))
        of_section = self.municipality[self.area_of_section]
        codes.append(_codes(codes[2].take(pa.array(of_section)), _number_within(of_section), 7))
        depth = LEVELS.index(level)
        rows = np.arange(len(codes[depth]))
        columns: dict[str, pa.Array] = {}
        for upper in range(depth, -1, -1):
            columns[LEVELS[upper]] = codes[upper].take(pa.array(rows))
            if upper:
                rows = (self.region, self.province, self.municipality, self.area_of_section)[upper - 1][rows]
        return pa.table({name: columns[name] for name in LEVELS[: depth + 1]})


def country(*, seed: int, scale: float = 1.0) -> Country:
    """Generate a synthetic Italy.

    * **Regions** have the provinces, municipalities, people and km² of the census of 2011, and are discs around their
      true centres.
    * **Provinces** lie uniformly in their region's disc; each has one municipality, the others are drawn uniformly.
      **Municipalities** are normal around the province's centre (σ = 0.4 times the root of its km²).
    * **People**: log-normal (σ = 1.2) per municipality, scaled to the region's; the first municipality of a province,
      its capital, has as many as a share uniform on 10 … 45 % of the others of the province on top.
    * **Section areas** (52,000: our choice; the paper names none) and **sections**: one per parent, the others
      multinomial: areas ∝ people^0.8 of the municipality, sections ∝ those people per section area.
    * **Workers** of a section: gamma (1.5); **jobs**: log-normal (σ = 2.5).

    Args:
        seed: of the draws.
        scale: of the numbers of municipalities, section areas, sections and people; regions and provinces stay.
    """
    rng = np.random.default_rng([seed, 0])
    n_provinces, n_municipalities = (_REGIONS[:, column].astype(np.int64) for column in (0, 1))
    region = np.repeat(np.arange(len(_REGIONS)), n_provinces)
    n_municipalities = np.maximum(np.round(n_municipalities * scale).astype(np.int64), n_provinces)

    of_region = np.repeat(np.arange(len(_REGIONS)), n_municipalities - n_provinces)
    others = offsets_of(n_provinces)[of_region] + rng.integers(n_provinces[of_region])
    province = np.sort(np.concatenate([np.arange(len(region)), others]))
    of_region = region[province]
    middle = _REGIONS[:, 4:6] * _KM_PER_DEGREE
    radius = np.sqrt(_REGIONS[:, 3] / np.pi)
    centre = middle[region] + _in_disc(rng, len(region)) * 0.8 * radius[region, None]
    spread = 0.4 * np.sqrt(_REGIONS[:, 3] / n_provinces)
    place = centre[province] + rng.normal(size=(len(province), 2)) * spread[of_region, None]

    people = rng.lognormal(sigma=1.2, size=len(province))
    capital = np.searchsorted(province, np.arange(len(region)))
    people[capital] += rng.uniform(0.1, 0.45, len(region)) * np.bincount(province, people)
    people *= (scale * _REGIONS[:, 2] / np.bincount(of_region, people))[of_region]

    n_areas = max(round(SECTION_AREAS * scale), len(province))
    weight = people**0.8
    municipality = _one_each_and(rng, n_areas, weight)
    per_area = weight[municipality] / np.bincount(municipality, minlength=len(province))[municipality]
    area_of_section = _one_each_and(rng, max(round(SECTIONS * scale), n_areas), per_area)
    workers = rng.gamma(1.5, size=len(area_of_section))
    jobs = rng.lognormal(sigma=2.5, size=len(area_of_section))
    return Country(region, province, municipality, area_of_section, people, place, workers, jobs)


def _one_each_and(rng: np.random.Generator, n_children: int, weight: FloatArray) -> IntArray:
    """The parent of each of `n_children`: every parent has one child, the others are multinomial."""
    others = rng.multinomial(n_children - len(weight), weight / weight.sum())
    return np.repeat(np.arange(len(weight)), others + 1)


def _in_disc(rng: np.random.Generator, n: int) -> FloatArray:
    """Uniform points of the unit disc: float (n, 2)."""
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.random(n))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _number_within(parent: IntArray) -> IntArray:
    """1, 2, … within each parent; parents are ascending."""
    first = np.searchsorted(parent, parent)
    return np.arange(len(parent)) - first + 1


def _codes(prefix: pa.Array | None, number: npt.NDArray[np.int64], digits: int) -> pa.Array:
    """Numbers as text with leading zeros, after a prefix."""
    text = pc.utf8_lpad(pa.array(number).cast(pa.string()), digits, "0")
    return text if prefix is None else pc.binary_join_element_wise(prefix, text, "")
