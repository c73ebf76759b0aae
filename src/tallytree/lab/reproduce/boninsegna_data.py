"""The data sets of Boninsegna and Silvestri 2025 (section 5), as they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from tallytree.api import release_flows
from tallytree.engines import Remembering
from tallytree.hierarchy import Hierarchy
from tallytree.lab.compare import COUNT_METRICS, Data
from tallytree.lab.compare.level_metrics import LevelResult, Metric
from tallytree.lab.datasets import boninsegna, italy
from tallytree.lab.datasets.flows import Flows
from tallytree.lab.reproduce.experiment import Settings
from tallytree.lab.reproduce.real_data import Chosen, chosen
from tallytree.product import Product

DELTA = 1e-8
SETS = ("binary_complete", "binary_dense", "binary_sparse", "random_complete", "random_dense", "random_sparse")
ITALY, SMALL_ITALY = "Italy", "Italy, 2 %"
ITALY_FILE, ITALY_AREAS = "italy_2011_flows.parquet", "italy_2011_areas.parquet"
LARGEST, MEAN = "largest error (trips)", "mean error (trips)"
FALSE_DISCOVERIES, FALSE_NEGATIVES = "false discoveries (%)", "false negatives (%)"


def _percent(name: str) -> Metric:
    def share(level: LevelResult) -> float:
        return 100 * COUNT_METRICS[name](level)

    return share


QUANTITIES: Mapping[str, Metric] = {
    LARGEST: COUNT_METRICS["max_absolute_error"],
    FALSE_DISCOVERIES: _percent("false_discovery_rate"),
    FALSE_NEGATIVES: _percent("false_negative_rate"),
    MEAN: COUNT_METRICS["mean_absolute_error"],
}
"""What the paper's published results have of every level; false negatives and mean errors are in its repository."""


@dataclass(frozen=True)
class Trips:
    """Flows with their areas.

    Attributes:
        flows: the data set.
        areas: its hierarchy.
    """

    flows: Flows
    areas: Hierarchy

    @property
    def tree(self) -> Product:
        """The destination tree (section 3): a level of the destination, then one of the origin, and so on."""
        return Product(
            {"origin": self.areas, "destination": self.areas},
            order=["destination", "origin"] * len(self.flows.levels),
            columns={"origin": self.flows.origin, "destination": self.flows.destination},
        )

    def compared(self, name: str) -> Data:
        """As `evaluate.compare` takes it."""
        flows = self.flows
        release = partial(
            release_flows, flows.flows, origins=self.areas, destinations=self.areas, origin=flows.origin,
            destination=flows.destination, count="count", engine=Remembering(),
        )  # fmt: skip
        return Data(name, release, flows.flows)


def on_areas(flows: Flows) -> Trips:
    """A data set with the hierarchy of its areas."""
    return Trips(flows, Hierarchy.from_table(flows.areas, levels=list(flows.levels)))


def synthetic(name: str) -> Trips:
    """One of the six synthetic data sets, which are the paper's own, row for row."""
    partition, density = name.split("_")
    return on_areas(boninsegna.od_flows(partition, density))  # type: ignore[arg-type]


def commutes(settings: Settings) -> tuple[str, Chosen[Trips]]:
    """Italy's commutes between municipalities, and the name under which figures are shown."""
    folder = settings.data
    real = folder is not None and (folder / ITALY_FILE).is_file()
    scale = 1.0 if settings.full or real else 0.02
    by = "tallytree.datasets.italy.od_flows"
    found = chosen(folder, ITALY_FILE, _read_italy, lambda: on_areas(italy.od_flows(scale=scale)), by)
    if scale < 1:
        return SMALL_ITALY, replace(found, note=f"{found.note} A country of 2 %, for which nothing was published.")
    return ITALY, found


def _read_italy(file: Path) -> Trips:
    areas = pq.read_table(file.with_name(ITALY_AREAS))
    return on_areas(Flows(pq.read_table(file), areas, tuple(areas.column_names)))
