"""How the program ends when it is told to: at once, with nothing private left on the disk, and with one exit code.

SIGTERM (a container, a service or a scheduler stops the program) and SIGHUP (the terminal is closed) raise
`SystemExit`, so that folders are removed on the way out. Python runs a signal handler between two steps of the main
thread only, and compiled code of DuckDB or numba is one step, which may take minutes. So a thread watches for the
signals too, and ends the process if it is still there after `GRACE` seconds.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import NoReturn

from tallytree.cli.logs import last_line

GRACE = 1.2
"""Seconds for the way out; the promise is two, and a busy machine needs the rest."""

_STEPS = 12

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class _Received:
    """The first signal that told this process to end, and whether a line on standard error has said so."""

    number: int | None = None
    said: bool = False


def ends_on_signals(program: Callable[[], None]) -> Callable[[], None]:
    """Let SIGTERM and SIGHUP end a program within two seconds, with exit code 128 + the signal's number.

    For a function that is the whole program: the handlers stay. SIGHUP that is ignored (`nohup`) stays ignored.
    """

    @wraps(program)
    def run() -> None:
        _install()
        try:
            program()
        except BaseException:
            _exit_as_told()
            raise
        _exit_as_told()  # a library kept the exception to itself

    return run


def _exit_as_told() -> None:
    """Exit with the signal's code, whatever became of the exception on its way (DuckDB turns it into another)."""
    if _Received.number is not None:
        _say(_Received.number)
        raise SystemExit(128 + _Received.number)


def _say(number: int) -> None:
    """One line on standard error, written at once: the logs of the command may be closed already."""
    if _Received.said:
        return
    _Received.said = True
    event = "terminated" if number == signal.SIGTERM else "hangup"
    message = f"{event}: the process was told to end; if it uses a ledger, that says whether the budget is spent"
    with suppress(OSError):
        os.write(2, last_line(message, event, exit_code=128 + number).encode())


def _install() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # The system's handler writes the signal's number here at once, whatever the main thread is doing.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()
    for number in ENDING:
        if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)


def _leave(number: int, _: FrameType | None) -> None:
    """Begin the way out; a second signal must not disturb it."""
    if _Received.number is None:
        _Received.number = number
        raise SystemExit(128 + number)


def _watch(reading: int) -> NoReturn:
    """Wait for a signal that ends the program, then end it if nothing else does."""
    from tallytree.support.spill_folders import remove_folders_in_use

    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # they are for the main thread
    number = 0
    while number not in ENDING:
        number = os.read(reading, 1)[0]
    for _ in range(_STEPS):
        time.sleep(GRACE / _STEPS)
        if _Received.number is None and hasattr(signal, "pthread_kill"):
            # It came just before the main thread began to wait for something, so it did not wake it up.
            signal.pthread_kill(threading.main_thread().ident or 0, number)
    remove_folders_in_use()
    _say(_Received.number or number)
    os._exit(128 + (_Received.number or number))
