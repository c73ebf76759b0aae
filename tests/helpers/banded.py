"""Small random trees with records, and releases of them in bands, which are to equal those in memory."""

import shutil

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import tallytree as tt
from helpers.inside import CountsArguments, plan_counts

APPROXIMATE = tt.Budget(epsilon=1.0, delta=1e-6)


@st.composite
def hierarchies(draw, levels, most=3):
    """A hierarchy of so many levels, with 1 … `most` children a node, and the table of its leaves."""
    paths = [()]
    for _ in range(levels):
        paths = [(*path, str(child)) for path in paths for child in range(draw(st.integers(1, most)))]
    names = [f"level{depth}" for depth in range(levels)]
    leaves = pa.table({name: [".".join(path[: i + 1]) for path in paths] for i, name in enumerate(names)})
    return tt.Hierarchy.from_table(leaves, levels=names), leaves


@st.composite
def counted(draw):
    """A tree (a hierarchy, or a product in any order) and records of it."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rows = draw(st.sampled_from([0, 1, 40, 200]))
    if draw(st.booleans()):
        tree, leaves = draw(hierarchies(draw(st.integers(1, 4))))
        return tree, leaves.take(pa.array((rng.beta(1, 3, rows) * leaves.num_rows).astype(int), pa.int64()))
    sides = {"o": draw(hierarchies(draw(st.integers(1, 3)))), "d": draw(hierarchies(draw(st.integers(1, 3))))}
    columns = {side: [f"{side}_{name}" for name in leaves.column_names] for side, (_, leaves) in sides.items()}
    order = draw(st.permutations([side for side, names in columns.items() for _ in names]))
    tree = tt.Product({side: tree for side, (tree, _) in sides.items()}, order=order, columns=columns)
    records = {}
    for side, (_, leaves) in sides.items():
        taken = leaves.take(pa.array((rng.beta(1, 3, rows) * leaves.num_rows).astype(int), pa.int64()))
        records |= dict(zip(columns[side], taken.columns, strict=True))
    return tree, pa.table(records)


def planned(tree, records, mechanism, **options):
    """A planned release of counts with a seed."""
    options = {"neighboring": "add_remove", "seed": 7, "budget": tt.Budget(epsilon=1.0)} | options
    budget = options.pop("budget")
    return plan_counts(CountsArguments(records, tree, budget, mechanism=mechanism, **options))


def contents(folder):
    """The bytes of every file of a saved release, by name."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def saved(release, folder):
    """The same of a release that is saved there, and removed again."""
    release.save(folder)
    found = contents(folder)
    shutil.rmtree(folder)
    return found
