"""Check a published release against its own statement, with nothing of tallytree.

    python tools/check_release.py FOLDER [--ledger FILE]

It reads the folder, computes again what can be computed from it, and prints what does not agree (WRONG), what was not
checked, and what no folder shows. It ends with 0 and "consistent with its statement", or with 1. It needs Python 3.11
and NumPy; pyarrow reads files and groups rows, nothing else. Read it from top to bottom: 1. the shape of
release.json, 2. files, columns, 3. the public tree, 4. sensitivities (docs/explanation/proofs.md), 5. noise, 6. the
sum of what was spent, 7. words, and the risk, 8. numbers, against each other and the measurements, 9. the ledger.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

CLOSE, LARGEST, POINTS, FFT_ERROR = 1e-6, 2**23, 2**18, 1e-13
"""Relative, of stated numbers; values of noise that are enumerated; points of a grid; what transforms add to a δ."""
Curves = tuple[tuple[bool, float, int, int], ...]  # Gaussian or not, scale, by how much a cell moves, how many cells do
PARTS, TOTAL, BETWEEN = ("persons", "households"), "the total number of records", pa.scalar("\x1f", pa.large_string())
ONE_LEVEL = ("LeafGaussian", "StabilityHistogram", "BottomUp")  # they measure the leaves alone
OTHERS = ("release.json", "deployment.yaml", "report.html")  # release.json does not name them
read = pyarrow.parquet.read_table
OF_A_LEVEL = (("tables", "parquet"), ("measurements", "parquet"), ("tables", "csv"))
NUMBERS = {**dict.fromkeys(("counts", "flows", "tables", "households"), ("count",)), "group_sizes": ("size", "groups")}
NUMBERS["contributions"] = ("people",)
"""The columns with what is published; those with errors may follow."""
ERRORS = {"std_dev", "ci_lower", "ci_upper", "unbiased", "listed_from", "probability_zero", "tail_count"}
ERRORS |= {"tail_std_dev", "persons", "persons_std_dev", "households_std_dev", "typical_error"}
OF_SIZES = ("tail_counts", "chain_tail_counts", "histogram", "sorted_sizes", "persons_by_rank")
NOT_SHOWN = (
    "that the noise was drawn as stated: from a secret, not from a seed that somebody knows, and once",
    "that records were counted as stated: all of them, of those days, and whose they are",
    "that a contribution bound was enforced, or holds where it is assumed",
    "a neighboring relation, a public tree, a public number or a plan that all files state alike, and falsely",
    "what else was published of the same people, and who made the folder, which has digests and no signature",
)


class Findings:
    """What does not agree, and what was not checked."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.unchecked: list[str] = []

    def expect(self, holds: Any, sentence: str) -> None:
        """Note a sentence if what it denies does not hold."""
        if not holds:
            self.wrong.append(sentence)

    def same(self, what: str, stated: Any, right: Any) -> None:
        """Note what is stated if it is not what was computed, but for the rounding of a float."""
        number = type(right) is float and type(stated) in (int, float)
        if not (math.isclose(stated, right, rel_tol=CLOSE, abs_tol=1e-12) if number else stated == right):
            self.wrong.append(f"{what}: {stated!r}, and not {right!r}")

    @contextmanager
    def reading(self, what: str) -> Any:
        """What cannot be read as a part of a release is a finding, and ends the block."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever a forger writes)
            self.wrong.append(f"{what} cannot be read: {type(error).__name__}: {str(error)[:200]}")


# --- 1. Shape ---
def each(names: str, *kinds: Any) -> dict[str, tuple[Any, ...]]:
    """Keys with the kinds that their values may have; one that ends with ? may be missing."""
    return dict.fromkeys(names.split(), kinds)


NONE, MANIFEST = type(None), each("levels", list) | each("format_version", int) | each("digest", str)
MANIFEST |= each("statement spec files", dict)
STATEMENT = {
    **each("guarantee statistic unit_of_protection neighboring accounting noise_source counted warning?", str),
    **each("private seeded public_groups_kept? public_total_kept? measurements_kept?", bool),
    **each("constraint_violations? negative_numbers? fractional_numbers? mended? max_household_size?", int),
    **each("invariants notes levels broken_promises?", list) | each("max_contributions_enforced", bool, NONE),
    **each("budget spent mechanism software release risk? maximum? contributions? errors? part_of? prior?", dict),
    **each("unmet? rounding? detail? description? reconciled?", dict) | each("ledger sparsity? unlisted?", dict, NONE),
    **each("max_contributions", int, NONE) | each("share_of_sizes?", float) | each("on_unknown", str, dict),
}
LEVEL = each("level part?", str) | each("nodes threshold?", int) | each("measured asked? zeros_listed?", bool)
LEVEL["table?"] = (list,)
MEASURED = each("statistic", str) | each("share", float) | each("sensitivity noise spent", dict)


def shape(value: dict[str, Any], kinds: dict[str, tuple[Any, ...]], where: str, findings: Findings) -> None:
    """Note keys that are missing or unknown, and values of another kind."""
    known = {key.rstrip("?"): kind for key, kind in kinds.items()}
    for key in kinds.keys() - value.keys():
        findings.expect(key.endswith("?"), f"{where}: {key!r} is missing")
    for key, inner in value.items():
        right = type(inner) in known.get(key, ()) and (type(inner) is not float or math.isfinite(inner))
        findings.expect(right, f"{where}: {key!r} is in no release, or never {str(inner)[:60]!r}")


def read_json(path: Path) -> Any:
    """The JSON in a file; no key may be there twice, since readers differ in which they take."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is there twice")
        return dict(pairs)

    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)


def check_shape(manifest: dict[str, Any], findings: Findings) -> bool:
    """The manifest, its statement, levels and files have the keys of a release, with values of their kinds."""
    statement, statistic = manifest["statement"], manifest["statement"]["statistic"]
    by_place = {} if statistic in ("contributions", "households") else each("tree", dict)
    shape(manifest, MANIFEST | by_place, "release.json", findings)
    right = 4 if statistic == "households" or "detail" in statement else 3
    findings.same("format_version", manifest["format_version"], right)
    shape(statement, STATEMENT, "statement", findings)
    for level in statement["levels"]:
        shape(level, LEVEL | (MEASURED if level["measured"] is True else {}), "statement.levels", findings)
    for name, facts in manifest["files"].items():
        shape(facts, each("rows", int) | each("sha256 level?", str), f"files: {name}", findings)
    findings.expect(statistic in NUMBERS, f"statistic: {statistic!r} is none")
    findings.same("spec: statistic", manifest["spec"].get("statistic"), statistic)
    findings.same("levels", [level["level"] for level in statement["levels"]], [*dict.fromkeys(manifest["levels"])])
    return not findings.wrong


# --- 2. Files ---
def files_of(manifest: dict[str, Any], level: str | None) -> dict[tuple[str, str], str]:
    """The files that the manifest names for a level: folder and suffix, and the name."""
    names = [name for name, facts in manifest["files"].items() if facts.get("level") == level]
    return {(name.partition("/")[0], name.rpartition(".")[2]): name for name in names}


