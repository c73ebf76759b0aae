"""From arguments to a release, one way: arguments → plan → run → release.

`arguments` holds every option once. `plan_counts` and `plan_sizes` check the arguments and plan the noise, without
opening private data. `planned` runs a plan: it tabulates, records in the ledger, measures and reconciles.
"""

from tallytree.private import one_release
from tallytree.run.arguments import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    SizesArguments,
    TablesArguments,
)
from tallytree.run.households_arguments import HouseholdsArguments
from tallytree.run.plan_counts import plan_counts, plan_flows
from tallytree.run.plan_households import plan_households
from tallytree.run.plan_sizes import plan_group_sizes
from tallytree.run.plan_tables import plan_tables
from tallytree.run.planned import Planned
from tallytree.run.planned_auto_bound import PlannedAutoBound, plan_release
from tallytree.run.planned_contributions import PlannedContributions, contributions_of, plan_contributions
from tallytree.run.planned_counts import PlannedCounts
from tallytree.run.planned_households import PlannedHouseholds
from tallytree.run.planned_sizes import PlannedSizes
from tallytree.run.planned_tables import PlannedTables

__all__ = [
    "ContributionsArguments",
    "CountsArguments",
    "FlowsArguments",
    "HouseholdsArguments",
    "Planned",
    "PlannedAutoBound",
    "PlannedContributions",
    "PlannedCounts",
    "PlannedHouseholds",
    "PlannedSizes",
    "PlannedTables",
    "SizesArguments",
    "TablesArguments",
    "contributions_of",
    "one_release",
    "plan_contributions",
    "plan_counts",
    "plan_flows",
    "plan_group_sizes",
    "plan_households",
    "plan_release",
    "plan_tables",
]
