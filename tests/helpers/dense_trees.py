"""The dense covariance of the least-squares estimate of a small tree of counts, and a release over it."""

import numpy as np
import pyarrow as pa

import tallytree as tt

AREAS = pa.table({"state": list("AAABB"), "county": list("vwxyz")})
COUNTS = np.array([900, 400, 350, 700, 150])
TREE = tt.Hierarchy.from_table(AREAS, ["state", "county"])
ROWS = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1], *np.eye(5)])
"""Which counties lie in each node: the country, the states, the counties."""


def release(seed=1, counts=COUNTS, **changes):
    """A release of the counties, with noise of about 10."""
    given = {"budget": tt.Budget(epsilon=0.5), "neighboring": "add_remove", "count": "n", "seed": seed} | changes
    return tt.release_counts(AREAS.append_column("n", pa.array(counts)), TREE, given.pop("budget"), **given)


def covariance(made):
    """(BᵀW⁻¹B)⁻¹ of the counties, with W from the statement."""
    noise = {each["level"]: each["noise"]["std_dev"] for each in made.statement["levels"] if each["measured"]}
    at = np.repeat(["all", "state", "county"], [1, 2, 5])
    rows = np.array([row / noise[level] for row, level in zip(ROWS, at, strict=True)])
    return np.linalg.inv(rows.T @ rows)


def ratio_std_dev(dense, first, second, numbers, estimates):
    """Of the sums with the counties `first` and `second`: √(v_n − 2θc + θ²v_d) / d."""
    theta = numbers[0] / numbers[1]
    weights = np.asarray(first) - theta * np.asarray(second)
    return float(np.sqrt(weights @ dense @ weights) / abs(estimates[1]))
