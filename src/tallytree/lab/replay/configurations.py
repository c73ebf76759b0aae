"""Random releases of every statistic and option, on a pair of neighboring data sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from tallytree import counts, sizes, tables
from tallytree.api import (
    release_contributions,
    release_counts,
    release_flows,
    release_group_sizes,
    release_households,
    release_tables,
)
from tallytree.budget import Budget
from tallytree.engines import Local
from tallytree.hierarchy import Hierarchy
from tallytree.lab._internals import AUTO, Contributions, ForcedCut
from tallytree.lab.replay.neighbors import (
    Change,
    Row,
    as_table,
    many_areas,
    neighboring_members,
    neighboring_people,
    neighboring_sizes,
    paths_of,
    public_groups,
    public_totals,
    random_tree,
)
from tallytree.lab.replay.pair import NEW_LEDGER, NEW_SECRET, Pair
from tallytree.product import Product
from tallytree.release import Release

KEPT_APART = {
    "seed": "a release with a seed is not private",
    "records": "the private table itself", "trips": "the private table itself",
    "revises": "of the earlier release, its id and the name of its folder alone are in the later one",
}  # fmt: skip
"""Options that no configuration has, and why."""

COUNT_MECHANISMS = (
    None,
    counts.LeastSquares(),
    counts.LeastSquares(sparsity=2.0),
    counts.LeastSquares(sparsity="auto"),
    counts.TopDown(),
    counts.TopDown(projection="euclidean"),
    counts.TopDown(projection="chebyshev-descending"),
    counts.TopDown(sparsity=1.0),
    counts.LeafGaussian(),
    counts.StabilityHistogram(),
)
TABLE_MECHANISMS = (None, tables.LeastSquares(), tables.LeastSquares(pooling="none"))
SIZE_MECHANISMS = (
    None,
    sizes.Joint(),
    sizes.Matching(),
    sizes.Matching("sorted", norm=2),
    sizes.Matching("naive"),
    sizes.Matching(merge="average"),
    sizes.Matching(carry="rounded"),
    sizes.Independent(),
    sizes.BottomUp(),
    sizes.MeanConsistency(),
    sizes.HistogramProjection(),
    sizes.HistogramProjection(solver="cost_table", delta=40),
    sizes.CumulativeProjection(),
    sizes.Chain(),
    sizes.CensusTopDown(),
)
OPENDP = find_spec("opendp") is not None
MOST_RECORDS = 3
"""The largest contribution bound that is given; where it is drawn, some releases choose theirs."""
EPSILONS = (0.002, 0.5, 1.0, 2.0)
"""With the first, Gaussian noise has scales above 512."""
DELTA = 1e-6
ABOVE_A_THRESHOLD = (Budget(epsilon=1, delta=DELTA), Budget(epsilon=2, delta=0.05))
"""With the second, even a count of 3 may be published."""


def random_pair(rng: np.random.Generator, engines: Sequence[Any] = (), mechanisms: Sequence[Any] = ()) -> Pair:
    """A statistic, its options, and two neighboring data sets.

    Args:
        rng: where the numbers come from.
        engines: one of which tabulates, in place of DuckDB.
        mechanisms: one of which makes the release, in place of those of the library.
    """
    if mechanisms:
        return _with_engine(rng, _pair_by(rng, _one_of(rng, mechanisms)), engines)
    makers = (_counts, _counts, _flows, _tables, _group_rows, _entity_rows, _entity_rows, _contributions, _households)
    pair = _many_cells(rng) if rng.random() < 0.02 else makers[int(rng.integers(len(makers)))](rng)
    return _with_engine(rng, pair, engines)


def _pair_by(rng: np.random.Generator, mechanism: Any) -> Pair:
    """A pair of a mechanism's statistic, released by it, in memory as mechanisms from outside are."""
    makers: tuple[Callable[[np.random.Generator], Pair], ...] = (_counts, _flows)
    if isinstance(mechanism, sizes.SizesMechanism):
        makers = (_group_rows, _entity_rows)
    elif isinstance(mechanism, tables.TablesMechanism):
        makers = (_tables,)
    pair = makers[int(rng.integers(len(makers)))](rng)
    options = {name: value for name, value in pair.options.items() if name not in ("memory", "unlisted")}
    return dataclasses.replace(pair, options=options | {"mechanism": mechanism})


