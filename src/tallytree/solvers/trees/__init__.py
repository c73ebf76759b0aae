"""Counts on trees: projections, families with known sums, zeros that are found, and their errors."""
