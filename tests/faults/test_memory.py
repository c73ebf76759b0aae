"""Releases whose arrays and tables get no memory: at one request, or at this and all later ones.

The requests are those of NumPy, Numba and Arrow. Of them a sample is tried, another one each day. After each: nothing
is unpaid or half-made, one line says that memory was short, and the command, repeated, ends as if it had had memory,
charged once. NumPy and Arrow do not check every request of their own and may end the process, as a kill does.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.paid_runs import TERMS, check_paid
from helpers.release_folders import PRIVATE
from tallytree.ledger import Ledger

AREAS = "{path: areas.parquet, levels: [state]}"
SEXES = "{path: sexes.parquet, levels: [sex]}"
SPECS = {
    "counts": f"statistic: counts\nrecords: people.parquet\nhierarchy: {AREAS}\n",
    "tables": "statistic: tables\nrecords: people.parquet\ntables: [[state, sex], []]\n"
    f"hierarchy: {{attributes: {{area: {AREAS}, sex: {SEXES}}}}}\n",
    "flows": f"statistic: flows\ntrips: trips.parquet\norigins: {AREAS}\ndestinations: {AREAS}\n"
    "origin: [home]\ndestination: [work]\n",
}
OPTIONS = ("--run", "Monday", "--out", "out", "--if-exists", "skip", "--fallback-out", "kept")


@pytest.mark.slow
@pytest.mark.parametrize("statistic", SPECS)
def test_a_release_that_gets_no_memory_leaves_nothing_unpaid_and_nothing_half_made(faults, seen, statistic):
    below = faults.below
    ids = [f"{PRIVATE}{i % 21}" for i in range(60)]
    people = {"state": ["A", "A", "B"] * 20, "sex": ["f", "m"] * 30, "who": ids}
    pq.write_table(pa.table(people), below / "people.parquet")
    pq.write_table(
        pa.table({"home": ["A", "A", "B"] * 20, "work": ["A", "B"] * 30, "who": ids}), below / "trips.parquet"
    )
    pq.write_table(pa.table({"state": ["A", "B"]}), below / "areas.parquet")
    pq.write_table(pa.table({"sex": ["f", "m"]}), below / "sexes.parquet")
    (below / "day.yaml").write_text(SPECS[statistic] + TERMS)
    tt.new_secret(below / "secret")
    Ledger(below / "ledger.db").set_limit("people", tt.Budget(epsilon=0.5), neighboring="add_remove")
    faults.keep_start()
    argv = ("release", "day.yaml", *OPTIONS)
    check_paid(faults, argv, faults.each_shortage(*argv, tries=8), seen)
    assert seen["no memory", "not paid", "no folder"] > 0
    assert seen["no memory", "paid", "no folder"] + seen["no more memory", "paid", "no folder"] > 0
