"""Code compiled ahead is run where it is what would be compiled here, and nowhere else."""

import logging
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import pytest
from llvmlite import binding
from numba.core import event

import tallytree
from tallytree.support import compiled_ahead
from tallytree.support.compiled_ahead import (
    BASELINE,
    FEATURES,
    environment,
    merge_compiled,
    usable_folder,
    why_it_does_not_fit,
)
from tallytree.support.kernels import Misfit

DOUBLING = "from tallytree.support.kernels import kernel\n\n\n@kernel\ndef double(number):\n    return 2 * number\n"
PROGRAM = """
import sys
from pathlib import Path
folder, ahead, part = map(Path, sys.argv[1:4])
sys.path.insert(0, str(folder))
from tallytree.support import compiled_ahead, kernels
compiled_ahead.COMPILED = ahead
kernels.sources_digest = lambda: sys.argv[4]
from doubling import double
began = []
with kernels.compilations(began.append, lambda name: None):
    print(double(21), double(0.25), len(began))
if part != Path():
    kernels.keep_all_compiled(part)
"""
has_baseline = all(binding.get_host_cpu_features().get(each, False) for each in FEATURES)
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64" or not has_baseline, reason="no x86-64-v3 processor")


def run(folder, part="", digest="of these", **settings):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"PYTHONPATH": str(Path(tallytree.__file__).parents[1]), **settings}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(folder / "ahead"), str(part), digest]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """A module with a kernel, and its code compiled ahead from sources of the digest "of these"."""
    monkeypatch.setitem(sys.modules, "doubling", ModuleType("doubling"))  # reading its code looks for it
    (tmp_path / "doubling.py").write_text(DOUBLING)
    (tmp_path / "first").mkdir(mode=0o700)
    printed = run(tmp_path, tmp_path / "part", NUMBA_CACHE_DIR=str(tmp_path / "first"), **BASELINE)
    assert printed == "42 0.5 2"
    parts = [tmp_path / "part", tmp_path / "part"]  # what both have is kept once
    assert merge_compiled(parts, tmp_path / "ahead" / environment(), "of these") == 2
    (tmp_path / "own").mkdir(mode=0o700)


@x86_64
@pytest.mark.slow
def test_code_from_the_package_is_run_and_nothing_is_compiled(tmp_path, compiled):
    assert run(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "own")) == "42 0.5 0"
    assert [*(tmp_path / "own").rglob("*.nbc")] == []
    # The cache is not trusted, so it is not read. The package is.
    (tmp_path / "own").chmod(0o777)
    assert run(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "own")) == "42 0.5 0"
    # Whoever asks numba for other code gets it.
    (tmp_path / "own").chmod(0o700)
    for asked in ({"NUMBA_CPU_NAME": "generic"}, {"NUMBA_OPT": "1"}, {"NUMBA_BOUNDSCHECK": "1"}):
        (tmp_path / (cache := "".join(asked))).mkdir(mode=0o700)
        assert run(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / cache), **asked) == "42 0.5 2"


@x86_64
@pytest.mark.slow
def test_code_of_other_sources_is_not_run(tmp_path, compiled):
    assert run(tmp_path, digest="of others", NUMBA_CACHE_DIR=str(tmp_path / "own")) == "42 0.5 2"
    assert (
        run(tmp_path, digest="of others", NUMBA_CACHE_DIR=str(tmp_path / "own")) == "42 0.5 0"
    )  # now from its own cache


@pytest.fixture
def usable(tmp_path, monkeypatch):
    """`usable_folder`, asked anew, of a package with code for this environment; the processor has all it needs."""
    monkeypatch.setattr(compiled_ahead, "COMPILED", tmp_path)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: dict.fromkeys(FEATURES, True))
    for name in ("CPU_NAME", "CPU_FEATURES"):
        monkeypatch.setattr(compiled_ahead.numba.config, name, None)
    (tmp_path / environment()).mkdir()
    return usable_folder.__wrapped__


def test_a_processor_without_one_of_the_instructions_runs_no_such_code(usable, tmp_path, monkeypatch):
    assert usable() == tmp_path / environment()
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: dict.fromkeys(FEATURES, True) | {"bmi2": False})
    assert usable() is None
    assert why_it_does_not_fit() == "this processor lacks bmi2"
    monkeypatch.setattr(binding, "get_host_cpu_features", dict)
    assert usable() is None


@pytest.mark.parametrize("library", ["numba", "llvmlite", "np"])
def test_code_for_another_version_is_not_looked_at(usable, monkeypatch, library):
    built = environment()
    monkeypatch.setattr(getattr(compiled_ahead, library), "__version__", "0.0.0")
    assert usable() is None
    assert why_it_does_not_fit() == f"it is for {built}, and this is {environment()}"


def test_code_that_fits_or_that_nobody_compiled_is_no_misfit(usable, tmp_path):
    assert why_it_does_not_fit() is None
    (tmp_path / environment()).rmdir()
    assert why_it_does_not_fit() is None


def test_a_misfit_is_said_once_and_only_when_a_kernel_is_compiled(usable, caplog):
    misfit = Misfit("it is for another")
    with event.install_listener("numba:compile", misfit):
        numba.njit(lambda number: number + 1)(1)
        assert caplog.messages == []
        with caplog.at_level(logging.WARNING):
            for add in (lambda number: number + 2, lambda number: number + 3):
                add.__module__ = "tallytree.doubling"
                numba.njit(add)(1)
    (said,) = caplog.messages
    assert "it is for another" in said
    assert "`tallytree warm`" in said
