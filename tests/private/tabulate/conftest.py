"""A check of refusals, and an engine whose temporary folder must be empty afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.refused_records import refused
from tallytree.private.engines import Local


@pytest.fixture
def refuses(capfd: Any, caplog: Any) -> Callable[..., Any]:
    caplog.set_level(0)
    return lambda kind, *says, **options: refused(kind, *says, capfd=capfd, caplog=caplog, **options)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Local]:
    """Whatever happens in the test, nothing of the engine's temporary folder may be left."""
    folder = tmp_path / "spill"
    folder.mkdir()
    yield Local(threads=2, temp_directory=folder)
    assert list(folder.iterdir()) == []