def check_files(folder: Path, manifest: dict[str, Any], findings: Findings) -> bool:
    """The digests are those of the files, each file is part of a release, and no other file is there."""
    statement, files, before, tree = manifest["statement"], manifest["files"], len(findings.wrong), manifest.get("tree")
    content = {key: value for key, value in manifest.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    findings.same("release.json: digest", manifest["digest"], digest)
    parts = PARTS if statement["statistic"] == "households" else ()
    needed = {f"{part}/release.json" for part in parts} | ({"detail.parquet"} if "detail" in statement else set())
    needed |= {side["file"] for side in (tree.get("attributes", [tree]) if tree else ())}
    people = "contributions" in statement and statement["statistic"] != "contributions"
    needed |= {"contributions.parquet", *({"contributions.csv"} & {*files})} if people else set()
    for level in manifest["levels"] if not parts else ():
        names = files_of(manifest, level)
        findings.expect({*OF_A_LEVEL[:2]} <= names.keys() <= {*OF_A_LEVEL}, f"{level}: its files are {names}")
        needed |= {*names.values()}
    findings.same("release.json: files", sorted(files), sorted(needed))
    for name, facts in files.items():
        path = folder / name
        if not path.is_file() or ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"{name}: there is no such file in the folder")
        findings.same(f"{name}: digest", facts["sha256"], hashlib.sha256(path.read_bytes()).hexdigest())
        if path.suffix == ".parquet":
            findings.same(f"{name}: rows", facts["rows"], pyarrow.parquet.read_metadata(path).num_rows)
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        known = name in files or name in OTHERS or path.is_dir() or name.split("/")[0] in (*parts, "boundaries")
        right = known and not path.is_symlink() and not (statement["seeded"] and name == "deployment.yaml")
        findings.expect(right, f"{name}: release.json does not name it, or it is a link")
    return len(findings.wrong) == before


def joined(table: Any, columns: list[str]) -> Any:
    """The path of each row as one text, in which a label that is null is the character 0."""
    if not columns:
        return pa.array([""] * table.num_rows, pa.large_string())
    parts = [pc.cast(table[column].combine_chunks(), pa.large_string()) for column in columns]
    return pc.binary_join_element_wise(*parts, BETWEEN, null_handling="replace", null_replacement="\x00")


class Level:
    """What the statement says of a level, its table and its measurements, once their columns are right."""

    def __init__(self, folder: Path, manifest: dict[str, Any], place: int):
        *sizes, self.number = NUMBERS[manifest["statement"]["statistic"]]
        self.facts, self.name = manifest["statement"]["levels"][place], manifest["levels"][place]
        self.noise = self.facts.get("noise", {}).get("std_dev", -1.0)
        files = files_of(manifest, self.name)
        self.table, self.measured = (read(folder / files[kind]) for kind in OF_A_LEVEL[:2])
        names, value = self.table.column_names, "values" if sizes else "value"
        self.keys, rest = names[: names.index(self.number)], names[names.index(self.number) + 1 :]
        self.columns = self.keys[: len(self.keys) - len(sizes)]
        right = self.keys == self.columns + sizes and ERRORS.issuperset(rest) and len({*names}) == len(names)
        if not right or self.measured.column_names != [*self.columns, value, "std_dev"]:
            raise ValueError(f"{self.name} has the columns {names}, and of measurements {self.measured.column_names}")
        self.paths = joined(self.table, self.columns)
        self.noisy = (pc.list_flatten(self.measured[value]) if sizes else self.measured[value]).to_numpy()
        if OF_A_LEVEL[2] in files:
            check_csv(folder / files[OF_A_LEVEL[2]], self)

    def numbers(self, column: str = "") -> np.ndarray:
        """A column, by default of what is published; null is NaN."""
        return np.asarray(self.table[column or self.number].to_numpy(zero_copy_only=False))


def check_csv(path: Path, level: Level) -> None:
    """A CSV file has the rows of the Parquet file, its keys, its numbers, and no other columns but a verdict."""
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    options.column_types = dict.fromkeys(level.columns, pa.large_string())
    found, table = pyarrow.csv.read_csv(path, convert_options=options), level.table
    shared = {*found.column_names} - {"quality"}
    same = {*level.keys, level.number} <= shared <= {*table.column_names} and found.num_rows == table.num_rows
    same = same and joined(found, level.columns).equals(level.paths)
    for column in shared - {*level.columns} if same else ():
        one, other = (np.asarray(each[column].to_numpy(), dtype=np.float64) for each in (found, table))
        same = same and np.allclose(one, other, rtol=1e-9, atol=0, equal_nan=True)
    if not same:
        raise ValueError(f"{path.name} has other rows, columns or numbers than its Parquet file")
    if {"typical_error", "quality"} <= {*found.column_names} and found["quality"].to_pylist() != verdicts_of(level):
        raise ValueError(f"{path.name} has verdicts that do not follow from its numbers and their errors")


def verdicts_of(level: Level) -> Any:
    """The verdicts of numbers with typical errors; 90 % intervals hold those around number and unbiased estimate."""
    number, off, spread = (level.numbers(column) for column in ("", "typical_error", "std_dev"))
    middle = np.rint(level.numbers("unbiased")) if "unbiased" in level.table.column_names else number
    reach, more = (np.ceil(-NormalDist().inv_cdf(0.05) * each - 0.5) for each in (off, spread))
    near = (number <= reach) | (middle <= more)
    cases = [(off == 0) & (spread == 0), near, off < 0.166 * number, off <= 0.333 * number]
    return np.select(cases, ["exact", "not_distinguishable_from_0", "reliable", "with_care"], "unreliable").tolist()


# --- 3. The public tree ---
class Tree:
    """The public hierarchies: the leaves of each."""

    def __init__(self, folder: Path, manifest: dict[str, Any]):
        tree, self.sides = manifest["tree"], []
        for side in tree.get("attributes") or [{"columns": tree["levels"], **tree}]:
            leaves = read(folder / side["file"])
            names = [column for each in side.get("labels", {}).values() for column in each.values()]
            if leaves.column_names != [*side["levels"], *names]:
                raise ValueError(f"{side['file']} has other columns than release.json says")
            leaves = leaves.drop_columns(names)
            for above, name in pairwise(leaves.column_names):  # null below the end of a branch: its last label
                filled = pc.coalesce(leaves[name].cast(pa.large_string()), leaves[above].cast(pa.large_string()))
                leaves = leaves.set_column(leaves.column_names.index(name), name, filled)
            twice = len(pc.unique(joined(leaves, leaves.column_names))) < leaves.num_rows
            if any(each.null_count for each in leaves.columns) or twice:
                raise ValueError(f"{side['file']} has a null, or a leaf twice")
            self.sides.append(leaves.rename_columns(side["columns"]))

    def paths(self, columns: list[str]) -> list[tuple[list[str], list[Any]]]:
        """Of each hierarchy those of the columns that it has, and the distinct paths down to each of them."""
        found = [[name for name in leaves.column_names if name in columns] for leaves in self.sides]
        if [name for own in found for name in own] != columns:
            raise ValueError(f"the hierarchies have no level with the columns {columns}")
        both = zip(self.sides, found, strict=True)
        return [(own, [pc.unique(joined(side, own[:depth])) for depth in range(len(own) + 1)]) for side, own in both]

    def strangers(self, table: Any, columns: list[str], *, nulls: bool) -> bool:
        """Whether a row names what the hierarchies lack; with `nulls` it may name a node above, null in the rest."""
        for own, known in self.paths(columns):
            found = pc.replace_substring_regex(joined(table, own), "(\x1f?\x00)+$", "") if nulls else joined(table, own)
            if not pc.all(pc.is_in(found, pa.concat_arrays(known if nulls else known[-1:])), min_count=0).as_py():
                return True
        return False


