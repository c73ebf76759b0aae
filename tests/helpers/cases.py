"""Which of many alike cases the short suite tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], most: int) -> list[Any]:
    """All cases for `parametrize`; `make test` tries this many of them, from first to last, and `make test-all` all.

    Args:
        cases: a tuple is the values of several arguments, anything else that of one.
        most: how many are not slow; at least 1.
    """
    every = list(cases)
    kept = {round(place * (len(every) - 1) / max(most - 1, 1)) for place in range(most)}
    return [
        case if place in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(every)
    ]
