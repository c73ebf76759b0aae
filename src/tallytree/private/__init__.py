"""The private side of the firewall: everything that touches a record, a true count or a noise key.

What is used of it elsewhere is named here, and nothing else of it is imported from outside. Only `run`, the bootstrap,
the lab's list, `tallytree.engines` and `tallytree.noise` (which name what users choose or call) import it. Import
contracts in `pyproject.toml` check both.
"""

from tallytree.private.band_work import BandInputs, BandPlace, BandWork, HasBandPlace, OneByOne, PlanBelow, as_it_is
from tallytree.private.engines import (
    ENGINES,
    CountGroups,
    CountHouseholds,
    CountRecords,
    Engine,
    FindDefects,
    GroupRows,
    InPeriod,
    Local,
    Remembering,
    Spark,
    one_release,
)
from tallytree.private.engines.spark import names_no_file
from tallytree.private.measurer import Measurer, MeasuringPlan, TrueStatistics
from tallytree.private.noise import discrete, discrete_gaussian, discrete_laplace, entropy
from tallytree.private.noise.discrete import KeyedNoise, NoiseSource, OpenDPNoise
from tallytree.private.noise.secret import new_secret, read_secret
from tallytree.private.tabulate.contribution_bound import KEY_BYTES, ContributionBound
from tallytree.private.tabulate.defects import Defects
from tallytree.private.tabulate.leaf_statistics import (
    LeafCounts,
    LeafGroups,
    LeafHouseholds,
    TrueContributions,
    digest_with,
)
from tallytree.private.tabulate.true_counts import CountsInFiles, TrueCounts, ancestor_runs, ancestors
from tallytree.private.tabulate.true_sizes import SizesInFiles, TrueSizes
from tallytree.private.tabulate.true_tables import TrueHouseholds, TrueRanks, TrueTables

__all__ = [
    "ENGINES",
    "KEY_BYTES",
    "BandInputs",
    "BandPlace",
    "BandWork",
    "ContributionBound",
    "CountGroups",
    "CountHouseholds",
    "CountRecords",
    "CountsInFiles",
    "Defects",
    "Engine",
    "FindDefects",
    "GroupRows",
    "HasBandPlace",
    "InPeriod",
    "KeyedNoise",
    "LeafCounts",
    "LeafGroups",
    "LeafHouseholds",
    "Local",
    "Measurer",
    "MeasuringPlan",
    "NoiseSource",
    "OneByOne",
    "OpenDPNoise",
    "PlanBelow",
    "Remembering",
    "SizesInFiles",
    "Spark",
    "TrueContributions",
    "TrueCounts",
    "TrueHouseholds",
    "TrueRanks",
    "TrueSizes",
    "TrueStatistics",
    "TrueTables",
    "ancestor_runs",
    "ancestors",
    "as_it_is",
    "digest_with",
    "discrete",
    "discrete_gaussian",
    "discrete_laplace",
    "entropy",
    "names_no_file",
    "new_secret",
    "one_release",
    "read_secret",
]
