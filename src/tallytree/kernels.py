"""How a numeric kernel is compiled: once, cached on disk, free of the interpreter lock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba at the first call; the machine code is cached beside the file, or in the user's cache.

    Where neither can be written to, it is compiled anew in every process (some seconds); the environment variable
    `NUMBA_CACHE_DIR` names another place. Kernels release the GIL, so a thread pool runs them side by side. They take
    and return arrays and numbers only.
    """
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        logger.info("no folder for compiled code can be written to; set NUMBA_CACHE_DIR to compile once only")
        return cast(Function, numba.njit(nogil=True)(function))
