"""The program `tallytree` for shell commands of a test: each call is a child of a process that has loaded its modules.

A new process takes 2 s of processor time to import what a command needs; a child has it. As a program,
`python -m helpers.warm_program FOLDER` is the process: it writes the program to `FOLDER/tallytree` and runs it for who
calls it, with the caller's arguments, folder, environment and streams. What a process does when it starts, and at
signals, is tested elsewhere, with processes of their own: `tests/cli/test_program.py`, `tests/cli/test_signals.py`.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from select import select

TESTS = Path(__file__).resolve().parents[1]
LOADED = (
    "altair", "dp_accounting.pld.privacy_loss_distribution", "duckdb", "jinja2", "pyarrow.dataset", "pyarrow.parquet",
    "rich.console", "scipy.special", "tallytree.spec", "tallytree.views.export.exporting",
    "tallytree.views.report.page", "yaml",
)  # fmt: skip
PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
asked = json.dumps({{"argv": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({place!r})
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.makefile().read() or 137))  # no answer: it was killed
"""


@contextmanager
def warm_program(folder: Path) -> Iterator[dict[str, str]]:
    """An environment in which the shell finds the program.

    Args:
        folder: a short path, for the program and the socket.
    """
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "helpers.warm_program", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path},
                          text=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        where = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
        yield os.environ | {"PATH": where}


def serve(folder: Path) -> None:
    """Run what is asked for, each in a child, until standard input ends, as it does with who has started this."""
    import pyarrow as pa

    import tallytree as tt
    from tallytree.cli.app import main

    for module in LOADED:
        import_module(module)
    made_up = pa.table({"state": ["A", "B"]})
    areas = tt.Hierarchy.from_table(made_up, ["state"])
    tt.release_counts(made_up, areas, tt.Budget(epsilon=1), neighboring="add_remove")
    assert threading.active_count() == 1, threading.enumerate()  # others would be missed by what waits for them
    program, place = folder / "tallytree", folder / "socket"
    program.write_text(PROGRAM.format(python=sys.executable, place=str(place)), encoding="utf-8")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while sys.stdin not in select([server, sys.stdin], [], [])[0]:
            caller = server.accept()[0]
            if not os.fork():
                _run(caller, main)
            caller.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _run(caller: socket.socket, main: object) -> None:
    """The child: the command, its exit code to the caller; never returns."""
    header, streams, _, _ = socket.recv_fds(caller, 8, 3)
    asked = json.loads(caller.makefile("rb").read(int.from_bytes(header, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], os.fdopen(number, "w" if number else "r", closefd=False))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.path[:0] = filter(None, asked["environment"].get("PYTHONPATH", "").split(os.pathsep))  # as a process does
    sys.argv = ["tallytree", *asked["argv"]]
    code = 1
    try:
        main()  # type: ignore[operator]
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (as a process that ends by it)
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        caller.sendall(str(code).encode())
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
