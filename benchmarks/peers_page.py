"""Peers side by side: time, memory, error and validity of each program, as one page of the documentation.

    python benchmarks/peers_page.py --environments FOLDER      runs all, and writes peers_results.json and the page
    python benchmarks/peers_page.py --page                     writes the page from peers_results.json alone

Each (task, program) runs in a process of its own, one after the other: once to warm up where it is fast, and then some
times, of which the least is kept. Programs that need other versions of libraries have virtual environments of their
own in FOLDER, which are made and filled if they are absent.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "peers_results.json"
PAGE = HERE.parent / "docs" / "explanation" / "comparison.md"
BEGIN, END = "<!-- made by benchmarks/peers_page.py -->\n", "<!-- end of what is made -->"
"""Between these lines, the page is what this program makes."""
TIMEOUT = 900
SHORT = 2.0
"""Seconds; what takes longer is run once."""

ENVIRONMENTS: Mapping[str, Sequence[str]] = {
    "main": ("hierarchicalforecast>=1.0", "mbi>=2.0", "scikit-learn>=1.6", "pandas", "polars"),
    "inf-tda": ("inf-tda==0.1", "opendp<0.13", "pandas<2.3", "pyarrow"),
    "pipeline-dp": ("pipeline-dp",),
    "diffprivlib": ("diffprivlib", "scikit-learn<1.6"),
}
"""What is installed in each; `main` has this package too, with its extras `papers` and `opendp`."""


@dataclass(frozen=True)
class Program:
    """A program in a task.

    Attributes:
        name: on the page.
        function: in `peers_tasks`.
        package: whose version is shown.
        environment: where it runs.
    """

    name: str
    function: str
    package: str
    environment: str = "main"


@dataclass(frozen=True)
class Task:
    """A task and who does it; tallytree first.

    Attributes:
        title: the heading.
        about: what is done, in a few words.
        error: what the column of errors has, with its unit.
        programs: in the order of the page.
    """

    title: str
    about: str
    error: str
    programs: tuple[Program, ...]


OURS = "tallytree"
TASKS = (
    Task(
        "A million draws of discrete Laplace noise",
        "scale 100",
        "standard deviation / that of the law",
        (
            Program(OURS, "noise_tallytree", "tallytree"),
            Program("OpenDP", "noise_opendp", "opendp"),
            Program("diffprivlib, Geometric", "noise_diffprivlib", "diffprivlib", "diffprivlib"),
        ),
    ),
    Task(
        "Flows between 435 areas",
        "the paper's random complete data, 189,225 pairs, eight levels, ε = 1, δ = 1e-8",
        "largest error of a level, mean (trips)",
        (
            Program(f"{OURS}, LeastSquares", "flows_least_squares", "tallytree"),
            Program(f"{OURS}, TopDown", "flows_top_down", "tallytree"),
            Program("inf-tda", "flows_inf_tda", "inf-tda", "inf-tda"),
        ),
    ),
    Task(
        "Counts of ranges over 4,096 ordered values",
        "a binary tree of noisy counts, ε = 1",
        "root mean squared error of 1,000 random ranges",
        (
            Program(OURS, "binary_tallytree", "tallytree"),
            Program("OpenDP, b-ary tree", "binary_opendp", "opendp"),
        ),
    ),
    Task(
        "Least squares over a tree of 1,111 nodes, x ≥ 0",
        "post-processing alone; ours is the optimum in integers",
        "Σ (x − noisy)², the cost",
        (
            Program(OURS, "tree_tallytree", "tallytree"),
            Program("hierarchicalforecast, MinTrace", "tree_min_trace", "hierarchicalforecast"),
            Program("cvxpy (Clarabel)", "tree_clarabel", "clarabel"),
            Program("cvxpy (OSQP)", "tree_osqp", "osqp"),
            Program("cvxpy (SCS)", "tree_scs", "scs"),
        ),
    ),
    Task(
        "Isotonic regression of a million integers, L2",
        "post-processing alone",
        "Σ (x − y)², the cost",
        (
            Program(OURS, "isotonic_tallytree", "tallytree"),
            Program("scikit-learn", "isotonic_scikit", "scikit-learn"),
        ),
    ),
    Task(
        "Plain counts of 1,000 public partitions",
        "100,000 persons, ε = 1; `LeastSquares` measures the total too, the others do not",
        "mean absolute error (records)",
        (
            Program(f"{OURS}, LeastSquares", "counts_least_squares", "tallytree"),
            Program(f"{OURS}, LeafGaussian", "counts_leaves", "tallytree"),
            Program("PipelineDP, local", "counts_pipeline_dp", "pipeline-dp", "pipeline-dp"),
            Program("diffprivlib, histogram", "counts_diffprivlib", "diffprivlib", "diffprivlib"),
        ),
    ),
    Task(
        "Tables of 197 counties, 18 ages and 3 sexes",
        "ε = 1, δ = 1e-8, the same noise; mbi stopped after 1,000 iterations",
        "mean absolute error of the counties' age × sex",
        (
            Program(OURS, "tables_tallytree", "tallytree"),
            Program("mbi (Private-PGM)", "tables_mbi", "mbi"),
        ),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, help="where the virtual environments are, or are made")
    parser.add_argument("--page", action="store_true", help="only write the page, from the results that are kept")
    parser.add_argument("--one", nargs=2, metavar=("FUNCTION", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured_here(arguments.one[0], Path(arguments.one[1]))))
        return
    if not arguments.page:
        if arguments.environments is None:
            parser.error("--environments: name a folder, or ask for --page alone")
        RESULTS.write_text(json.dumps(measured(arguments.environments), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


# --- Measuring ---


def measured(environments: Path) -> dict[str, Any]:
    """All tasks: the machine, the versions, and what each program did or why it did not."""
    environments = environments.absolute()
    environments.mkdir(parents=True, exist_ok=True)
    prepared(environments, "main")
    write_trips(environments)
    found = []
    for task in TASKS:
        for program in task.programs:
            print(f"{task.title}: {program.name}", file=sys.stderr)
            found.append({"task": task.title, "program": program.name, **in_a_process(program, environments)})
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {processor()}, Python {platform.python_version()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "rows": found,
    }


def prepared(environments: Path, name: str) -> Path:
    """The Python of an environment, which is made where it does not exist."""
    python = environments / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environments / name], check=True)
        more = [f"{HERE.parent}[papers,opendp]"] if name == "main" else []
        subprocess.run([python, "-m", "pip", "install", "--quiet", *more, *ENVIRONMENTS[name]], check=True)
    return python


def write_trips(environments: Path) -> None:
    """The flows as a file, for programs that run without this package."""
    code = (
        "from tallytree.datasets import boninsegna; import pyarrow.parquet as pq; "
        f"pq.write_table(boninsegna.od_flows('random', 'complete').flows, {str(environments / 'trips.parquet')!r})"
    )
    subprocess.run([prepared(environments, "main"), "-c", code], check=True)


def in_a_process(program: Program, environments: Path) -> dict[str, Any]:
    try:
        python = prepared(environments, program.environment)
        command = [python, "-W", "ignore", Path(__file__).resolve(), "--one", program.function, environments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
        code = f"import importlib.metadata as m; print(m.version({program.package!r}))"
        version = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        return {**json.loads(done.stdout.splitlines()[-1]), "version": version}
    except subprocess.TimeoutExpired:
        return {"failed": f"no result in {TIMEOUT} seconds"}
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return {"failed": f"fails: {lines[-1].partition(' (/')[0][:120]}" if lines else "cannot be installed"}


def measured_here(function: str, folder: Path) -> dict[str, Any]:
    """Run one program in this process: seconds, peak memory, error, validity."""
    import peers_tasks

    warnings.simplefilter("ignore")
    work, facts = getattr(peers_tasks, function)(folder)
    seconds, result = timed(work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # before anything is judged
    found = [facts(result)]
    repeats = 9 if seconds < SHORT else 4 if seconds < 5 * SHORT else 1 if seconds < 60 * SHORT else 0
    for _ in range(repeats):
        again, result = timed(work)
        seconds = min(seconds, again)
        found.append(facts(result))
    errors = [each["error"] for each in found]
    spread = statistics.stdev(errors) / len(errors) ** 0.5 if len(errors) > 1 else 0.0
    return {
        "seconds": seconds, "peak": peak / 1024, "runs": len(errors), "error": statistics.fmean(errors),
        "standard_error": spread, "valid": found[0]["valid"],
    }  # fmt: skip


def timed(work: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def processor() -> str:
    """Its name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


