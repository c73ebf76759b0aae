"""Processor time of a first release where no compiled code fits, as with another Python, numba or processor.

`tallytree release` runs twice for each spec, in new processes with NUMBA_CPU_NAME=generic and one new, empty folder
for compiled code: the first run compiles every kernel that it calls. `--kernels` names those that take longest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from tallytree.datasets.households import households

COUNTS = {
    "statistic": "counts",
    "records": "people.parquet",
    "hierarchy": {"path": "households.parquet", "levels": ["country", "state", "county"]},
    "neighboring": "add_remove",
    "budget": {"rho": 0.05},
}
SIZES = {
    **COUNTS,
    "statistic": "group_sizes",
    "group": "household_id",
    "public_groups": "households.parquet",
    "max_group_size": 500,
    "budget": {"epsilon": 1},
}
SPECS = {
    "counts (LeastSquares)": COUNTS,
    "counts (TopDown, euclidean)": {**COUNTS, "mechanism": {"name": "TopDown", "options": {"projection": "euclidean"}}},
    "group sizes (Joint)": SIZES,
    "group sizes (Matching)": {**SIZES, "mechanism": {"name": "Matching"}},
}
PROGRAM = """
import sys, time
from numba.core import event
own, inside = {}, []
class Timed(event.Listener):
    def on_start(self, begun):
        inside.append([time.process_time(), 0.0])
    def on_end(self, ended):
        begun, of_others = inside.pop()
        took = time.process_time() - begun
        if inside:
            inside[-1][1] += took
        name = ended.data["dispatcher"].py_func
        name = f"{name.__module__}.{name.__qualname__}"
        own[name] = own.get(name, 0.0) + took - of_others
from tallytree.spec import load_spec
with event.install_listener("numba:compile", Timed()):
    load_spec(sys.argv[1]).release(sys.argv[2])
kernels = [name for name in own if name.startswith("tallytree.")]
print(f"    {len(kernels)} kernels; with numba's own functions {sum(own.values()):.1f} s in the compiler")
for name, took in sorted(own.items(), key=lambda each: -each[1])[:15]:
    print(f"    {took:5.2f} {name}")
"""


def seconds(command: list[str], folder: Path) -> tuple[float, float]:
    """Processor and wall seconds of a process that may read compiled code from one folder only."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(folder)}
    before, began = os.times(), time.perf_counter()
    shown = None if "-c" in command else subprocess.DEVNULL
    subprocess.run([sys.executable, *command], check=True, env=environment, stdout=shown)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", action="store_true", help="name the kernels that take longest")
    parser.add_argument("--only", default="", help="the beginning of the names of releases")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        data = households()
        pq.write_table(data.people, folder / "people.parquet")
        pq.write_table(data.households, folder / "households.parquet")
        print("processor seconds (wall seconds), load", os.getloadavg())
        for number, (name, content) in enumerate(SPECS.items()):
            if not name.startswith(options.only):
                continue
            spec = folder / f"{number}.yaml"
            spec.write_text(yaml.safe_dump(content), encoding="utf-8")
            (cache := folder / f"cache {number}").mkdir(mode=0o700)
            command = ["-m", "tallytree", "release", str(spec), "--out"]
            first, again = (seconds([*command, f"{spec}.{turn}"], cache) for turn in ("first", "again"))
            print(f"{name:28} first {first[0]:5.1f} ({first[1]:.1f})   again {again[0]:4.1f} ({again[1]:.1f})")
            if options.kernels:
                (cache := folder / f"timed {number}").mkdir(mode=0o700)
                seconds(["-c", PROGRAM, str(spec), f"{spec}.timed"], cache)


if __name__ == "__main__":
    main()
