"""What users see: public names, signatures and help texts; and how little `import tallytree` loads."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tallytree as tt
from helpers.inside import (
    ContributionsArguments,
    CountsArguments,
    FlowsArguments,
    HouseholdsArguments,
    SizesArguments,
    TablesArguments,
    option_docs,
)
from tallytree.lab.audit import audit

ROOT = Path(__file__).parents[1]
FUNCTIONS = [
    (tt.release_contributions, ContributionsArguments),
    (tt.release_counts, CountsArguments),
    (tt.release_flows, FlowsArguments),
    (tt.release_group_sizes, SizesArguments),
    (tt.release_households, HouseholdsArguments),
    (tt.release_tables, TablesArguments),
]


def test_public_names():
    assert set(tt.__all__) == {
        "Budget",
        "BudgetExceeded",
        "Contributions",
        "Hierarchy",
        "HouseholdsRelease",
        "Product",
        "Release",
        "change",
        "counts",
        "engines",
        "new_secret",
        "plan",
        "reconcile_group_sizes",
        "release_contributions",
        "release_counts",
        "release_flows",
        "release_group_sizes",
        "release_households",
        "release_tables",
        "replicate_errors",
        "series",
        "sizes",
        "solvers",
        "sources",
        "tables",
        "total_of",
    }
    assert all(getattr(tt, name) is not None for name in tt.__all__)
    assert tt.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tt.nothing  # noqa: B018


def test_the_earlier_name_of_noise_has_the_same_functions():
    from tallytree import noise
    from tallytree.private import noise as earlier

    assert noise.__all__ == earlier.__all__ == ["discrete_gaussian", "discrete_laplace"]
    assert (noise.discrete_gaussian, noise.discrete_laplace) == (earlier.discrete_gaussian, earlier.discrete_laplace)


def test_importing_tallytree_loads_nothing_heavy():
    heavy = "{'numba', 'pyarrow', 'duckdb', 'pandas', 'numpy', 'pydantic', 'typer'}"
    script = f"import sys, tallytree; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_package_offers_what_users_need_and_nothing_else():
    assert dir(tt) == sorted(
        [
            "Budget", "BudgetExceeded", "Contributions", "Hierarchy", "HouseholdsRelease", "Product", "Release",
            "__version__", "change", "counts", "engines", "new_secret", "plan", "reconcile_group_sizes",
            "release_contributions", "release_counts", "release_flows", "release_group_sizes", "release_households",
            "release_tables", "replicate_errors", "series", "sizes", "sources", "tables", "total_of",
        ]
    )  # fmt: skip
    assert all(getattr(tt, name) is not None for name in tt.__all__)
    assert {"CSV", "DuckDB", "Parquet", "PostgreSQL"} == set(tt.sources.__all__) == set(dir(tt.sources))
    assert dir(tt.engines) == ["Engine", "Local", "Remembering", "Spark"]


@pytest.mark.parametrize(("function", "arguments"), FUNCTIONS)
def test_a_signature_has_every_option_with_its_default(function, arguments):
    parameters = inspect.signature(function).parameters
    constructor = inspect.signature(arguments).parameters
    assert {name: each.default for name, each in parameters.items()} == {
        name: each.default for name, each in constructor.items()
    }
    assert {name: each.kind for name, each in parameters.items()} == {
        name: each.kind for name, each in constructor.items()
    }
    assert parameters["neighboring"].default is inspect.Parameter.empty


@pytest.mark.parametrize(("function", "arguments"), FUNCTIONS)
def test_a_help_text_describes_every_option(function, arguments):
    text = inspect.getdoc(function)
    assert "{arguments}" not in text
    assert max(map(len, function.__doc__.splitlines())) <= 120
    for name, (_, doc) in option_docs(arguments).items():
        assert f"\n    {name}: " in text
        assert " ".join(doc.text.split()) in " ".join(text.split())


def test_the_help_of_group_sizes_promises_no_bound_that_is_enforced_without_people():
    text = " ".join(inspect.getdoc(tt.release_group_sizes).split())
    assert (
        "max_contributions: the most records of one person: memberships of groups. It is assumed, not enforced, unless "
        in text
    )
    assert "StabilityHistogram" not in text


def test_the_audit_has_the_options_that_decide_the_noise_and_none_of_a_run():
    parameters = inspect.signature(audit).parameters
    assert {"neighboring", "max_contributions", "budget_split", "accounting", "noise"} < set(parameters)
    assert not {"ledger", "dataset", "engine", "on_unknown"} & set(parameters)
    assert list(parameters)[:5] == ["mechanism", "tree", "data", "neighbor", "budget"]


def test_a_call_that_does_not_fit_names_the_function():
    with pytest.raises(TypeError, match=r"^release_counts\(\) missing .*'neighboring'"):
        tt.release_counts([], None, tt.Budget(epsilon=1))
    with pytest.raises(TypeError, match=r"^release_flows\(\) got an unexpected keyword argument 'group'"):
        tt.release_flows([], group="home")


def test_aliases_of_the_relation_are_one_relation():
    given = [CountsArguments(None, None, None, neighboring=name) for name in ("change_one", "bounded", "replace_one")]
    assert {(each.neighboring, each.relation) for each in given} == {("change_one", "change_one")}


def test_the_public_solvers_are_those_of_the_library():
    """What they solve is tested where they are written."""
    from tallytree.solvers import isotonic, matching, simplex, sizes, tree, trees

    assert isotonic.fit is sizes.isotonic.fit
    assert matching.match is sizes.matching.match
    assert simplex.chebyshev is trees.simplex.chebyshev
    assert simplex.euclidean is trees.simplex.euclidean
    assert tree.project is trees.project.project
