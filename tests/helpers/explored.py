"""Small releases of every statistic, and explorers of them as programs of their own."""

import json
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

import tallytree as tt
from helpers.inside import write_static

TOWNS = pa.table({"region": ["N", "N", "N", "S", "S"], "town": ["a", "b", "c", "a", "dé"]})
BUDGET = tt.Budget(epsilon=20.0)


def towns():
    return tt.Hierarchy.from_table(TOWNS, levels=["region", "town"])


def drawn(seed, table, rows=400):
    """Rows of a table, some more often than others."""
    weight = np.arange(1, table.num_rows + 1) ** 2.0
    return table.take(pa.array(np.random.default_rng(seed).choice(table.num_rows, rows, p=weight / weight.sum())))


def counts():
    return tt.release_counts(drawn(1, TOWNS), towns(), BUDGET, neighboring="add_remove")


def flows():
    origin, destination = drawn(1, TOWNS), drawn(2, TOWNS)
    names = {side: [f"{side}_{level}" for level in ("region", "town")] for side in ("origin", "destination")}
    columns = [*origin.columns, *destination.columns]
    trips = pa.table(columns, names=[*names["origin"], *names["destination"]])
    return tt.release_flows(
        trips, origins=towns(), destinations=towns(), budget=BUDGET, neighboring="add_remove", **names
    )


def group_sizes():
    people = drawn(1, TOWNS).append_column("home", pa.array([f"h{i // 3}" for i in range(400)]))
    homes = people.group_by("home", use_threads=False).aggregate([("region", "first"), ("town", "first")])
    people = people.select(["home"]).join(homes, "home").rename_columns(["home", "region", "town"])
    return tt.release_group_sizes(people, towns(), BUDGET, neighboring="add_remove", group="home", max_group_size=5)


def tables():
    rows = drawn(3, TOWNS).append_column("sex", pa.array(["f", "m", "f", "f"] * 100))
    trees = tt.Product({"area": towns(), "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    asked = [("town", "sex"), ("region",), ()]
    return tt.release_tables(rows, trees, BUDGET, neighboring="add_remove", tables=asked)


def contributions():
    rows = drawn(4, TOWNS).append_column("person", pa.array([i % 150 for i in range(400)]))
    return tt.release_contributions(rows, towns(), BUDGET, neighboring="add_remove", person="person", at_most=10)


KINDS = {"counts": counts, "flows": flows, "group_sizes": group_sizes, "tables": tables, "contributions": contributions}


@contextmanager
def explorer(folder, *options):
    """An explorer of a folder; the address that it prints, with its token."""
    command = [sys.executable, "-m", "tallytree", "explore", str(folder), "--no-open", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert " at http://127.0.0.1:" in line, (line, process.stderr.read())
        address = line.split(" at ")[1].split(" ")[0]
        urllib.request.urlopen(address, timeout=600).close()  # noqa: S310 (our own address)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        ended, said = process.communicate(timeout=600)
    assert "Traceback" not in said, said
    assert ended == "Ended.\n"


def page_of(folder, out, *boundaries, code=None):
    """The page of a release in a new folder, as `tallytree explore --static` writes it."""
    write_static(folder, out, boundaries, code)
    return out / "index.html"


def data_of(page):
    """What a page that is one file holds: what it says of the release, and its parts by name."""
    text = page.read_text(encoding="utf-8")
    found = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    return found["about"], found["parts"]