def _with_engine(rng: np.random.Generator, pair: Pair, engines: Sequence[Any]) -> Pair:
    """The pair tabulated by one of the engines, and cut where it has `memory`."""
    if engines:  # with `memory` an engine's own tasks draw noise, which is beyond this process's reach
        options = {name: value for name, value in pair.options.items() if name != "memory"}
        pair = dataclasses.replace(pair, options=options | {"engine": _one_of(rng, engines)})
    if "memory" in pair.options and rng.random() < 0.8:
        return dataclasses.replace(pair, cuts=(_cut(rng), _cut(rng)))
    return pair


def _cut(rng: np.random.Generator) -> ForcedCut:
    return ForcedCut(int(rng.integers(0, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 6)))


def _counts(rng: np.random.Generator) -> Pair:
    if rng.random() < 0.3:
        sides = {"a": random_tree(rng, "a"), "b": random_tree(rng, "b", 1)}
        order = ["a", "b", *["a"] * (len(sides["a"].columns) - 1)]
        tree: Any = Product(sides, order=order)
        places = [{**one, **other} for one in paths_of(sides["a"]) for other in paths_of(sides["b"])]
    else:
        tree = random_tree(rng, "a")
        places = paths_of(tree)
    options = _with_mechanism(rng, _terms(rng) | {"hierarchy": tree})
    if isinstance(tree, Product) and (impossible := _impossible(rng, places, ("a0", "b0"), options)) is not None:
        options["hierarchy"] = Product(sides, order=order, impossible=impossible)
        places = _possible(places, impossible, options)
    return _with_prior(rng, _of_records(rng, release_counts, places, options), places)


def _flows(rng: np.random.Generator) -> Pair:
    sides = random_tree(rng, "o"), random_tree(rng, "d")
    places = [{**one, **other} for one in paths_of(sides[0]) for other in paths_of(sides[1])]
    options = _terms(rng) | {
        "origins": sides[0], "destinations": sides[1], "origin": list(sides[0].columns),
        "destination": list(sides[1].columns), "tree": _one_of(rng, ("destination", "origin")),
    }  # fmt: skip
    options = _with_mechanism(rng, options)
    if (impossible := _impossible(rng, places, (options["origin"][-1], "d0"), options)) is not None:
        options["impossible"] = impossible
        places = _possible(places, impossible, options)
    return _with_prior(rng, _of_records(rng, release_flows, places, options), places)


def _impossible(
    rng: np.random.Generator, places: Sequence[Row], columns: Sequence[str], options: Mapping[str, Any]
) -> pa.Table | None:
    """In some of the cases in which a mechanism takes it: what the first place has in these columns cannot be."""
    first = {name: [places[0][name]] for name in columns}
    taken = any(place[name] != value[0] for place in places for name, value in first.items())
    taken = taken and not isinstance(options["mechanism"], counts.LeafGaussian)
    return pa.table(first) if taken and rng.spawn(1)[0].random() < 0.3 else None


def _possible(places: list[Row], impossible: pa.Table, options: Mapping[str, Any]) -> list[Row]:
    """The places of records: all if strays are dropped; a record elsewhere would be refused."""
    none, dropped = impossible.to_pylist()[0], options["on_unknown"] == "drop"
    return [place for place in places if dropped or any(place[name] != value for name, value in none.items())]


def _many_cells(rng: np.random.Generator) -> Pair:
    """Trips between 1,025 and 1,024 places, from two places whose cells are 2^20 numbers apart."""
    origins, destinations = (
        Hierarchy.from_values(side, [f"{i}" for i in range(n)]) for side, n in (("o", 1025), ("d", 1024))
    )
    places: list[Row] = [{"o": start, "d": f"{end}"} for start in ("0", "1024") for end in rng.integers(0, 1024, 3)]
    options = {
        "origins": origins, "destinations": destinations, "origin": ["o"], "destination": ["d"],
        "budget": Budget(epsilon=20), "neighboring": _one_of(rng, ("add_remove", "change_one")),
        "max_contributions": int(rng.integers(1, MOST_RECORDS + 1)), "progress": False, "on_unknown": "error",
        "mechanism": _one_of(rng, (None, counts.LeastSquares(), counts.TopDown())),
    }  # fmt: skip
    several: list[Row] = [{**place, "id": -1, "n": 50} for place in places]
    pair = _of_records(rng, release_flows, places, options, counted=True)
    first, second = (
        pa.concat_tables([each, pa.Table.from_pylist(several, each.schema)]) for each in (pair.first, pair.second)
    )
    return Pair(release_flows, first, second, pair.options, kind="many cells")


