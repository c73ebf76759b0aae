"""Tables 3 and 4 of Kuo et al. 2018, ours beside theirs, as Markdown; and the time and memory of their largest data.

    python benchmarks/kuo.py [--runs 10] [--only table3|table4|memory|speed] [--names housing white hawaiian taxi]

Mean earth mover's distance per node with its standard error, epsilon = 1 in all (split evenly over the levels),
add_remove. K is 100,000 for census data, as in the paper, and 20,000 for taxi. Only taxi is the paper's own data;
the others are generated to look like it (docs/reference/datasets.md), `housing` for the paper's "synthetic".

* table3: the root alone, each estimator. The isotonic regression of sorted sizes is in L2, that of tail counts in L1.
* table4: three levels (country, state, county; Manhattan, half, neighbourhood): bottom-up and matching. The paper
  says that its experiments with three levels have the West Coast as root (`--west-coast`); its figures are those of
  the country.
* memory: housing, 240.9 million groups, each mechanism in a process of its own.
* speed: matching on three levels, without the measuring.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import SHARED, Data, generated, mean_and_error, peak_gibibytes, root_alone, taxi

from tallytree.datasets import kuo
from tallytree.sizes import BottomUp, Matching

NAMES = ("housing", "white", "hawaiian", "taxi")
ESTIMATORS = {"naive": Matching("naive"), "cumulative": Matching("cumulative"), "sorted": Matching("sorted", norm=2)}
PUBLISHED_NAMES = {"housing": "synthetic"}
LARGEST = {"taxi": 20_000}
MAX_CENSUS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", choices=["table3", "table4", "memory", "speed"])
    parser.add_argument("--names", nargs="*", choices=NAMES, default=list(NAMES), help="the data sets")
    parser.add_argument("--largest", type=int, help="K for all of them")
    parser.add_argument("--west-coast", action="store_true", help="three states only, in table4 and speed")
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/ and reference/")
    parser.add_argument("--one", choices=FULL_SIZE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_at_full_size(arguments.one)))
        return
    if arguments.only in (None, "table3"):
        table3(arguments)
    if arguments.only in (None, "table4"):
        table4(arguments)
    if arguments.only in (None, "memory"):
        memory()
    if arguments.only in (None, "speed"):
        speed(arguments)


def table3(arguments: argparse.Namespace) -> None:
    published = read_reference(arguments.shared / "reference" / "kuo_table3_root_epsilon1.csv")
    print(f"\n### Table 3: one node, epsilon = 1, {arguments.runs} runs\n")
    print("| data | K | estimator | tallytree | published |\n| --- | --- | --- | --- | --- |")
    for name in arguments.names:
        data = root_alone(rows_of(name, arguments), largest_of(name, arguments))
        for label, mechanism in ESTIMATORS.items():
            found = mean_and_error([data.run(mechanism, 1.0, seed)[0][0] for seed in range(1, arguments.runs + 1)])
            theirs = published[label, PUBLISHED_NAMES.get(name, name)]
            print(f"| {name} | {data.largest:,} | {label} | {found} | {theirs:,.1f} |", flush=True)


def table4(arguments: argparse.Namespace) -> None:
    published = read_reference(arguments.shared / "reference" / "kuo_table4_epsilon1.csv")
    mechanisms = {
        "BottomUp": BottomUp(),
        "Matching-cumulative": Matching(),
        "Matching-cumulative, rounded": Matching(carry="rounded"),
    }
    print(f"\n### Table 4: three levels, epsilon = 1, {arguments.runs} runs; ours / published\n")
    print("| data | K | mechanism | level 0 | level 1 | level 2 |\n| --- | --- | --- | --- | --- | --- |")
    for name in arguments.names:
        data = three_levels(name, arguments)
        for label, mechanism in mechanisms.items():
            runs = [data.run(mechanism, 1.0, seed)[0] for seed in range(1, arguments.runs + 1)]
            cells = []
            for level, errors in enumerate(np.transpose(runs)):
                theirs = published[label.split(",")[0], PUBLISHED_NAMES.get(name, name), str(level)]
                cells.append(f"{mean_and_error(errors)} / {theirs:,.1f}")
            print(f"| {name} | {data.largest:,} | {label} | {' | '.join(cells)} |", flush=True)


# --- Time and memory ---


def memory() -> None:
    print("\n### Housing at full size: 240,908,081 groups, K = 100,000, each in a process of its own\n")
    print("| mechanism | measuring, s | all else, s | processor time of both, s | peak memory, GiB |")
    print("| --- | --- | --- | --- | --- |")
    for name in FULL_SIZE:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--one", name]
        facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        seconds = " | ".join(f"{facts[part]:.1f}" for part in ("measure", "post", "processor"))
        print(f"| {name} | {seconds} | {facts['peak']:.2f} |", flush=True)


FULL_SIZE: dict[str, tuple[Matching, bool]] = {
    "sorted sizes of one node, L2": (Matching("sorted", norm=2), True),
    "sorted sizes of one node, L1": (Matching("sorted"), True),
    "Matching, tail counts, 3,144 counties": (Matching(), False),
    "Matching, sorted sizes, 3,144 counties": (Matching("sorted", norm=2), False),
}
"""The mechanism, and whether it is given one node only."""


def one_at_full_size(name: str) -> dict[str, float]:
    """One run, after compilation on a small part; the noisy measurements are kept, as in a release."""
    mechanism, one_node = FULL_SIZE[name]
    hawaiian = kuo.west_coast(kuo.hawaiian())
    for small in (generated(hawaiian), root_alone(hawaiian.rows, hawaiian.largest)):
        small.timed(mechanism, 1.0, 1)
    rows = kuo.housing()
    data = root_alone(rows.rows, MAX_CENSUS) if one_node else generated(rows, MAX_CENSUS)
    begin = time.process_time()
    _, measure, post = data.timed(mechanism, 1.0, 1)
    return {"measure": measure, "post": post, "processor": time.process_time() - begin, "peak": peak_gibibytes()}


def speed(arguments: argparse.Namespace) -> None:
    print(f"\n### Matching on three levels, measuring excluded, median of {arguments.runs} runs\n")
    print("| data | K | carry | seconds |\n| --- | --- | --- | --- |")
    for name in arguments.names:
        data = three_levels(name, arguments)
        for mechanism in (Matching(), Matching(carry="rounded")):
            data.timed(mechanism, 1.0, 1)  # compile
            seconds = np.median([data.timed(mechanism, 1.0, seed)[2] for seed in range(1, arguments.runs + 1)])
            print(f"| {name} | {data.largest:,} | {mechanism.carry} | {seconds:.2f} |", flush=True)


# --- Data ---


def rows_of(name: str, arguments: argparse.Namespace) -> Any:
    if name == "taxi":
        return taxi(arguments.shared / "data", largest_of(name, arguments)).rows
    return getattr(kuo, name)().rows


def three_levels(name: str, arguments: argparse.Namespace) -> Data:
    largest = largest_of(name, arguments)
    if name == "taxi":
        return taxi(arguments.shared / "data", largest)
    country = getattr(kuo, name)()
    return generated(kuo.west_coast(country) if arguments.west_coast else country, largest)


def largest_of(name: str, arguments: argparse.Namespace) -> int:
    return arguments.largest or LARGEST.get(name, MAX_CENSUS)


def read_reference(path: Path) -> dict[tuple[str, ...], float]:
    """The last column by all others."""
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    return {tuple(row[:-1]): float(row[-1]) for row in rows}


if __name__ == "__main__":
    main()
