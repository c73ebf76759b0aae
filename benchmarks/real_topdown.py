"""`TopDown` beside the default mechanism on real data, with the same budget: root mean square errors by level.

    python benchmarks/real_topdown.py [--epsilon 1] [--runs 10]

Counts by area and flows between airports, as `real_sets.py` has them. The default is `LeastSquares()` for counts and
`LeastSquares(sparsity="auto")` for flows.
"""

import argparse

import numpy as np
import real_data
import real_sets

import tallytree as tt


def errors(name: str, mechanism: tt.counts.TopDown | None, epsilon: float, runs: int) -> dict[str, float]:
    """The root mean square error of each level, over all its nodes and all runs.

    Args:
        name: of the data, of `real_sets.COUNTS` or `real_sets.FLOWS`.
        mechanism: which releases; None is the default.
        epsilon: the budget, with δ = 1e-8.
        runs: how many releases, with seeds from 0.
    """
    found: dict[str, list[float]] = {}
    terms = {"neighboring": "add_remove", "mechanism": mechanism}
    budget = tt.Budget(epsilon=epsilon, delta=1e-8)
    if name in real_sets.COUNTS:
        records, columns = real_sets.COUNTS[name]()
        tree = tt.Hierarchy.from_table(records[columns].drop_duplicates(), levels=columns)
        terms["count"] = "count" if "count" in records else None
    else:
        records, areas, levels = real_sets.FLOWS[name]()
        tree = tt.Hierarchy.from_table(areas, levels=levels)
        sides = {side: [f"{side}_{level}" for level in levels] for side in ("origin", "destination")}
        columns = [*sides["origin"], *sides["destination"]]
        terms |= {"origins": tree, "destinations": tree, "count": "count"} | sides
    for seed in range(runs):
        if name in real_sets.COUNTS:
            release = tt.release_counts(records, tree, budget, seed=seed, **terms)
        else:
            release = tt.release_flows(records, budget=budget, seed=seed, **terms)
        for level in release.levels:
            each = real_data._listed_errors(release, level, records, columns, terms["count"], release.tree.size)
            found.setdefault(level, []).append(np.mean(each["error"].astype(float) ** 2))
    return {level: float(np.sqrt(np.mean(each))) for level, each in found.items()}


def main() -> None:
    """Print a line for each level of each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    print("| data | level | TopDown | default | ratio |\n| --- | --- | --- | --- | --- |")
    for name in [*real_sets.COUNTS, *real_sets.FLOWS]:
        chain, ours = (errors(name, each, given.epsilon, given.runs) for each in (tt.counts.TopDown(), None))
        for level, error in chain.items():
            print(f"| {name} | {level} | {error:.2f} | {ours[level]:.2f} | {ours[level] / error:.2f} |", flush=True)


if __name__ == "__main__":
    main()
