"""Time and memory of group sizes on the largest data of Kuo et al. 2018, as Markdown.

    python benchmarks/kuo.py [--runs 10] [--only memory|speed] [--names housing white hawaiian taxi]

ε = 1 in all (split evenly over the levels), add_remove; K is 100,000 for census data and 20,000 for taxi. Errors beside
the paper's are an experiment: `tallytree reproduce kuo-table3` and `kuo-table4`.

* memory: housing, 240.9 million groups, each mechanism in a process of its own.
* speed: matching on three levels, without the measuring.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common import SHARED, Data, generated, peak_gibibytes, root_alone, taxi

from tallytree.datasets import kuo
from tallytree.sizes import Matching

NAMES = ("housing", "white", "hawaiian", "taxi")
LARGEST = {"taxi": 20_000}
MAX_CENSUS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", choices=["memory", "speed"])
    parser.add_argument("--names", nargs="*", choices=NAMES, default=list(NAMES), help="the data sets")
    parser.add_argument("--largest", type=int, help="K for all of them")
    parser.add_argument("--west-coast", action="store_true", help="three states only, in speed")
    parser.add_argument("--shared", type=Path, default=SHARED, help="has data/")
    parser.add_argument("--one", choices=FULL_SIZE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_at_full_size(arguments.one)))
        return
    if arguments.only in (None, "memory"):
        memory()
    if arguments.only in (None, "speed"):
        speed(arguments)


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


def three_levels(name: str, arguments: argparse.Namespace) -> Data:
    largest = largest_of(name, arguments)
    if name == "taxi":
        return taxi(arguments.shared / "data", largest)
    country = getattr(kuo, name)()
    return generated(kuo.west_coast(country) if arguments.west_coast else country, largest)


def largest_of(name: str, arguments: argparse.Namespace) -> int:
    return arguments.largest or LARGEST.get(name, MAX_CENSUS)


if __name__ == "__main__":
    main()
