"""Kernels that were compiled when the wheel was built; used where they are exactly what would be compiled here.

All that this package needs of numba's private parts beyond the source stamp is in this file. See
`docs/decisions/0035-compiled-ahead.md`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding

PROCESSOR = "x86-64-v3"
"""Of the x86-64 processors since 2013 (Intel Haswell, AMD Zen). AVX2 is in it, on which the cipher's speed rests."""

FEATURES = (
    *("64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt", "mmx", "movbe"),
    *("popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
)
"""What a processor of that kind can do, by LLVM's names; the psABI of x86-64 lists it."""

BASELINE = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": ",".join(f"+{each}" for each in FEATURES)}
"""The environment in which numba compiles for every processor of that kind, whatever the one that it runs on."""

WIDE = Path("private", "noise")
"""The package whose kernels run over whole vectors of words."""

PACKAGE = Path(__file__).parents[1]
COMPILED = PACKAGE / "support" / "compiled"
"""In it a folder for each environment that code was compiled for, and in that numba's cache files by package."""


def environment() -> str:
    """The name of the folder for what this process runs on. Code for another Python or numba is never looked at."""
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    numbers = ".".join(np.__version__.split(".")[:2])  # of NumPy's rules, which numba follows, a patch changes none
    libraries = f"numba{numba.__version__}-llvmlite{llvmlite.__version__}-numpy{numbers}"
    return f"{python}-{libraries}-{sys.platform}-{PROCESSOR}"


@cache
def usable_folder() -> Path | None:
    """The folder of code compiled ahead that this process may run; None if there is none.

    It is not used where the processor lacks an instruction, or where numba was told to compile in another way.
    """
    folder = COMPILED / environment()
    config = numba.config
    if not folder.is_dir():  # nothing below is asked of a numba for which nothing was compiled
        return None
    told = config.CPU_NAME or config.CPU_FEATURES or config.BOUNDSCHECK
    told = told or getattr(config, "CACHE_LOCATOR_CLASSES", None)  # older versions have none
    if told or config.DEBUGINFO_DEFAULT or int(config.OPT) != 3:
        return None
    return None if _missing_instructions() else folder


def why_it_does_not_fit() -> str | None:
    """What is other here than where the code of this package was compiled; None where it fits, or where there is none.

    Code that was asked for otherwise, by numba's settings, is no misfit.
    """
    others = sorted(each.name for each in COMPILED.glob("*/"))
    if not others:
        return None
    if environment() not in others:
        return f"it is for {', '.join(others)}, and this is {environment()}"
    missing = _missing_instructions()
    return f"this processor lacks {', '.join(missing)}" if missing else None


def _missing_instructions() -> list[str]:
    host = binding.get_host_cpu_features()
    return [each for each in FEATURES if not host.get(each, False)]


def stamped(index: Any, stamp: str) -> Any:
    """Have numba use the files of a kernel for exactly these sources, and unpickle nothing of others.

    numba looks at its own version first, and at the stamp after it has unpickled all names of the index. A class of
    other sources need not be there any more. So the stamp is a part of the version.
    """
    index._source_stamp = stamp
    index._version = f"{numba.__version__} {stamp}"
    return index


def use_compiled_ahead(compiled: Any, sources_digest: Callable[[], str]) -> bool:
    """Have a kernel look into the package for its code first, then where it looks now.

    Args:
        compiled: numba's dispatcher.
        sources_digest: of the sources; code of other sources is not used.

    Returns:
        Whether there is code compiled ahead at all.
    """
    folder = usable_folder()
    own = getattr(compiled, "_cache", None)
    if folder is None or own is None or _gains_here(compiled.py_func):
        return False
    compiled._cache = _ahead_class()(compiled.py_func, folder, sources_digest(), own)
    return True


def _gains_here(function: Any) -> bool:
    """Whether a kernel is worth compiling here: the cipher's take a third less time with AVX-512, and are few."""
    place, _ = _place_and_name(function)
    return place == WIDE and bool(binding.get_host_cpu_features().get("avx512f", False))


@cache
def _ahead_class() -> Any:
    """Numba's cache of a function with other places; made where a folder for this very version of numba is found."""
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

    class ReadOnlyPlace(CompileResultCacheImpl):  # type: ignore[misc]
        """How results are read; numba's own place for them, which must be writable, is not looked for."""

        def __init__(self) -> None:
            pass

    class AheadFirst(FunctionCache):  # type: ignore[misc]
        """Reads from the package, then as `own` does; writes as `own` does."""

        def __init__(self, function: Any, folder: Path, stamp: str, own: Any) -> None:
            self._py_func, self._impl, self._own = function, ReadOnlyPlace(), own
            self._name, self._cache_path = repr(function), own.cache_path
            place, base = _place_and_name(function)
            self._cache_file = stamped(IndexDataCacheFile(str(folder / place), base, stamp), stamp)
            self.enable()

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = super().load_overload(sig, target_context)
            return self._own.load_overload(sig, target_context) if found is None else found

        def save_overload(self, sig: Any, data: Any) -> None:
            self._own.save_overload(sig, data)

        def flush(self) -> None:
            self._own.flush()

        def _index_key(self, sig: Any, codegen: Any) -> Any:
            """Numba's key, for the processor that was compiled for instead of this one."""
            key_sig, (triple, _, _), code = super()._index_key(sig, codegen)
            return key_sig, (triple, PROCESSOR, BASELINE["NUMBA_CPU_FEATURES"]), code

    return AheadFirst


def _place_and_name(function: Any) -> tuple[Path, str]:
    """The folder of a kernel's code below the environment's, and the name that numba gives its files."""
    code = function.__code__
    source = Path(code.co_filename)
    name = f"{source.stem}.{function.__qualname__}".replace("<", "").replace(">", "")
    version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
    inside = source.parent.relative_to(PACKAGE) if source.is_relative_to(PACKAGE) else Path("elsewhere")
    return inside, f"{name}-{code.co_firstlineno}.{version}"


def keep_compiled(kernels: Iterable[Any], target: Path) -> None:
    """Copy numba's cache files of kernels, by package. The process must have run under `BASELINE`."""
    for each in kernels:
        place, base = _place_and_name(each.py_func)
        (target / place).mkdir(parents=True, exist_ok=True)
        for file in Path(each.stats.cache_path).glob(f"{base}.*"):
            if file.suffix in {".nbi", ".nbc"}:
                shutil.copyfile(file, target / place / file.name)


def merge_compiled(parts: Iterable[Path], target: Path, stamp: str) -> int:
    """Put what `keep_compiled` copied in several processes into one folder.

    Args:
        parts: the processes' folders.
        target: the folder; it is made.
        stamp: the digest of the sources that all of them compiled.

    Returns:
        How many kernels there are, each once for the types that it takes.
    """
    from numba.core.caching import IndexDataCacheFile

    seen = set()
    for part in parts:
        for index in sorted(part.rglob("*.nbi")):
            place = target / index.parent.relative_to(part)
            place.mkdir(parents=True, exist_ok=True)
            ours, whole = (
                stamped(IndexDataCacheFile(str(each), index.stem, stamp), stamp) for each in (index.parent, place)
            )
            for key in ours._load_index():
                whole.save(key, ours.load(key))
                seen.add((place, index.stem, str(key)))
    return len(seen)
