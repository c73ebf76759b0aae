"""From the arguments of counts and flows to a planned release; no private data is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, get_args

from tallytree.accounting import Plan, plan_stability
from tallytree.accounting.scales import next_float, representable
from tallytree.accounting.sensitivity import sensitivity
from tallytree.budget import BudgetSplit, shares
from tallytree.counts import CountsMechanism, LeastSquares, StabilityHistogram
from tallytree.counts.auto_split import auto_split
from tallytree.counts.mechanism import GoesDown, in_place_of_counts
from tallytree.counts.unlisted import Remainders
from tallytree.hierarchy import Hierarchy, check_level_names, nodes_per_level
from tallytree.kinds.foreign import is_foreign
from tallytree.kinds.measurements import Statistic
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import options_of
from tallytree.product import Product, check_columns
from tallytree.run.arguments import CountsArguments, FlowsArguments
from tallytree.run.auto_bound import for_the_plan, sealed
from tallytree.run.counts_in_bands import check_memory
from tallytree.run.options import CountsOptions, PriorOptions, Unlisted
from tallytree.run.people import shares_beside
from tallytree.run.planned_counts import PlannedCounts
from tallytree.run.planning import (
    account,
    check_statistics,
    chosen_engine,
    exact_statistics,
    noise_plan,
    warn_caller,
)
from tallytree.run.prior import prior_name
from tallytree.run.read_prior import prior_of_counts
from tallytree.sources.addresses import published_private_name
from tallytree.sources.same_tables import refuse_private
from tallytree.support.validate import choice, safe_text
from tallytree.trees.leaf_keys import LeafKey, leaf_keys

ROOT_STATISTICS: frozenset[Statistic] = frozenset(("total",))
COUNTS_STATISTICS: frozenset[Statistic] = frozenset(("counts",))
STABLE_STATISTICS: frozenset[Statistic] = frozenset(("stable_counts",))
"""What is published above a threshold, by mechanisms that measure nothing else."""


def plan_counts(
    arguments: CountsArguments,
    *,
    argument: Literal["records", "trips"] = "records",
    statistic: Literal["counts", "flows"] = "counts",
) -> PlannedCounts:
    """Plan a release of counts; see `tallytree.release_counts`.

    Args:
        arguments: what was given.
        argument: the name of the records in messages.
        statistic: the name of the statistic.
    """
    given, arguments = arguments, for_the_plan(arguments, argument)
    tree = arguments.hierarchy
    if not isinstance(tree, Hierarchy | Product):
        raise TypeError(
            f"hierarchy: {safe_text(tree)} must be a tallytree.Hierarchy or a tallytree.Product; make one "
            "with tallytree.Hierarchy.from_table(leaves, levels=[…])"
        )
    if isinstance(tree, Product) and not tree.ordered:
        raise ValueError(
            "hierarchy: a Product without an order has no levels; give Product(…, order=[…]), or release tables of it "
            "with tallytree.release_tables"
        )
    mechanism = _with_unlisted(CountsMechanism.chosen(arguments.mechanism, _default(arguments)), arguments)
    if isinstance(tree, Product) and tree.impossible and not _leaves_out_impossible(mechanism):
        raise ValueError(
            f"impossible: {type(mechanism).__name__} does not go down the tree, so it counts impossible cells too; "
            "take LeastSquares, TopDown or StabilityHistogram, or leave impossible out"
        )
    asked = exact_statistics(mechanism.statistics(tree, total_is_public=arguments.total_is_public))
    check_person(arguments, leaf_keys(tree, arguments.leaf, arguments.on_unknown))
    check_memory(mechanism, tree, arguments.memory, arguments.noise)
    prior = None
    if mechanism.takes_prior(tree) and arguments.memory is None:
        prior = prior_of_counts(arguments, tree)
    elif arguments.prior is not None:
        raise ValueError(
            "prior: flows and products take one with unlisted='remainder' only, and a Hierarchy with LeastSquares, "
            f"without sparsity or memory, and the mechanism is {type(mechanism).__name__}; change that, or leave it out"
        )
    plan = _plan(mechanism, asked, arguments)
    if mechanism.caution is not None:
        warn_caller(f"mechanism: {mechanism.caution}")
    if not kind_of(statistic).sides and isinstance(tree, Product) and len(tree.attributes) > 1:
        warn_caller(
            f"hierarchy: on the chain {' > '.join(tree.levels)} only the tables on the chain are accurate; other sums, "
            "such as one attribute alone, add up the errors of many cells. tallytree.release_tables publishes several "
            "tables that agree"
        )
    planned = PlannedCounts(
        statistic=statistic,
        arguments=arguments,
        tree=tree,
        public_tree=tree,
        table_names={
            argument: published_private_name(arguments.records),
            **({} if arguments.prior is None else {"prior": prior_name(arguments.prior)}),
        },
        mechanism=mechanism,
        statistics=in_place_of_counts(asked, tree, distinct=arguments.distinct),
        plan=plan,
        engine=chosen_engine(arguments.engine, arguments.memory),
        account=account(arguments, statistic, mechanism, plan),
        prior=prior,
        argument=argument,
    )
    return sealed(planned, given)


def _leaves_out_impossible(mechanism: CountsMechanism) -> bool:
    """Whether it counts possible nodes only: children of nodes, or leaves that have records."""
    return isinstance(mechanism, GoesDown | StabilityHistogram) and not is_foreign(mechanism)


def _default(arguments: CountsArguments) -> LeastSquares:
    """The mechanism that is used where none is given.

    On a product most cells may be 0, so the fit finds out whether they are. That needs all nodes at once, so not with
    `memory`; nor with remainders, which have a choice of their own.
    """
    whole = isinstance(arguments.hierarchy, Product) and arguments.memory is None and arguments.unlisted == "zero"
    return LeastSquares(sparsity="auto" if whole else 0.0)


def _with_unlisted(mechanism: CountsMechanism, arguments: CountsArguments) -> CountsMechanism:
    """The mechanism with the option `unlisted`, where it is not the default.

    Raises:
        ValueError: it does not go with the mechanism, the hierarchy or the memory.
    """
    choice(arguments.unlisted, "unlisted", get_args(Unlisted))
    if arguments.unlisted == "zero":
        return mechanism
    if not isinstance(mechanism, LeastSquares) or is_foreign(mechanism):
        raise ValueError(
            f"unlisted: 'remainder' is of LeastSquares, and the mechanism is {type(mechanism).__name__}; leave one of "
            "the two out"
        )
    if not isinstance(arguments.hierarchy, Product):
        raise ValueError(
            "unlisted: 'remainder' goes with flows and other products; all nodes of a Hierarchy are listed, so leave "
            "it out"
        )
    if arguments.memory is not None:
        raise ValueError("unlisted: 'remainder' works on all nodes at once; leave memory out")
    return Remainders(mechanism.sparsity, mechanism.largest_fit)


def plan_flows(arguments: FlowsArguments) -> PlannedCounts:
    """Plan a release of flows, as counts on the product of two hierarchies; see `tallytree.release_flows`."""
    choice(arguments.tree, "tree", ("destination", "origin"))
    origins, destinations = arguments.origins, arguments.destinations
    for name, hierarchy in (("origins", origins), ("destinations", destinations)):
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(f"{name}: {safe_text(hierarchy)} must be a tallytree.Hierarchy")
    columns = {
        "origin": _path_columns(origins, arguments.origin, "origin"),
        "destination": _path_columns(destinations, arguments.destination, "destination"),
    }
    for column in sorted(set(columns["origin"]) & set(columns["destination"])):
        raise ValueError(f"destination: {column!r} is a column of origin too; each side has columns of its own")
    first, second = ("destination", "origin") if arguments.tree == "destination" else ("origin", "destination")
    order = list(_alternately(first, len(columns[first]), second, len(columns[second])))
    refuse_private(arguments.impossible, "impossible", arguments.trips, "trips")
    sides = {"origin": origins, "destination": destinations}
    product = Product(sides, order=order, columns=columns, impossible=arguments.impossible)
    shared = options_of(arguments, CountsOptions) | options_of(arguments, PriorOptions)
    as_counts = CountsArguments(arguments.trips, product, arguments.budget, **shared)
    return plan_counts(as_counts, argument="trips", statistic="flows")


def _path_columns(hierarchy: Hierarchy, given: Any, argument: str) -> tuple[str, ...]:
    """The columns of one side of the flows, top level first."""
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else given
    return check_level_names(check_columns(hierarchy, listed, argument), argument)


def _plan(mechanism: CountsMechanism, statistics: Mapping[str, Statistic], arguments: CountsArguments) -> Plan:
    """The noise of every measured level, and a threshold where the mechanism publishes only what is above one."""
    tree = arguments.hierarchy
    root, *below = tree.levels
    leaf = tree.levels[-1]
    if list(statistics.values()) != ["stable_counts"]:
        check_statistics(mechanism, statistics, {root: ROOT_STATISTICS} | dict.fromkeys(below, COUNTS_STATISTICS))
        nodes = nodes_per_level(tree)

        def split(std_devs: Mapping[str, float], gaussian: bool) -> BudgetSplit:
            return auto_split(
                [nodes[level] for level in std_devs],
                std_devs,
                gaussian=gaussian,
                root_is_public=root not in statistics,
                upward=mechanism.corrects_upward,
            )

        measured = in_place_of_counts(statistics, tree, distinct=arguments.distinct)
        beside = shares_beside(arguments)
        return noise_plan(arguments, arguments.budget, measured, tree, auto_split=split, beside=beside)
    check_statistics(mechanism, statistics, {leaf: STABLE_STATISTICS})
    if arguments.contributions is not None:
        raise ValueError(
            f"contributions: {type(mechanism).__name__} publishes counts above a threshold and measures nothing beside "
            "them; leave it out, and count people by their records in a release of its own "
            "(tallytree.release_contributions)"
        )
    if arguments.budget_split != "auto":
        shares(arguments.budget_split, [leaf])
    m = arguments.bound
    bound = sensitivity("stable_counts", arguments.relation, m)
    grid = next_float if arguments.noise == "opendp" else representable
    return plan_stability(arguments.budget, leaf, bound, m, arguments.accounting, grid)


def check_person(arguments: PriorOptions, keys: Sequence[LeafKey]) -> None:
    """Refuse a column of people that is used for something else too: its values would not name people.

    Raises:
        ValueError: it is a column of a path, or the one with the numbers of records.
    """
    person = arguments.person
    if person is None:
        return
    if any(person in (*key.columns, key.code) for key in keys):
        raise ValueError(
            f"person: {person!r} is a column of the hierarchy, whose values are public; name the column with the "
            "ids of people"
        )
    if person == arguments.count:
        raise ValueError(f"person: {person!r} is the column of count too; name the column with the ids of people")


def _alternately(first: str, n_first: int, second: str, n_second: int) -> Iterator[str]:
    """The two names in turn, each as often as it has columns; the rest alone."""
    for pair in zip_longest([first] * n_first, [second] * n_second):
        yield from (name for name in pair if name is not None)
