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

from tallytree.compute.compiled_ahead import BASELINE, COMPILED, environment, merge_compiled
from tallytree.compute.kernels import keep_all_compiled, sources_digest

SIZES = ("group sizes", "reconciled again", "replicates of group sizes")
"""They share few kernels with the others, and take half of the time."""

MODULE = "tallytree.cli.compiling_ahead"
STAMP = "sources"
"""The file with the digest of the sources; it is written last."""


def compile_ahead(folder: Path = COMPILED, only: Sequence[str] = (), processes: int = 2) -> int:
    """Compile into a folder of the package; other environments' code that is of the same sources stays.

    Args:
        folder: holds a folder for each environment.
        only: beginnings of the names of synthetic releases; of all of them by default.
        processes: how many share the work.

    Returns:
        How many kernels were compiled; 0 where they had been.
    """
    digest, target = sources_digest(), folder / environment()
    for other in folder.glob("*"):
        stamp = other / STAMP
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != digest:
            shutil.rmtree(other)
    if target.exists():
        return 0
    with tempfile.TemporaryDirectory() as work:
        parts = [Path(work, f"part{i}") for i in range(processes)]
        running = [_started(part, Path(work, f"cache{i}"), i, processes, only) for i, part in enumerate(parts)]
        failed = [each.args for each in running if each.wait()]
        if failed:
            raise RuntimeError(f"compiling ahead failed: {failed}")
        kernels = merge_compiled(parts, target, digest)
    (target / STAMP).write_text(digest, encoding="utf-8")
    return kernels


def _started(part: Path, cache: Path, number: int, processes: int, only: Sequence[str]) -> subprocess.Popen[bytes]:
    cache.mkdir(mode=0o700)
    command = [sys.executable, "-m", MODULE, str(part), str(number)]
    environment = {**os.environ, **BASELINE, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen([*command, str(processes), *only], env=environment)  # noqa: S603


def compile_part(part: Path, number: int, processes: int, only: Sequence[str]) -> None:
    """Make every n-th group of synthetic releases in this process, and copy the code."""
    from tallytree.cli.warming import synthetic_runs

    groups: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some mechanisms warn that they are for comparison only
        for name, run in synthetic_runs():
            group = "sizes" if name.startswith(SIZES) else "others"
            if groups.setdefault(group, len(groups)) % processes != number:
                continue
            if not only or name.startswith(tuple(only)):
                run()
    keep_all_compiled(part)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        given, number, processes, *only = sys.argv[1:]
        compile_part(Path(given), int(number), int(processes), only)
    else:
        print(f"{compile_ahead()} kernels compiled ahead")  # noqa: T201
