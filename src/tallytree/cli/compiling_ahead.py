"""Compiles the kernels for a wheel: `python -m tallytree.cli.compiling_ahead`, called by the Makefile.

It runs what `tallytree warm` runs, in processes in which numba compiles for every processor of a kind, and puts their
code into the package's folder. Nothing is done where code of the same sources lies there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from tallytree.cli.warming import synthetic_runs
from tallytree.support.compiled_ahead import BASELINE, COMPILED, environment, merge_compiled
from tallytree.support.kernels import keep_all_compiled, sources_digest

HALVES = ("sizes", "others")
"""Each is compiled by a process of its own. They share few kernels and take the same time."""

SIZES = ("group sizes", "reconciled again", "replicates of group sizes")
"""How the names of the synthetic releases of group sizes begin."""

STAMP = "sources"
"""The file with the digest of the sources; it is written last."""


def compile_ahead(folder: Path = COMPILED, only: Sequence[str] = ()) -> int:
    """Compile into a folder of the package. Code of other sources is removed; other environments' of these stays.

    Args:
        folder: holds a folder for each environment.
        only: beginnings of the names of synthetic releases; of all of them by default.

    Returns:
        How many kernels were compiled, each once for the types that it takes; 0 where they had been.
    """
    digest, target = sources_digest(), folder / environment()
    for other in folder.glob("*"):
        stamp = other / STAMP
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != digest:
            shutil.rmtree(other)
    if target.exists():
        return 0
    with tempfile.TemporaryDirectory() as work:
        running = [_started(half, Path(work), only) for half in HALVES]
        codes = [process.wait() for process in running]
        if any(codes):
            raise RuntimeError("compiling ahead failed; what the processes wrote above says why")
        kernels = merge_compiled([Path(work, half) for half in HALVES], target, digest)
    (target / STAMP).write_text(digest, encoding="utf-8")
    return kernels


def _started(half: str, work: Path, only: Sequence[str]) -> subprocess.Popen[bytes]:
    cache = work / f"cache of {half}"
    cache.mkdir(mode=0o700)
    command = [sys.executable, "-m", "tallytree.cli.compiling_ahead", str(work / half), half, *only]
    return subprocess.Popen(command, env={**os.environ, **BASELINE, "NUMBA_CACHE_DIR": str(cache)})  # noqa: S603


def compile_half(part: Path, half: str, only: Sequence[str]) -> None:
    """Make one half of the synthetic releases in this process, and copy the code.

    Args:
        part: the folder for the code.
        half: one of `HALVES`.
        only: as in `compile_ahead`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some mechanisms warn that they are for comparison only
        for name, run in synthetic_runs():
            if name.startswith(SIZES) == (half == "sizes") and (not only or name.startswith(tuple(only))):
                run()
    keep_all_compiled(part)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compile_half(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    else:
        print(f"{compile_ahead()} kernels compiled ahead")  # noqa: T201
