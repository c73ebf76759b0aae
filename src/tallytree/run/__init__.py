"""From arguments to a release, one way: arguments → plan → run → release.

Read `order` first: the order that keeps noise safe. `arguments` holds every option once. `plan_counts` and its like
check the arguments and plan the noise, without opening private data. What they make is a `Planned`.
"""

from tallytree.private import new_secret as make_secret
from tallytree.private import one_release
from tallytree.run.arguments import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    SizesArguments,
    TablesArguments,
)
from tallytree.run.order import check, finish, make_release, released, telling_what_is_spent
from tallytree.run.plan_counts import plan_counts, plan_flows
from tallytree.run.plan_households import plan_households
from tallytree.run.plan_sizes import plan_group_sizes
from tallytree.run.plan_tables import plan_tables
from tallytree.run.planned import Planned
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
    "PlannedContributions",
    "PlannedCounts",
    "PlannedHouseholds",
    "PlannedSizes",
    "PlannedTables",
    "SizesArguments",
    "TablesArguments",
    "check",
    "contributions_of",
    "finish",
    "make_release",
    "make_secret",
    "one_release",
    "plan_contributions",
    "plan_counts",
    "plan_flows",
    "plan_group_sizes",
    "plan_households",
    "plan_tables",
    "released",
    "telling_what_is_spent",
]
