"""A real S3 server and a real PostgreSQL server, each started once for the files that need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers.refused_records import refused
from helpers.servers import database, postgresql, s3, server_of_s3  # noqa: F401  (fixtures)


@pytest.fixture
def refuses(capfd: Any, caplog: Any) -> Callable[..., Any]:
    caplog.set_level(0)
    return lambda kind, *says, **options: refused(kind, *says, capfd=capfd, caplog=caplog, **options)
