import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import tallytree
from tallytree.compute.kernels import kernel


def test_without_a_folder_for_compiled_code_kernels_are_compiled_in_memory(monkeypatch, caplog):
    compiled = numba.njit

    def read_only(*functions, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'double': no locator available for file 'x.py'")
        return compiled(*functions, **options)

    monkeypatch.setattr(numba, "njit", read_only)
    with caplog.at_level(logging.INFO):
        doubled = kernel(lambda number: 2 * number)
    assert doubled(21) == 42
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_another_failure_to_compile_is_not_hidden(monkeypatch):
    def broken(**options):
        raise RuntimeError("out of registers")

    monkeypatch.setattr(numba, "njit", broken)
    with pytest.raises(RuntimeError, match="out of registers"):
        kernel(lambda number: number)


def test_compiled_code_is_stale_when_a_kernel_that_it_calls_has_changed(tmp_path):
    """numba looks at a kernel's own file only: a mended cipher would go on running as it was in the samplers."""
    package = tmp_path / "tallytree"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(tallytree.__file__).parent, package, ignore=ignored)
    script = "from tallytree.private.noise import discrete_laplace; print(discrete_laplace(3, 20, bytes(32)).tolist())"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}

    def drawn():
        command = [sys.executable, "-c", script]
        environment["PYTHONPATH"] = str(tmp_path)
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    before = drawn()
    assert drawn() == before
    cipher = package / "private" / "noise" / "chacha.py"
    text = cipher.read_text(encoding="utf-8")
    assert "0x61707865" in text
    cipher.write_text(text.replace("0x61707865", "0x61707866"), encoding="utf-8")
    assert drawn() != before
