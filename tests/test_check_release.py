"""`tools/check_release.py`: it accepts what tallytree publishes, and finds each thing that is not as stated."""

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.tools import check_release

PROGRAM = Path(check_release.__file__)
RECORDS = pa.table(
    {
        "state": ["A", "A", "B", "B"] * 25,
        "county": ["x", "y", "x", "z"] * 25,
        "sex": ["f", "m", "m", "f", "f"] * 20,
        "who": [f"p{number // 3}" for number in range(100)],
        "home": [f"{'xyxz'[number % 4]}{'AABB'[number % 4]}{number // 9}" for number in range(100)],
    }
)
AREAS = tt.Hierarchy.from_table(
    pa.table({"state": ["A", "A", "B", "B"], "county": ["x", "y", "x", "z"]}), ["state", "county"]
)
APPROXIMATE = tt.Budget(epsilon=1, delta=1e-6)


def counts(**options):
    return tt.release_counts(RECORDS, AREAS, **{"budget": APPROXIMATE, "neighboring": "add_remove", **options})


def tables(**options):
    product = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
    given = {"budget": APPROXIMATE, "neighboring": "change_one", "tables": ["state", ("county", "sex")], **options}
    return tt.release_tables(RECORDS, product, **given)


def flows(**options):
    trips = RECORDS.select(["state", "county"]).rename_columns(["os", "oc"])
    trips = trips.append_column("ds", pa.array(["A", "B"] * 50)).append_column("dc", pa.array(["x", "z"] * 50))
    given = {"budget": APPROXIMATE, "neighboring": "add_remove", **options}
    return tt.release_flows(
        trips, origins=AREAS, destinations=AREAS, origin=["os", "oc"], destination=["ds", "dc"], **given
    )


def sizes(**options):
    given = {"budget": tt.Budget(rho=1), "neighboring": "add_remove", "group": "home", "max_group_size": 20, **options}
    return tt.release_group_sizes(RECORDS, AREAS, **given)


