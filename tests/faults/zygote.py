"""Runs commands of tallytree in children of one warm process, each with one fault; see `injector.c`.

Run as a program with the injector preloaded: reads one JSON object a line (`argv`, `below`, `at`, `kind`, `errno`,
`errors`), answers with one (`status`, `calls`, `call`).
"""

import ctypes
import json
import os
import sys

KINDS = {"none": 0, "fail": 1, "short": 2, "kill": 3}


def run_in_child(injector, asked):
    """The child: standard error to a file, the fault armed, the command run; never returns."""
    log = os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(log, 2)
    sys.argv = ["tallytree", *asked["argv"]]
    from tallytree.cli.app import main

    injector.fault_arm(asked["below"].encode(), asked["at"], KINDS[asked["kind"]], asked["errno"])
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
    injector.fault_last.restype = ctypes.c_char_p
    injector.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        asked = json.loads(line)
        injector.fault_reset()
        child = os.fork()
        if not child:
            run_in_child(injector, asked)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = {"status": status, "calls": injector.fault_calls(), "call": injector.fault_last().decode()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    for name in ("spec", "api", "postprocess.replicate_errors", "cli.app"):
        __import__(f"tallytree.{name}")
    import duckdb  # noqa: F401
    import pyarrow.dataset  # noqa: F401

    main()
