"""What the lab uses of the library's internals, in one list.

All else that the lab imports is public, but for arrays, the checks of arguments and the shapes of areas; an import
contract holds it to that.
"""

from tallytree.accounting import (
    LevelPlan,
    NoisePlan,
    Plan,
    StabilityPlan,
    StableLevel,
    epsilon_from_rho,
    plan_noise,
    pld,
)
from tallytree.accounting.scales import representable
from tallytree.accounting.sensitivity import level_sensitivities, sensitivity
from tallytree.kinds.contributions import Contributions
from tallytree.kinds.measurements import BESIDE_THE_LEVELS, Measurement, Measures, Noise, Statistic
from tallytree.kinds.terms import (
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
from tallytree.private import (
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
from tallytree.run import (
    CountsArguments,
    PlannedCounts,
    PlannedSizes,
    PlannedTables,
    SizesArguments,
    TablesArguments,
    make_secret,
    order,
    plan_counts,
    plan_group_sizes,
    plan_tables,
    rehearsal,
)
from tallytree.run.options import RecordOptions
from tallytree.run.planned import Planned
from tallytree.run.release_keys import ReleaseKeys
from tallytree.run.signature import takes
from tallytree.solvers.papers.cost_table import root_table
from tallytree.solvers.papers.nearest_in_l1 import Method, nearest_in_l1
from tallytree.solvers.papers.third_party import PROJECTION_PACKAGES, SOLVER_PACKAGES
from tallytree.solvers.trees import project, simplex
from tallytree.support import spill_folders, stages
from tallytree.support.whole_files import write_whole
from tallytree.trees.bands import ForcedCut
from tallytree.views import charts
from tallytree.views.charts import require_charts
from tallytree.views.charts.basis import NUMBERS, described
from tallytree.views.charts.basis import data as chart_data
from tallytree.views.charts.drawing import one_drawing_process, png, svg
from tallytree.views.charts.theme import LIGHT, Scheme, styled
from tallytree.views.export import export
from tallytree.views.report.page import report_page

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
    "level_sensitivities",
    "make_secret",
    "nearest_in_l1",
    "one_drawing_process",
    "options_of",
    "order",
    "plan_counts",
    "plan_group_sizes",
    "plan_noise",
    "plan_tables",
    "pld",
    "png",
    "project",
    "rehearsal",
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