# --- 4. Sensitivities ---
MOVES: dict[str, Any] = {
    # All m records lie in one cell, or have one rank: Lemmas 1 and 14.
    **dict.fromkeys(("counts", "stable_counts", "persons_by_rank"), lambda sides, m, z, n: ((sides, m),)),
    "total": lambda sides, m, z, n: ((1, m),),  # one cell: Lemma 2
    "distinct_counts": lambda sides, m, z, n: ((sides * m, 1),),  # at most m cells by 1 on each side: Lemma 3
    # m groups lose a member each; under change_one to m others of the same size: Lemma 4
    "histogram": lambda sides, m, z, n: ((1, 2 * m), (2, m)) if sides == 2 else ((2, m),),
    "tail_counts": lambda sides, m, z, n: ((sides * z, m),),  # z thresholds, m groups on each side: Lemma 5
    "chain_tail_counts": lambda sides, m, z, n: ((sides * z * n, m),),  # each passes the level's n nodes: Lemma 6
    "sorted_sizes": lambda sides, m, z, n: ((sides, m * z),),  # one group moves by m·z on each side: Lemma 7
    "largest_size": lambda sides, m, z, n: ((1, m * z),),  # Lemma 8
    "contributions": lambda sides, m, z, n: ((sides, 1),),  # a person is in one bin, whatever m is: Lemma 9
}
"""How cells move in the worst case, as (cells, by how much): Δ₁ = Σ cells · move, Δ₂² = Σ cells · move². `sides` is 2
under change_one, m bounds the records, a record adds z at most to a group's size, and n is the number of nodes."""


class Measured:
    """One thing that was measured: a level, a table, the largest size, or people by their number of records."""

    def __init__(self, name: str, facts: dict[str, Any], relation: str, m: int, z: int):
        self.name, self.facts, self.statistic = name, facts, facts["statistic"]
        sides = {"add_remove": 1, "change_one": 2}[relation]
        self.moves: tuple[tuple[int, int], ...] = MOVES[self.statistic](sides, m, z, facts.get("nodes", 1))
        # Whether one pattern of moves dominates all others, which composing loss distributions needs.
        several = {"histogram": sides == 2, "sorted_sizes": z > 1, "largest_size": z > 1}.get(self.statistic, False)
        self.dominates = self.statistic in ("distinct_counts", "contributions") or (m == 1 and not several)
        self.l1 = sum(cells * by for cells, by in self.moves)
        self.l2_squared = sum(cells * by * by for cells, by in self.moves)
        self.gaussian = {"discrete_gaussian": True, "discrete_laplace": False}[facts["noise"]["distribution"]]
        exact = facts["noise"]["scale_exact"]
        if not re.fullmatch(r"[0-9]{1,400}(/[0-9]{1,400})?", exact) or Fraction(exact) <= 0:
            raise ValueError(f"{name}: the scale {exact[:50]!r} is no fraction above 0")
        self.scale = Fraction(exact)
        self.epsilon = self.l1 / self.scale  # what discrete Laplace noise spends
        # Δ₂²/(2σ²); an ε-private measurement has ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4).
        self.rho = self.l2_squared / (2 * self.scale**2) if self.gaussian else self.epsilon**2 / 2


def measured_of(statement: dict[str, Any], spec: dict[str, Any]) -> list[Measured]:
    """Everything that was measured; z is the most that a record adds to a size, which no clamped size exceeds."""
    m, sizes = statement["max_contributions"], statement["statistic"] == "group_sizes"
    if m is not None and m < 1:
        raise ValueError(f"max_contributions: {m}")
    largest = statement["maximum"]["at_most"] if "maximum" in statement else spec.get("max_group_size")
    z = min(spec.get("max_quantity", 1), largest - spec["min_group_size"] + 1) if sizes else 1
    levels = statement["levels"] if statement["statistic"] != "contributions" else []  # they repeat it
    named = [(level["level"], level) for level in levels if level["measured"]]
    named += [(name, statement[name]) for name in ("maximum", "contributions") if name in statement]
    return [Measured(name, facts, statement["neighboring"], m or 1, z) for name, facts in named]