def _with_mechanism(rng: np.random.Generator, options: dict[str, Any]) -> dict[str, Any]:
    """The options with a mechanism of counts; one that goes with few of them gets, in most cases, those."""
    mechanism = _one_of(rng, COUNT_MECHANISMS)
    if isinstance(mechanism, counts.StabilityHistogram) and rng.random() < 0.9:
        options = {name: value for name, value in options.items() if name not in ("accounting", "memory")}
        options |= {"budget": _one_of(rng, ABOVE_A_THRESHOLD), "budget_split": None}
    crossed = "origins" in options or isinstance(options["hierarchy"], Product)
    if crossed and rng.random() < 0.3:
        options = {name: value for name, value in options.items() if name != "memory"}
        return options | {"mechanism": _one_of(rng, (None, counts.LeastSquares())), "unlisted": "remainder"}
    return options | {"mechanism": mechanism}


def _with_prior(rng: np.random.Generator, pair: Pair, places: Sequence[Row]) -> Pair:
    """The pair, with a public table as prior in some of the cases in which one is taken."""
    own, options = rng.spawn(1)[0], pair.options
    mechanism = options["mechanism"]
    if pair.function is release_tables:
        taken = mechanism is None or mechanism.pooling == "areas"
    else:
        crossed = pair.function is release_flows or isinstance(options["hierarchy"], Product)
        plain = mechanism in (None, counts.LeastSquares())
        taken = plain and "memory" not in options and (not crossed or options.get("unlisted") == "remainder")
    if not taken or own.random() < 0.6:
        return pair
    prior = pa.Table.from_pylist([{**place, "count": int(own.integers(0, 9))} for place in places])
    return dataclasses.replace(pair, options={**options, "prior": prior, "prior_is_public": True})


def _tables(rng: np.random.Generator) -> Pair:
    many = rng.random() < 0.4
    areas, sexes = many_areas(rng, "a") if many else random_tree(rng, "a"), random_tree(rng, "b", 1)
    places = [{**one, **other} for one in paths_of(areas) for other in paths_of(sexes)]
    sides, impossible, apart = {"area": areas, "sex": sexes}, None, False
    if rng.random() < 0.3:
        sides["work"] = random_tree(rng, "c", 1)
        places = [{**one, **other} for one in places for other in paths_of(sides["work"])]
        apart = sexes.n_leaves > 1 and rng.spawn(1)[0].random() < 0.4  # in some areas only
        if sexes.n_leaves * sides["work"].n_leaves > 1:
            named = (areas.columns[0], "b0") if apart else ("b0", "c0")
            impossible = pa.table({name: [places[0][name]] for name in named})
    every = [(*area, *sex) for area in [(), *[(level,) for level in areas.columns]] for sex in ((), ("b0",))]
    wanted = [table for table in every if rng.random() < 0.5] or [every[-1]]
    options = _terms(rng) | {
        "hierarchy": Product(sides, impossible=impossible), "tables": wanted,
        "budget_split": _one_of(rng, ("auto", "even")), "mechanism": _one_of(rng, TABLE_MECHANISMS),
        "keep_detail": len(wanted) % 2 == 0,
    }  # fmt: skip
    if rng.random() < 0.3:
        options["measure"] = [every[-1], *([()] if rng.random() < 0.5 else [])]
        options["budget_split"] = "even"
    if options["budget_split"] == "auto" and rng.random() < 0.3:
        options["precision"] = {wanted[0]: 10.0}
    if impossible is not None:
        places = _possible(places, impossible, options)
    if apart:
        options.pop("memory", None)
    pair = _with_prior(rng, _of_records(rng, release_tables, places, options), places)
    if many and not pair.kind:
        pair = dataclasses.replace(pair, kind="many areas")
    if rng.random() < 0.4 and "period_column" not in options and not apart:
        counted = pair.options.get("count")
        totals = [public_totals(private, areas.columns[0], counted) for private in (pair.first, pair.second)]
        if (
            totals[0].equals(totals[1]) and "period_column" not in options
        ):  # a neighbor that is not excluded by what is public
            return dataclasses.replace(pair, options={**pair.options, "public_totals": totals[0]})
    return pair


