"""The demo's two specs, commented so that a user learns from them."""

from __future__ import annotations

MAX_GROUP_SIZE = 500

HOUSEHOLDS_SPEC = f"""\
# How many households of every country, state and county have 0, 1, 2, ... members.
#   tallytree check households.yaml                      what would be measured; spends nothing
#   tallytree release households.yaml --out my-release   measures and publishes
statistic: group_sizes

# For readers of the report; they change no number.
title: Households by size
publisher: The demo of tallytree
words: {{person: resident, group: household}}

# Private: one row per person. Paths are relative to this file.
records: data/people.parquet
group: household_id

# Public: the tree, with one row per leaf ...
hierarchy:
  path: data/households.parquet
  levels: [country, state, county]
# ... and how many households every county has, empty ones included (the column `groups`).
public_groups: data/households.parquet

# Larger households are counted as this size.
max_group_size: {MAX_GROUP_SIZE}

# What is protected: one person's presence, with pure differential privacy ...
neighboring: add_remove
budget:
  epsilon: 1.0

# Everything else has a default: which mechanism makes the tables from the noisy numbers, and how the levels share the
# budget. To choose them yourself: mechanism: {{name: Matching}}, budget_split: {{country: 1, state: 1, county: 2}}
"""

COMMUTES_SPEC = """\
# How many people commute between regions, provinces and municipalities.
#   tallytree check commutes.yaml                      what would be measured; spends nothing
#   tallytree release commutes.yaml --out my-release   measures and publishes
statistic: flows

# For readers of the report; they change no number.
title: Commutes between municipalities
publisher: The demo of tallytree
words: {record: commute, person: commuter}

# Private: one row per commuter. Paths are relative to this file.
trips: data/commutes.parquet

# Public: the municipalities; both sides have the same tree here.
origins: &municipalities
  path: data/municipalities.parquet
  levels: [region, province, municipality]
destinations: *municipalities

# The columns of `trips`, one per level of the tree. The levels of the release are named after them.
origin: [origin_region, origin_province, origin_municipality]
destination: [destination_region, destination_province, destination_municipality]
# Which side is refined first: destination_region, origin_region, destination_province, ...
tree: destination

# What is protected: where one commuter lives and works. The number of commuters is published exactly.
neighboring: change_one
budget:
  epsilon: 1.0
  delta: 1e-8

# Everything else has a default. To choose the mechanism yourself: mechanism: {name: TopDown}
"""

SPECS = {"households.yaml": HOUSEHOLDS_SPEC, "commutes.yaml": COMMUTES_SPEC}
