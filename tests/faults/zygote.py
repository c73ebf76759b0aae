"""Runs commands of tallytree in children of one warm process, each with one fault; see `injector.c`.

Run as a program with the injector preloaded: reads one JSON object a line (`argv`, `below`, `at`, `kind`, `errors`,
`environment`),
answers with one (`status`, the names of the `calls` in their order, the `places` of the files that they are about, and
the number of `requests` for memory). With the word `views` as an argument it also loads what `VIEWS` need.
"""

import atexit
import contextlib
import ctypes
import faulthandler
import functools
import gc
import json
import os
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import typer.main

SECONDS = 600
"""A command that takes longer hangs; it ends by SIGALRM."""

KINDS = {"none": 0, "fail": 1, "short": 2, "kill": 3, "gone": 4, "no memory": 5, "no more memory": 6}


KEYS = "TALLYTREE_TEST_KEYS"
"""A variable of the environment: see `put_arrays_into_files`."""


def put_arrays_into_files(keys):
    """Have a run with `memory` make all its arrays in files, however small; and note its noise keys in a file."""
    from tallytree.private.noise.discrete import KeyedNoise
    from tallytree.run.workspace import Workspace
    from tallytree.support.large_arrays import LargeArrays

    Path(keys).write_text("")
    begun = KeyedNoise.__init__

    def noted(self, key):
        with Path(keys).open("a") as file:
            file.write(key.hex() + "\n")
        begun(self, key)

    KeyedNoise.__init__ = noted
    Workspace.arrays = lambda self, needed: LargeArrays(threads=1, folder=self.private, least=1, at_once=6)


def run_in_child(injector, asked):
    """The child: standard error to a file, the fault armed, the command run; never returns."""
    log = os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    output = os.open(asked["errors"] + "-output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(log, 2)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(SECONDS - 5, file=log)  # says where it hangs
    sys.argv = ["tallytree", *asked["argv"]]
    os.environ.update(asked["environment"])
    os.chdir(asked["below"])
    if keys := os.environ.get(KEYS):
        put_arrays_into_files(keys)
    from tallytree.cli.app import main

    injector.fault_arm(asked["below"].encode(), asked["at"], KINDS[asked["kind"]])
    code = 70
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    finally:
        atexit._run_exitfuncs()  # what a process does that ends by itself
        try:
            sys.stdout.flush()
        except OSError:
            code = 120
        sys.stderr.flush()
        os._exit(code)


def main():
    injector = ctypes.CDLL(sys.argv[1])
    injector.fault_calls.restype = injector.fault_requests.restype = ctypes.c_long
    for about in (injector.fault_name, injector.fault_place):
        about.restype, about.argtypes = ctypes.c_char_p, [ctypes.c_long]
    injector.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        asked = json.loads(line)
        injector.fault_reset()
        child = os.fork()
        if not child:
            run_in_child(injector, asked)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        numbers = range(1, injector.fault_calls() + 1)
        calls = [injector.fault_name(number).decode() for number in numbers]
        places = [injector.fault_place(number).decode(errors="replace") for number in numbers]
        answer = {"status": status, "calls": calls, "places": places, "requests": injector.fault_requests()}
        answers.write(json.dumps(answer) + "\n")


VIEWS = (
    *(f"export counts --to {to} --out {to}" for to in ("csv", "xlsx", "parquet", "duckdb", "sdmx")),
    "export counts --to records --out records.csv",
    "export counts --to geoparquet --out shapes --boundaries state=states.geojson",
    "report counts",
    "plan counts.yaml --picture errors.svg",
    "reproduce fioretto-table3 --out papers",
)
"""Commands that need packages of extras."""


def draw_each_kind_once():
    """A picture takes a second: a child gets the first one of its kind, and writes that."""
    from tallytree.views.charts import drawing

    draw, kept = drawing._DRAWER.drawn, {}

    def drawn(function, chart, options):
        if function not in kept:
            kept[function] = draw(function, chart, options)
        return kept[function]

    drawing._DRAWER.drawn = drawn


def warm_up():
    """Load what a command needs, kernels too; all threads have ended afterwards, so that the process may fork."""
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet as pq
    from typer.testing import CliRunner

    from tallytree.cli import app

    spec = (
        "{records: rows.parquet, hierarchy: {path: areas.parquet, levels: [state]}, budget: {epsilon: 1}, "
        "neighboring: add_remove, engine: {threads: 1}, "
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pq.write_table(pa.table({"state": ["A", "B"], "home": [1, 2]}), "rows.parquet")
        pq.write_table(pa.table({"state": ["A", "B"]}), "areas.parquet")
        ring = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
        shapes = [{"type": "Feature", "properties": {"state": name}, "geometry": ring} for name in "AB"]
        Path("states.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
        Path("counts.yaml").write_text(spec + "statistic: counts, person: home, ledger: ledger, dataset: d}")
        Path("sizes.yaml").write_text(spec + "statistic: group_sizes, group: home, max_group_size: 20}")
        for command in (
            "limit ledger d --epsilon 2 --neighboring add_remove",
            "release counts.yaml --out counts",
            "release sizes.yaml --out sizes",
            "error sizes --replicates 10 --seed 1",
            "reconcile sizes sizes.yaml --out again",
            "contributions counts.yaml --out contributions",
            "total counts areas.parquet",
            *(("registry counts --out entry.yaml",) if find_spec("jsonschema") and find_spec("ruamel") else ()),
            "secret new secret",
            "lint counts.yaml --private-out defects.txt",
            *(VIEWS if "views" in sys.argv else ()),
        ):
            done = CliRunner().invoke(app, command.split())
            assert done.exit_code == 0, done.output
    # The threads of Arrow and of jemalloc begin anew in a child; any of Python would be missed by what waits for it.
    assert threading.active_count() == 1, threading.enumerate()


def keep_what_every_command_works_out():
    """What a command finds out again and is always the same: its options from its signature."""
    from tallytree.cli import app

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)
    gc.collect()
    gc.freeze()  # a child that collects garbage would copy every page


if __name__ == "__main__":
    for name in ("spec", "cli.app"):
        __import__(f"tallytree.{name}")
    draw_each_kind_once()
    warm_up()
    keep_what_every_command_works_out()
    main()
