"""How a numeric kernel is compiled: once, cached on disk, free of the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba at the first call; the machine code is cached beside the file, or in the user's cache.

    Kernels release the GIL, so a thread pool runs them side by side. They take and return arrays and numbers only.
    """
    return cast(Function, numba.njit(cache=True, nogil=True)(function))
