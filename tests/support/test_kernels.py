import logging
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import tallytree
from tallytree.support import kernels
from tallytree.support.kernels import kernel


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


def test_compiled_code_of_other_sources_is_not_unpickled(tmp_path, monkeypatch):
    """Its index may name a class that is gone: an upgrade must not fail, least of all after a payment."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    file = tmp_path / "doubling.py"
    file.write_text("def double(number):\n    return 2 * number\n")
    for digest, gone in (("earlier sources", True), ("these sources", False)):
        monkeypatch.setattr(kernels, "sources_digest", lambda digest=digest: digest)
        space = {}
        exec(compile(file.read_text(), str(file), "exec"), space)  # noqa: S102
        assert kernel(space["double"])(21) == 42
        (index,) = tmp_path.rglob("*.nbi")
        content = index.read_bytes()
        assert digest.encode() in content
        if gone:
            with index.open("rb") as opened:
                version = pickle.load(opened)  # noqa: S301
            index.write_bytes(pickle.dumps(version, protocol=-1) + b"ctallytree\nGone\n.")


@pytest.mark.slow
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
    cipher = package / "private" / "noise" / "entropy.py"
    text = cipher.read_text(encoding="utf-8")
    assert "0x61707865" in text
    cipher.write_text(text.replace("0x61707865", "0x61707866"), encoding="utf-8")
    assert drawn() != before


PLANTED = """
import sys
sys.path.insert(0, sys.argv[1])
from doubling import double
print(double(21))
"""
DOUBLING = "from tallytree.support.kernels import kernel\n\n\n@kernel\ndef double(number):\n    return 2 * number\n"
BOMB = "import pickle, sys\nclass Bomb:\n    def __reduce__(self):\n        return print, ('planted code ran',)\n"


def run_with_cache(folder, cache):
    """Call a kernel in a process of its own; `cache` is NUMBA_CACHE_DIR, None is beside the module."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    environment["PYTHONPATH"] = str(Path(tallytree.__file__).parents[1])
    command = [sys.executable, "-c", PLANTED, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no POSIX owners")
@pytest.mark.parametrize("given", [True, False], ids=["NUMBA_CACHE_DIR", "beside the module"])
def test_cached_code_that_others_could_have_planted_is_not_read(tmp_path, given):
    (tmp_path / "doubling.py").write_text(DOUBLING)
    cache = tmp_path / "cache" if given else None
    first = run_with_cache(tmp_path, cache)
    assert (first.stdout, first.stderr) == ("42\n", "")
    (index,) = tmp_path.rglob("*.nbi")
    # What somebody else would plant: unpickling it runs code. In a folder of one's own it is believed.
    subprocess.run([sys.executable, "-c", f"{BOMB}pickle.dump(Bomb(), open({str(index)!r}, 'wb'))"], check=True)
    assert "planted code ran" in run_with_cache(tmp_path, cache).stdout
    subprocess.run([sys.executable, "-c", f"{BOMB}pickle.dump(Bomb(), open({str(index)!r}, 'wb'))"], check=True)
    changes = [(index.parent, 0o777), (index, 0o646), (index.parent.parent, 0o757)]
    for path, mode in changes if given else changes[:1]:
        was = path.stat().st_mode
        path.chmod(mode)
        refused = run_with_cache(tmp_path, cache)
        assert refused.stdout == "42\n"
        assert refused.stderr.count("compiled code is not read from the cache") == 1
        assert f"other users can write to '{path}'" in refused.stderr
        path.chmod(was)