def check_sensitivities(manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The stated norms are those of the worst neighbors, and each statistic fits its level."""
    statement, spec, sides = manifest["statement"], manifest["spec"], manifest.get("tree", {}).get("attributes", [])
    finest = {side["columns"][-1] for side in sides if manifest["files"][side["file"]]["rows"] > 1}
    for one in measured:
        facts, nodes, statistic = one.facts, one.facts.get("nodes"), one.statistic
        norms, stated = [one.l1, round(math.sqrt(one.l2_squared), 6)], facts["sensitivity"]
        findings.same(f"{one.name}: sensitivities", [stated["l1"], round(stated["l2"], 6)], norms)
        sizes = statement["statistic"] == "group_sizes" or facts.get("part") == "households"
        beside = {"maximum": "largest_size", "contributions": "contributions"}
        right = statistic in OF_SIZES if sizes else statistic not in (*OF_SIZES, *beside.values())
        right = right if "level" in facts else statistic == beside[one.name]
        findings.expect(right, f"{one.name}: {statistic} of {statement['statistic']}")
        right = statistic != "total" or nodes == 1  # "counts" of one cell have more noise than its total
        right = right and (statistic != "sorted_sizes" or spec["invariants"] == "groups")
        findings.expect(right, f"{one.name}: {statistic} of {nodes} cells, or of numbers that are not public")
        # A table of leaves names the finest level of every attribute, but of one that has a single value.
        leaves = finest <= {*facts["table"]} if "table" in facts else one.name == manifest["levels"][-1]
        bounded = statistic != "distinct_counts" or (statement["max_contributions_enforced"] and spec.get("distinct"))
        right = statistic not in ("distinct_counts", "stable_counts") or (leaves and bounded)
        findings.expect(right, f"{one.name}: {statistic} are of bounded leaves alone")
        findings.same(f"{one.name}: has a threshold", "threshold" in facts, statistic == "stable_counts")


# --- 5. Noise ---
def variance(gaussian: bool, scale: float) -> float:
    """Of P(k) ∝ exp(−|k|/scale), by its closed form; of P(k) ∝ exp(−k²/(2·scale²)), by its sum (or scale² if large)."""
    k, q = np.arange(1, 100), math.exp(-1 / scale)
    weights = np.exp(-(k**2) / (2 * scale**2))
    small = float(2 * (weights * k**2).sum() / (1 + 2 * weights.sum()))
    return (scale**2 if scale > 5 else small) if gaussian else 2 * q / (1 - q) ** 2


def check_noise(statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """Standard deviations follow from the scales, and what each measurement spends from scale and sensitivity."""
    for one in measured:
        noise, stated, kind = one.facts["noise"], one.facts["spent"], "rho" if one.gaussian else "epsilon"
        findings.same(f"{one.name}: scale", noise["scale"], float(one.scale))
        findings.same(f"{one.name}: std_dev", noise["std_dev"], math.sqrt(variance(one.gaussian, float(one.scale))))
        spent = "infinity" if statement["seeded"] else float(getattr(one, kind))
        findings.same(f"{one.name}: it spends {kind}", stated.get(kind) if len(stated) == 1 else stated, spent)
    shares = [one.facts["share"] for one in measured]
    right = abs(sum(shares) - 1) < CLOSE or not shares or ("part_of" in statement and sum(shares) < 1)
    findings.expect(right and all(share > 0 for share in shares), f"shares of the budget: {shares}")
    if "maximum" in statement:  # it may have been raised to the least size + 1
        facts, chosen = statement["maximum"], statement["maximum"]["max_group_size"]
        found = min(max(facts["noisy"] + facts["margin"], chosen), facts["at_most"])
        margin = math.ceil(5 * facts["noise"]["std_dev"])
        findings.same("maximum: margin, max_group_size", [facts["margin"], chosen], [margin, found])
    if "chosen" in statement.get("contributions", {}):
        chosen, m = statement["contributions"]["chosen"], statement["max_contributions"]
        best = min(chosen["choices"], key=lambda choice: choice["expected_error"])["max_contributions"]
        findings.same("max_contributions, and the one that was chosen", [m, chosen["max_contributions"]], [best, best])


def mechanism_of(statement: dict[str, Any]) -> dict[str, Any]:
    """The mechanism that the measurements were for."""
    return dict(statement.get("reconciled", {}).get("measured_for", statement["mechanism"]))


def check_all_is_measured(statement: dict[str, Any], findings: Findings) -> None:
    """A level with more nodes than the one above it is measured, unless it is the public total. Of tables see 8."""
    levels, by = [level for level in statement["levels"] if level.get("part") != "persons"], mechanism_of(statement)
    exact = statement["statistic"] != "households" and TOTAL in statement["invariants"]
    if "code" in by:
        findings.unchecked.append("whether all levels are measured: the mechanism is from outside")
    elif by["name"] in ONE_LEVEL:
        leaves = [level for level in levels if level["measured"] and level["nodes"] == levels[-1]["nodes"]]
        findings.expect(leaves, "the leaves are not measured")
    elif statement["statistic"] not in ("tables", "contributions"):
        for above, level in pairwise([{"nodes": int(exact)}, *levels]):
            right = level["measured"] == (level["nodes"] > above["nodes"])
            findings.expect(right, f"{level['level']}: {level['nodes']} nodes, and measured is {level['measured']}")


# --- 6. The sum ---
def check_sum(statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """What is stated as spent covers all that was measured, and is within the budget."""
    budget, spent, method = statement["budget"], statement["spent"], statement["accounting"]
    stable = any(one.statistic == "stable_counts" for one in measured)
    right = all(amount > 0 for amount in budget.values()) and budget.get("delta", 0) < 1
    right = right and budget.keys() in ({"epsilon"}, {"epsilon", "delta"}, {"rho"})
    findings.expect(right, f"budget: {budget} is none")
    pure = stable or budget.keys() == {"epsilon"}
    findings.expect(all(one.gaussian != pure for one in measured), f"noise that is not of the budget {budget}")
    methods = ("pld", "zcdp", "paper") if "delta" in budget and not stable else ("exact",)
    findings.expect(method in methods, f"accounting: {method!r}, and not one of {methods}")
    findings.same("private, with its seed", statement["private"], not statement["seeded"])
    if statement["seeded"]:
        findings.same("spent, with a seed", spent, {"epsilon": "infinity"})
        return
    findings.same("spent", sorted(spent), sorted({*budget} | ({"rho"} if "delta" in budget and not stable else set())))
    for name, amount in spent.items():
        most = budget.get(name, math.inf)
        findings.expect(0 <= amount <= most * (1 + CLOSE), f"spent {name} {amount} of a budget of {most}")
    sums = {name: float(sum((getattr(one, name) for one in measured), Fraction(0))) for name in ("epsilon", "rho")}
    for name in ("epsilon",) if budget.keys() == {"epsilon"} else () if stable else ("rho",):
        # Where a measurement chooses the contribution bound, the whole budget is spent, whatever is chosen.
        at_least = "chosen" in statement.get("contributions", {}) and spent[name] > sums[name]
        findings.same(f"spent {name}", spent[name], spent[name] if at_least else sums[name])
    epsilon, delta, rho = spent.get("epsilon"), spent.get("delta"), sums["rho"]
    if stable:
        check_threshold(measured, statement, findings)
    elif method == "pld" and measured:
        for one in measured:
            findings.expect(one.dominates and one.gaussian, f"{one.name}: no loss distribution dominates its neighbors")
        curves = curves_of(measured)
        found = delta_at_least(curves, epsilon) if curves else 0.0  # else see `check_rates`
        right = found <= delta * (1 + 1e-3) + FFT_ERROR
        findings.expect(right, f"spent delta {delta} at epsilon {epsilon}, and it takes {found}")
    elif "delta" in budget and measured:
        paper = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016, Proposition 1.3
        needs = paper if method == "paper" else epsilon_of_rho(rho, delta)
        findings.expect(needs <= epsilon * (1 + CLOSE), f"spent epsilon {epsilon} at {delta}, and it takes {needs}")


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The least over α of αρ + (ln(1/δ) − ln α)/(α − 1) + ln(1 − 1/α) (Canonne, Kamath and Steinke 2020, Cor. 13)."""
    order = 1 + math.sqrt(math.log(1 / delta) / rho) * np.exp(np.linspace(-3, 3, 200_001))
    values = order * rho + (math.log(1 / delta) - np.log(order)) / (order - 1) + np.log1p(-1 / order)
    return max(float(values.min()), 0.0)


def check_threshold(measured: list[Measured], statement: dict[str, Any], findings: Findings) -> None:
    """Lemma 10 of the page of proofs: counts of cells that have records, above a threshold t."""
    (one,) = measured
    epsilon, delta = statement["spent"]["epsilon"], statement["spent"]["delta"]
    m, t, q = statement["max_contributions"], one.facts["threshold"], math.exp(-1 / one.scale)
    first, last = (q ** (t - c) / (1 + q) for c in (1, m))
    lost = max(-math.expm1(m * math.log1p(-first)), last)
    findings.expect(one.epsilon <= epsilon * (1 + CLOSE), f"the scale takes epsilon {float(one.epsilon)}")
    findings.expect(t >= m and lost <= delta * (1 + CLOSE), f"the threshold {t} takes delta {lost}, and not {delta}")
    findings.expect(first <= 1 - q and last <= 1 - q**m, f"the threshold {t} is below its third condition")


def curves_of(measured: list[Measured]) -> Curves:
    """Equal cells of all levels, together; none if their noise has too many values."""
    found: Counter[tuple[bool, float, int]] = Counter()
    for one in measured:
        for cells, by in one.moves:
            found[one.gaussian, float(one.scale), by] += cells
    few = all(cells * scale * (24 if gaussian else 90) < LARGEST for (gaussian, scale, _), cells in found.items())
    return tuple((*key, cells) for key, cells in sorted(found.items())) if few else ()


def sum_of_cells(gaussian: bool, scale: float, by: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The privacy losses of some equal cells together, and their probabilities.

    A cell shows noise x, or x + by under the neighbor: its loss is ln P(x) − ln P(x + by), for Gaussian noise
    (2·by·x + by²)/(2σ²), a function of the sum of several cells; for Laplace noise (|x + by| − |x|)/b, in steps of 2/b.
    """
    reach = math.ceil(12 * scale if gaussian else 45 * scale) + by + 5
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(x**2) / (2 * scale**2) if gaussian else -np.abs(x) / scale)
    weights /= weights.sum()
    if not gaussian:
        weights = np.bincount(np.rint((np.abs(x + by) - np.abs(x) + by) / 2).astype(np.int64), weights)
    size = cells * (len(weights) - 1) + 1
    together = np.fft.irfft(np.fft.rfft(weights, size) ** cells, size) if cells > 1 else weights
    together = np.maximum(together, 0.0)
    if gaussian:
        sums = np.arange(size) - cells * reach
        return (2 * by * sums + cells * by**2) / (2 * scale**2), together
    return (2 * np.arange(size) - cells * by) / scale, together


@lru_cache(maxsize=4096)
def composed(curves: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Losses of all cells together, rounded down to a grid, and their probabilities."""
    parts = [(losses[p > 0], p[p > 0]) for losses, p in (sum_of_cells(*curve) for curve in curves)]
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
    return float((p * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())


# --- 7. Words ---
def check_words(manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The sentences say what the numbers say; the publisher's words for units are taken for ours."""
    statement, spec, m = manifest["statement"], manifest["spec"], manifest["statement"]["max_contributions"]
    statistic, unit, whole = statement["statistic"], unit_of(statement, spec), statement.get("part_of", statement)
    person = None if statistic == "contributions" else spec.get("person") is not None
    findings.same("max_contributions_enforced, and the spec's person", statement["max_contributions_enforced"], person)
    noun = {"flows": "trips", "group_sizes": "groups", "contributions": "people"}.get(statistic, "records")
    noun = "leaves of people" if spec.get("distinct") else noun
    noun = f"{noun.replace('groups', 'groups of memberships')}, at most {m:,} a person" if person else noun
    change, guess = "adding or removing", "whether the data hold"
    if statement["neighboring"] == "change_one":
        change, guess = "replacing", "which of two contents the data have for"
    right, guarantee = {"unit_of_protection": unit, "counted": noun}, statement["guarantee"]
    said = [guarantee.startswith("NOT PRIVATE"), "risk" not in statement]
    findings.same("guarantee, and risk: not private", said, [statement["seeded"]] * 2)
    told = {**statement, **statement.get("risk", {})}
    if not statement["seeded"]:
        spent = {name: whole["spent"][name] for name in whole["budget"]}
        kind = "approximate" if "delta" in spent else "pure" if "epsilon" in spent else "zero-concentrated"
        stated = dict(re.findall(r"(\w+) = ([0-9.e+-]+)", guarantee.partition(" (")[0]))
        up = all(0.999999 * spent[name] <= float(stated.get(name, -1)) <= 1.00002 * spent[name] for name in spent)
        findings.expect(up, f"guarantee: {stated}, and {spent} was spent")
        weak = spent.get("epsilon", 0) > 10 or spent.get("delta", 0) > 1e-5
        findings.expect(not weak or "warning" in statement, f"warning: there is none, though {spent} was spent")
        amounts = ", ".join(f"{name} = {stated.get(name)}" for name in spent)
        right["guarantee"] = f"{amounts} ({kind} differential privacy) for {change} {unit}, given the invariants."
        end = "from all that is published, where both cases have the same invariants."
        right["attack"] = f"The attacker guesses {guess} {unit}, {end}"
        true, false, *more = re.findall(r"([0-9.]+) %", statement["risk"]["summary"])
        shown = [f"{math.ceil(round(x * 1e6) / 100) / 100:.4g}" for two in told["rates"] for x in two.values()]
        findings.same("risk: rates in words", shown, [false, true, *more[1::2], *more[::2]])
        check_rates(statement, measured, findings)
    words = statement.get("description", {}).get("words", {}).values()
    units = "/".join(["record/trip/person/people/group", *words]).split("/")
    forms = "|".join(re.escape(word.rstrip("y")) for word in units)
    for name, sentence in right.items():
        said = [re.sub(rf"\b(an? )?({forms})(y|s|es|ies)?\b", "unit", one) for one in (told[name], sentence)]
        findings.same(name, told[name], told[name] if words and said[0] == said[1] else sentence)


def unit_of(statement: dict[str, Any], spec: dict[str, Any]) -> str:
    """The unit of protection in words."""
    statistic, m = statement.get("part_of", statement)["statistic"], statement["max_contributions"]
    if statistic == "contributions":
        return "one person, with all of their records, however many"
    units = {"flows": ("trip", "trips"), "group_sizes": ("membership of a group", "memberships of groups")}
    one, several = units.get(statistic, ("record", "records"))
    if statement["max_contributions_enforced"] and spec.get("distinct"):
        return f"one person, who counts at most once in a leaf, and in at most {f'{m} leaves' if m > 1 else 'one leaf'}"
    if statement["max_contributions_enforced"]:
        return f"one person, of whose {several} at most {'one counts' if m == 1 else f'{m} count'}"
    z = spec.get("max_quantity", 1)
    quantity = f", each with a quantity of at most {z}" if z > 1 else ""
    return f"one person, who has {f'one {one}' if m == 1 else f'at most {m} {several}'}{quantity}"


def check_invariants(manifest: dict[str, Any], findings: Findings) -> None:
    """What is published exactly is what spec and tree say: a sentence that begins so, or none."""
    statement, spec, by = manifest["statement"], manifest["spec"], mechanism_of(manifest["statement"])
    stated, sizes, groups = statement["invariants"], statement["statistic"] == "group_sizes", spec.get("invariants")
    drops = statement["on_unknown"] == "drop" or "period_column" in spec or spec.get("person") is not None
    one_each = statement["neighboring"] == "change_one" and statement["max_contributions"] == 1 and not drops
    of_areas, least = spec.get("public_totals") is not None, spec.get("min_group_size", 0)
    total = one_each and not of_areas and not sizes and by["name"] not in ONE_LEVEL
    public = {"the hierarch": True, TOTAL: total, "the total of every area at the level '": of_areas}
    public["the number of groups in every leaf (that a group exists, and where)"] = sizes and groups == "groups"
    public["the total number of groups with "] = sizes and groups == "total"
    public[f"no group has fewer than {least} members ("] = sizes and least > (0 if groups == "groups" else 1)
    tree = manifest.get("tree", {})
    areas = set(tree["attributes"][0]["columns"]) if "attributes" in tree else set()
    own = [bool(tree.get("order") or areas & set(each["columns"])) for each in tree.get("impossible", [])]
    public["0, since no record can have it: "] = True in own
    public["0 in every area, since no record can have it: "] = False in own
    for begins, right in public.items():
        found = any(sentence.startswith(begins) for sentence in stated)
        unknown = (begins == TOTAL and "code" in by) or (begins[0] == "0" and "tree" not in manifest)
        findings.same(f"invariants: {begins!r}", found, found if unknown else right)


def check_rates(statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """Each rate is at least that of the best attack on the worst neighbors; a part has those of the whole release."""
    curves, rates, spent = curves_of(measured), statement["risk"]["rates"], statement["spent"]
    if any(one.statistic == "stable_counts" for one in measured) or (measured and not curves):
        findings.unchecked.append("losses and the best attack: a threshold, or noise of too many values")
        curves = ()
    findings.same("risk: false-positive rates", [rate["false_positive_rate"] for rate in rates], [0.01, 0.05])
    for rate in rates if "part_of" not in statement else ():
        alpha, stated = rate["false_positive_rate"], rate["true_positive_rate"]
        least = best_attack(curves, alpha) if curves else alpha
        most = min(1, math.exp(min(spent.get("epsilon", 50), 50)) * alpha + spent.get("delta", 0))
        said = f"risk: {rate}, and one attack has {least} true positives, of at most {most}"
        findings.expect(least - 2e-5 <= stated <= most + 1e-5, said)


def best_attack(curves: Curves, alpha: float) -> float:
    """The true-positive rate, at a false-positive rate, of the test that rejects the largest losses."""
    losses, p = composed(curves)
    order = np.argsort(-losses, kind="stable")
    false = p[order] * np.exp(np.minimum(-losses[order], 700))  # of losses rounded down: at least the false positives
    return float(np.interp(alpha, np.append(0.0, np.cumsum(false)), np.append(0.0, np.cumsum(p[order]))))


# --- 8. Numbers ---
def read_levels(folder: Path, manifest: dict[str, Any], findings: Findings) -> list[Level]:
    """Every level, whose rows name nodes of the tree, each once, and whose numbers of nodes are the stated ones."""
    statement, tree = manifest["statement"], Tree(folder, manifest) if "tree" in manifest else None
    levels = [Level(folder, manifest, place) for place in range(len(manifest["levels"]))]
    tables, sizes = statement["statistic"] == "tables", statement["statistic"] == "group_sizes"
    size = [[len(paths[-1]) for _, paths in tree.paths(level.columns)] if tree else [] for level in levels]
    finer = [of for of, level in zip(size, levels, strict=True) if level.facts["measured"]]
    for level, own in zip(levels, size, strict=True):
        facts, nodes, rows, measured = level.facts, level.facts["nodes"], level.table.num_rows, level.measured.num_rows
        for table, keys in ((level.table, level.keys), (level.measured, level.columns)):
            paths, nulls = joined(table, keys), statement["mechanism"]["name"] == "Remainders" and keys is level.keys
            findings.same(f"{level.name}: rows of different nodes", len(pc.unique(paths)), len(paths))
            strange = tree and tree.strangers(table, level.columns, nulls=nulls)
            findings.expect(not strange, f"{level.name}: a row names what the hierarchies lack")
        findings.same(f"{level.name}: nodes", nodes, math.prod(own) if tree else nodes)
        # A table that is not measured follows from one that is, or is a public total.
        follows = any(all(one <= other for one, other in zip(own, of, strict=True)) for of in finer)
        exact = max(own[1:], default=1) == 1 and "the total" in str(statement["invariants"])
        right = not tables or follows or exact or facts["measured"]
        findings.expect(right, f"{level.name}: its numbers do not follow from what is measured")
        whole = facts["zeros_listed"] if tables else tree and "levels" in manifest["tree"] and not sizes
        findings.expect(sizes or nodes * bool(whole) <= rows <= nodes, f"{level.name}: {rows} rows of {nodes} nodes")
        most = nodes * facts["measured"] * statement.get("measurements_kept", True)
        right = most * sizes <= measured <= most
        findings.expect(right, f"{level.name}: {measured} measurements, and {most} are stated")
        right = not measured or np.allclose(level.measured["std_dev"].to_numpy(), level.noise, rtol=CLOSE)
        findings.expect(right, f"{level.name}: measurements with another std_dev than that of the level's noise")
        last = {columns[-1] for columns, _ in tree.paths(level.columns) if columns} if tree and tables else set()
        right = last <= {*facts.get("table", ())} <= {*level.columns}
        findings.expect(right and tables == ("table" in facts), f"{level.name}: has {level.columns}")
    if tree and not tables:  # each level has one column more than the one above, and the last has all
        every = [*range(sum(leaves.num_columns for leaves in tree.sides) + 1)][-len(levels) :]
        findings.same("columns", [len(level.columns) for level in levels], every)
    return levels


def check_numbers(statement: dict[str, Any], levels: list[Level], findings: Findings) -> None:
    """Numbers are inside their intervals, errors 0 or more; as many do not add up, or are negative, as is stated."""
    found = Counter[str]()
    for level in levels:
        values, names = level.numbers(), level.table.column_names
        found["negative_numbers"] += int((values < 0).sum())
        found["fractional_numbers"] += int((values != np.rint(values)).sum())
        for column, sign in (("ci_lower", 1), ("ci_upper", -1)):
            ends = level.numbers(column).astype(np.float64) if column in names else values
            findings.expect(not (sign * ends > sign * values).any(), f"{level.name}: a number is outside its {column}")
        for column in [name for name in names if name.endswith(("std_dev", "typical_error"))]:
            errors = level.table[column].drop_null().to_numpy()
            right = ((errors >= 0) & (errors < math.inf)).all()
            findings.expect(right, f"{level.name}: a {column} is negative, or no number")
        if {"typical_error", "std_dev"} <= {*names}:
            off = level.numbers("typical_error").astype(np.float64)
            findings.expect(not np.isnan(off).any(), f"{level.name}: a number has no typical_error")
            sure = ((off == 0) & (values > 0) & (level.numbers("std_dev") > 1)).any()
            findings.expect(not sure, f"{level.name}: a typical_error of 0 beside noise that hides the number")
    pairs = list(pairwise(levels))
    if statement["statistic"] == "tables":  # each table, and those that have all of its columns
        pairs = [(one, other) for one, other in product(levels, levels) if {*one.columns} < {*other.columns}]
    for coarse, fine in pairs:
        wrong = mismatches(coarse, fine.table)
        found["constraint_violations"] += wrong
        right = not wrong or statement["constraint_violations"]
        findings.expect(right, f"{coarse.name}: it is not the sum of {fine.name}")
    people = statement["statistic"] == "contributions"
    for name in ("negative_numbers", "fractional_numbers", "constraint_violations") if not people else ():
        findings.same(name, statement.get(name, 0 if name[0] == "f" else None), found[name])


def mismatches(coarse: Level, fine: Any) -> int:
    """How many numbers are not the sum of the finer ones."""
    keys, both = [str(place) for place in range(len(coarse.keys))], []
    numbers = [coarse.numbers(), -fine[coarse.number].to_numpy()]
    for table, signed in zip((coarse.table, fine), numbers, strict=True):
        paths = [pc.cast(table[key], pa.large_string()) for key in coarse.keys]
        both.append(pa.table([*paths, signed.astype(np.result_type(*numbers))], names=[*keys, "number"]))
    sums = pa.concat_tables(both).group_by(keys).aggregate([("number", "sum")])["number_sum"].to_numpy()
    return int((np.abs(sums) > CLOSE).sum())


def check_fit(manifest: dict[str, Any], levels: list[Level], measured: list[Measured], findings: Findings) -> None:
    """Published numbers are as near to what was measured as noise explains, and errors no less than it leaves.

    Σ ((y − t)/σ)² over N measurements is about N for true numbers t, and no more for what is fitted; rounding counts as
    a variance of 1. A node has at most the information of one measurement of each level, and as much again.
    """
    statement, cells, away = manifest["statement"], 0, defaultdict[str, float](float)
    by = statement["mechanism"]
    gaussian, public = all(one.gaussian for one in measured), "the total" in str(statement["invariants"])
    known = [level for level in levels if level.measured.num_rows]
    other = "code" in by or "reconciled" in statement
    if other or len(known) < sum(level.facts["measured"] for level in levels):
        findings.unchecked.append("tables against measurements: made by another mechanism, or without measurements")
    information = sum(2 / max(level.noise, 1e-9) ** 2 for level in levels if level.facts["measured"])
    # Of sizes that are fitted level by level, all levels follow the noisiest.
    alone = by["name"] == "HistogramProjection" and statement["statistic"] == "group_sizes"
    loudest = max((level.noise for level in known), default=0.0) if alone else 0.0
    for level in known if not other else ():
        noisy, spread = level.noisy, level.noise * math.sqrt(level.facts["nodes"])
        exact = by["name"] in ("LeafGaussian", "StabilityHistogram", "PeopleByRecords")
        for column in {level.number, "unbiased"} & {*level.table.column_names}:
            published = cells_of(level, column, manifest, findings)
            if len(published) != len(noisy):
                findings.unchecked.append(f"{level.name}: {level.facts['statistic']} against the table")
                continue
            cells += len(noisy) * (column == level.number)
            away[column] += float((((noisy - published) / math.hypot(loudest or level.noise, 1)) ** 2).sum())
            findings.expect(not exact or (noisy == published).all(), f"{level.name}: it is not what was measured")
        # Where nothing is listed, the one row says how much is not: the public total.
        lone = public and by["name"] == "Remainders" and level.table.num_rows == 1
        lone = lone and all(level.table[key][0].as_py() is None for key in level.keys)
        if "unbiased" in level.table.column_names and "errors" not in statement and level.table.num_rows > lone:
            right = np.nanmax(level.numbers("std_dev")) + 2e-9 >= (1 - CLOSE) / math.sqrt(information)
            findings.expect(right, f"{level.name}: a smaller std_dev than all measurements leave")
        if level.number == "count" and len(noisy) == level.facts["nodes"]:
            root = 0 if public else known[0].noise * math.sqrt(known[0].facts["nodes"])
            most, total = (8 if gaussian else 12) * math.hypot(spread, root) + 2, level.numbers().sum() - noisy.sum()
            findings.expect(abs(total) <= most, f"{level.name}: a total {total} from the measured one, {most} at most")
        loud = (np.abs(noisy) > level.noise / 1000).any() or len(noisy) < 4
        findings.expect(loud or exact, f"{level.name}: less noise than is stated")
    most = 2 * cells + 12 * math.sqrt(cells) + (60 if gaussian else 250)
    for column, squares in away.items():
        findings.expect(squares <= most, f"{column}: squares of {squares} from the measurements, and {most} at most")


def cells_of(level: Level, column: str, manifest: dict[str, Any], findings: Findings) -> np.ndarray:
    """The published numbers of the cells that were measured; none where they are not compared."""
    rows, values, statistic = level.measured.num_rows, level.numbers(column), level.facts["statistic"]
    places = pc.index_in(level.paths, joined(level.measured, level.columns)).fill_null(rows).to_numpy()
    if level.keys == level.columns:
        return np.bincount(places, values, rows + 1)[:rows]
    least, size, facts = manifest["spec"]["min_group_size"], level.numbers("size"), manifest["statement"].get("maximum")
    most = (facts or manifest["spec"])["max_group_size"]
    inside, width = ((size >= least) & (size <= most)).all(), most - least + 1
    findings.expect(inside, f"{level.name}: a size is not in {least} to {most}")
    if not inside or rows * width > LARGEST or statistic == "chain_tail_counts" or (values < 0).any():
        return np.zeros(0)
    if statistic == "sorted_sizes":
        order = np.lexsort((size, places))
        return np.repeat(size[order], values[order])
    cells = np.bincount(places * width + size - least, values, (rows + 1) * width).reshape(-1, width)[:rows]
    if statistic != "histogram":
        cells = cells[:, ::-1].cumsum(axis=1)[:, ::-1]
    if statistic == "persons_by_rank":
        cells = np.column_stack([cells, np.bincount(places, level.numbers("persons") - size * values, rows + 1)[:rows]])
    return cells[:, int(len(level.noisy) == rows * (width - 1)) :].ravel()  # the first is a public number of groups


def check_parts(folder: Path, manifest: dict[str, Any], findings: Findings) -> None:
    """Both parts are releases, and say what the whole says; members of households are the persons in them."""
    statement, tables = manifest["statement"], {}
    for part in PARTS:
        found, prefix = check(folder / part), "households/" if part == "households" else ""
        for own, of_part in ((findings.wrong, found.wrong), (findings.unchecked, found.unchecked)):
            own += [f"{part}: {sentence}" for sentence in of_part]
        kept = read_json(folder / part / "release.json")
        same = "guarantee unit_of_protection neighboring private seeded max_contributions ledger release risk"
        right = {name: statement.get(name) for name in each(same)}
        right["part_of"] = {"statistic": "households", "part": part, **{x: statement[x] for x in ("budget", "spent")}}
        for name, value in right.items():
            findings.same(f"{part}: {name}", kept["statement"].get(name), value)
        both = (prefix, kept["statement"]["levels"]), ("", [one for one in statement["levels"] if one["part"] == part])
        told = [[(pre + one["level"], one["nodes"], one.get("noise")) for one in levels] for pre, levels in both]
        findings.same(f"{part}: levels", *told)
        tables[part] = {level: folder / part / files_of(kept, level)[OF_A_LEVEL[0]] for level in kept["levels"]}
    for level, path in tables["households"].items() if not findings.wrong else ():
        homes = read(path)
        areas = homes.column_names[: homes.column_names.index("size")]
        persons, sums = tables["persons"].get(".".join([*areas[-1:], "in_household"])), []
        if persons is None:
            findings.unchecked.append(f"persons of the level {level}, which repeats the one above")
            continue
        for table, number in ((read(persons).filter(pc.field("in_household") == "yes"), "count"), (homes, "persons")):
            rows = pa.table([joined(table, areas), table[number]], names=["area", "number"]).group_by("area")
            found = rows.aggregate([("number", "sum")]).to_pylist()
            sums.append({row["area"]: row["number_sum"] for row in found if row["number_sum"]})
        findings.expect(sums[0] == sums[1], f"{level}: members of households are not the persons in households")


# --- 9. The ledger ---
def check_ledger(path: Path, statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """The chain of digests is whole, and the release's entry has what the statement says, and no less."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT number, facts, digest FROM events ORDER BY number").fetchall()
        head = connection.execute("SELECT number, digest FROM head").fetchall()
    digest = "0" * 64
    for place, (number, text, kept) in enumerate(rows, 1):
        digest = hashlib.sha256(f"{digest}\n{number}\n{text}".encode()).hexdigest()
        if number != place or kept != digest:
            raise ValueError(f"event {place} does not agree with its digest")
    findings.same("ledger: its end", head, [(len(rows), digest)])
    if statement["ledger"] is None:
        raise ValueError("the statement says that the release was recorded in none")
    events, dataset = [json.loads(text) for _, text, _ in rows], statement["ledger"]["dataset"]
    data = [event for event in events if event["event"] == "dataset" and event["dataset"] == dataset]
    findings.same("ledger: neighboring", [event["neighboring"] for event in data], [statement["neighboring"]])
    entries = [event for event in events if event.get("release_id") == statement["release"]["id"]]
    findings.same("ledger: entries of this release", len(entries), 1)
    for entry in entries:
        check_entry(entry, statement, measured, findings)


def check_entry(entry: dict[str, Any], statement: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """What the ledger added up is what was spent; a bound that was chosen counts as the largest that could be."""
    release, people, m = statement["release"], statement.get("contributions", {}), statement["max_contributions"]
    right = {name: release.get(name) for name in ("plan", "run", "period")} | {"statistic": statement["statistic"]}
    right |= {"dataset": statement["ledger"]["dataset"], "revises": release.get("revises", {}).get("id")}
    right["mechanism"], prior = mechanism_of(statement)["name"], statement.get("prior", {})
    known = {"prior": prior.get("digest"), "release": prior.get("release")}
    right["prior"] = {name: value for name, value in known.items() if value} or None
    right |= {} if m is None else {"max_contributions": people["at_most"] if "chosen" in people else m}
    for name, value in right.items():
        findings.same(f"ledger: {name}", entry.get(name), value)
    stable, rho = any(one.statistic == "stable_counts" for one in measured), sum(one.rho for one in measured)
    for name, amount in (({} if stable else {"rho": float(rho)}) | statement["spent"]).items():
        charged = Fraction(-1) if entry[name] is None else Fraction(entry[name])
        findings.expect(charged >= amount * (1 - 2e-5), f"ledger: {name} {entry[name]}, and {amount} was spent")


# --- All of it ---
def check_statement(manifest: dict[str, Any], findings: Findings) -> list[Measured]:
    """Check what needs no file."""
    statement, measured = manifest["statement"], measured_of(manifest["statement"], manifest["spec"])
    check_sensitivities(manifest, measured, findings)
    check_noise(statement, measured, findings)
    check_all_is_measured(statement, findings)
    check_sum(statement, measured, findings)
    check_words(manifest, measured, findings)
    check_invariants(manifest, findings)
    identity = re.fullmatch("[0-9a-f]{96}", "{id}{plan}".format(**statement["release"]))
    findings.expect(identity, "release: its id, or the digest of its plan, is none")
    for key in MEASURED if statement["statistic"] == "contributions" else ():
        findings.same(f"levels: {key} of contributions", statement["levels"][0][key], statement["contributions"][key])
    return measured


def check_content(folder: Path, manifest: dict[str, Any], measured: list[Measured], findings: Findings) -> None:
    """Check what is in the files, once they are those that release.json names."""
    statement, levels = manifest["statement"], read_levels(folder, manifest, findings)
    check_numbers(statement, levels, findings)
    check_fit(manifest, levels, measured, findings)
    threshold, last = levels[-1].facts.get("threshold", -math.inf), levels[-1].numbers()
    findings.expect((last[last != 0] >= threshold).all(), f"{levels[-1].name}: a count below its threshold {threshold}")
    if "detail" in statement:
        detail = read(folder / "detail.parquet")
        findings.same("detail.parquet: tables not its sums", [x.name for x in levels if mismatches(x, detail)], [])
    if "contributions.parquet" in manifest["files"]:
        people, facts = read(folder / "contributions.parquet"), statement["contributions"]
        bins = [first - 1 for first in people["records_from"].to_pylist()], people["records_to"].to_pylist()
        findings.same("contributions.parquet: bins", [*bins[0], facts["at_most"]], [0, *bins[1]])
        right = people.num_columns == 4 and np.allclose(people["std_dev"], facts["noise"]["std_dev"], rtol=CLOSE)
        findings.expect(right, "contributions.parquet: another noise, or other columns")


def check(folder: Path, ledger: Path | None = None) -> Findings:
    """Check a release's folder, and its entry in a ledger."""
    findings, measured = Findings(), []
    with findings.reading(str(folder / "release.json")):
        manifest = read_json(folder / "release.json")
        if not check_shape(manifest, findings):
            return findings
        with findings.reading("the statement"):
            measured = check_statement(manifest, findings)
        with findings.reading("the files"):
            if not check_files(folder, manifest, findings):
                findings.unchecked.append("measurements and numbers: the files are not those that release.json names")
            elif manifest["statement"]["statistic"] == "households":
                check_parts(folder, manifest, findings)
            else:
                check_content(folder, manifest, measured, findings)
        with findings.reading(f"the ledger {ledger}"):
            if ledger is not None:
                check_ledger(ledger, manifest["statement"], measured, findings)
            elif manifest["statement"]["ledger"] is not None:
                findings.unchecked.append("the ledger's entry (give --ledger)")
    return findings


def main(arguments: list[str] | None = None) -> int:
    """Print what no folder shows, what was not checked, and what does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of a release")
    parser.add_argument("--ledger", type=Path, help="the ledger in which it was recorded")
    findings = check(**vars(parser.parse_args(arguments)))
    said = {"no folder shows": NOT_SHOWN, "not checked": findings.unchecked, "WRONG": findings.wrong}
    print(*(f"{begins}: {sentence}" for begins, several in said.items() for sentence in several), sep="\n")
    print(f"{len(findings.wrong)} findings" if findings.wrong else "consistent with its statement")
    return int(bool(findings.wrong))


if __name__ == "__main__":
    sys.exit(main())
