"""What tests of other rooms use of the library's private rooms, in one list, as `tallytree/lab/_internals.py` has it.

A test of a room imports the room itself where it is about a part of it. Any other test uses public names, the solvers,
and this list: the seams between plan, true statistics, noise and measurer; what makes reports, exports and explorers;
and modules in which a test puts something else. So a module that moves is named in one place: `tests/test_house.py`
checks it. What needs a package of an optional extra when it is imported is not on the list.
"""

from tallytree.accounting import (
    Asked,
    LevelPlan,
    NoisePlan,
    laws,
    plan_noise,
    plan_stability,
    pld,
    rho_from_epsilon,
    risk,
    stability,
)
from tallytree.accounting import sensitivity as sensitivities
from tallytree.accounting.laws import Gaussian, HalfGaussian, LaplaceHigh, LaplaceLow
from tallytree.accounting.periods import ROLLING_DAYS, Period, Window
from tallytree.accounting.risk import by_rho
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import Sensitivity, level_sensitivities, sensitivity
from tallytree.accounting.spending import Approval, Loss, Posting
from tallytree.kinds import foreign
from tallytree.kinds.columns import LISTED_FROM, TYPICAL_ERROR, UNBIASED
from tallytree.kinds.contributions import contribution_bins
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import BESIDE_THE_LEVELS, NoisyAnswers
from tallytree.kinds.registry import KINDS
from tallytree.kinds.terms import neighboring_relation
from tallytree.numbers.accuracy.expected_errors import expected_errors
from tallytree.numbers.accuracy.fitted_errors import fitted_errors
from tallytree.numbers.accuracy.simulated_errors import simulated_errors
from tallytree.numbers.accuracy.targets import LEAST, amount_at
from tallytree.private import (
    KeyedNoise,
    LeafCounts,
    LeafGroups,
    Measurer,
    OpenDPNoise,
    TrueCounts,
    TrueRanks,
    TrueSizes,
    TrueTables,
)
from tallytree.private.band_work import BandInputs, BandWork, OneByOne, PlanBelow
from tallytree.private.engines import CountGroups, CountRecords, GroupRows
from tallytree.private.engines import spark as spark_engine
from tallytree.private.noise import discrete, entropy
from tallytree.private.tabulate import duckdb_session
from tallytree.private.tabulate.contribution_bound import ContributionBound
from tallytree.private.tabulate.true_counts import CountsInFiles, counts_of_band
from tallytree.private.tabulate.true_sizes import LargestSize
from tallytree.run import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    PlannedCounts,
    PlannedSizes,
    SizesArguments,
    TablesArguments,
    arguments,
    check,
    contributions_of,
    make_release,
    make_secret,
    order,
    plan_counts,
    plan_flows,
    plan_group_sizes,
    plan_households,
    plan_tables,
    planned,
    planned_counts,
    planned_sizes,
    release_keys,
)
from tallytree.run.counted_records import MAX_RECORDS
from tallytree.run.lint import lint as lint_records
from tallytree.run.output import Output
from tallytree.run.plan_tables import wishes_of
from tallytree.run.planned_households import size_level
from tallytree.run.planned_sizes import MAX_GROUPS
from tallytree.run.planned_tables import MAX_RECORDS_OF_TABLES
from tallytree.run.release_keys import ReleaseKeys
from tallytree.run.signature import option_docs
from tallytree.support import kernels, machine, spill_folders
from tallytree.support.arrays import IntArray, offsets_of
from tallytree.support.compiled_ahead import environment
from tallytree.support.large_arrays import LargeArrays
from tallytree.support.spill_folders import KeptFolder, remove_leftovers, spill_folder
from tallytree.support.stages import audit_progress
from tallytree.trees.bands import ForcedCut, chosen_cut
from tallytree.trees.leaf_keys import LeafKey, leaf_keys
from tallytree.views import report
from tallytree.views.boundaries import read_boundaries
from tallytree.views.charts import drawing
from tallytree.views.charts.drawing import svg
from tallytree.views.charts.theme import DARK, LIGHT
from tallytree.views.explore import columns
from tallytree.views.explore.columns import facts, rows_of, totals_of_flows
from tallytree.views.explore.opening import write_static
from tallytree.views.explore.writing import SCRIPTS, STYLES
from tallytree.views.export import export
from tallytree.views.report import report_page, write_report
from tallytree.views.report.checks import run_checks
from tallytree.views.report.front import front_page
from tallytree.views.report.reading import level_errors, reach_of
from tallytree.views.report.sections import all_sections
from tallytree.views.report.summary import summary

__all__ = [
    "BESIDE_THE_LEVELS",
    "DARK",
    "KINDS",
    "LEAST",
    "LIGHT",
    "LISTED_FROM",
    "MAX_GROUPS",
    "MAX_RECORDS",
    "MAX_RECORDS_OF_TABLES",
    "ROLLING_DAYS",
    "SCRIPTS",
    "STYLES",
    "TYPICAL_ERROR",
    "UNBIASED",
    "Approval",
    "Asked",
    "BandInputs",
    "BandWork",
    "ContributionBound",
    "ContributionsArguments",
    "CountGroups",
    "CountRecords",
    "CountsArguments",
    "CountsInFiles",
    "FlowsArguments",
    "ForcedCut",
    "Gaussian",
    "GroupRows",
    "HalfGaussian",
    "HouseholdsArguments",
    "IntArray",
    "KeptFolder",
    "KeyedNoise",
    "LaplaceHigh",
    "LaplaceLow",
    "LargeArrays",
    "LargestSize",
    "LeafCounts",
    "LeafGroups",
    "LeafKey",
    "LevelPlan",
    "Loss",
    "Measurer",
    "NoisePlan",
    "NoisyAnswers",
    "OneByOne",
    "OpenDPNoise",
    "Output",
    "Period",
    "PlanBelow",
    "PlannedCounts",
    "PlannedSizes",
    "Posting",
    "ReleaseKeys",
    "Sensitivity",
    "SizesArguments",
    "TablesArguments",
    "TrueCounts",
    "TrueRanks",
    "TrueSizes",
    "TrueTables",
    "Window",
    "all_sections",
    "amount_at",
    "arguments",
    "audit_progress",
    "by_rho",
    "check",
    "chosen_cut",
    "columns",
    "contribution_bins",
    "contributions_of",
    "counts_of_band",
    "discrete",
    "drawing",
    "duckdb_session",
    "entropy",
    "environment",
    "expected_errors",
    "export",
    "facts",
    "fitted_errors",
    "foreign",
    "front_page",
    "is_foreign",
    "kernels",
    "laws",
    "leaf_keys",
    "level_errors",
    "level_sensitivities",
    "lint_records",
    "machine",
    "make_release",
    "make_secret",
    "neighboring_relation",
    "next_float",
    "offsets_of",
    "option_docs",
    "order",
    "plan_counts",
    "plan_flows",
    "plan_group_sizes",
    "plan_households",
    "plan_noise",
    "plan_stability",
    "plan_tables",
    "planned",
    "planned_counts",
    "planned_sizes",
    "pld",
    "reach_of",
    "read_boundaries",
    "release_keys",
    "remove_leftovers",
    "report",
    "report_page",
    "representable",
    "rho_from_epsilon",
    "risk",
    "rows_of",
    "run_checks",
    "sensitivities",
    "sensitivity",
    "simulated_errors",
    "size_level",
    "spark_engine",
    "spill_folder",
    "spill_folders",
    "stability",
    "summary",
    "svg",
    "totals_of_flows",
    "wishes_of",
    "write_report",
    "write_static",
]
