"""Synthetic commutes between the municipalities of a small country, for the demo and for first experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

REGIONS = ("Northmark", "Midlands", "Southvale")
PROVINCES = (
    ("Auberic", "Brennos", "Calder", "Dorvane"),
    ("Estrel", "Ferrow", "Galmont", "Hestia"),
    ("Istren", "Jorvale", "Kelmoor", "Lorance"),
)
N_MUNICIPALITIES = 80
MARGIN = 8.0
"""How far the country reaches beyond its outermost towns, in km."""
KM_PER_DEGREE = 111.2
"""Of latitude."""

_FIRST = ("Alt", "Ber", "Cor", "Dal", "Es", "Fon", "Gra", "Hol", "Il", "Jes", "Kar", "Lu", "Mon", "Neu", "Or", "Pra")
_LAST = ("bach", "cello", "dorf", "field", "gate", "holm", "mar", "nova", "port", "rosa", "tal", "vik")


@dataclass(frozen=True)
class Commutes:
    """Synthetic commutes.

    Attributes:
        commutes: one row per commuter: `origin_region`, `origin_province`, `origin_municipality` and the same three for
            `destination` (strings). It would be private if it were real.
        municipalities: one row per municipality: `region`, `province`, `municipality`. Public.
        boundaries: GeoJSON, one polygon per municipality, with the same three properties. Public.
    """

    commutes: pa.Table
    municipalities: pa.Table
    boundaries: dict[str, Any]


def commutes(n_commuters: int = 50_000, *, seed: int = 2018) -> Commutes:
    """Generate commutes whose number falls with distance.

    Distributions:

    * **Municipalities**: 80 in 12 provinces of 3 regions, at least one in every province, the others drawn uniformly. A
      province's centre is uniform in its region's strip of 150 × 60 km, a municipality is normal around it (σ = 11 km).
    * **Workers and jobs**: log-normal per municipality (σ = 1.0 and 1.3); so most commuters work in a few towns.
    * **Commutes**: one multinomial draw of `n_commuters`, from origin i to destination j with probability ∝
      workers_i · jobs_j · exp(−distance / 9 km), five times that weight within a municipality. Most pairs stay empty.
    * **Rows** are in random order.

    Args:
        n_commuters: how many rows.
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The commutes and the public municipalities.
    """
    rng = np.random.default_rng(seed)
    n_provinces = sum(len(provinces) for provinces in PROVINCES)
    others = rng.integers(n_provinces, size=N_MUNICIPALITIES - n_provinces)
    province = np.sort(np.concatenate([np.arange(n_provinces), others]))
    region = np.repeat(np.arange(len(REGIONS)), [len(provinces) for provinces in PROVINCES])

    centre = rng.uniform((0, 0), (150, 60), size=(n_provinces, 2)) + np.column_stack(
        [np.zeros(n_provinces), 60 * region]
    )
    place = centre[province] + rng.normal(scale=11, size=(N_MUNICIPALITIES, 2))
    distance = np.linalg.norm(place[:, None] - place[None, :], axis=2)
    workers, jobs = rng.lognormal(sigma=1.0, size=N_MUNICIPALITIES), rng.lognormal(sigma=1.3, size=N_MUNICIPALITIES)
    weight = np.outer(workers, jobs) * np.exp(-distance / 9) * (1 + 4 * np.eye(N_MUNICIPALITIES))
    cells = rng.multinomial(n_commuters, (weight / weight.sum()).ravel())
    origin, destination = np.divmod(rng.permutation(np.repeat(np.arange(len(cells)), cells)), N_MUNICIPALITIES)

    names = rng.choice([first + last for first in _FIRST for last in _LAST], N_MUNICIPALITIES, replace=False)
    municipalities = pa.table(
        {
            "region": [REGIONS[region[p]] for p in province],
            "province": [[name for provinces in PROVINCES for name in provinces][p] for p in province],
            "municipality": names.tolist(),
        }
    )
    return Commutes(
        _paired(municipalities, {"origin": origin, "destination": destination}),
        municipalities,
        _geojson(municipalities, _cells(place)),
    )


def _cells(points: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Who is nearest to each point, within a rectangle around all: the corners of one convex cell per point.

    The points are mirrored at the sides of the rectangle, so that their Voronoi cells end there.
    """
    from scipy.spatial import Voronoi  # 0.1 s: only where it is needed

    low, high = points.min(axis=0) - MARGIN, points.max(axis=0) + MARGIN
    mirrored = [points]
    for axis in (0, 1):
        for side in (low, high):
            mirror = points.copy()
            mirror[:, axis] = 2 * side[axis] - mirror[:, axis]
            mirrored.append(mirror)
    found = Voronoi(np.concatenate(mirrored))
    return [found.vertices[found.regions[found.point_region[i]]] for i in range(len(points))]


def _geojson(municipalities: pa.Table, cells: list[npt.NDArray[np.float64]]) -> dict[str, Any]:
    """The cells, in km, as GeoJSON in degrees around 45° N, 10° E; rings are closed, and run counter-clockwise."""
    features = []
    for properties, cell in zip(municipalities.to_pylist(), cells, strict=True):
        degrees = np.round(cell / (KM_PER_DEGREE * np.cos(np.pi / 4), KM_PER_DEGREE) + (10, 45), 6)
        angle = np.arctan2(*(degrees - degrees.mean(axis=0)).T[::-1])
        ring = degrees[np.argsort(angle)].tolist()
        shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        features.append({"type": "Feature", "properties": properties, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


def _paired(municipalities: pa.Table, sides: dict[str, npt.NDArray[np.int64]]) -> pa.Table:
    """One row per commuter: the municipalities of both sides. Column names begin with the side."""
    columns = {
        f"{side}_{name}": municipalities.column(name).take(pa.array(rows))
        for side, rows in sides.items()
        for name in municipalities.column_names
    }
    return pa.table(columns)
