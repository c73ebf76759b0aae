"""A real PostgreSQL server on this machine, in a temporary folder; it refuses to run as root, so it may get a user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@dataclass
class Server:
    """A running server.

    Attributes:
        folder: with its data.
        port: on 127.0.0.1.
        password: of its user.
        command: starts it.
    """

    folder: Path
    port: int
    password: str
    command: list[str | Path] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder)
        _wait_for(self)

    def crash(self) -> None:
        """End it at once, with all of its sessions, as after a loss of power."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it, with all of its sessions."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(600)
            self.process = None

    @property
    def url(self) -> str:
        return f"postgresql://publisher@127.0.0.1:{self.port}/postgres"

    def run(self, sql: str) -> None:
        """Run statements and keep what they do."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.url) as connection, connection.cursor() as cursor:
            for statement in sql.split(";"):
                if statement.strip():
                    cursor.execute(statement)
            connection.commit()


def postgresql_server() -> Iterator[Server]:
    """Start a server; stop it in the end. Skips where it is not installed."""
    if find_spec("adbc_driver_postgresql") is None:
        pytest.skip("adbc-driver-postgresql, of the extra tallytree[postgres], is not installed")
    programs = next((place for place in PLACES if (place / "initdb").exists()), None)
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (apt-get install postgresql)")
    other = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    if other and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL's server does not run as root, and there is no setpriv to run it as nobody")
    folder = Path(tempfile.mkdtemp(prefix="tallytree-postgresql-"))
    server = Server(folder, _free_port(), "PASSWORD-of-the-test")
    (folder / "password").write_text(server.password)
    if other:
        nobody = pwd.getpwnam("nobody")
        for each in (folder, folder / "password"):
            os.chown(each, nobody.pw_uid, nobody.pw_gid)
    try:
        made = [
            *other, programs / "initdb", "-D", folder / "data", "-U", "publisher", "-A", "scram-sha-256",
            f"--pwfile={folder / 'password'}", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8",
        ]  # fmt: skip
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        server.command = [
            *other, programs / "postgres", "-D", folder / "data", "-k", folder, "-p", str(server.port), "-F",
            "-c", "listen_addresses=127.0.0.1",
        ]  # fmt: skip
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(server: Server) -> None:
    about = server.folder / "data" / "postmaster.pid"
    for _ in range(12_000):  # ten minutes: recovery after a crash takes long on a busy machine
        if about.exists() and "ready" in about.read_text():
            return
        time.sleep(0.05)
    raise RuntimeError((server.folder / "log").read_text())