def _households(rng: np.random.Generator) -> Pair:
    areas, sexes = many_areas(rng, "a") if rng.random() < 0.2 else random_tree(rng, "a"), random_tree(rng, "b", 1)
    crossed = rng.random() < 0.7
    places = [{**one, **(other if crossed else {})} for one in paths_of(areas) for other in paths_of(sexes)]
    options = _terms(rng)
    for unused in ("memory", "contributions"):
        options.pop(unused, None)
    if options["max_contributions"] == AUTO:
        options["max_contributions"] = MOST_RECORDS
    options |= {
        "hierarchy": Product({"area": areas, "sex": sexes}) if crossed else areas,
        "household": "home", "max_household_size": int(rng.integers(1, 5)), "mechanism": None, "keep_detail": crossed,
        "budget_split": _one_of(rng, ("auto", "even")), "share_of_sizes": _one_of(rng, (0.5, 0.2)),
    }  # fmt: skip
    if crossed:
        options["tables"] = [(areas.columns[-1], "b0"), ("b0", "in_household")]
        if options["budget_split"] == "auto" and rng.random() < 0.3:
            options["precision"] = {options["tables"][0]: 10.0}
    columns = list(places[0])
    outside: Row | None = dict.fromkeys(columns, "elsewhere") if options["on_unknown"] == "drop" else None
    if rng.random() < 0.3:
        _with_codes(rng, options)
    change = _change(options)
    both = neighboring_people(rng, places, change, outside, lambda one: {"home": int(rng.integers(3))})
    if change.replaced and both[0] and rng.random() < 0.3:  # one record has another home, and nothing else
        number = int(rng.integers(len(both[0])))
        moved = {**both[0][number], "home": (int(str(both[0][number]["home"])) + 1) % 3}
        both = both[0], [*both[0][:number], moved, *both[0][number + 1 :]]

    def with_home(row: Row) -> Row:  # a home lies in one area; the first of an area is none
        area = ".".join(str(row[name]) for name in areas.columns)
        home = f"{area}-{row['home']}" if row["home"] else None
        return {**row, "home": home, "day": INSIDE[int(str(row["id"])) % len(INSIDE)]}

    found = [[with_home(row) for row in rows] for rows in both]
    schema = _schema(columns, id=pa.int64(), home=pa.string(), day=pa.string())
    return Pair(release_households, as_table(found[0], schema), as_table(found[1], schema), options)


def _contributions(rng: np.random.Generator) -> Pair:
    tree = random_tree(rng, "a")
    options = _terms(rng, named=True) | {"hierarchy": tree}
    options |= {"share": _one_of(rng, (None, 0.5, 1.0)), "at_most": 20}
    options.pop("contributions", None)
    return _of_records(rng, release_contributions, paths_of(tree), options)


def _group_rows(rng: np.random.Generator) -> Pair:
    tree, options = random_tree(rng, "a"), _terms(rng, named=False)
    for of_records in ("on_unknown", "period_column"):
        options.pop(of_records, None)
    invariants = _one_of(rng, (None, "groups", "total", "none"))
    smallest = 1 if invariants in ("total", "none") else int(rng.integers(0, 2))
    reach = int(rng.integers(1, 3))
    options |= _sizes(rng) | {
        "hierarchy": tree, "size": "size", "groups": "groups", "invariants": invariants, "max_quantity": reach,
        "min_group_size": smallest,
    }  # fmt: skip
    first, second = neighboring_sizes(rng, paths_of(tree), _change(options), smallest, reach)
    schema = _schema(tree.columns, size=pa.int64(), groups=pa.int64())
    kind = "large numbers" if rng.random() < 0.3 else ""
    if kind:
        most = 10 ** int(rng.integers(4, 10))
        if getattr(options["mechanism"], "estimator", None) == "sorted":  # a noisy number of every group
            most = 10**4
        large = [{**place, "size": size, "groups": most} for place in paths_of(tree) for size in (smallest, 3)]
        first, second = [*first, *large], [*second, *large]
    return Pair(release_group_sizes, as_table(first, schema), as_table(second, schema), options, kind=kind)


