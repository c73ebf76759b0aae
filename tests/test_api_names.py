"""What `import tallytree` offers, and how little it loads."""

import subprocess
import sys

import pytest

import tallytree as tt


def test_public_names():
    assert set(tt.__all__) == {
        "Budget",
        "BudgetExceeded",
        "Hierarchy",
        "Product",
        "Release",
        "counts",
        "engines",
        "reconcile_group_sizes",
        "release_counts",
        "release_flows",
        "release_group_sizes",
        "replicate_errors",
        "sizes",
        "solvers",
    }
    assert all(getattr(tt, name) is not None for name in tt.__all__)
    assert tt.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tt.nothing  # noqa: B018


def test_importing_tallytree_loads_nothing_heavy():
    heavy = "{'numba', 'pyarrow', 'duckdb', 'pandas', 'numpy', 'pydantic', 'typer'}"
    script = f"import sys, tallytree; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
