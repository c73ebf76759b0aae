"""Runs commands of tallytree in children of one warm process, each with one fault; see `injector.c`.

Run as a program with the injector preloaded: reads one JSON object a line (`argv`, `below`, `at`, `kind`, `errors`),
answers with one (`status`, and the names of the `calls` in their order).
"""

import ctypes
import json
import os
import sys
from pathlib import Path

KINDS = {"none": 0, "fail": 1, "short": 2, "kill": 3}


def run_in_child(injector, asked):
    """The child: standard error to a file, the fault armed, the command run; never returns."""
    log = os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(log, 2)
    sys.argv = ["tallytree", *asked["argv"]]
    from tallytree.cli.app import main

    injector.fault_arm(asked["below"].encode(), asked["at"], KINDS[asked["kind"]])
    code = 70
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def main():
    injector = ctypes.CDLL(sys.argv[1])
    injector.fault_calls.restype = ctypes.c_long
    injector.fault_name.restype = ctypes.c_char_p
    injector.fault_name.argtypes = [ctypes.c_long]
    injector.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        asked = json.loads(line)
        injector.fault_reset()
        child = os.fork()
        if not child:
            run_in_child(injector, asked)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        calls = [injector.fault_name(number).decode() for number in range(1, injector.fault_calls() + 1)]
        answer = {"status": status, "calls": calls}
        answers.write(json.dumps(answer) + "\n")


def warm_up():
    """Load what a command needs, kernels too; all threads have ended afterwards, so that the process may fork."""
    import pyarrow as pa

    import tallytree as tt

    states = pa.table({"state": ["A", "B"], "home": [1, 2]})
    tree = tt.Hierarchy.from_table(states.select(["state"]), ["state"])
    shared = {"neighboring": "add_remove", "engine": tt.engines.Local(threads=1), "seed": 1}
    tt.release_counts(states, tree, tt.Budget(epsilon=1), **shared)
    sizes = tt.release_group_sizes(states, tree, tt.Budget(epsilon=1), group="home", max_group_size=20, **shared)
    tt.replicate_errors(sizes, 10, seed=1)
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    others = sorted(names)
    others.remove(Path("/proc/self/comm").read_text().strip())
    # jemalloc's thread expects forks; any other would leave the children without what it holds.
    assert {*others} <= {"jemalloc_bg_thd"}, others


if __name__ == "__main__":
    for name in ("spec", "cli.app"):
        __import__(f"tallytree.{name}")
    warm_up()
    main()