def _entity_rows(rng: np.random.Generator) -> Pair:
    tree, options = random_tree(rng, "a"), _terms(rng)
    places, quantity = paths_of(tree), int(rng.integers(1, 4))
    first, second = neighboring_members(rng, places, _change(options), quantity, lambda: _when(rng, options))
    options |= _sizes(rng) | {"hierarchy": tree, "group": "group", "min_group_size": int(rng.integers(0, 2))}
    _with_codes(rng, options)
    if rng.random() < 0.5:
        options |= {"quantity": "amount", "max_quantity": quantity}
    if rng.random() < 0.4:
        options["public_groups"] = public_groups(places, (first, second))
    elif "person" not in options and _with_members(first, options) == _with_members(second, options):
        options["invariants"] = _one_of(rng, (None, "none", "total"))
    schema = _schema(tree.columns, group=pa.string(), id=pa.int64(), amount=pa.int64(), day=pa.string())
    return Pair(release_group_sizes, as_table(first, schema), as_table(second, schema), options)


def _with_members(rows: Sequence[Row], options: Mapping[str, Any]) -> int:
    """How many groups have a size above 0; neighbors have equally many where that is public."""
    there = [row for row in rows if "period_column" not in options or row["day"] in INSIDE]
    return len({row["group"] for row in there if "quantity" not in options or row["amount"]})


def _sizes(rng: np.random.Generator) -> dict[str, Any]:
    """The options of group sizes alone."""
    largest = _one_of(rng, (4, 9, sizes.PrivateMaximum(share=0.2, at_most=9), "private"))
    if largest == "private" and rng.random() < 0.9:  # its default bound of 100,000 sizes takes a second
        largest = 6
    return {"max_group_size": largest, "mechanism": _one_of(rng, SIZE_MECHANISMS)}


def _of_records(
    rng: np.random.Generator,
    function: Callable[..., Release],
    places: Sequence[Row],
    options: dict[str, Any],
    *,
    counted: bool | None = None,
) -> Pair:
    """Counted records: of people with an id, or rows that stand for several records."""
    columns = list(places[0])
    elsewhere: Row = dict.fromkeys(columns, "elsewhere")
    outside = elsewhere if options["on_unknown"] == "drop" else None
    counted = bool(rng.random() < 0.3) if counted is None else counted
    if counted:
        options["count"] = "n"

    def more(one: bool) -> Row:
        number = int(rng.integers(1, 4)) if counted and not (one and "person" not in options) else 1
        return {"n": number, **_when(rng, options, elsewhere)}

    sides = _with_codes(rng, options)
    lacking = "impossible" in options or bool(getattr(options.get("hierarchy"), "impossible", ()))
    strict = options["on_unknown"] == "error" and not lacking
    if strict and sides and all(name in columns for name in sides) and rng.random() < 0.3:
        options["on_unknown"], outside = {name: places[0][name] for name in sides}, elsewhere
    first, second = neighboring_people(rng, places, _change(options), outside, more)
    if "person" in options and function is not release_contributions:
        options["distinct"] = bool(rng.random() < 0.6)
    schema = _schema(columns, id=pa.int64(), n=pa.int64(), day=pa.string())
    kind, drawn = "", rng.random()
    if outside is None and drawn < 0.05:
        kind, more_outside = (
            "stray records",
            [{**elsewhere, "id": i, "n": 1, "day": INSIDE[0]} for i in range(int(rng.integers(2, 9)))],
        )
        first, second = [*first, *more_outside], [*second, *more_outside[1:]]
    elif counted and "person" not in options and drawn < 0.6:
        kind, most = ("too many records", 2**62) if drawn < 0.2 else ("large numbers", 10 ** int(rng.integers(4, 10)))
        more_of = range(3 if drawn < 0.2 else 1)
        large = [{**place, "id": -1, "n": most, "day": INSIDE[0]} for place in places for _ in more_of]
        first, second = [*first, *large], [*second, *large]
    return Pair(function, as_table(first, schema), as_table(second, schema), options, kind=kind)


