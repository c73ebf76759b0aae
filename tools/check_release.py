"""Check a published release against its own statement, with nothing of tallytree.

    python tools/check_release.py FOLDER [--ledger FILE]

It reads the folder, computes again what can be computed from it, and prints what does not agree. It ends with 0 and
"consistent with its statement", or with 1; with 2 where a file cannot be read. What could not be checked is printed
too. It needs Python 3.11 and NumPy;
pyarrow reads the Parquet files, and is used for nothing else. Read it from top to bottom:

1. Files: digests, rows, columns.
2. Sensitivities: from what is measured, of whom, and under which neighboring relation (docs/explanation/proofs.md).
3. Noise: standard deviations, and what each measurement spends.
4. The sum: ε, ρ, or (ε, δ), the last by one of three accountings, or by the threshold's own conditions.
5. Attack rates: no less than what one pair of neighbors gives the best attacker.
6. Numbers: integers, 0 or more, that add up, inside their intervals.
7. The ledger: its chain of digests, and the release's entry.

What no folder can show is not checked: that the noise was drawn as stated, and that the records were counted as stated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sqlite3
import sys
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

CLOSE = 1e-6
"""Relative: stated numbers are floats, or rounded to six digits and more."""


class Findings:
    """What does not agree, and what was not checked."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.unchecked: list[str] = []

    def expect(self, holds: bool, sentence: str) -> None:
        """Note a sentence if what it denies does not hold."""
        if not holds:
            self.wrong.append(sentence)

    def skip(self, sentence: str) -> None:
        """Note what was not checked."""
        self.unchecked.append(sentence)


def close(one: float, other: float) -> bool:
    """Whether two numbers are equal but for rounding."""
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12)


# --- 1. Files ---


def check_files(folder: Path, manifest: dict[str, Any], findings: Findings) -> bool:
    """The manifest's digest is of its content; each file's is of its bytes; its rows are as many as stated."""
    before = len(findings.wrong)
    content = {key: value for key, value in manifest.items() if key != "digest"}
    if "digest" in manifest:
        text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        findings.expect(hashlib.sha256(text).hexdigest() == manifest["digest"], "release.json: another digest")
    else:
        findings.skip("release.json has no digest (format version 1)")
    for name, facts in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            findings.wrong.append(f"{name}: there is no such file")
            continue
        if hashlib.sha256(path.read_bytes()).hexdigest() != facts["sha256"]:
            findings.wrong.append(f"{name}: another digest")
        elif path.suffix == ".parquet":
            rows = pyarrow.parquet.read_metadata(path).num_rows
            findings.expect(rows == facts["rows"], f"{name}: {rows} rows, and not {facts['rows']}")
    return len(findings.wrong) == before


# --- 2. Sensitivities ---


def cell_moves(statistic: str, relation: str, m: int, z: int, n: int) -> tuple[tuple[int, int], ...]:
    """How cells move in the worst case, as (cells, by how much): the table and the lemmas of the page of proofs.

    Both norms follow from it: Δ₁ = Σ cells · move, Δ₂² = Σ cells · move².
    """
    sides = 2 if relation == "change_one" else 1
    match statistic:
        case "counts" | "stable_counts":  # all m records lie in one cell: Lemma 1
            return ((sides, m),)
        case "persons_by_rank":  # all m records have one rank: Lemma 14
            return ((sides, m),)
        case "total":  # one cell: Lemma 2
            return ((1, m),)
        case "distinct_counts":  # at most m cells by 1 on each side: Lemma 3
            return ((sides * m, 1),)
        case "histogram":  # m groups lose a member each, to m others of the same size: Lemma 4
            return ((1, 2 * m), (2, m)) if sides == 2 else ((2, m),)
        case "tail_counts":  # z thresholds, m groups on each side: Lemma 5
            return ((sides * z, m),)
        case "chain_tail_counts":  # each threshold passes the level's n nodes: Lemma 6
            return ((sides * z * n, m),)
        case "sorted_sizes":  # one group moves by m·z on each side: Lemma 7
            return ((sides, m * z),)
        case "largest_size":  # Lemma 8
            return ((1, m * z),)
        case "contributions":  # a person is in one bin, whatever m is: Lemma 9
            return ((sides, 1),)
    raise ValueError(f"statistic: {statistic!r} has no known sensitivity")


