"""A tree and records that the tests of replicates share."""

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.replicated import TREE


@pytest.fixture(scope="module")
def tree():
    return tt.Hierarchy.from_table(TREE, ["state", "county"])


@pytest.fixture(scope="module")
def records():
    counts = np.arange(20) * 40 + 5
    return TREE.append_column("records", pa.array(counts))
