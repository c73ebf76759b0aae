"""What the lab uses of the library's internals, in one list.

All else that the lab imports is public, but for arrays, the checks of arguments and the shapes of areas; an import
contract holds it to that.
"""

from tallytree import _charts as charts
from tallytree import _stages as stages
from tallytree._accounting import (
    LevelPlan,
    NoisePlan,
    Plan,
    StabilityPlan,
    StableLevel,
    epsilon_from_rho,
    kept_values,
    plan_noise,
)
from tallytree._accounting.scales import representable
from tallytree._accounting.sensitivity import level_sensitivities, sensitivity
from tallytree._bands import ForcedCut
from tallytree._charts import require_charts
from tallytree._charts.basis import NUMBERS, described
from tallytree._charts.basis import data as chart_data
from tallytree._charts.drawing import one_drawing_process, png, svg
from tallytree._charts.theme import LIGHT, Scheme, styled
from tallytree._compute import spill_folders
from tallytree._compute.whole_files import write_whole
from tallytree._contributions import Contributions
from tallytree._export import export
from tallytree._measurements import BESIDE_THE_LEVELS, Measurement, Measures, Noise, Statistic
from tallytree._private import (
    KeyedNoise,
    LeafCounts,
    Measurer,
    NoiseSource,
    OpenDPNoise,
    TrueCounts,
    TrueSizes,
    TrueStatistics,
    TrueTables,
    discrete,
    entropy,
)
from tallytree._report.page import report_page
from tallytree._run import (
    CountsArguments,
    PlannedCounts,
    PlannedSizes,
    PlannedTables,
    SizesArguments,
    TablesArguments,
    plan_counts,
    plan_group_sizes,
    plan_tables,
)
from tallytree._run.arguments import RecordOptions
from tallytree._run.planned import Planned
from tallytree._run.planned_records import PlannedRecords
from tallytree._run.release_keys import ReleaseKeys, make_secret
from tallytree._run.signature import takes
from tallytree._solvers.papers.cost_table import root_table
from tallytree._solvers.papers.nearest_in_l1 import Method, nearest_in_l1
from tallytree._solvers.papers.packages import PROJECTION_PACKAGES, SOLVER_PACKAGES
from tallytree._solvers.trees import project, simplex
from tallytree._terms import (
    AUTO,
    Accounting,
    Doc,
    Invariants,
    Neighboring,
    NeighboringName,
    NoiseTerms,
    OnUnknown,
    options_of,
)

__all__ = [
    "AUTO",
    "BESIDE_THE_LEVELS",
    "LIGHT",
    "NUMBERS",
    "PROJECTION_PACKAGES",
    "SOLVER_PACKAGES",
    "Accounting",
    "Contributions",
    "CountsArguments",
    "Doc",
    "ForcedCut",
    "Invariants",
    "KeyedNoise",
    "LeafCounts",
    "LevelPlan",
    "Measurement",
    "Measurer",
    "Measures",
    "Method",
    "Neighboring",
    "NeighboringName",
    "Noise",
    "NoisePlan",
    "NoiseSource",
    "NoiseTerms",
    "OnUnknown",
    "OpenDPNoise",
    "Plan",
    "Planned",
    "PlannedCounts",
    "PlannedRecords",
    "PlannedSizes",
    "PlannedTables",
    "RecordOptions",
    "ReleaseKeys",
    "Scheme",
    "SizesArguments",
    "StabilityPlan",
    "StableLevel",
    "Statistic",
    "TablesArguments",
    "TrueCounts",
    "TrueSizes",
    "TrueStatistics",
    "TrueTables",
    "chart_data",
    "charts",
    "described",
    "discrete",
    "entropy",
    "epsilon_from_rho",
    "export",
    "kept_values",
    "level_sensitivities",
    "make_secret",
    "nearest_in_l1",
    "one_drawing_process",
    "options_of",
    "plan_counts",
    "plan_group_sizes",
    "plan_noise",
    "plan_tables",
    "png",
    "project",
    "report_page",
    "representable",
    "require_charts",
    "root_table",
    "sensitivity",
    "simplex",
    "spill_folders",
    "stages",
    "styled",
    "svg",
    "takes",
    "write_whole",
]
