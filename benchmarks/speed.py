"""Counts against inf-tda, sizes of taxis and start-up: speed and memory, as Markdown tables.

    python benchmarks/speed.py [--data ../shared/data]

Absolute times differ from machine to machine; ratios and peak memory are what to compare. `inf-tda` needs old versions
of OpenDP and pandas, so it runs in a virtual environment of its own (made on first use), from start to end, on
the same non-zero cells. Without the papers' data sets, data of the same shape are generated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ratios import LeftOut, Ratio, best

import tallytree as tt
from tallytree.private.engines.local import Local
from tallytree.private.measurer import Measurer
from tallytree.private.noise.discrete import KeyedNoise, OpenDPNoise
from tallytree.run import FlowsArguments, SizesArguments, plan_flows, plan_group_sizes

HERE = Path(__file__).resolve().parent
PEER_VENV = HERE.parent / ".venv-inf-tda"
LEVELS = [f"level{i}" for i in range(1, 5)]
SIDES = {side: [f"{side}_{level}" for level in LEVELS] for side in ("origin", "destination")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--only-matching", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_matching:
        print(json.dumps(matching(arguments.data)))
        return
    subprocess.run([sys.executable, str(HERE / "noise.py")], check=True)
    print("\n## InfTDA on od_random_complete (epsilon 1, delta 1e-8), against all of inf-tda 0.1\n")
    print("| what | seconds | inf-tda / it |\n| --- | --- | --- |")
    for row in top_down(arguments.data):
        print(row)
    print("\n## Matching on taxi, K = 100,000, three levels (epsilon 1), in a process of its own\n")
    command = [sys.executable, str(Path(__file__).resolve()), "--only-matching", "--data", str(arguments.data)]
    facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print("| what | figure |\n| --- | --- |")
    for name, figure in facts.items():
        print(f"| {name} | {figure} |")
    print("\n## Start-up, against `import pandas`\n\n| what | seconds | ratio |\n| --- | --- | --- |")
    for row in start_up():
        print(row)


class Replay:
    """Noise drawn beforehand, so that drawing it is not timed."""

    def __init__(self) -> None:
        self.inner: KeyedNoise | None = KeyedNoise(noise_key())
        self.drawn: dict[tuple[Any, ...], np.ndarray] = {}

    def draw(self, distribution: Any, address: tuple[str | int, ...], cells: np.ndarray) -> np.ndarray:
        where = (*address, len(cells), int(cells[0]) if len(cells) else -1)
        if where not in self.drawn:
            self.drawn[where] = self.inner.draw(distribution, address, cells)
        return self.drawn[where].copy()


def top_down(data: Path) -> list[str]:
    trips, areas = flows_data(data)
    job, fit = (
        plan_flows(
            FlowsArguments(
                trips,
                origins=areas,
                destinations=areas,
                **SIDES,
                count="count",
                budget=tt.Budget(epsilon=1, delta=1e-8),
                neighboring="change_one",
                accounting="paper",
                mechanism=mechanism,
            )
        )
        for mechanism in (tt.counts.TopDown(), tt.counts.LeastSquares())
    )
    true = job.tabulate()
    replay = Replay()

    def mechanism(source: Any, job: Any = job) -> None:
        job.mechanism.reconcile(job.tree, true.total, Measurer(true, job.plan, source))

    mechanism(replay)  # compiles, and draws the noise
    mechanism(KeyedNoise(noise_key()), fit)
    seconds = {
        "TopDown, noise excluded": best(lambda: mechanism(replay), 5),
        "TopDown with keyed noise": best(lambda: mechanism(KeyedNoise(noise_key())), 5),
        "TopDown with OpenDP's noise": best(lambda: mechanism(OpenDPNoise()), 1),
        "LeastSquares with keyed noise": best(lambda: mechanism(KeyedNoise(noise_key()), fit), 5),
        "all of release_flows, records in memory": best(job.run, 5),
    }
    peer = peer_seconds(trips)
    rows = [f"| {name} | {took:.3f} | {peer / took:,.0f} |" for name, took in seconds.items()]
    return [*rows, f"| inf-tda 0.1 | {peer:.2f} | 1 |"]


def peer_seconds(trips: pd.DataFrame) -> float:
    """All of inf-tda 0.1 on the non-zero cells, in its own virtual environment."""
    python = PEER_VENV / "bin" / "python"
    if not python.exists():
        venv.create(PEER_VENV, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "inf-tda==0.1", "opendp<0.13", "pandas<2.3", "pyarrow"]
        subprocess.run(install, check=True)
    file = PEER_VENV / "trips.parquet"
    trips.to_parquet(file)
    # Its own index order: destination and origin in turn, one level after the other.
    order = [SIDES[side][depth] for depth in range(4) for side in ("destination", "origin")]
    script = textwrap.dedent(
        f"""
        import time, pandas
        from InfTDA.mechanism import inf_tda
        data = pandas.read_parquet({str(file)!r}).set_index({order!r})["count"]
        begin = time.perf_counter()
        inf_tda(data, (1.0, 1e-8), 1, "bounded", True)
        print(time.perf_counter() - begin)
        """
    )
    printed = subprocess.run([python, "-W", "ignore", "-c", script], check=True, capture_output=True, text=True).stdout
    file.unlink()
    return float(printed)


def ratios() -> Iterator[Ratio | LeftOut]:
    """Flows against all of inf-tda 0.1, which runs in an environment of its own; and start-up against pandas."""
    name, peer = "release_flows on 189,225 pairs of 435 areas, records in memory", "inf-tda 0.1, its own process"
    trips, areas = flows_data(HERE.parents[1] / "shared" / "data")

    def release() -> None:
        tt.release_flows(
            trips, origins=areas, destinations=areas, **SIDES, count="count", budget=tt.Budget(epsilon=1, delta=1e-8),
            neighboring="change_one", accounting="paper", mechanism=tt.counts.TopDown(),
        )  # fmt: skip

    release()  # compiles
    try:
        theirs = peer_seconds(trips)
    except (subprocess.CalledProcessError, OSError):
        yield LeftOut(name, peer, "its environment cannot be made, or it fails")
    else:
        yield Ratio(name, peer, best(release), theirs)

    def started(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True), 5)

    pandas = started("import pandas")
    yield Ratio("import tallytree", "import pandas", started("import tallytree"), pandas)
    plan = (
        "from tallytree.accounting import plan_noise; from tallytree.accounting.sensitivity import sensitivity; "
        "import tallytree as tt; bound = sensitivity('counts', 'change_one'); "
        "plan_noise(tt.Budget(epsilon=1, delta=1e-8), {'a': ('counts', bound), 'b': ('counts', bound)}).spent"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TALLYTREE_CACHE_DIR"] = folder  # the first start keeps the numbers, the best one finds them
        yield Ratio("plan the noise of two levels in a new process, again", "import pandas", started(plan), pandas)


def matching(data: Path) -> dict[str, str]:
    rows, areas = taxi_data(data)
    job = plan_group_sizes(
        SizesArguments(
            rows,
            areas,
            tt.Budget(epsilon=1),
            neighboring="add_remove",
            engine=Local(),
            size="size",
            groups="groups",
            max_group_size=100_000,
        )
    )
    found = job.tabulate()
    domain, true = found.domain, found.true
    replay = Replay()

    def mechanism() -> None:
        job.mechanism.reconcile(domain, Measurer(true, job.plan, replay))

    mechanism()
    replay.inner = None
    without_noise = best(mechanism)
    seconds = best(job.run)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "Matching, noise excluded, after compilation": f"{without_noise:.2f} s",
        "all of release_group_sizes (3.1 million noisy cells)": f"{seconds:.2f} s",
        "peak memory of the process": f"{peak:,.0f} MiB",
    }


def start_up() -> list[str]:
    def seconds(*command: str) -> float:
        return best(lambda: subprocess.run(command, check=True, capture_output=True))

    peer = seconds(sys.executable, "-c", "import pandas")
    tallytree = str(Path(sys.executable).with_name("tallytree"))
    folder = HERE.parent / ".venv-inf-tda" / "demo"
    subprocess.run([tallytree, "demo", "--out", str(folder)], check=True, capture_output=True)
    timed = {
        "import tallytree": seconds(sys.executable, "-c", "import tallytree"),
        "tallytree --help": seconds(tallytree, "--help"),
        "tallytree demo (compiled before)": seconds(tallytree, "demo", "--out", str(folder)),
    }
    return [f"| {name} | {took:.2f} | {took / peer:.1f} |" for name, took in timed.items()]


def flows_data(data: Path) -> tuple[pd.DataFrame, tt.Hierarchy]:
    """The random complete data set of Boninsegna and Silvestri 2025, or one of its shape."""
    if (data / "od_random_complete.parquet").exists():
        areas = tt.Hierarchy.from_table(data / "od_random_areas.parquet", LEVELS)
        return pd.read_parquet(data / "od_random_complete.parquet"), areas
    random = np.random.default_rng(0)
    codes = np.zeros((435, 4), dtype=np.int64)
    for depth, width in enumerate((145, 34, 6, 1)):
        codes[:, depth] = np.arange(435) // width
    table = pd.DataFrame(codes.astype(str), columns=LEVELS)
    pairs = table.add_prefix("origin_").merge(table.add_prefix("destination_"), how="cross")
    pairs["count"] = np.minimum(np.ceil(random.pareto(1.2, len(pairs)) * 3) + 1, 1000).astype(np.int64)
    return pairs, tt.Hierarchy.from_table(table, LEVELS)


def taxi_data(data: Path) -> tuple[pd.DataFrame, tt.Hierarchy]:
    """Manhattan taxis of Kuo et al. 2018, or groups of about their number and sizes."""
    path = ["half", "neighbourhood"]
    if (data / "taxi_2013_manhattan.parquet").exists():
        rows = pd.read_parquet(data / "taxi_2013_manhattan.parquet")
    else:
        random = np.random.default_rng(0)
        n = 360_872
        rows = pd.DataFrame({"neighbourhood": random.integers(0, 28, n), "size": random.geometric(1 / 363, n)})
        rows["half"] = rows["neighbourhood"] % 2
        rows = rows.groupby([*path, "size"]).size().rename("groups").reset_index()
    return rows, tt.Hierarchy.from_table(rows[path].drop_duplicates(), path)


def noise_key() -> bytes:
    return bytes(range(32))


if __name__ == "__main__":
    main()
