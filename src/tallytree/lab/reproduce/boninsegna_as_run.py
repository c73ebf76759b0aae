"""What the published runs of Boninsegna and Silvestri 2025 did, where the paper says something else.

* **Half the budget.** In github.com/aidaLabDEI/TDA_hierarchical (6f8d70b), `mechanism/TDA.py`, lines 38 and 39,
  splits ρ over `T=final_level * 2` parts; the loop in line 60 is `for level in range(1, final_level + 1)` and takes one
  part at each turn (line 68). By `data_structure/tree.py`, line 33, `final_level` counts origins and destinations
  already. So half of the parts are spent.
* **The stability histogram.** `VanillaSH.py`, line 25, at commit 9928bc7 (February 2025) draws Laplace noise of scale
  √2/ε, from the sensitivity in L2; that in L1, which Laplace noise needs, is 2. The authors corrected it in c700671
  (June 2025), after the published runs.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from tallytree.budget import Budget
from tallytree.lab.compare.level_metrics import LevelResult
from tallytree.lab.reproduce.boninsegna_data import DELTA, QUANTITIES, Trips
from tallytree.lab.reproduce.measured import AS_RUN, MeasuredRows


def half_budget(epsilon: float) -> Budget:
    """Half of the ρ that Lemma 3 of the paper gives for (ε, δ): ρ = (√(ln(1/δ) + ε) − √(ln(1/δ)))²."""
    logarithm = -math.log(DELTA)
    return Budget(rho=(math.sqrt(logarithm + epsilon) - math.sqrt(logarithm)) ** 2 / 2)


def threshold(epsilon: float) -> float:
    """The threshold that belongs to the scale √2/ε: √2 + (√2/ε)·ln(√2/(2δ))."""
    return math.sqrt(2) * (1 + math.log(math.sqrt(2) / (2 * DELTA)) / epsilon)


def stability_histogram(name: str, trips: Trips, epsilon: float, runs: int, seed: int) -> list[MeasuredRows]:
    """Laplace noise of scale √2/ε on the pairs of leaves with trips, those above the threshold rounded, and their sums.

    Args:
        name: of the data set.
        trips: the data.
        epsilon: as claimed; the true loss is √2·ε.
        runs: how many times.
        seed: of the noise.
    """
    rows, tree = trips.flows.flows, trips.tree
    count = rows["count"].to_numpy()
    found: dict[tuple[int, str], list[float]] = {}
    for run in range(runs):
        noisy = count + np.random.default_rng([seed, run]).laplace(0, math.sqrt(2) / epsilon, len(count))
        published = np.where(noisy >= threshold(epsilon), np.rint(noisy), 0).astype(np.int64)
        for depth in range(len(tree.levels)):
            path = rows.select(list(tree.path_columns(depth)))
            released, true = (path.append_column("count", pa.array(each)) for each in (published, count))
            level = LevelResult(released, true, tree.size(depth))
            for quantity, metric in QUANTITIES.items():
                found.setdefault((depth, quantity), []).append(metric(level))
    return [
        MeasuredRows(name, "SH", quantity, values, AS_RUN, epsilon, depth)
        for (depth, quantity), values in found.items()
    ]