def _with_codes(rng: np.random.Generator, options: dict[str, Any]) -> list[str]:
    """In half of the cases, `leaf` for the hierarchies whose leaves have labels of their own.

    Returns the leaf columns of all hierarchies, if all have such labels.
    """
    tree = options.get("hierarchy")
    if isinstance(tree, Hierarchy):
        sides = {"": (tree, tree.columns[-1])}
    elif isinstance(tree, Product):
        sides = {side.name: (side.hierarchy, side.columns[-1]) for side in tree.attributes}
    else:
        sides = {side: (options[f"{side}s"], options[side][-1]) for side in ("origin", "destination")}
    own = {name: last for name, (each, last) in sides.items() if len(each.labels[-1].unique()) == each.n_leaves}
    if own and rng.random() < 0.5:
        options["leaf"] = own.get("", own)
    return [*own.values()] if len(own) == len(sides) else []


def _terms(rng: np.random.Generator, named: bool | None = None) -> dict[str, Any]:
    """The options that all releases share."""
    options: dict[str, Any] = {
        "neighboring": _one_of(rng, ("add_remove", "change_one")),
        "max_contributions": int(rng.integers(1, MOST_RECORDS + 1)),
        "on_unknown": _one_of(rng, ("error", "drop")),
        "budget": _budget(rng),
        "budget_split": _one_of(rng, (None, "even", "auto")),
        "keep_measurements": bool(rng.random() < 0.9),
        "progress": False,
        "engine": Local(threads=1) if rng.random() < 0.5 else None,
        "noise": "opendp" if OPENDP and rng.random() < 0.15 else "keyed",
    }
    if options["budget"].delta is not None:
        options["accounting"] = _one_of(rng, (None, "zcdp", "paper", "zcdp", "paper"))
    if rng.random() < 0.25:
        options["memory"] = "2GB"
    if rng.random() < 0.5 if named is None else named:
        options["person"] = "id"
        if rng.random() < 0.3:
            options["contributions"] = _one_of(rng, (0.1, Contributions(share=0.2, at_most=20)))
            if options["max_contributions"] == MOST_RECORDS:
                options["max_contributions"] = AUTO
    if rng.random() < 0.15:
        options |= {"ledger": NEW_LEDGER, "dataset": "people", "approved_by": "A", "reason": "B", "ticket": "C"}
        if rng.random() < 0.5:
            options |= {"secret": NEW_SECRET, "run": "2024", "on_changed": _one_of(rng, ("error", "charge"))}
            options["period"] = "2024"
            options |= {"title": "A", "publisher": "B", "contact": "C", "status": "final", "words": {"record": "D"}}
    if rng.random() < 0.2:
        options |= {"period": "2024", "period_column": "day"}
    return options


INSIDE, OUTSIDE = ("2024-02-29", "2024-12-31T23:59", "2024-07", "2024-W20"), ("2025-01-01", None)
"""Texts that name days in the year 2024, and texts that name none there."""
UNREADABLE = ("2024-W01x", "soon")
"""Texts that name no day; a run refuses them, unless it leaves unknown records out."""


def _when(rng: np.random.Generator, options: Mapping[str, Any], elsewhere: Row | None = None) -> Row:
    """When a record was; one outside the period may also lie outside the hierarchy, and is not refused for it."""
    if "period_column" not in options:
        return {}
    if rng.random() < 0.6:
        return {"day": _one_of(rng, INSIDE)}
    outside = (*OUTSIDE, *UNREADABLE) if options.get("on_unknown") == "drop" else OUTSIDE
    return {"day": _one_of(rng, outside), **(elsewhere if elsewhere and rng.random() < 0.5 else {})}


def _change(options: Mapping[str, Any]) -> Change:
    replaced, m, named = options["neighboring"] == "change_one", options["max_contributions"], "person" in options
    m = MOST_RECORDS if m == AUTO else m
    all_count = options.get("on_unknown") != "drop" and "period_column" not in options
    return Change(replaced, m, named, replaced and m == 1 and not named and all_count)


def _budget(rng: np.random.Generator) -> Budget:
    epsilon = _one_of(rng, EPSILONS)
    kinds = (Budget(epsilon=epsilon), Budget(epsilon=epsilon, delta=DELTA), Budget(rho=epsilon / 10))
    return kinds[int(rng.integers(3))]


def _one_of(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _schema(columns: Sequence[str], **more: pa.DataType) -> pa.Schema:
    return pa.schema([*((name, pa.string()) for name in columns), *more.items()])
