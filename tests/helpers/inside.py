"""What tests of other rooms use of the library's private rooms, in one list, as `tallytree/lab/_internals.py` has it.

A test of a room imports the room itself. Any other test uses public names, the solvers, and this list: the seams
between plan, true statistics, noise and measurer. So a module that moves is named in one place.
"""

from tallytree.accounting import Asked, plan_noise, plan_stability, rho_from_epsilon
from tallytree.accounting.periods import ROLLING_DAYS, Period, Window
from tallytree.accounting.sensitivity import Sensitivity, level_sensitivities, sensitivity
from tallytree.accounting.spending import Approval, Loss
from tallytree.kinds.measurements import BESIDE_THE_LEVELS
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
from tallytree.private.engines import CountGroups, CountRecords
from tallytree.run import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    PlannedCounts,
    PlannedSizes,
    SizesArguments,
    TablesArguments,
    check,
    make_release,
    plan_counts,
    plan_flows,
    plan_group_sizes,
    plan_households,
    plan_tables,
)
from tallytree.run.counted_records import MAX_RECORDS
from tallytree.run.planned_sizes import MAX_GROUPS
from tallytree.run.planned_tables import MAX_RECORDS_OF_TABLES

__all__ = [
    "BESIDE_THE_LEVELS",
    "MAX_GROUPS",
    "MAX_RECORDS",
    "MAX_RECORDS_OF_TABLES",
    "ROLLING_DAYS",
    "Approval",
    "Asked",
    "ContributionsArguments",
    "CountGroups",
    "CountRecords",
    "CountsArguments",
    "FlowsArguments",
    "HouseholdsArguments",
    "KeyedNoise",
    "LeafCounts",
    "LeafGroups",
    "Loss",
    "Measurer",
    "OpenDPNoise",
    "Period",
    "PlannedCounts",
    "PlannedSizes",
    "Sensitivity",
    "SizesArguments",
    "TablesArguments",
    "TrueCounts",
    "TrueRanks",
    "TrueSizes",
    "TrueTables",
    "Window",
    "check",
    "level_sensitivities",
    "make_release",
    "plan_counts",
    "plan_flows",
    "plan_group_sizes",
    "plan_households",
    "plan_noise",
    "plan_stability",
    "plan_tables",
    "rho_from_epsilon",
    "sensitivity",
]