MADE = {
    "counts, pld": counts,
    "counts, zcdp": lambda: counts(accounting="zcdp"),
    "counts, paper": lambda: counts(accounting="paper"),
    "counts, pure": lambda: counts(budget=tt.Budget(epsilon=0.5), neighboring="change_one"),
    "counts, several records": lambda: counts(max_contributions=3, person="who"),
    "counts, distinct": lambda: counts(max_contributions=3, person="who", distinct=True),
    "counts, threshold": lambda: counts(mechanism=tt.counts.StabilityHistogram()),
    "counts, contributions": lambda: counts(
        person="who", max_contributions="auto", contributions=tt.Contributions(0.2, 4)
    ),
    "flows": flows,
    "flows, remainder": lambda: flows(unlisted="remainder"),
    "tables": tables,
    "sizes": sizes,
    "sizes, pure, replaced": lambda: sizes(budget=tt.Budget(epsilon=2), neighboring="change_one"),
    "sizes, private maximum": lambda: sizes(max_group_size=tt.sizes.PrivateMaximum(share=0.1, at_most=50)),
    "sizes, chain": lambda: sizes(mechanism=tt.sizes.Chain(calibration="valid")),
    "people": lambda: tt.release_contributions(
        RECORDS, AREAS, tt.Budget(epsilon=1), neighboring="add_remove", person="who",
        contributions=tt.Contributions(at_most=4),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """Each release, made once."""
    found = {}

    def release(name):
        if name not in found:
            found[name] = MADE[name]()
        return found[name]

    return release


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_what_is_published_is_consistent(name, made, tmp_path):
    assert check_release.check(made(name).save(tmp_path / "release")).wrong == []


def halved(*keys):
    def change(manifest):
        *way, last = keys
        place = manifest["statement"]
        for key in way:
            place = place[key]
        place[last] /= 2

    return change


def sensitivity_halved(manifest):
    level = manifest["statement"]["levels"][-1]
    level["sensitivity"] = {name: norm / 2 for name, norm in level["sensitivity"].items()}


def scale_halved(manifest):
    noise = manifest["statement"]["levels"][-1]["noise"]
    noise |= {"scale": noise["scale"] / 2, "std_dev": noise["std_dev"] / 2}
    noise["scale_exact"] = str(check_release.Fraction(noise["scale_exact"]) / 2)


def rates_halved(manifest):
    for rate in manifest["statement"]["risk"]["rates"]:
        rate["true_positive_rate"] = (rate["true_positive_rate"] + rate["false_positive_rate"]) / 2


def threshold_lowered(manifest):
    manifest["statement"]["levels"][-1]["threshold"] -= 1


def called_private(manifest):
    manifest["statement"] |= {"seeded": True}


CHANGES = [
    ("counts, pld", halved("spent", "delta"), "spent delta"),
    ("counts, pld", halved("spent", "epsilon"), "spent delta"),
    ("counts, zcdp", halved("spent", "epsilon"), "spent epsilon"),
    ("counts, paper", halved("spent", "delta"), "spent epsilon"),
    ("counts, pure", halved("spent", "epsilon"), "spent epsilon"),
    ("counts, pld", halved("budget", "epsilon"), "of a budget of"),
    ("sizes", halved("spent", "rho"), "spent rho"),
    ("counts, threshold", threshold_lowered, "the threshold"),
    ("counts, contributions", halved("contributions", "noise", "std_dev"), "contributions: std_dev"),
    ("sizes, private maximum", halved("maximum", "spent", "rho"), "maximum: it spends rho"),
    ("flows", called_private, "the noise came from a seed"),
    *((name, sensitivity_halved, "sensitivities") for name in MADE if name != "people"),
    *((name, scale_halved, "it spends") for name in MADE if name != "people"),
    *((name, rates_halved, "true positives") for name in ("counts, pld", "counts, pure", "flows", "tables", "sizes")),
]


@pytest.mark.parametrize(("name", "change", "says"), CHANGES)
def test_a_statement_that_is_not_true_is_found(name, change, says, made, tmp_path):
    folder = made(name).save(tmp_path / "release")
    manifest = json.loads((folder / "release.json").read_text())
    change(manifest)
    write(folder, manifest)
    wrong = check_release.check(folder).wrong
    assert any(says in sentence for sentence in wrong), wrong


def write(folder, manifest):
    """Write a manifest with the digest of what it says."""
    del manifest["digest"]
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["digest"] = check_release.hashlib.sha256(text.encode()).hexdigest()
    (folder / "release.json").write_text(json.dumps(manifest))


def column_changed(name, change):
    """Change a column of the finest table, with the digest of its file."""

    def damage(folder):
        manifest = json.loads((folder / "release.json").read_text())
        file = [each for each in manifest["files"] if each.startswith("tables/")][-1]
        table = pq.read_table(folder / file)
        values = change(table[name].to_numpy(zero_copy_only=False).copy())
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, name, pa.array(values)), folder / file)
        manifest["files"][file]["sha256"] = check_release.hashlib.sha256((folder / file).read_bytes()).hexdigest()
        write(folder, manifest)

    return damage


def plus_one(values):
    values[0] += 1
    return values


def negative(values):
    values[0] = -1
    return values


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("counts, pld", column_changed("count", plus_one), "it is not the sum of county"),
        ("flows", column_changed("count", plus_one), "it is not the sum of"),
        ("flows, remainder", column_changed("count", plus_one), "it is not the sum of"),
        ("tables", column_changed("count", plus_one), "state: it is not the sum of county.sex"),
        ("sizes", column_changed("groups", plus_one), "it is not the sum of county"),
        ("counts, pld", column_changed("count", negative), "a number is negative"),
        ("counts, pld", column_changed("count", lambda values: values + 0.5), "a number is no integer"),
        ("counts, pld", column_changed("std_dev", negative), "a std_dev is negative"),
        ("counts, pld", lambda folder: (folder / "tables" / "state.parquet").unlink(), "there is no such file"),
        ("counts, pld", lambda folder: append(folder / "tables" / "state.parquet"), "another digest"),
        ("counts, pld", lambda folder: replace(folder / "release.json", '"add_remove"', '"change_one"'), "another dig"),
    ],
)
def test_a_changed_file_is_found(name, damage, says, made, tmp_path):
    folder = made(name).save(tmp_path / "release")
    damage(folder)
    wrong = check_release.check(folder).wrong
    assert any(says in sentence for sentence in wrong), wrong