def one_pattern(statistic: str, relation: str, m: int, z: int) -> bool:
    """Whether one pattern of moves dominates all others, which composing loss distributions needs."""
    if statistic in ("distinct_counts", "contributions"):
        return True
    if statistic in ("sorted_sizes", "largest_size"):
        return m == z == 1
    return m == 1 and not (statistic == "histogram" and relation == "change_one")


def norms(moves: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """Δ₁ and Δ₂²."""
    return sum(cells * by for cells, by in moves), sum(cells * by * by for cells, by in moves)


class Measured:
    """One thing that was measured: a level, a table, the largest size, or people by their number of records."""

    def __init__(self, name: str, facts: dict[str, Any], moves: tuple[tuple[int, int], ...], *, dominates: bool):
        self.name, self.facts, self.moves, self.dominates = name, facts, moves, dominates
        self.statistic: str = facts["statistic"]
        self.l1, self.l2_squared = norms(moves)
        self.gaussian = facts["noise"]["distribution"] == "discrete_gaussian"
        self.scale = Fraction(facts["noise"]["scale_exact"])

    @property
    def epsilon(self) -> Fraction:
        """What discrete Laplace noise spends: Δ₁ / scale."""
        return self.l1 / self.scale

    @property
    def rho(self) -> Fraction:
        """Δ₂² / (2σ²); an ε-private measurement has ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4)."""
        return self.l2_squared / (2 * self.scale**2) if self.gaussian else self.epsilon**2 / 2


def measured_of(statement: dict[str, Any], spec: dict[str, Any]) -> list[Measured]:
    """Everything that was measured."""
    relation, m = statement["neighboring"], statement["max_contributions"] or 1
    z = quantity_of(statement, spec)
    named = [(level["level"], level) for level in statement["levels"] if level["measured"]]
    named += [(name, statement[name]) for name in ("maximum", "contributions") if name in statement]
    if statement["statistic"] == "contributions":
        named = named[-1:]
    return [
        Measured(
            name,
            facts,
            cell_moves(facts["statistic"], relation, m, z, facts.get("nodes", 1)),
            dominates=one_pattern(facts["statistic"], relation, m, z),
        )
        for name, facts in named
    ]


def quantity_of(statement: dict[str, Any], spec: dict[str, Any]) -> int:
    """z: the most that a record adds to a group's size, which no clamped size exceeds."""
    z = spec.get("max_quantity") or 1
    if statement["statistic"] != "group_sizes":
        return 1
    return int(min(z, largest_size(statement, spec) - spec["min_group_size"] + 1))


def largest_size(statement: dict[str, Any], spec: dict[str, Any]) -> int:
    """The public bound of sizes."""
    return int(statement["maximum"]["at_most"] if "maximum" in statement else spec["max_group_size"])


def check_sensitivities(manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The stated norms are those of the worst neighbors, and each statistic fits its level."""
    statement, spec = manifest["statement"], manifest["spec"]
    last = manifest["levels"][-1]
    for each in measured:
        stated = each.facts["sensitivity"]
        right = stated["l1"] == each.l1 and close(stated["l2"], math.sqrt(each.l2_squared))
        findings.expect(
            right,
            f"{each.name}: sensitivities l1={stated['l1']} and l2={stated['l2']}, and not l1={each.l1} and "
            f"l2={math.sqrt(each.l2_squared)}",
        )
        if each.statistic == "total":
            findings.expect(each.facts["nodes"] == 1, f"{each.name}: a total of {each.facts['nodes']} cells")
        if each.statistic == "distinct_counts":
            leaf = names_all_leaves(manifest, each.facts) if "table" in each.facts else each.name == last
            bounded = statement["max_contributions_enforced"] and spec.get("distinct")
            findings.expect(bool(leaf and bounded), f"{each.name}: distinct counts are of bounded leaves alone")


def names_all_leaves(manifest: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether a table names the finest level of every attribute (or the attribute has one value)."""
    if "tree" not in manifest:
        return True
    finest = {
        each["columns"][-1] for each in manifest["tree"]["attributes"] if manifest["files"][each["file"]]["rows"] > 1
    }
    return finest <= set(facts["table"])


# --- 3. Noise ---


def variance(distribution: str, scale: float) -> float:
    """Of P(k) ∝ exp(−|k|/scale), by its closed form; of P(k) ∝ exp(−k²/(2·scale²)), by its sum (or scale² if large)."""
    if distribution == "discrete_laplace":
        q = math.exp(-1 / scale)
        return 2 * q / (1 - q) ** 2
    if scale > 5:
        return scale**2
    k = np.arange(1, 100)
    weights = np.exp(-(k**2) / (2 * scale**2))
    return float(2 * (weights * k**2).sum() / (1 + 2 * weights.sum()))


def check_noise(measured: list[Measured], seeded: bool, findings: Findings) -> None:
    """Standard deviations follow from the scales, and what each measurement spends from scale and sensitivity."""
    for each in measured:
        noise = each.facts["noise"]
        findings.expect(close(noise["scale"], float(each.scale)), f"{each.name}: scale and scale_exact differ")
        deviation = math.sqrt(variance(noise["distribution"], float(each.scale)))
        findings.expect(
            close(noise["std_dev"], deviation), f"{each.name}: std_dev {noise['std_dev']}, and not {deviation}"
        )
        kind, spent = ("rho", each.rho) if each.gaussian else ("epsilon", each.epsilon)
        stated = each.facts["spent"].get(kind)
        right = stated == "infinity" if seeded else stated is not None and close(stated, float(spent))
        findings.expect(right, f"{each.name}: it spends {kind} {stated}, and not {float(spent)}")


def check_measurements(folder: Path, manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The files of measurements state the same standard deviations."""
    stated = {each.name: each.facts["noise"]["std_dev"] for each in measured}
    for name, facts in manifest["files"].items():
        if not name.startswith("measurements/") or "std_dev" not in pyarrow.parquet.read_schema(folder / name).names:
            continue
        deviations = pyarrow.parquet.read_table(folder / name, columns=["std_dev"])["std_dev"].to_numpy()
        right = np.isclose(deviations, stated.get(facts["level"], -1.0), rtol=CLOSE).all()  # of no other level a row
        findings.expect(bool(right), f"{name}: another std_dev than that of the level's noise")


# --- 4. The sum ---


def check_sum(statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """What is stated as spent covers all that was measured, and is within the budget."""
    budget, spent = statement["budget"], statement["spent"]
    if statement["seeded"]:
        right = spent == {"epsilon": "infinity"} and not statement["private"]
        findings.expect(right, "the noise came from a seed, and yet the release is stated to be private")
        return
    for name, amount in spent.items():
        if name in budget:
            findings.expect(
                amount <= budget[name] * (1 + CLOSE), f"spent {name} {amount} of a budget of {budget[name]}"
            )
    rho = float(sum((each.rho for each in measured), Fraction(0)))
    # Where the contribution bound is chosen by a measurement, what is spent is the whole budget, whatever was chosen.
    at_least = "chosen" in statement.get("contributions", {})
    if "rho" in spent:
        right = close(spent["rho"], rho) or (at_least and spent["rho"] > rho) or not measured
        findings.expect(right, f"spent rho {spent['rho']}, and not {rho}")
    if "delta" not in budget:
        if "epsilon" in budget:
            findings.expect(not any(each.gaussian for each in measured), "Gaussian noise has no pure epsilon")
            epsilon = float(sum((each.epsilon for each in measured), Fraction(0)))
            right = close(spent["epsilon"], epsilon) or (at_least and spent["epsilon"] > epsilon) or not measured
            findings.expect(right, f"spent epsilon {spent['epsilon']}, and not {epsilon}")
        return
    epsilon, delta = spent["epsilon"], spent["delta"]
    if any(each.statistic == "stable_counts" for each in measured):
        check_threshold(measured, statement, epsilon, delta, findings)
        return
    match statement["accounting"]:
        case "zcdp":
            needed = epsilon_of_rho(rho, delta)
        case "paper":  # Bun and Steinke 2016, Proposition 1.3
            needed = rho + 2 * math.sqrt(rho * math.log(1 / delta))
        case "pld":
            check_composed(measured, epsilon, delta, findings)
            return
        case other:
            findings.wrong.append(f"accounting: {other!r} has no delta")
            return
    findings.expect(needed <= epsilon * (1 + CLOSE), f"spent epsilon {epsilon} at delta {delta}, and it takes {needed}")


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The least over α of αρ + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α) (Canonne, Kamath and Steinke 2020, Cor. 13)."""
    if rho == 0:
        return 0.0
    best = 1 + math.sqrt(math.log(1 / delta) / rho)
    order = 1 + (best - 1) * np.exp(np.linspace(-3, 3, 200_001))
    values = order * rho + (math.log(1 / delta) - np.log(order)) / (order - 1) + np.log1p(-1 / order)
    return max(float(values.min()), 0.0)


def check_threshold(
    measured: list[Measured], statement: dict[str, Any], epsilon: float, delta: float, findings: Findings
) -> None:
    """Lemma 10 of the page of proofs: counts of cells that have records, above a threshold t."""
    (each,) = measured
    m, t, b = statement["max_contributions"], each.facts["threshold"], float(each.scale)
    q = math.exp(-1 / b)
    first, last = (q ** (t - c) / (1 + q) for c in (1, m))
    lost = max(-math.expm1(m * math.log1p(-first)), last)
    findings.expect(float(each.epsilon) <= epsilon * (1 + CLOSE), f"the scale takes epsilon {float(each.epsilon)}")
    findings.expect(t >= m and lost <= delta * (1 + CLOSE), f"the threshold {t} takes delta {lost}, and not {delta}")
    findings.expect(first <= 1 - q and last <= 1 - q**m, f"the threshold {t} is below its third condition")


Curves = tuple[tuple[bool, float, int, int], ...]
"""Whether the noise is Gaussian, its scale, by how much a cell moves, and how many such cells there are."""


def curves_of(moves: list[tuple[Measured, tuple[tuple[int, int], ...]]]) -> Curves:
    """Equal cells of all levels, together."""
    found: Counter[tuple[bool, float, int]] = Counter()
    for each, pattern in moves:
        for cells, by in pattern:
            found[each.gaussian, float(each.scale), by] += cells
    return tuple((*key, cells) for key, cells in sorted(found.items()))


def sum_of_cells(gaussian: bool, scale: float, by: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The privacy losses of some equal cells together, and their probabilities.

    A cell shows noise x, or x + by under the neighbor: its loss is ln P(x) − ln P(x + by). For Gaussian noise it is
    (2·by·x + by²)/(2σ²), so that of several cells depends on their sum, an integer, whose distribution is exact here.
    For Laplace noise it is (|x + by| − |x|)/b, which takes by + 1 values in steps of 2/b.
    """
    reach = math.ceil(12 * scale if gaussian else 45 * scale) + by + 5
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(x**2) / (2 * scale**2) if gaussian else -np.abs(x) / scale)
    weights /= weights.sum()
    if not gaussian:
        steps = np.rint((np.abs(x + by) - np.abs(x) + by) / 2).astype(np.int64)
        weights = np.bincount(steps, weights)
    size = cells * (len(weights) - 1) + 1
    together = np.fft.irfft(np.fft.rfft(weights, size) ** cells, size) if cells > 1 else weights
    together = np.maximum(together, 0.0)
    if gaussian:
        sums = np.arange(size) - cells * reach
        return (2 * by * sums + cells * by**2) / (2 * scale**2), together
    return (2 * np.arange(size) - cells * by) / scale, together


POINTS = 2**18
"""Of the grid of losses."""


@lru_cache(maxsize=4096)
def composed(curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Losses of all cells together, rounded down to a grid, and their probabilities."""
    parts = [sum_of_cells(*curve) for curve in curves]
    parts = [(losses[p > 0], p[p > 0]) for losses, p in parts]
    if len(parts) == 1:
        return parts[0]
    low = sum(float(losses.min()) for losses, _ in parts)
    high = sum(float(losses.max()) for losses, _ in parts)
    step = (high - low) / (POINTS - len(parts) - 1)
    spectrum = np.ones(POINTS // 2 + 1, dtype=np.complex128)
    for losses, probabilities in parts:
        places = np.floor((losses - losses.min()) / step).astype(np.int64)
        spectrum *= np.fft.rfft(np.bincount(places, probabilities, minlength=POINTS))
    p = np.maximum(np.fft.irfft(spectrum, POINTS), 0.0)
    return low + step * np.arange(POINTS), p


def delta_at_least(curves: Curves, epsilon: float) -> float:
    """Σ over losses L > ε of P(L)·(1 − exp(ε − L)). Losses are rounded down, so it is no more than δ(ε)."""
    losses, p = composed(curves)
    above = losses > epsilon
    return float((p[above] * -np.expm1(epsilon - losses[above])).sum())


FFT_ERROR = 1e-13
"""Absolute, of a δ: float arithmetic of the transforms."""


def check_composed(measured: list[Measured], epsilon: float, delta: float, findings: Findings) -> None:
    """The composition of all levels' loss distributions has no more than δ."""
    for each in measured:
        findings.expect(each.dominates and each.gaussian, f"{each.name}: no loss distribution dominates its neighbors")
    if not measured:
        return
    found = delta_at_least(curves_of([(each, each.moves) for each in measured]), epsilon)
    findings.expect(
        found <= delta * (1 + 1e-3) + FFT_ERROR, f"spent delta {delta} at epsilon {epsilon}, and it takes {found}"
    )


# --- 5. Attack rates ---


LARGEST = 2**16
"""Scale of noise whose distribution is enumerated."""


def check_rates(manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """Each rate is at least that of the best attack on one pair of neighbors, and at most what (ε, δ) admits."""
    statement = manifest["statement"]
    if "risk" not in statement:
        return
    if any(each.statistic == "stable_counts" for each in measured):
        findings.skip("attack rates of counts above a threshold, against the best attack")
        curves: Curves = ()
    elif any(each.scale > LARGEST for each in measured):
        findings.skip(f"attack rates with noise of a scale above {LARGEST:,}, against the best attack")
        curves = ()
    else:
        curves = curves_of([(each, moves) for each in measured if (moves := one_sided(manifest, each))])
    spent = statement.get("part_of", statement)["spent"]  # a part states the risk of the whole release
    for rate in statement["risk"]["rates"]:
        alpha, stated = rate["false_positive_rate"], rate["true_positive_rate"]
        least = best_attack(curves, alpha) if curves else alpha
        findings.expect(
            stated >= least - 2e-5, f"attack at {alpha}: at most {stated} true positives, but one attack has {least}"
        )
        if "epsilon" in spent:
            most = min(1.0, math.exp(min(spent["epsilon"], 50)) * alpha + spent.get("delta", 0.0))
            findings.expect(stated <= most + 1e-5, f"attack at {alpha}: {stated}, and (epsilon, delta) admits {most}")


def one_sided(manifest: dict[str, Any], each: Measured) -> tuple[tuple[int, int], ...]:
    """Moves of one pair of neighbors that holds at all levels at once: a person's records come, or move far away.

    Where they move, only the cells that they leave are looked at (an attacker who ignores the rest does no better), and
    nothing of a single cell, in which they stay. Of several nodes, quantities or sizes the moves are those of one cell.
    """
    if each.statistic == "largest_size" or (manifest["statement"]["neighboring"] == "change_one" and single(each)):
        return ()
    cells, by = each.moves[-1]
    if each.statistic == "contributions":
        return ((1, 1),)
    if each.statistic in ("tail_counts", "persons_by_rank", "chain_tail_counts", "histogram", "sorted_sizes"):
        if manifest["statement"]["neighboring"] == "change_one":
            return ()
        return ((1, by),)
    return ((cells, by),) if each.statistic == "distinct_counts" else each.moves


def single(each: Measured) -> bool:
    """Whether it has one cell."""
    return each.statistic == "total" or each.facts.get("nodes") == 1


def best_attack(curves: Curves, alpha: float) -> float:
    """The true-positive rate, at a false-positive rate, of the test that rejects the largest losses."""
    losses, p = composed(curves)
    order = np.argsort(-losses, kind="stable")
    found, false = (
        p[order],
        p[order] * np.exp(np.minimum(-losses[order], 700)),
    )  # of losses rounded down: at least the false positives
    reached = np.cumsum(false)
    place = int(np.searchsorted(reached, alpha))
    if place >= len(found):
        return float(found.sum())
    before = reached[place - 1] if place else 0.0
    part = (alpha - before) / false[place] if false[place] else 0.0
    return float(found[:place].sum() + part * found[place])


# --- 6. Numbers ---


def read_numbers(folder: Path, statement: dict[str, Any], name: str, findings: Findings) -> tuple[list[str], Any]:
    """The path columns of a table (with `size`, of group sizes); and these, as 0, 1, …, with the column `number`."""
    table = pyarrow.parquet.read_table(folder / name)
    number = "groups" if "groups" in table.column_names else "count"
    columns = table.column_names[: table.column_names.index(number)]
    values = table[number].to_numpy(zero_copy_only=False)
    if not statement.get("fractional_numbers"):
        findings.expect(bool((values == np.rint(values)).all()), f"{name}: a number is no integer")
    if not statement["negative_numbers"]:
        findings.expect(bool((values >= 0).all()), f"{name}: a number is negative")
    check_intervals(name, table, values, findings)
    paths = [plain(table[column]) for column in columns]
    numbers = pyarrow.table([*paths, table[number]], names=[*map(str, range(len(columns))), "number"])
    if columns:
        rows = numbers.group_by(numbers.column_names[:-1]).aggregate([([], "count_all")])["count_all"].to_numpy()
        findings.expect(not (rows > 1).any(), f"{name}: a row is there twice")
    return columns, numbers


def plain(column: Any) -> Any:
    """A column without a dictionary."""
    kind = column.type
    return column.cast(kind.value_type) if pyarrow.types.is_dictionary(kind) else column


def check_intervals(name: str, table: Any, values: np.ndarray, findings: Findings) -> None:
    """Published numbers are inside their intervals, and standard deviations are numbers, 0 or more."""
    for column, inside in (("ci_lower", np.less_equal), ("ci_upper", np.greater_equal)):
        if column in table.column_names:
            ends = table[column].to_numpy(zero_copy_only=False)
            given = ~np.isnan(ends.astype(np.float64))
            findings.expect(bool(inside(ends[given], values[given]).all()), f"{name}: a number is outside its {column}")
    if "std_dev" in table.column_names:
        deviations = table["std_dev"].drop_null().to_numpy()
        findings.expect(bool((deviations >= 0).all()), f"{name}: a std_dev is negative, or no number")


def check_numbers(folder: Path, manifest: dict[str, Any], findings: Findings) -> None:
    """Each table whose columns another table has is the sum of that table's rows."""
    statement = manifest["statement"]
    if statement["statistic"] == "contributions":
        findings.skip("numbers of people, which have no sums")
        return
    tables = {
        facts["level"]: read_numbers(folder, statement, name, findings)
        for name, facts in manifest["files"].items()
        if name.startswith("tables/") and name.endswith(".parquet")
    }
    if statement["constraint_violations"]:
        findings.skip(f"sums: the statement says that {statement['constraint_violations']} do not hold")
        return
    for coarse, (columns, numbers) in tables.items():
        for fine, (others, finer) in tables.items():
            if fine != coarse and set(columns) < set(others) and are_compared(manifest, coarse, fine):
                below = sums(finer, [str(others.index(column)) for column in columns])
                own = sums(numbers, numbers.column_names[:-1])
                findings.expect(below.equals(own), f"{coarse}: it is not the sum of {fine}")


def are_compared(manifest: dict[str, Any], coarse: str, fine: str) -> bool:
    """Of levels, each with the next; of tables, all."""
    levels = manifest["levels"]
    return bool(manifest["statement"]["statistic"] == "tables") or bool(levels.index(fine) == levels.index(coarse) + 1)


def sums(numbers: Any, columns: list[str]) -> Any:
    """The sums by path, without those that are 0, in the order of the paths."""
    if not columns:
        return pyarrow.table([numbers["number"].to_numpy().sum(keepdims=True)], names=["number"])
    found = numbers.group_by(columns).aggregate([("number", "sum")]).select([*columns, "number_sum"])
    found = found.filter(pyarrow.compute.not_equal(found["number_sum"], 0))
    named = found.rename_columns([*map(str, range(len(columns))), "number"])
    return named.sort_by([(str(place), "ascending") for place in range(len(columns))]).combine_chunks()


def check_parts(folder: Path, statement: dict[str, Any], findings: Findings) -> None:
    """Both parts are releases; what they measured is what the whole says; members of households are the persons."""
    kept = {}
    for part in ("persons", "households"):
        found = check(folder / part)
        findings.wrong += [f"{part}: {each}" for each in found.wrong]
        findings.unchecked += [f"{part}: {each}" for each in found.unchecked]
        kept[part] = json.loads((folder / part / "release.json").read_text(encoding="utf-8"))
        own = {each["level"]: each.get("noise") for each in kept[part]["statement"]["levels"]}
        prefix = "households/" if part == "households" else ""
        of_whole = {
            each["level"].removeprefix(prefix): each.get("noise")
            for each in statement["levels"]
            if each["part"] == part
        }
        findings.expect(own == of_whole, f"{part}: other noise than the whole release says")
    sides = [side["columns"] for side in kept["persons"]["tree"]["attributes"]]
    for each in kept["households"]["statement"]["levels"]:
        homes = pyarrow.parquet.read_table(folder / "households" / table_file(kept["households"], each["level"]))
        paths = homes.column_names[: homes.column_names.index("size")]
        named = [*([paths[-1]] if paths and paths[-1] in sides[0] else []), "in_household"]
        tables = [one["level"] for one in kept["persons"]["statement"]["levels"] if one["table"] == named]
        if not tables:
            findings.skip(f"persons of the level {each['level']}, which repeats the one above")
            continue
        persons = pyarrow.parquet.read_table(folder / "persons" / table_file(kept["persons"], tables[0]))
        persons = persons.filter(pyarrow.compute.equal(plain(persons["in_household"]), "yes"))
        columns = [*map(str, range(len(paths)))]
        inside = pyarrow.table([*(plain(persons[path]) for path in paths), persons["count"]], [*columns, "number"])
        members = pyarrow.table([*(plain(homes[path]) for path in paths), homes["persons"]], [*columns, "number"])
        same = sums(inside, columns).equals(sums(members, columns))
        findings.expect(same, f"{each['level']}: members of households are not the persons in households")


def table_file(manifest: dict[str, Any], level: str) -> str:
    """The Parquet file of a level's published table."""
    own = [name for name, facts in manifest["files"].items() if facts.get("level") == level]
    return str(next(name for name in own if name.startswith("tables/") and name.endswith(".parquet")))


# --- 7. The ledger ---


def check_ledger(path: Path | None, statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The chain of digests is whole, and the release's entry has what the statement says, and no less."""
    if path is None:
        if statement["ledger"] is not None:
            findings.skip("the ledger's entry (give --ledger)")
        return
    if statement["ledger"] is None:
        findings.wrong.append("ledger: the statement says that the release was recorded in none")
        return
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT number, facts, digest FROM events ORDER BY number").fetchall()
        head = connection.execute("SELECT number, digest FROM head").fetchall()
    digest = "0" * 64
    for place, (number, text, kept) in enumerate(rows, 1):
        digest = hashlib.sha256(f"{digest}\n{number}\n{text}".encode()).hexdigest()
        if number != place or kept != digest:
            findings.wrong.append(f"ledger: event {place} does not agree with its digest")
            return
    findings.expect(head == [(len(rows), digest)], "ledger: it does not end with its last event")
    events = [json.loads(text) for _, text, _ in rows]
    entries = [
        each for each in events if each["event"] == "release" and each["release_id"] == statement["release"]["id"]
    ]
    if len(entries) != 1:
        findings.wrong.append(f"ledger: {len(entries)} entries of this release, and not 1")
        return
    check_entry(entries[0], statement, measured, findings)


def check_entry(entry: dict[str, Any], statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """What the ledger added up is what was spent; a bound that was chosen counts as the largest that could be."""
    same = {
        "dataset": statement["ledger"]["dataset"],
        "statistic": statement["statistic"],
        "plan": statement["release"]["plan"],
        "run": statement["release"]["run"],
    }
    for name, value in same.items():
        findings.expect(entry[name] == value, f"ledger: {name} {entry[name]!r}, and {value!r} in the statement")
    if statement["max_contributions"] is not None:
        chosen = "chosen" in statement.get("contributions", {})
        bound = statement["contributions"]["at_most"] if chosen else statement["max_contributions"]
        findings.expect(entry["max_contributions"] == bound, f"ledger: a bound of {entry['max_contributions']}")
    spent = dict(statement["spent"])
    spent.setdefault("rho", float(sum((each.rho for each in measured), Fraction(0))))
    for name in ("epsilon", "delta", "rho"):
        if entry[name] is not None and name in spent:
            charged = float(Fraction(entry[name]))
            findings.expect(
                charged >= spent[name] * (1 - 2e-5), f"ledger: {name} {charged}, and {spent[name]} was spent"
            )


# --- All of it ---


def check_statement(manifest: dict[str, Any], findings: Findings) -> list[Measured]:
    """Check what needs no file."""
    statement = manifest["statement"]
    measured = measured_of(statement, manifest["spec"])
    check_sensitivities(manifest, measured, findings)
    check_noise(measured, statement["seeded"], findings)
    check_sum(statement, measured, findings)
    if not statement["seeded"]:
        check_rates(manifest, measured, findings)
    return measured


def check(folder: Path, ledger: Path | None = None) -> Findings:
    """Check a release's folder, and its entry in a ledger."""
    findings = Findings()
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    measured = check_statement(manifest, findings)
    if manifest["statement"]["statistic"] == "households":
        if check_files(folder, manifest, findings):
            check_parts(folder, manifest["statement"], findings)
    elif check_files(folder, manifest, findings):
        check_measurements(folder, manifest, measured, findings)
        check_numbers(folder, manifest, findings)
    else:
        findings.skip("measurements and numbers: the files are not those that release.json names")
    check_ledger(ledger, manifest["statement"], measured, findings)
    return findings


def main(arguments: list[str] | None = None) -> int:
    """Print what does not agree, and what was not checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of a release")
    parser.add_argument("--ledger", type=Path, help="the ledger in which it was recorded")
    given = parser.parse_args(arguments)
    try:
        findings = check(given.folder, given.ledger)
    except (OSError, sqlite3.Error, json.JSONDecodeError, pyarrow.ArrowException) as error:
        print(f"cannot be read: {given.folder} or its ledger {given.ledger}: {error}")
        return 2
    for sentence in findings.unchecked:
        print(f"not checked: {sentence}")
    for sentence in findings.wrong:
        print(f"WRONG: {sentence}")
    if not findings.wrong:
        print("consistent with its statement")
    return int(bool(findings.wrong))


if __name__ == "__main__":
    sys.exit(main())
