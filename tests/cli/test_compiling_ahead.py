"""The step of the Makefile that compiles for the wheel."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import tallytree
from helpers.inside import environment
from tallytree.cli.compiling_ahead import STAMP, compile_ahead

RELEASE = """
import sys
from pathlib import Path
from tallytree.support import compiled_ahead, kernels
compiled_ahead.COMPILED, compiled_ahead.WIDE = Path(sys.argv[1]), None  # the noise too, whatever the processor
import numpy as np, pyarrow as pa
import tallytree as tt
places = [f"place {i}" for i in range(40)]
areas = tt.Hierarchy.from_table(pa.table({"region": [x[:7] for x in places], "place": places}), ["region", "place"])
people = areas.leaf_table().take(np.arange(5000) ** 2 % 40)
began = []
with kernels.compilations(began.append, lambda name: None):
    release = tt.release_counts(people, areas, tt.Budget(epsilon=1), neighboring="add_remove", seed=4)
print(release.table("place").to_pydict(), release.measurements("place").to_pydict())
print(len(began), kernels.found_in_cache(), file=sys.stderr)
"""


def released(folder, **settings):
    variables = {**os.environ, "PYTHONPATH": str(Path(tallytree.__file__).parents[1]), **settings}
    command = [sys.executable, "-c", RELEASE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    compiled, found = map(int, done.stderr.split()[-2:])
    return done.stdout, compiled, found


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiled ahead for x86-64 only")
def test_a_release_compiles_nothing_and_is_the_same(tmp_path):
    ahead = tmp_path / "ahead"
    old = ahead / "of other sources"
    old.mkdir(parents=True)
    (old / STAMP).write_text("another digest")
    assert compile_ahead(ahead, only=["counts, LeastSquares(sparsity=0.0"]) > 15
    assert [each.name for each in ahead.iterdir()] == [environment()]
    assert compile_ahead(ahead) == 0  # nothing has changed
    (empty := tmp_path / "cache").mkdir(mode=0o700)
    quick, compiled, found = released(ahead, NUMBA_CACHE_DIR=str(empty))
    assert (compiled, found > 3) == (0, True)
    assert quick == released(tmp_path / "nothing")[0]  # compiled here


def test_a_process_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(RuntimeError, match="compiling ahead failed"):
        compile_ahead(tmp_path)
    assert [*tmp_path.iterdir()] == []