def append(path):
    path.write_bytes(path.read_bytes() + b" ")


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def run(*arguments):
    done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_the_ledgers_entry_is_compared(tmp_path):
    ledger = tt.ledger.Ledger(tmp_path / "ledger.db")
    release = counts(ledger=ledger, dataset="people")
    folder = release.save(tmp_path / "release")
    assert run(folder, "--ledger", ledger.path) == (0, "consistent with its statement\n")
    assert run(folder) == (0, "not checked: the ledger's entry (give --ledger)\nconsistent with its statement\n")
    assert run(counts().save(tmp_path / "unrecorded"), "--ledger", ledger.path)[1].startswith("WRONG: ledger: the stat")
    for missing in ([tmp_path / "nowhere"], [folder, "--ledger", tmp_path / "no.db"]):
        status, said = run(*missing)
        assert (status, said.count("\n"), said.startswith("cannot be read: ")) == (2, 1, True)
    other = counts(ledger=tt.ledger.Ledger(tmp_path / "other.db"), dataset="people")
    assert other.statement["release"]["id"] != release.statement["release"]["id"]
    status, said = run(folder, "--ledger", tmp_path / "other.db")
    assert (status, said) == (1, "WRONG: ledger: 0 entries of this release, and not 1\n")


@pytest.mark.parametrize(("old", "new"), [('"epsilon":"', '"epsilon":"1/'), ('"number":1', '"number":2')])
def test_a_ledger_that_was_changed_is_found(old, new, tmp_path):
    ledger = tt.ledger.Ledger(tmp_path / "ledger.db")
    folder = counts(ledger=ledger, dataset="people").save(tmp_path / "release")
    with check_release.sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TRIGGER events_do_not_change")
        connection.execute("UPDATE events SET facts = replace(facts, ?, ?)", (old, new))
    assert "does not agree with its digest" in check_release.check(folder, ledger.path).wrong[0]


def test_an_entry_with_less_than_was_spent_is_found():
    statement = counts().statement
    statement = {**statement, "ledger": {"dataset": "people", "recorded": True}}
    measured = check_release.measured_of(statement, {})
    rho = sum(each.rho for each in measured)
    entry = {
        "dataset": "people", "statistic": "counts", "plan": statement["release"]["plan"], "run": None,
        "max_contributions": 1, "epsilon": "1", "delta": "1/1000000", "rho": str(rho),
    }  # fmt: skip
    for name, amount in (("epsilon", "9/10"), ("delta", "1/2000000"), ("rho", str(rho * 9 / 10))):
        findings = check_release.Findings()
        check_release.check_entry(entry, statement, measured, findings)
        assert findings.wrong == []
        check_release.check_entry({**entry, name: amount}, statement, measured, findings)
        assert len(findings.wrong) == 1
        assert findings.wrong[0].startswith(f"ledger: {name}")


def test_the_program_imports_the_standard_library_numpy_and_a_reader_of_parquet():
    found = set()
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    assert found - set(sys.stdlib_module_names) == {"numpy", "pyarrow"}


def test_composed_gaussians_are_those_of_the_closed_form():
    """δ(ε) of n cells by 1 with noise σ is nearly that of one normal variable with σ/√n (Balle and Wang 2018)."""
    for cells, scale, epsilon in ((1, 20.0, 0.3), (4, 20.0, 0.5), (9, 60.0, 0.2)):
        mu = math.sqrt(cells) / scale
        normal = [0.5 * math.erfc(-x / math.sqrt(2)) for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
        expected = normal[0] - math.exp(epsilon) * normal[1]
        found = check_release.delta_at_least(((True, scale, 1, cells),), epsilon)
        assert found == pytest.approx(expected, rel=2e-3)
        apart = tuple((True, scale * (1 + place * 1e-9), 1, 1) for place in range(cells))  # on the grid of losses
        assert check_release.delta_at_least(apart, epsilon) == pytest.approx(expected, rel=1e-2)


def test_the_best_attack_on_laplace_noise_of_one_cell_is_that_of_its_epsilon():
    assert check_release.best_attack(((False, 2.0, 1, 1),), 0.01) == pytest.approx(0.01 * math.exp(0.5))
    assert np.isclose(check_release.best_attack(((True, 1.0, 1, 1),), 1e-9), 0, atol=1e-6)
