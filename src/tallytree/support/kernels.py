"""How a numeric kernel is compiled: once, cached on disk, free of the interpreter lock."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

try:
    import numba
except ValueError as refusal:  # of numba's own; only this one is about what the user has set
    if "threads" not in str(refusal):
        raise
    raise ValueError(
        f"threads: the environment variable NUMBA_NUM_THREADS is {os.environ.get('NUMBA_NUM_THREADS', '')[:20]!r}; "
        "set it to 1 or more, or leave it out"
    ) from None
from numba.core import event

from tallytree.support.compiled_ahead import keep_compiled, stamped, use_compiled_ahead, why_it_does_not_fit
from tallytree.support.trusted_folders import why_untrusted

logger = logging.getLogger(__name__)

_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}
"""Nobody passes a kernel to another one as a value, so the entry point for that, a tenth of the code, is left out."""

_KERNELS: list[Any] = []
"""Every kernel whose code is cached."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with numba at the first call; the machine code is cached beside the file, or in the user's cache.

    Code that came with the package is taken first (`support/compiled_ahead.py`). Where no cache can be written to,
    the rest is compiled anew in every process (some seconds); the environment variable `NUMBA_CACHE_DIR` names another
    place. Kernels release the GIL, so a thread pool runs them side by side. They take and return arrays and numbers
    only.

    Cached code is pickled, and unpickling runs what it says. So a folder that somebody else can write to, or a file in
    it that somebody else owns or can write to, is not used: the kernel is compiled anew, with one warning. This holds
    for all places, `NUMBA_CACHE_DIR` too. See `docs/decisions/0024-cached-code.md`.

    Cached code is used for exactly the sources that it was compiled from (`stamped`), by private attributes of numba:
    the only public setting, `numba.config.CACHE_DIR`, holds for the entire process and would move the cached code of
    other libraries too. Where a version of numba has no such attributes, nothing is cached.
    """
    return _compiled(function, _OPTIONS)


def inlined(function: Function) -> Function:
    """Compile a function into every kernel that calls it, instead of by itself. Python can call it as any kernel.

    It is for a part that only one kernel calls, and for a few lines. A kernel that is compiled by itself takes 0.1 s of
    processor time however short it is, and LLVM optimises its code once more in each kernel that calls it.
    """
    return _compiled(function, {**_OPTIONS, "inline": "always"})


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    compiled = _cached(function, options) or numba.njit(**options)(function)
    use_compiled_ahead(compiled, sources_digest)
    return cast(Function, compiled)


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The kernel with numba's cache; None where there is no cache that can be written to and trusted."""
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        logger.info("no folder for compiled code can be written to; set NUMBA_CACHE_DIR to compile once only")
        return None
    # numba reads the cache at the first call, and not before.
    fault = _distrusted(compiled)
    if fault is not None:
        _warn_once(fault)
        return None
    # Compiled code contains the kernels that it calls, but numba compares only the kernel's own file to decide whether
    # cached code is stale. After a correction in one file, the cached callers in other files would run the old code.
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if not (hasattr(index, "_source_stamp") and hasattr(index, "_version")):
        return None  # an unknown version of numba
    stamped(index, sources_digest())
    _KERNELS.append(compiled)
    return compiled


def found_in_cache() -> int:
    """How many kernels this process has found compiled, each once for the types that it takes."""
    return sum(sum(each.stats.cache_hits.values()) for each in _KERNELS)


def cache_folders() -> tuple[Path, ...]:
    """The folders that hold the cached code of the kernels that this process has; none where nothing can be cached."""
    return tuple(sorted({Path(place) for each in _KERNELS if each.signatures and (place := each.stats.cache_path)}))


def keep_all_compiled(target: Path) -> None:
    """Copy the cached code of every kernel that this process has used to a folder, for a wheel."""
    keep_compiled((each for each in _KERNELS if each.signatures), target)


class Misfit(event.Listener):  # type: ignore[misc]
    """Says once, when numba first compiles a kernel, that the code which came with the package does not fit.

    Args:
        reason: what is other here.
    """

    def __init__(self, reason: str) -> None:
        self._reason, self._said = reason, False

    def on_start(self, begun: Any) -> None:
        """Numba begins to compile a function of any package."""
        if self._said or not begun.data["dispatcher"].py_func.__module__.startswith("tallytree."):
            return
        self._said = True
        logger.warning(
            "the compiled code of this installation does not fit: %s; so it is compiled anew when it is first called, "
            "which takes some seconds; `tallytree warm` compiles all of it at once",
            self._reason,
        )

    def on_end(self, begun: Any) -> None:
        """Nothing is said at the end."""


if (_reason := why_it_does_not_fit()) is not None:
    event.register("numba:compile", Misfit(_reason))


@contextmanager
def compilations(on_begin: Callable[[str], None], on_end: Callable[[str], None]) -> Iterator[None]:
    """Call back with a kernel's name when numba begins and ends to compile it during the block; not when it is cached.

    Kernels that a kernel calls are compiled inside it, and called back for too. The events are numba's own.
    """

    class Compilations(event.Listener):  # type: ignore[misc]
        def on_start(self, found: Any) -> None:
            on_begin(found.data["dispatcher"].py_func.__name__)

        def on_end(self, found: Any) -> None:
            on_end(found.data["dispatcher"].py_func.__name__)

    with event.install_listener("numba:compile", Compilations()):
        yield


def _distrusted(compiled: Any) -> str | None:
    """Why the cached code of a kernel may be somebody else's; None if it cannot be, or if there is no cache."""
    folder = getattr(getattr(compiled, "_cache", None), "cache_path", None)
    return None if folder is None else why_untrusted(Path(folder), (".nbi", ".nbc"))


@cache
def _warn_once(fault: str) -> None:
    warnings.warn(
        f"NUMBA_CACHE_DIR: compiled code is not read from the cache and not kept, because {fault}, so it could be "
        "somebody else's; it is compiled anew, which takes some seconds in every process. Remove what is cached and "
        "take the right from others (chmod go-w), or set NUMBA_CACHE_DIR to a new folder of your own (mkdir -m 700)",
        stacklevel=3,
    )


@cache
def sources_digest() -> str:
    """A digest of every file of tallytree that has a kernel, in any of its packages."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        source = path.read_bytes()
        if b"support.kernels import" in source:
            digest.update(source)
    return digest.hexdigest()
