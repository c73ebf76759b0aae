"""Fixtures: a real S3 server and a real PostgreSQL server, each started once for the files that need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.postgresql_server import postgresql_server
from helpers.s3_server import S3, s3_server


@pytest.fixture(scope="session")
def server_of_s3() -> Iterator[S3]:
    yield from s3_server()


@pytest.fixture
def s3(server_of_s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, with an empty bucket, and the environment by which it is found."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server_of_s3.environment.items():
        monkeypatch.setenv(name, value)
    server_of_s3.reset()
    return server_of_s3


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from postgresql_server()


@pytest.fixture
def database(postgresql: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The server, without tables, and the password in the environment."""
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    postgresql.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")
    return postgresql
