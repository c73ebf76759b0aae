import logging

import numba
import pytest

from tallytree.kernels import kernel


def test_without_a_folder_for_compiled_code_kernels_are_compiled_in_memory(monkeypatch, caplog):
    compiled = numba.njit

    def read_only(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'double': no locator available for file 'x.py'")
        return compiled(**options)

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
