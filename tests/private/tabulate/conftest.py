"""A check of refusals, and an engine whose temporary folder must be empty afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.refused_records import refused
from tallytree.engines import Engine, Local, Spark


@pytest.fixture
def refuses(capfd: Any, caplog: Any) -> Callable[..., Any]:
    caplog.set_level(0)
    return lambda kind, *says, **options: refused(kind, *says, capfd=capfd, caplog=caplog, **options)


@pytest.fixture(autouse=True)
def withheld(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a refusal of Spark withholds is shown where a test fails: these records are nobody's. No log has it."""
    if find_spec("pyspark") is None or find_spec("sqlglot") is None:
        return
    from tallytree.private.tabulate import spark_errors, spark_session

    def shown(error: Exception, argument: str) -> BaseException:
        request.node.add_report_section("call", "withheld by the refusal", str(error))
        return spark_errors.refusal(error, argument)

    monkeypatch.setattr(spark_session, "refusal", shown)


SPARK = pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.needs("pyspark", "sqlglot")])


@pytest.fixture(params=["local", SPARK])
def any_engine(request: Any) -> Engine:
    """Each engine: they find the same, and refuse the same with the same message."""
    if request.param == "local":
        return Local(threads=2)
    return Spark(request.getfixturevalue("spark"))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Local]:
    """Whatever happens in the test, nothing of the engine's temporary folder may be left."""
    folder = tmp_path / "spill"
    folder.mkdir()
    yield Local(threads=2, temp_directory=folder)
    assert list(folder.iterdir()) == []
