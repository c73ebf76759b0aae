"""`tools/check_release.py` finds each number that is not as stated; `tests/checker` has honest and forged releases."""

import ast
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers.honest_releases import counts
from helpers.tools import check_release

PROGRAM = Path(check_release.__file__)
KINDS = (
    *("counts, pld", "counts, zcdp", "counts, paper", "counts, pure", "counts, several records", "counts, distinct"),
    *("counts, threshold", "counts, auto bound", "flows", "flows, remainder", "tables", "sizes", "sizes, chain"),
    *("sizes, pure, replaced", "sizes, private maximum"),
)


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
    ("counts, auto bound", halved("contributions", "noise", "std_dev"), "contributions: std_dev"),
    ("sizes, private maximum", halved("maximum", "spent", "rho"), "maximum: it spends rho"),
    ("flows", called_private, "private, with its seed"),
    *((name, sensitivity_halved, "sensitivities") for name in KINDS),
    *((name, scale_halved, "it spends") for name in KINDS),
    *((name, rates_halved, "true positives") for name in ("counts, pld", "counts, pure", "flows", "tables", "sizes")),
]


@pytest.mark.parametrize(("name", "change", "says"), CHANGES)
def test_a_statement_that_is_not_true_is_found(name, change, says, honest, tmp_path):
    folder = shutil.copytree(honest(name), tmp_path / "release")
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


def missing(values):
    return np.ma.masked_array(values, mask=np.arange(len(values)) == 1)


def infinite(values):
    values[0] = np.inf
    return values


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("counts, pld", column_changed("count", plus_one), "it is not the sum of county"),
        ("flows", column_changed("count", plus_one), "it is not the sum of"),
        ("flows, remainder", column_changed("count", plus_one), "it is not the sum of"),
        ("tables", column_changed("count", plus_one), "state: it is not the sum of county.sex"),
        ("sizes", column_changed("groups", plus_one), "it is not the sum of county"),
        ("counts, pld", column_changed("count", negative), "negative_numbers: 0, and not 1"),
        ("counts, pld", column_changed("count", lambda values: values + 0.5), "fractional_numbers: 0, and not 4"),
        ("counts, pld", column_changed("std_dev", negative), "a std_dev is negative"),
        ("tables", column_changed("typical_error", negative), "a typical_error is negative, or no number"),
        ("tables", column_changed("typical_error", infinite), "a typical_error is negative, or no number"),
        (
            "tables",
            column_changed("typical_error", lambda values: values * np.nan),
            "a typical_error is negative, or no",
        ),
        ("tables", column_changed("typical_error", missing), "a number has no typical_error"),
        ("tables", column_changed("typical_error", lambda values: values * 0), "a typical_error of 0 beside noise"),
        ("counts, pld", lambda folder: (folder / "tables" / "state.parquet").unlink(), "there is no such file"),
        ("counts, pld", lambda folder: append(folder / "tables" / "state.parquet"), "state.parquet: digest"),
        (
            "counts, pld",
            lambda folder: replace(folder / "release.json", '"add_remove"', '"change_one"'),
            "release.json: digest",
        ),
    ],
)
def test_a_changed_file_is_found(name, damage, says, honest, tmp_path):
    folder = shutil.copytree(honest(name, csv=False), tmp_path / "release")
    damage(folder)
    wrong = check_release.check(folder).wrong
    assert any(says in sentence for sentence in wrong), wrong


def test_verdicts_in_a_csv_file_follow_from_the_typical_errors(honest, tmp_path):
    folder = shutil.copytree(honest("tables"), tmp_path / "release")
    assert check_release.check(folder).wrong == []
    path = folder / "tables" / "county.sex.csv"
    rows = path.read_text().splitlines()
    verdicts = ("exact", "reliable", "with_care", "unreliable", "not_distinguishable_from_0")
    line, stated = next((i, each) for i, row in enumerate(rows) for each in verdicts if f'"{each}"' in row)
    for other in {*verdicts} - {stated}:
        rows[line] = rows[line].replace(f'"{stated}"', f'"{other}"')
        stated = other
        path.write_text("\n".join(rows) + "\n")
        manifest = json.loads((folder / "release.json").read_text())
        manifest["files"]["tables/county.sex.csv"]["sha256"] = check_release.hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        write(folder, manifest)
        (wrong,) = check_release.check(folder).wrong
        assert "county.sex.csv has verdicts that do not follow" in wrong


def append(path):
    path.write_bytes(path.read_bytes() + b" ")


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def run(*arguments):
    done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, "".join(line for line in done.stdout.splitlines(True) if "no folder shows: " not in line)


@pytest.mark.slow
def test_the_ledgers_entry_is_compared(tmp_path):
    ledger = tt.ledger.Ledger(tmp_path / "ledger.db")
    release = counts(ledger=ledger, dataset="people")
    folder = release.save(tmp_path / "release")
    assert run(folder, "--ledger", ledger.path) == (0, "consistent with its statement\n")
    assert run(folder) == (0, "not checked: the ledger's entry (give --ledger)\nconsistent with its statement\n")
    assert "was recorded in none" in run(counts().save(tmp_path / "unrecorded"), "--ledger", ledger.path)[1]
    for missing in ([tmp_path / "nowhere"], [folder, "--ledger", tmp_path / "no.db"]):
        status, said = run(*missing)
        assert (status, said.count("WRONG: "), "cannot be read: " in said) == (1, 1, True)
    other = counts(ledger=tt.ledger.Ledger(tmp_path / "other.db"), dataset="people")
    assert other.statement["release"]["id"] != release.statement["release"]["id"]
    status, said = run(folder, "--ledger", tmp_path / "other.db")
    assert (status, said) == (1, "WRONG: ledger: entries of this release: 0, and not 1\n1 findings\n")


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
        "mechanism": "LeastSquares",
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
