"""What a type checker sees of the public functions, whose signatures are made from dataclasses."""

import subprocess
import sys
import textwrap

import pytest

CALLS = """
    import tallytree as tt

    areas = tt.Hierarchy.from_table("areas.parquet", levels=["state"])
    budget = tt.Budget(epsilon=1)
    tt.Budget(epsilon=1.0, delta=1e-8)
    release: tt.Release = tt.release_counts("people.parquet", areas, budget, neighboring="replace_one")
    tt.release_counts("people.parquet", areas, budget, neighboring="change_on")  # misspelt
    tt.release_counts("people.parquet", areas, budget)  # no relation
    tt.release_counts("people.parquet", areas, budget, neighboring="add_remove", seeds=1)  # no such option
    tt.release_group_sizes("p.parquet", areas, budget, neighboring="bounded", group="g", invariants="all")  # misspelt
    tt.release_counts("people.parquet", areas, budget, neighboring="bounded", mechanism=tt.sizes.Joint())  # of sizes
    tt.release_counts("people.parquet", areas, budget, neighboring="bounded", noise="gaussian")  # misspelt
"""


@pytest.mark.slow
def test_a_type_checker_sees_every_option_and_its_values(tmp_path):
    script = tmp_path / "calls.py"
    script.write_text(textwrap.dedent(CALLS))
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    wrong = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    expected = {number for number, line in enumerate(textwrap.dedent(CALLS).splitlines(), 1) if "  # " in line}
    assert wrong == expected, checked.stdout