# --- The page ---


def page(results: Mapping[str, Any]) -> str:
    """The page in Markdown, its part side by side from the results alone."""
    rows = {(row["task"], row["program"]): row for row in results["rows"]}
    lines = [
        f"Measured on {results['date']} on a shared machine ({results['machine']}, load {results['load']}) by",
        "`python benchmarks/peers_page.py --environments FOLDER`, which wrote this part. Each program ran in a process",
        "of its own, as its documentation recommends. Times are the least of several; memory is the peak.",
        "",
        "### Where a peer is better",
        "",
        *[line for task in TASKS for sentence in better(task, rows) for line in wrapped(sentence, "* ")],
        "",
        "### All tasks",
        "",
        "Cells have the time, the memory and the mean error; in brackets its standard error and the number of runs.",
        "All that tallytree gives are integers; its counts are ≥ 0 and add up.",
        "",
        "| task, and which error | tallytree | others |",
        "| --- | --- | --- |",
        *[line(task, rows) for task in TASKS],
        "",
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2]


def better(task: Task, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[str]:
    """Where a peer takes less time or memory than all of ours, or has a smaller error."""
    done = {program.name: rows[task.title, program.name] for program in task.programs}
    ours = [row for name, row in done.items() if name.startswith(OURS) and "failed" not in row]
    found: dict[str, list[str]] = {}
    for name, row in done.items():
        if name.startswith(OURS) or "failed" in row:
            continue
        said = []
        if row["seconds"] < 0.95 * min(one["seconds"] for one in ours):
            said.append(f"takes {row['seconds'] / min(one['seconds'] for one in ours):.2f} of our time")
        if row["peak"] < 0.9 * min(one["peak"] for one in ours):
            said.append(f"needs {row['peak']:,.0f} MiB, where we need {min(one['peak'] for one in ours):,.0f}")
        best = min(ours, key=lambda one: one["error"])
        doubt = 2 * (row["standard_error"] ** 2 + best["standard_error"] ** 2) ** 0.5
        if not task.error.startswith("standard deviation") and row["error"] < 0.999 * best["error"] - doubt:
            what = "cost, in fractions where ours are integers" if "cost" in task.error else "error"
            said.append(f"has {row['error'] / best['error']:.3f} of our {what}")
        if said:
            found.setdefault(" and ".join(said), []).append(name)
    return [f"{task.title}: {_each(names)} {said}." for said, names in found.items()]


def _each(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {', '.join(names[:-1])} and {names[-1]}"


def line(task: Task, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """The row of a task: what is done, our figures, those of others."""
    done = {program: rows[task.title, program.name] for program in task.programs}
    cells = [
        "<br>".join(figures(one, row) for one, row in done.items() if one.name.startswith(OURS) is ours)
        for ours in (True, False)
    ]
    return f"| {task.title} ({task.about}): {task.error} | {cells[0]} | {cells[1]} |"


def figures(program: Program, row: Mapping[str, Any]) -> str:
    """What a program took and how far off it is, in a cell of the table."""
    ours = program.name.startswith(OURS)
    name = program.name.removeprefix(OURS).removeprefix(", ") if ours else f"{program.name} {row.get('version', '')}"
    before = f"{name.strip()}: " if name else ""
    if "failed" in row:
        return f"{before}{row['failed']}"
    error = f"{row['error']:.4g}" if row["error"] < 1e5 else f"{row['error']:,.0f}"
    if row["standard_error"]:
        error += f" ({row['standard_error']:.2g}; {row['runs']})"
    valid = "" if ours else f"; {row['valid']}"
    return f"{before}{row['seconds']:.3g} s, {row['peak']:,.0f} MiB, {error}{valid}"


def wrapped(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(
        bullet + text, 118, subsequent_indent=" " * len(bullet), break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    main()
