"""Synthetic commutes between the municipalities of a small country, for the demo and for first experiments."""

from __future__ import annotations

from dataclasses import dataclass

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

_FIRST = ("Alt", "Ber", "Cor", "Dal", "Es", "Fon", "Gra", "Hol", "Il", "Jes", "Kar", "Lu", "Mon", "Neu", "Or", "Pra")
_LAST = ("bach", "cello", "dorf", "field", "gate", "holm", "mar", "nova", "port", "rosa", "tal", "vik")


@dataclass(frozen=True)
class Commutes:
    """Synthetic commutes.

    Attributes:
        commutes: one row per commuter: `origin_region`, `origin_province`, `origin_municipality` and the same three for
            `destination` (strings). It would be private if it were real.
        municipalities: one row per municipality: `region`, `province`, `municipality`. Public.
    """

    commutes: pa.Table
    municipalities: pa.Table


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
    return Commutes(_paired(municipalities, {"origin": origin, "destination": destination}), municipalities)


def _paired(municipalities: pa.Table, sides: dict[str, npt.NDArray[np.int64]]) -> pa.Table:
    """One row per commuter: the municipalities of both sides. Column names begin with the side."""
    columns = {
        f"{side}_{name}": municipalities.column(name).take(pa.array(rows))
        for side, rows in sides.items()
        for name in municipalities.column_names
    }
    return pa.table(columns)
