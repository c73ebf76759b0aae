"""The data sets of Kuo et al. 2018 (section 6.1), as they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tallytree.api import release_group_sizes
from tallytree.engines import Remembering
from tallytree.hierarchy import Hierarchy
from tallytree.lab.compare import Data
from tallytree.lab.datasets import kuo
from tallytree.lab.datasets.group_sizes import GroupSizes
from tallytree.lab.reproduce.experiment import Settings
from tallytree.lab.reproduce.real_data import Chosen, chosen

MAX_GROUP_SIZE = 100_000
"""K, ten times the largest size of the census data (section 6.1)."""
SMALL_K = 20_000
"""Four times the largest size of the taxis; K of the small size's census data."""
TAXI_FILE = "taxi_2013_manhattan.parquet"
HAWAIIAN_FILE = "hawaiian_2010_blocks_nation.parquet"
AUTHORS = "The authors' own data: `{}` of github.com/yzk5145/coco, folder `data`."
GENERATORS: dict[str, Callable[[], GroupSizes]] = {
    "synthetic": kuo.housing, "white": kuo.white, "hawaiian": kuo.hawaiian,
}  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """Groups by size on a hierarchy, with the leaves' columns first.

    Attributes:
        rows: path columns, `size` and `groups`.
        hierarchy: the public tree.
        largest: K.
    """

    rows: pa.Table
    hierarchy: Hierarchy
    largest: int = MAX_GROUP_SIZE

    def compared(self, name: str) -> Data:
        """As `evaluate.compare` takes it; numbers of groups are public, as in the paper."""
        release = partial(
            release_group_sizes, self.rows, self.hierarchy, size="size", groups="groups", engine=Remembering(),
            max_group_size=self.largest,
        )  # fmt: skip
        return Data(name, release, self.rows)

    def root_alone(self) -> Groups:
        """All groups as those of a single node."""
        summed = self.rows.group_by(["size"]).aggregate([("groups", "sum")]).rename_columns(["size", "groups"])
        rows = summed.add_column(0, "root", pa.array(["all"] * summed.num_rows))
        return Groups(rows, Hierarchy.from_table(pa.table({"root": ["all"]}), levels=["root"]), self.largest)


def on_levels(data: GroupSizes, largest: int = MAX_GROUP_SIZE) -> Groups:
    """A generated data set on its hierarchy."""
    return Groups(data.rows, Hierarchy.from_table(data.leaves, levels=list(data.levels)), largest)


def two_levels(data: Groups) -> Groups:
    """The first two levels: the paper's nation and states."""
    path = list(data.hierarchy.path_columns(1))
    summed = data.rows.group_by([*path, "size"]).aggregate([("groups", "sum")])
    rows = summed.rename_columns([*path, "size", "groups"])
    leaves = rows.group_by(path).aggregate([])
    return Groups(rows, Hierarchy.from_table(leaves, levels=path), data.largest)


def taxi(settings: Settings) -> Chosen[Groups]:
    """Taxis of Manhattan: the island, its halves, their neighbourhoods."""
    if settings.data is not None and (settings.data / kuo.TAXI_ARRAY).is_file():
        return Chosen(on_levels(kuo.read_coco(settings.data).taxi), AUTHORS.format(kuo.TAXI_ARRAY))
    return chosen(settings.data, TAXI_FILE, _read_taxi, lambda: on_levels(kuo.taxi()), "tallytree.datasets.kuo.taxi")


def hawaiian_root(settings: Settings) -> Chosen[Groups]:
    """Native Hawaiians by census block, of the whole nation."""
    if settings.data is not None and (settings.data / kuo.HAWAIIAN_ARRAY).is_file():
        return Chosen(on_levels(kuo.read_coco(settings.data).hawaiian), AUTHORS.format(kuo.HAWAIIAN_ARRAY))
    by = "tallytree.datasets.kuo.hawaiian"
    return chosen(settings.data, HAWAIIAN_FILE, _read_root, lambda: on_levels(kuo.hawaiian()), by)


def census(name: str) -> Chosen[Groups]:
    """`synthetic`, `white` or `hawaiian` with nation, states and counties; always generated."""
    generator = GENERATORS[name]
    return chosen(None, "", _read_root, lambda: on_levels(generator()), f"tallytree.datasets.kuo.{generator.__name__}")


def at_root(name: str, settings: Settings) -> Chosen[Groups]:
    """A data set of the paper without its hierarchy."""
    found = hawaiian_root(settings) if name == "hawaiian" else at_levels(name, settings)
    return Chosen(found.data.root_alone(), found.note)


def at_levels(name: str, settings: Settings) -> Chosen[Groups]:
    """A data set of the paper on its three levels."""
    return taxi(settings) if name == "taxi" else census(name)


def at_levels_or_west_coast(name: str, settings: Settings) -> Chosen[Groups]:
    """A data set of the paper on its levels; in the small size the West Coast of a census, which has a tenth of it."""
    return at_levels(name, settings) if settings.full else west_coast_or_taxi(name, settings)


def west_coast_or_taxi(name: str, settings: Settings) -> Chosen[Groups]:
    """The three levels of the paper's figures: West Coast, states and counties; or those of the taxis."""
    if name == "taxi":
        return taxi(settings)
    generator = GENERATORS[name]
    by = f"tallytree.datasets.kuo.west_coast(tallytree.datasets.kuo.{generator.__name__}())"
    largest = MAX_GROUP_SIZE if settings.full else SMALL_K
    found = chosen(None, "", _read_root, lambda: on_levels(kuo.west_coast(generator()), largest), by)
    return found if settings.full else Chosen(found.data, f"{found.note} K = {largest:,}, where the paper has 100,000.")


def names(settings: Settings, small: Sequence[str]) -> Sequence[str]:
    """The data sets that are used: all four, or some."""
    return ("synthetic", "white", "hawaiian", "taxi") if settings.full else small


def _read_taxi(file: Path) -> Groups:
    rows = pq.read_table(file)
    path = ["half", "neighbourhood"]
    return Groups(rows, Hierarchy.from_table(rows.group_by(path).aggregate([]), levels=path))


def _read_root(file: Path) -> Groups:
    rows = pq.read_table(file, columns=["size", "groups"])
    return Groups(rows, Hierarchy.from_table(pa.table({"root": ["all"]}), levels=["root"]))
