"""A right spec of each statistic, and what is said of a wrong one."""

import pytest

from tallytree.spec import (
    SpecError,
    load_spec,
)

COUNTS = """\
statistic: counts
records: people.parquet
hierarchy:
  path: areas.parquet
  levels: [state, county]
budget:
  epsilon: 1
  delta: 1e-8
neighboring: change_one
budget_split: {state: 0.1, county: 2e-1}
mechanism:
  name: TopDown
  options: {projection: euclidean}
"""


FLOWS = """\
statistic: flows
trips: trips.parquet
origins: &areas {path: areas.parquet, levels: [state, county]}
destinations: *areas
origin: [o_state, o_county]
destination: [d_state, d_county]
budget: {rho: "0.05"}
neighboring: bounded
"""


GROUP_SIZES = """\
statistic: group_sizes
records: people.parquet
group: home
public_groups: homes.parquet
hierarchy: {path: areas.parquet, levels: [state, county]}
max_group_size: 10_0
budget: {epsilon: 1.0}
neighboring: add_remove
"""


def write(folder, text, name="release.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path):
    """What is said of a spec, after the file's name."""
    with pytest.raises(SpecError) as caught:
        load_spec(path).check()
    assert str(caught.value).startswith(str(path))
    return str(caught.value)[len(str(path)) :]
