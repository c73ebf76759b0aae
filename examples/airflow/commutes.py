"""A nightly release under Airflow: check, release, add the errors. Airflow is needed only to schedule the tasks.

The tasks call the command line, so that a release has a process, and memory, of its own. Its exit code says what to do:
a mistake is not mended by a retry, a full disk or a locked ledger may be.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

FOLDER = Path("/srv/commutes")
"""Has `commutes.yaml` (the one in `examples/container`), and the folders `data`, `state` and `secret`."""

RETRY = {1, 5, 129, 130, 143}
"""Exit codes after which a retry may help: unexpected, the machine, and signals. See docs/how-to/operations.md."""


class NeedsSomebodyError(Exception):
    """The input, the budget or the place of the release is wrong; somebody has to look."""


def check(date: str, folder: Path = FOLDER) -> None:
    """Validate the spec, the public tables and the room in the ledger; no private row is read, nothing is spent."""
    _tallytree(folder, "check", "commutes.yaml", "--set", f"variables.DATE={date}")


def release(date: str, folder: Path = FOLDER) -> Path:
    """Release the night `date`. Repeated under the same secret, it gives the same release and spends nothing again."""
    out = Path("state/releases") / date
    day = ["--set", f"variables.DATE={date}", "--run", date]
    again = ["--secret", "secret/key", "--if-exists", "skip"]
    _tallytree(folder, "release", "commutes.yaml", *day, *again, "--out", str(out), "--verbose")
    return folder / out


def add_errors(date: str, folder: Path = FOLDER) -> None:
    """Put intervals into the tables, which are written as CSV too; spends nothing."""
    _tallytree(folder, "error", str(Path("state/releases") / date), "--csv")


def _tallytree(folder: Path, *arguments: str) -> None:
    """Run the command line in the folder; its log goes to the log of the task.

    Raises:
        NeedsSomebodyError: the input, the budget or the place is wrong.
        CalledProcessError: anything else, after which a retry may help.
    """
    command = [sys.executable, "-m", "tallytree", *arguments]
    code = subprocess.run(command, cwd=folder, check=False).returncode  # noqa: S603 (no shell, and no text of others)
    if code and code not in RETRY:
        raise NeedsSomebodyError(f"tallytree {arguments[0]} ended with exit code {code}; its log says why")
    if code:
        raise subprocess.CalledProcessError(code, command)


try:
    from airflow.exceptions import AirflowFailException
    from airflow.sdk import dag, task
except ImportError:  # without Airflow the functions above still work
    pass
else:

    def _run(step, date):
        try:
            step(date)
        except NeedsSomebodyError as error:
            raise AirflowFailException(str(error)) from error  # which Airflow does not try again

    @dag(
        schedule="15 2 * * *",
        start_date=datetime(2026, 11, 22, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
    )
    def commutes():
        """Check, release, add the errors."""

        @task
        def check_night(ds=None):
            _run(check, ds)

        @task
        def release_night(ds=None):
            _run(release, ds)

        @task
        def add_errors_to_night(ds=None):
            _run(add_errors, ds)

        check_night() >> release_night() >> add_errors_to_night()

    commutes()
