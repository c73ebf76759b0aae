"""`release_households`: persons' tables and households by size that agree, in one release."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.cases import few
from helpers.inside import KeyedNoise, OpenDPNoise
from tallytree.lab.replay.answers import Book, forced
from tallytree.lab.replay.stated import contradictions, moved
from tallytree.ledger import Ledger
from tallytree.release.manifest import manifest_text
from tallytree.spec import load_spec

AREAS = tt.Hierarchy.from_table(
    pa.table({"state": ["A", "A", "B", "B", "B"], "county": ["x", "y", "x", "y", "z"]}), ["state", "county"]
)
PRODUCT = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f", "m"])})
PLACES = list(zip(*AREAS.leaf_table().to_pydict().values(), strict=True))
BUDGETS = [tt.Budget(epsilon=1), tt.Budget(rho=0.2), tt.Budget(epsilon=1, delta=1e-6)]
K = 4


def population(seed=1, households=300, outside=40):
    """Rows of state, county, sex, home and who: households of 1 to 7 persons, and persons in none."""
    rng = np.random.default_rng(seed)
    rows = []
    for home in range(households):
        place = PLACES[rng.integers(len(PLACES))]
        rows += [(*place, "fm"[rng.integers(2)], f"h{home}", len(rows) + i) for i in range(rng.integers(1, 8))]
    rows += [(*PLACES[rng.integers(len(PLACES))], "f", None, len(rows) + i) for i in range(outside)]
    return rows


def table(rows):
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    types = [pa.string()] * 4 + [pa.int64()]
    names = ["state", "county", "sex", "home", "who"]
    return pa.table({name: pa.array(list(each), kind) for name, each, kind in zip(names, columns, types, strict=True)})


def release(rows=None, hierarchy=PRODUCT, **options):
    asked = {"budget": BUDGETS[0], "neighboring": "add_remove", "household": "home", "max_household_size": K, "seed": 7}
    if isinstance(hierarchy, tt.Product):
        asked["tables"] = [("county", "sex"), ("state",)]
    records = table(population()) if rows is None else rows if isinstance(rows, pa.Table) else table(rows)
    return tt.release_households(records, hierarchy, **{**asked, **options})


def level_tables(made, areas=AREAS):
    """For each level of areas: the names of its table of persons in households and outside."""
    columns = {level: (level,) for level in areas.columns}
    return {level: (*columns.get(level, ()), "in_household") for level in areas.levels}


def assert_agrees(made, areas=AREAS):
    for level, names in level_tables(made, areas).items():
        paths = list(areas.path_columns(areas.levels.index(level)))
        persons = made.table(*names)
        persons = persons.filter(pc.equal(persons["in_household"], "yes"))
        inside = {tuple(row[name] for name in paths): row["count"] for row in persons.to_pylist()}
        members = dict.fromkeys(inside, 0)
        homes = {}
        for row in made.sizes(level).to_pylist():
            place = tuple(row[name] for name in paths)
            members[place] += row["persons"]
            homes[(*place, row["size"])] = row["groups"]
            assert row["groups"] > 0
            if row["size"] < made.statement["max_household_size"]:
                assert row["persons"] == row["size"] * row["groups"]
            else:
                assert row["persons"] >= row["size"] * row["groups"]
        assert members == inside
        if level != areas.levels[-1]:
            below = areas.levels[areas.levels.index(level) + 1]
            sums = {}
            for row in made.sizes(below).to_pylist():
                key = (*(row[name] for name in paths), row["size"])
                sums[key] = sums.get(key, 0) + row["groups"]
            assert sums == homes


@pytest.mark.parametrize("budget", few(BUDGETS, 2), ids=lambda budget: budget.kind)
@pytest.mark.parametrize("neighboring", few(["add_remove", "change_one"], 1))
def test_members_of_households_add_up_to_the_persons_in_households_everywhere(budget, neighboring):
    made = release(budget=budget, neighboring=neighboring)
    assert_agrees(made)
    assert made.statement["constraint_violations"] == 0
    by_sex = made.table("county", "sex")["count"].to_numpy().reshape(-1, 2).sum(axis=1)
    by_home = made.table("county", "in_household")["count"].to_numpy().reshape(-1, 2).sum(axis=1)
    assert by_sex.tolist() == by_home.tolist()


def test_a_hierarchy_of_areas_is_enough():
    made = release(hierarchy=AREAS, max_household_size=1)
    assert made.tables == (("in_household",), ("state", "in_household"), ("county", "in_household"))
    assert_agrees(made)


def test_levels_that_repeat_the_level_above_are_released_and_not_measured():
    paths = pa.table({"country": ["N"] * 3, "region": ["R"] * 3, "town": ["a", "b", "c"]})
    areas = tt.Hierarchy.from_table(paths, ["country", "region", "town"])
    rows = [{**each, "home": str(i % 40)} for i, each in enumerate(paths.to_pylist() * 40)]
    records = pa.Table.from_pylist([{**row, "home": f"{row['town']}{row['home']}"} for row in rows])
    made = tt.release_households(
        records, areas, tt.Budget(epsilon=2), neighboring="add_remove", household="home", max_household_size=3, seed=1
    )
    measured = {each["level"]: each["measured"] for each in made.statement["levels"]}
    assert measured["households/country"]
    assert not measured["households/region"]
    assert made.sizes("region")["persons"].to_pylist() == made.sizes("country")["persons"].to_pylist()
    assert made.mean("region")["persons"].to_pylist() == made.mean("country")["persons"].to_pylist()
    assert sum(made.sizes("town")["persons"].to_pylist()) == sum(made.sizes("country")["persons"].to_pylist())


def test_without_noise_to_speak_of_the_numbers_are_the_true_ones():
    rows = population()
    made = release(rows, budget=tt.Budget(epsilon=10_000))
    sizes = {}
    for row in rows:
        if row[3] is not None:
            sizes[row[3]] = sizes.get(row[3], 0) + 1
    members = [sum(min(size, K) == s for size in sizes.values()) for s in range(1, K + 1)]
    persons = [sum(size for size in sizes.values() if min(size, K) == s) for s in range(1, K + 1)]
    found = made.sizes("all")
    assert found["groups"].to_pylist() == members
    assert found["persons"].to_pylist() == persons
    mean = made.mean().to_pylist()[0]
    assert mean["persons"] == sum(sizes.values())
    assert mean["households"] == len(sizes)
    assert mean["mean"] == pytest.approx(sum(sizes.values()) / len(sizes))
    assert made.table("in_household")["count"].to_pylist() == [sum(sizes.values()), 40]


@st.composite
def neighbors(draw, replaced):
    """Two small populations that differ in one person, with up to m records; and m."""
    m = draw(st.integers(1, 3))
    person = st.tuples(st.integers(0, len(PLACES) - 1), st.sampled_from("fm"), st.sampled_from([None, 0, 1, 2]))
    others = draw(st.lists(person, max_size=12))
    before = draw(st.lists(person, min_size=m if replaced else 0, max_size=m))
    after = draw(st.lists(person, min_size=m if replaced else 0, max_size=m)) if replaced else []

    def rows(mine):
        both = [*((each, 100 + i) for i, each in enumerate(others)), *((each, 1) for each in mine)]
        return [(*PLACES[at], sex, None if home is None else f"{at}-{home}", who) for (at, sex, home), who in both]

    return rows(before), rows(after), m


@pytest.mark.parametrize("relation", ["add_remove", "change_one"])
@pytest.mark.parametrize("enforced", [False, True])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_neighbors_differ_in_no_more_than_was_proved(relation, enforced, data):
    before, after, m = data.draw(neighbors(relation == "change_one"))
    options = {"neighboring": relation, "max_contributions": m, "seed": None, "budget": tt.Budget(rho=1)}
    if enforced:
        options |= {"person": "who", "max_contributions": 1}
    book = Book()
    with forced(book) as first:
        made = release(before, **options)
    book.first = False
    with forced(book) as second:
        release(after, **options)
    assert contradictions(made.statement, first, second) == []
    assert first.faults == second.faults == []
    most = (1 if enforced else m) * (2 if relation == "change_one" else 1)
    ranks = [each for each in moved(first, second) if each.address[1] == "persons_by_rank"]
    assert len(ranks) == 3
    assert all(each.l1 <= most for each in ranks)
    if most == 1:
        assert all(set(each.distances) <= {1} for each in ranks)


def test_the_rank_of_a_person_beyond_the_last_class_moves_the_last_cell():
    home = [("A", "x", "f", "h", i) for i in range(K + 2)]
    book = Book()
    with forced(book) as first:
        release(home, seed=None)
    book.first = False
    with forced(book) as second:
        release(home[:-1], seed=None)
    cells = {
        address: (first.true[address], second.true[address]) for address in first.true if "households" in address[0]
    }
    root, less = cells["households/all", "persons_by_rank"]
    assert root == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2}
    assert less == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize("how", ["seed", "fresh", "secret", "opendp"])
def test_the_noise_of_one_part_is_none_of_the_other(how, monkeypatch, tmp_path):
    drawn = []
    for source in (KeyedNoise, OpenDPNoise):
        monkeypatch.setattr(source, "draw", noting(source.draw, drawn))
    options = {"seed": None}
    if how == "seed":
        options = {"seed": 3}
    elif how == "opendp":
        pytest.importorskip("opendp")
        options |= {"noise": "opendp"}
    elif how == "secret":
        tt.new_secret(tmp_path / "secret")
        options |= {"secret": tmp_path / "secret", "run": "r", "ledger": tmp_path / "ledger.db", "dataset": "d"}
    release(population(households=60), **options)
    assert len({id(source) for source, *_ in drawn}) == 1  # so different addresses have independent noise
    addresses = [address for _, address, _ in drawn]
    assert len(set(addresses)) == len(addresses)
    of_sizes = {address for address in addresses if address[1] == "persons_by_rank"}
    assert {address[0] for address in of_sizes} == {f"households/{level}" for level in AREAS.levels}
    assert len(of_sizes) < len(addresses)
    noise = {address: values for _, address, values in drawn}
    for one in of_sizes:
        for other in noise.keys() - of_sizes:
            shared = min(len(noise[one]), len(noise[other]))
            assert noise[one][:shared].tolist() != noise[other][:shared].tolist() or shared < 3


@pytest.mark.parametrize(
    "other",
    [["a", "a", "a", "b"], ["a", "a", "b", None]],
    ids=["the same tables, other households", "other tables"],
)
def test_the_noise_of_both_parts_is_another_where_the_records_of_one_differ(other, monkeypatch):
    """Equal noise under two statistics gives their exact difference away; a seed stands for the key of a named run."""
    drawn = []
    monkeypatch.setattr(KeyedNoise, "draw", noting(KeyedNoise.draw, drawn))
    noise = []
    for homes in (["a", "a", "b", "b"], other):
        release([("A", "x", "f", home, i) for i, home in enumerate(homes)], budget=tt.Budget(epsilon=0.1))
        noise.append({address: values.tolist() for _, address, values in drawn})
        drawn.clear()
    assert noise[0].keys() == noise[1].keys()
    assert not [address for address, values in noise[0].items() if values == noise[1][address] and len(values) > 3]


def test_a_part_is_not_revised_alone(tmp_path):
    tt.new_secret(tmp_path / "secret")
    named = {"seed": None, "secret": tmp_path / "secret", "ledger": tmp_path / "ledger.db", "dataset": "d"}
    folder = release(run="first", **named).save(tmp_path / "out")
    people = table(population(households=30))
    options = {name: value for name, value in named.items() if name != "seed"}
    with pytest.raises(ValueError, match=r"revises: 'households' is a part .*persons and households"):
        tt.release_group_sizes(
            people, AREAS, BUDGETS[0], neighboring="add_remove", group="home", invariants="none", min_group_size=1,
            max_group_size=K, run="second", revises=folder / "households", **options,
        )  # fmt: skip
    assert release(run="second", revises=folder, **named).statement["release"]["revises"]["folder"] == "out"


def noting(draw, drawn):
    def noted(self, noise, address, cells):
        values = draw(self, noise, address, cells)
        drawn.append((self, address, values))
        return values

    return noted


def test_a_record_that_is_left_out_is_left_out_of_both_parts():
    rows = population(households=30)
    strays = [("A", "x", "?", "h0", 900), ("A", "elsewhere", "f", "h1", 901), ("A", "x", "?", None, 902)]
    with pytest.raises(ValueError, match="'sex'"):
        release(rows + strays[:1])
    budget = tt.Budget(epsilon=10_000)
    made = release(rows + strays, on_unknown="drop", budget=budget)
    clean = release(rows, on_unknown="drop", budget=budget)
    assert made.sizes("county").select(["groups", "persons"]) == clean.sizes("county").select(["groups", "persons"])
    assert made.table("county", "in_household")["count"] == clean.table("county", "in_household")["count"]
    assert_agrees(made)


def test_a_record_outside_the_period_is_left_out_of_both_parts():
    rows = population(households=30)
    days = ["2024-05-01"] * len(rows)
    records = table([*rows, rows[0], rows[-1]]).append_column("day", pa.array([*days, "2025-01-01", "2025-01-01"]))
    made = release(records, period="2024", period_column="day", budget=tt.Budget(epsilon=10_000))
    clean = release(rows, budget=tt.Budget(epsilon=10_000))
    assert made.sizes("county")["persons"] == clean.sizes("county")["persons"]
    assert made.table("county", "in_household")["count"] == clean.table("county", "in_household")["count"]


def test_of_a_person_with_two_homes_one_record_counts_in_both_parts():
    rows = [("A", "x", "f", f"h{i}", i) for i in range(30)] + [("B", "y", "f", f"k{i}", i) for i in range(30)]
    made = release(rows, person="who", max_contributions=1, budget=tt.Budget(epsilon=10_000))
    assert made.table("in_household")["count"].to_pylist() == [30, 0]
    assert made.sizes("all")["groups"].to_pylist() == [30]
    assert 0 < made.sizes("state")["groups"].to_pylist()[0] < 30
    assert made.statement["max_contributions_enforced"]
    both = release(rows, person="who", max_contributions=2, budget=tt.Budget(epsilon=10_000))
    assert both.sizes("all")["groups"].to_pylist() == [60]


def test_a_household_without_an_id_is_none_also_where_its_id_is_empty():
    rows = [("A", "x", "f", "", 1), ("A", "x", "f", None, 2), ("A", "x", "f", "h", 3)]
    made = release(rows, budget=tt.Budget(epsilon=10_000))
    assert made.table("in_household")["count"].to_pylist() == [1, 2]


def test_a_household_in_two_leaves_is_refused():
    with pytest.raises(ValueError, match=r"household \(column 'home'\) has records in more than one leaf"):
        release([("A", "x", "f", "h", 1), ("B", "x", "f", "h", 2)])


def test_no_records_are_a_release_too():
    made = release([])
    assert_agrees(made)
    assert made.mean("county").num_rows == len(PLACES)


def test_both_parts_are_releases_with_statements_of_their_own():
    made = release(seed=None, title="Persons and homes", budget=BUDGETS[2])
    whole = made.statement
    assert whole["spent"]["epsilon"] <= 1
    for name, part in made.parts.items():
        statement = part.statement
        assert statement["part_of"] == {
            "statistic": "households", "part": name, "budget": whole["budget"], "spent": whole["spent"],
        }  # fmt: skip
        assert statement["guarantee"] == whole["guarantee"]
        assert statement["risk"] == whole["risk"]
        assert statement["release"] == whole["release"]
        assert statement["spent"]["epsilon"] < whole["spent"]["epsilon"]
        assert repr(name) in statement["notes"][0]
        assert statement["description"]["title"] == "Persons and homes"
    assert made.persons.statement["statistic"] == "tables"
    assert made.households.statement["statistic"] == "group_sizes"
    values = made.households.measurements("county")["values"].to_pylist()
    assert [len(each) for each in values] == [K + 1] * len(PLACES)


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=lambda budget: budget.kind)
def test_the_shares_of_both_parts_add_up_to_the_budget(budget):
    made = release(seed=None, budget=budget, share_of_sizes=0.3)
    shares = {"persons": 0.0, "households": 0.0}
    for each in made.statement["levels"]:
        shares[each["part"]] += each.get("share", 0.0)
    assert shares == pytest.approx({"persons": 0.7, "households": 0.3})
    (name,) = made.statement["spent"]
    spent = sum(part.statement["spent"][name] for part in made.parts.values())
    assert spent == pytest.approx(made.statement["spent"][name])
    assert spent <= float(getattr(budget, name)) * (1 + 1e-12)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    made = release(seed=None)
    made.save(tmp_path / "out", csv=True)
    found = tt.Release.load(tmp_path / "out")
    assert isinstance(found, tt.HouseholdsRelease)
    assert found.statement == json.loads(json.dumps(made.statement))
    assert found.table("county", "sex") == made.table("county", "sex")
    assert found.sizes("county", alpha=0.1) == made.sizes("county", alpha=0.1)
    assert found.mean("state") == made.mean("state")
    assert found.levels == made.levels
    assert repr(found) == repr(made)
    part = tt.Release.load(tmp_path / "out" / "households")
    assert part.table("state") == made.sizes("state")
    assert (tmp_path / "out" / "deployment.yaml").is_file()
    assert not (tmp_path / "out" / "persons" / "deployment.yaml").exists()
    dense = found.sizes("county", dense=True)
    assert dense.num_rows == len(PLACES) * K
    assert sum(dense["persons"].to_pylist()) == sum(made.sizes("county")["persons"].to_pylist())


@pytest.mark.parametrize("change", ["a table of a part", "the manifest of a part", "a part is missing"])
def test_a_changed_part_is_refused(change, tmp_path):
    folder = release(seed=None).save(tmp_path / "out")
    place = folder / "households"
    if change == "a table of a part":
        (place / "tables" / "state.parquet").write_bytes(b"changed")
    elif change == "the manifest of a part":
        manifest = json.loads((place / "release.json").read_text())
        del manifest["digest"]
        manifest["statement"]["notes"] = []
        (place / "release.json").write_text(manifest_text(manifest))
        assert tt.Release.load(place)  # a release of its own; but not the one that is a part
    else:
        (folder / "persons" / "release.json").unlink()
    with pytest.raises(ValueError, match="missing or was changed"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    ("option", "error", "said"),
    [
        ({"memory": "2GB"}, ValueError, "memory: '2GB' was given, but .* in memory"),
        ({"max_contributions": "auto"}, ValueError, "max_contributions: .* give a number"),
        ({"max_household_size": 0}, ValueError, "max_household_size: 0"),
        ({"max_household_size": 1_001}, ValueError, "max_household_size: 1001"),
        ({"share_of_sizes": 1}, ValueError, "share_of_sizes: 1 must lie strictly between 0 and 1"),
        ({"share_of_sizes": "half"}, TypeError, "share_of_sizes: .* must be a number"),
        ({"household": 3}, TypeError, "household: "),
        ({"household": "county"}, ValueError, "household: 'county' is a column of the hierarchy"),
        ({"person": "home"}, ValueError, "person: 'home' is the column of household too"),
        ({"person": "sex"}, ValueError, "person: 'sex' is a column of the hierarchy"),
        ({"tables": "county"}, TypeError, "tables: .* must be a list of tables"),
        ({"tables": [("county", "age")]}, ValueError, "tables: 'age' is not a level"),
        ({"household": "house"}, ValueError, "house"),
        ({"quantity": "cars"}, TypeError, r"release_households\(\) got an unexpected keyword argument 'quantity'"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else None,
)
def test_what_cannot_be_used_is_refused(option, error, said):
    with pytest.raises(error, match=said):
        release(**option)


def test_a_mechanism_from_outside_is_refused():
    class Other(tt.tables.LeastSquares):
        """As one that a stranger writes."""

    with pytest.raises(ValueError, match="mechanism: Other is from outside"):
        release(mechanism=Other())


def test_other_hierarchies_are_refused():
    ordered = tt.Product({"area": AREAS, "sex": tt.Hierarchy.from_values("sex", ["f"])}, order=["area", "area", "sex"])
    with pytest.raises(ValueError, match="hierarchy: the Product has an order"):
        release(hierarchy=ordered)
    with pytest.raises(TypeError, match=r"hierarchy: .* must be a tallytree.Hierarchy of areas"):
        release(hierarchy="areas.parquet")
    taken = tt.Product({"area": AREAS, "home": tt.Hierarchy.from_values("in_household", ["a", "b"])})
    with pytest.raises(ValueError, match="hierarchy: 'in_household' is a column of the published tables"):
        release(hierarchy=taken, tables=[])
    leaves = pa.table({"county": [str(i) for i in range(300_000)]})
    with pytest.raises(ValueError, match="max_household_size: 1,000 sizes of all areas are 300,301,001 cells"):
        release(hierarchy=tt.Hierarchy.from_table(leaves, ["county"]), max_household_size=1_000)


def test_fractional_ids_of_households_are_refused_with_a_remedy():
    fractions = table([("A", "x", "f", "h", 1)]).drop_columns("home").append_column("home", pa.array([1.5]))
    with pytest.raises(TypeError, match=r"a household's id must be text or an integer .* Int64"):
        release(fractions)


def test_what_is_derived_from_both_parts_is_of_the_one_that_has_it():
    made = release()
    table = made.tables[-1]
    assert made.total().equals(made.persons.total())
    assert made.share(*table).equals(made.persons.share(*table))
    with pytest.raises(ValueError, match="attribute: None is given"):
        made.quantile("state", q=0.5)
    with pytest.raises(ValueError, match="fitted to the persons of the same release"):
        made.households.mean()
    assert made.mean(attribute="sex", values={"f": 1, "m": 0}).num_rows == 1


def test_one_entry_of_the_ledger_has_the_loss_of_both_and_a_run_is_repeated(tmp_path):
    tt.new_secret(tmp_path / "secret")
    options = {"seed": None, "secret": tmp_path / "secret", "run": "2026", "dataset": "people"}
    options["ledger"] = tmp_path / "ledger.db"
    first, again = release(**options), release(**options)
    (entry,) = Ledger(tmp_path / "ledger.db").entries()
    assert (entry.statistic, entry.unit, entry.loss.epsilon) == ("households", "record", 1)
    assert first.sizes("county") == again.sizes("county")
    assert first.statement["release"]["id"] == again.statement["release"]["id"] == entry.release_id
    with pytest.raises(ValueError, match="its statistics differ"):
        release(population(seed=2), **options)


def test_a_spec_makes_the_same_release(tmp_path):
    pq.write_table(table(population()), tmp_path / "people.parquet")
    pq.write_table(AREAS.leaf_table(), tmp_path / "areas.parquet")
    pq.write_table(pa.table({"sex": ["f", "m"]}), tmp_path / "sexes.parquet")
    (tmp_path / "spec.yaml").write_text(
        "statistic: households\nrecords: people.parquet\nhousehold: home\nmax_household_size: 4\nseed: 7\n"
        "hierarchy: {attributes: {area: {path: areas.parquet, levels: [state, county]}, "
        "sex: {path: sexes.parquet, levels: [sex]}}}\n"
        "tables: [[county, sex], [state]]\nbudget: {epsilon: 1}\nneighboring: add_remove\nshare_of_sizes: 0.25\n"
    )
    made = load_spec(tmp_path / "spec.yaml").release(tmp_path / "out")
    called = release(share_of_sizes=Fraction(1, 4))
    assert made.sizes("county") == called.sizes("county")
    assert made.table("county", "sex") == called.table("county", "sex")
    assert made.spec["records"] == "people.parquet"
