"""Fixtures that several tests share."""

from pathlib import Path

import pyarrow as pa
import pytest

import tallytree as tt

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    """The papers' data sets, where they lie beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"the papers' data sets, which are optional, are not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def areas():
    """Two states with three counties and one; 'x' is a county of both."""
    table = pa.table({"state": ["A", "A", "A", "B"], "county": ["x", "y", "z", "x"]})
    return tt.Hierarchy.from_table(table, ["state", "county"])
