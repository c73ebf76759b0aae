"""`make bench`: ratios against named peers, kept in `results.json`; says what is 25 % worse than what was committed.

    python benchmarks/run.py [NAME ...] [--no-write]

Every file of this folder with a function `ratios` (see `ratios.py`) takes part, in a process of its own, in which both
peers run by turns. Seconds differ from machine to machine, and ratios much less: so ratios are compared. With NAMEs
only these files run, and the others' figures stay as they were. The exit code is 1 if anything became worse, or failed.
A peer that is not installed is named and left out: `pip install -r benchmarks/requirements.txt`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ratios import LeftOut, Ratio

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
WORSE = 1.25
VERSIONS = (
    "tallytree", "numpy", "numba", "pyarrow", "duckdb", "opendp", "scikit-learn", "mbi", "hierarchicalforecast",
    "pipeline-dp", "clarabel",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="files to run, without .py; by default all")
    parser.add_argument("--no-write", action="store_true", help=f"do not write {RESULTS.name}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one.split(":", 1))
        return
    known = benchmarks()
    unknown = sorted({*arguments.names} - {*known})
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such benchmark; there are {', '.join(known)}")
    committed = baseline()
    found: dict[str, Any] = {"machine": machine(), "versions": versions(), "ratios": {}, "left_out": {}}
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    failed = []
    for name in known:
        if arguments.names and name not in arguments.names:
            for part in ("ratios", "left_out"):
                kept = before.get(part, {})
                found[part] |= {key: facts for key, facts in kept.items() if facts["benchmark"] == name}
            continue
        print(f"\n## {name}\n\n| what | peer | ours | peer's | ours / peer's |\n" + "| --- " * 5 + "|", flush=True)
        if not in_own_process(name, found):
            failed.append(name)
    if not arguments.no_write:
        RESULTS.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    worse = compared(found["ratios"], committed)
    print(f"\n{len(found['ratios'])} ratios, {len(worse)} of them more than 25 % worse than those that were committed.")
    for line in [*worse, *(f"{name}: failed" for name in failed)]:
        print(f"* {line}")
    raise SystemExit(1 if worse or failed else 0)


def benchmarks() -> list[str]:
    """The files that give ratios."""
    return sorted(path.stem for path in HERE.glob("*.py") if "\ndef ratios(" in path.read_text(encoding="utf-8"))


def in_own_process(name: str, found: dict[str, Any]) -> bool:
    """Run a benchmark and add what it gives; whether it ended well."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lines"
        command = [sys.executable, str(Path(__file__).resolve()), "--one", f"{name}:{out}"]
        code = subprocess.run(command, check=False).returncode
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    for line in lines:
        facts = json.loads(line)
        part, key = facts.pop("part"), facts.pop("key")
        found[part][key] = {"benchmark": name, **facts}
    return code == 0


def one(name: str, out: str) -> None:
    """Run a benchmark in this process: a line of the table, and of the file, for each ratio."""
    with Path(out).open("w", encoding="utf-8") as file:
        for each in importlib.import_module(name).ratios():
            key = f"{each.name} | {each.peer}"
            if isinstance(each, Ratio):
                figures = {"ratio": each.ratio, "ours": each.ours, "theirs": each.theirs}
                facts = {name: float(f"{figure:.3g}") for name, figure in figures.items()} | {"unit": each.unit}
                cells = (each.name, each.peer, f"{each.ours:.3g}", f"{each.theirs:.3g} {each.unit}", facts["ratio"])
                print("| " + " | ".join(map(str, cells)) + " |")
                file.write(json.dumps({"part": "ratios", "key": key, **facts}) + "\n")
            elif isinstance(each, LeftOut):
                print(f"| {each.name} | {each.peer} | left out: {each.why} | | |")
                file.write(json.dumps({"part": "left_out", "key": key, "why": each.why}) + "\n")
            sys.stdout.flush()
            file.flush()


def compared(ratios: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    """What is more than 25 % worse than it was."""
    return [
        f"{key}: {facts['ratio']:.3g}, was {committed[key]['ratio']:.3g}"
        for key, facts in ratios.items()
        if key in committed and facts["ratio"] > WORSE * committed[key]["ratio"]
    ]


def baseline() -> dict[str, Any]:
    """The ratios of the last commit; outside a repository, of the file as it is."""
    command = ["git", "-C", str(HERE), "show", f"HEAD:./{RESULTS.name}"]
    try:
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "{}"
    return dict(json.loads(text).get("ratios", {}))


def machine() -> dict[str, Any]:
    """What figures depend on most."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def versions() -> dict[str, str]:
    """Of all that is compared, as far as it is installed."""
    found = {}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
