"""A folder that was damaged, or edited, is refused in one sentence; or what is loaded is what was saved."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallytree as tt
from helpers import explored, releases
from helpers.manifests import rewrite

RECORD = "NAME-1958-DIAGNOSIS"


@pytest.fixture(scope="module")
def made(areas):
    kinds = {"counts": releases.counts, "sizes": releases.group_sizes, "flows": releases.flows}
    kinds["tables"] = releases.tables
    return {kind: publish(areas) for kind, publish in kinds.items()} | {"people": explored.contributions()}


@pytest.fixture(scope="module")
def once(made, tmp_path_factory):
    """The folder of each, saved once."""
    place = tmp_path_factory.mktemp("saved")
    return {kind: release.save(place / kind) for kind, release in made.items()}


@pytest.fixture
def saved(once, tmp_path):
    """A copy of a saved release, by its kind."""
    return lambda kind: shutil.copytree(once[kind], tmp_path / "out")


@pytest.fixture
def folder(saved):
    """A saved release of counts."""
    return saved("counts")


def seeded(areas, folder):
    return releases.counts(areas, seed=1).save(folder)


def content(release):
    """All that a release says, comparable."""
    tables = {level: (release.table(level), release.measurements(level)) for level in release.levels}
    return json.loads(json.dumps(release.statement)), json.loads(json.dumps(release.spec)), tables, repr(release.tree)


def loaded_or_refused(folder, was):
    """Whether a damaged folder is refused; what is not refused says what was saved."""
    refusal, now = attempt(folder)
    if now is not None:
        assert content(now) == was
        return False
    assert refusal.startswith("folder: ")
    assert "\n" not in refusal
    return True


def attempt(folder):
    """The message of the refusal and None; or '' and the release that was loaded."""
    try:
        return "", tt.Release.load(folder)
    except ValueError as error:
        return str(error), None


def flipped(data, generator):
    place = int(generator.integers(len(data)))
    return data[:place] + bytes([data[place] ^ 1 << int(generator.integers(8))]) + data[place + 1 :]


def damages(path, number, generator):
    """`number` bit flips and a fifth as many truncations of a file, one after the other; then it is as it was."""
    whole = path.read_bytes()
    for _ in range(number):
        path.write_bytes(flipped(whole, generator))
        yield
    for _ in range(number // 5):
        path.write_bytes(whole[: generator.integers(len(whole))])
        yield
    path.write_bytes(whole)


def refused(folder, name, number, generator):
    was = content(tt.Release.load(folder))
    return [loaded_or_refused(folder, was) for _ in damages(folder / name, number, generator)]


def test_a_flipped_bit_of_the_manifest_is_never_loaded_as_something_else(folder):
    assert sum(refused(folder, "release.json", 40, np.random.default_rng(1))) > 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["counts", "sizes", "flows", "tables"])
def test_hundreds_of_damages_are_refused_or_change_nothing(made, tmp_path, kind):
    folder, generator = made[kind].save(tmp_path / "out", csv=True), np.random.default_rng(2)
    found = refused(folder, "release.json", 250, generator)
    # What is loaded differs in white space only: an indent, or the line break at the end.
    assert len(found) == 300
    assert sum(found) / len(found) > 0.7
    for path in folder.rglob("*"):
        if path.name == "deployment.yaml":  # for the publisher to edit
            assert not any(refused(folder, path.name, 20, generator))
        elif path.is_file() and path.name != "release.json":
            assert all(refused(folder, path.relative_to(folder), 20, generator))


APPROXIMATE = {"budget": tt.Budget(epsilon=1, delta=1e-6)}


@pytest.mark.parametrize(
    ("publish", "options"),
    [
        (releases.counts, {"mechanism": tt.counts.StabilityHistogram(), **APPROXIMATE}),
        (releases.flows, {"mechanism": tt.counts.StabilityHistogram(), **APPROXIMATE}),
        (releases.flows, {"mechanism": tt.counts.TopDown(), "tree": "origin"}),
        (releases.counts, {"mechanism": tt.counts.TopDown(), "neighboring": "add_remove"}),
        (releases.tables, {}),
        (releases.tables, {"neighboring": "add_remove", "measure": [("county", "sex")], "tables": [("sex",), ()]}),
        (releases.group_sizes, {"mechanism": tt.sizes.Chain()}),
        (releases.group_sizes, {"mechanism": tt.sizes.BottomUp()}),
        (releases.group_sizes, {"mechanism": tt.sizes.Matching(estimator="sorted"), "public_groups": releases.PUBLIC}),
        (releases.group_sizes, {"public_groups": None, "invariants": "none"}),
    ],
)
def test_the_checks_accept_what_tallytree_writes(areas, tmp_path, publish, options):
    release = publish(areas, **options)
    folder = release.save(tmp_path / "out", csv=True)
    assert content(tt.Release.load(folder)) == content(release)
    assert content(tt.Release.load(tt.Release.load(folder).save(tmp_path / "again"))) == content(release)


@pytest.mark.filterwarnings("ignore:mechanism")
@pytest.mark.parametrize("mechanism", [tt.counts.LeafGaussian(), tt.sizes.MeanConsistency(), tt.sizes.Independent()])
def test_the_checks_accept_fractions_and_negative_numbers(areas, tmp_path, mechanism):
    publish = releases.counts if isinstance(mechanism, tt.counts.LeafGaussian) else releases.group_sizes
    release = publish(areas, mechanism=mechanism, **APPROXIMATE)
    assert content(tt.Release.load(release.save(tmp_path / "out"))) == content(release)


def test_the_checks_accept_a_product_and_errors(areas, tmp_path):
    kinds = tt.Hierarchy.from_table(pa.table({"kind": ["k"]}), ["kind"])  # its only level is its root
    tree = tt.Product({"area": areas, "kind": kinds}, order=["area", "kind", "area"])
    people = releases.PEOPLE.append_column("kind", [["k"] * releases.PEOPLE.num_rows])
    release = tt.release_counts(people, tree, tt.Budget(epsilon=1), neighboring="add_remove")
    loaded = tt.Release.load(release.save(tmp_path / "out"))
    assert content(loaded) == content(release)
    errors = tt.replicate_errors(loaded, 10)
    assert content(tt.Release.load(errors.save(tmp_path / "errors"))) == content(errors)


@pytest.mark.parametrize("version", [0, 1, 2, 5, 99, "3", 3.0, True, None])
def test_another_format_is_refused_with_the_remedy(once, tmp_path, version):
    """Also where its digest is right, and where it has none, as in format 1."""
    for kind in once if version == 2 else ["counts"]:
        folder = shutil.copytree(once[kind], tmp_path / kind)
        rewrite(folder, lambda manifest: manifest.update(format_version=version))
        for _ in range(2):
            with pytest.raises(
                ValueError,
                match=rf"^folder: '.*{kind}' has format version {version!r}; this tallytree reads 3 and 4; .*again$",
            ):
                tt.Release.load(folder)
            manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
            manifest.pop("digest", None)
            (folder / "release.json").write_text(json.dumps(manifest))


def test_a_folder_without_its_hierarchies_is_refused(once, tmp_path):
    for kind in once.keys() - {"people"}:  # they are not counted by place
        folder = shutil.copytree(once[kind], tmp_path / kind)
        rewrite(folder, lambda manifest: [manifest.pop("tree"), drop_hierarchies(manifest)])
        with pytest.raises(ValueError, match=r"its release\.json has no usable 'tree'; take a fresh copy"):
            tt.Release.load(folder)


def drop_hierarchies(manifest):
    for name in [name for name in manifest["files"] if name.startswith("hierarchies/")]:
        del manifest["files"][name]


def test_the_digest_is_of_the_whole_manifest(folder):
    text = (folder / "release.json").read_text(encoding="utf-8")
    for was, now in (('"neighboring": "change_one"', '"neighboring": "add_remove"'), ('"county"\n', '"County"\n')):
        assert was in text
        (folder / "release.json").write_text(text.replace(was, now), encoding="utf-8")
        with pytest.raises(ValueError, match=r"^folder: '.*out' (was changed since it was written|is not a complete)"):
            tt.Release.load(folder)
    (folder / "release.json").write_text(json.dumps(json.loads(text), indent=7, sort_keys=True), encoding="utf-8")
    assert tt.Release.load(folder).levels == ("all", "state", "county")  # the layout of the text does not count


def test_the_digest_cannot_be_left_out(folder):
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    del manifest["digest"]
    (folder / "release.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="was changed since it was written"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"spec": {', '"spec": {}, "spec": {'),
        lambda text: text.replace('"negative_numbers": 0', '"negative_numbers": NaN'),
        lambda text: text.replace('"negative_numbers": 0', '"negative_numbers": 1e999'),
        lambda text: text.replace('"negative_numbers": 0', '"negative_numbers": "\\ud800"'),
    ],
    ids=["a key twice", "NaN", "infinite", "surrogate"],
)
def test_json_that_readers_differ_on_is_refused(folder, edit):
    text = (folder / "release.json").read_text(encoding="utf-8")
    assert edit(text) != text
    (folder / "release.json").write_text(edit(text), encoding="utf-8")
    with pytest.raises(ValueError, match=r"^folder: .*(no readable release\.json|was changed since it was written)"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda statement: statement.update(private=True),
        lambda statement: statement.update(private=True, seeded=False),
        lambda statement: statement.update(private=True, seeded=False, guarantee="epsilon = 1"),
        lambda statement: statement.update(private=True, seeded=False, guarantee="x", spent={"epsilon": 1.0}),
        lambda statement: statement.update(seeded=False),
        lambda statement: statement.update(seeded="true"),
        lambda statement: statement.pop("private"),
    ],
)
def test_a_seeded_release_that_is_said_to_be_private_is_refused(areas, tmp_path, change):
    folder = seeded(areas, tmp_path / "out")
    rewrite(folder, lambda manifest: change(manifest["statement"]))
    with pytest.raises(ValueError, match=r"^folder: '.*out' contradicts itself: .*seed .*private"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    "name", ["../other.parquet", "/etc/hostname", "tables/*.parquet", "tables/../x", "report.html"]
)
def test_only_the_files_of_a_release_are_named(folder, name):
    facts = {"rows": 1, "sha256": "0" * 64}
    rewrite(folder, lambda manifest: manifest["files"].update({name: facts}))
    with pytest.raises(ValueError, match=r"has no usable entry for '.*' in 'files'"):
        tt.Release.load(folder)


@pytest.mark.parametrize("name", ["../other.parquet", "../*.parquet", "/x.parquet", "tables/all.parquet", None, 3])
def test_a_tree_is_read_from_its_own_files_only(folder, name):
    pq.write_table(pa.table({"state": [RECORD] * 2, "county": ["x"] * 2}), folder.parent / "other.parquet")

    def change(manifest):
        manifest["tree"]["file"] = name
        drop_hierarchies(manifest)
        if isinstance(name, str):
            manifest["files"].setdefault(name, {"rows": 2, "sha256": "0" * 64})

    rewrite(folder, change)
    with pytest.raises(ValueError, match=r"^folder: ") as caught:
        tt.Release.load(folder)
    assert RECORD not in str(caught.value)


def test_a_link_out_of_the_folder_is_refused_and_its_file_not_quoted(folder, tmp_path):
    tree = folder / "hierarchies/hierarchy.parquet"
    table = pa.table({"state": [RECORD] * 4, "county": [RECORD] * 4})
    pq.write_table(table, tmp_path / "private.parquet")
    tree.unlink()
    tree.symlink_to("../../private.parquet")
    rewrite(folder, lambda manifest: None, files=["hierarchies/hierarchy.parquet"])
    with pytest.raises(ValueError, match=r"^folder: '.*hierarchy\.parquet' leads outside the folder") as caught:
        tt.Release.load(folder)
    assert RECORD not in str(caught.value)
    tree.unlink()
    pq.write_table(table, tree)
    rewrite(folder, lambda manifest: None, files=["hierarchies/hierarchy.parquet"])
    with pytest.raises(ValueError, match="does not describe its tree as tallytree writes it") as caught:
        tt.Release.load(folder).tree  # noqa: B018
    assert RECORD not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_manifest_outside_the_folder_is_refused(folder, tmp_path):
    (folder / "release.json").rename(tmp_path / "release.json")
    (folder / "release.json").symlink_to("../release.json")
    with pytest.raises(ValueError, match=r"release\.json' leads outside the folder"):
        tt.Release.load(folder)


def test_a_named_pipe_is_not_waited_for(folder):
    for name in ("tables/all.parquet", "release.json"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(ValueError, match=r"is missing or was changed|no readable release\.json"):
            tt.Release.load(folder)


def test_a_folder_behind_a_link_is_loaded(folder, tmp_path):
    (tmp_path / "latest").symlink_to("out")
    assert tt.Release.load(tmp_path / "latest").levels == ("all", "state", "county")


@pytest.mark.parametrize("name", ["tables/county.parquet", "measurements/county.parquet"])
def test_rows_are_those_of_the_files(folder, name):
    def change(manifest):
        manifest["files"][name]["rows"] -= 1

    rewrite(folder, change)
    with pytest.raises(ValueError, match=r"county\.parquet' has another number of rows than release\.json says"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    ("kind", "name", "edit", "message"),
    [
        ("counts", "tables/state", lambda t: t.drop_columns(["count"]), "other columns"),
        ("counts", "tables/state", lambda t: t.append_column("name", [[RECORD] * 2]), "other columns"),
        ("counts", "tables/state", lambda t: t.set_column(1, "count", pa.array(["5", "7"])), "other columns"),
        ("counts", "tables/state", lambda t: t.rename_columns(["town", *t.column_names[1:]]), "other columns"),
        ("counts", "tables/state", lambda t: t.slice(1), "another number of rows"),
        ("counts", "measurements/state", lambda t: t.drop_columns(["std_dev"]), "other columns"),
        ("counts", "measurements/all", lambda t: pa.table({"value": [5], "std_dev": [1.0]}), "another number of rows"),
        ("sizes", "tables/state", lambda t: t.drop_columns(["size"]), "other columns"),
        ("sizes", "measurements/state", lambda t: t.set_column(1, "values", pa.array([5, 7])), "other columns"),
        ("flows", "tables/o_state", lambda t: t.select([1, 0, *range(2, t.num_columns)]), "other columns"),
        ("tables", "tables/state.sex", lambda t: t.slice(1), "another number of rows"),
        ("tables", "tables/county.sex", lambda t: t.drop_columns(["county"]), "other columns"),
        ("tables", "measurements/sex", lambda t: t.append_column("name", [[RECORD] * 2]), "other columns"),
        ("tables", "measurements/all", lambda t: pa.table({"value": [5], "std_dev": [1.0]}), "another number of rows"),
        ("people", "tables/contributions", lambda t: t.rename_columns([*t.column_names[:3], "noise"]), "other columns"),
        ("people", "tables/contributions", lambda t: pa.concat_tables([t, t]), "another number of rows"),
        ("people", "measurements/contributions", lambda t: t.drop_columns(["records_to"]), "other columns"),
        ("counts", "hierarchies/hierarchy", lambda t: t.slice(1), "another number of rows"),
        ("counts", "hierarchies/hierarchy", lambda t: t.append_column("who", [[RECORD] * 4]), "describe its tree"),
    ],
)
def test_files_have_the_columns_and_rows_that_the_statement_says(saved, kind, name, edit, message):
    folder = saved(kind)
    path, facts = folder / f"{name}.parquet", f"{name}.parquet"
    table = edit(pq.read_table(path))
    pq.write_table(table, path)
    rewrite(folder, lambda manifest: manifest["files"][facts].update(rows=table.num_rows), files=[facts])
    with pytest.raises(ValueError, match=rf"^folder: .* {message}") as caught:
        tt.Release.load(folder)
    assert RECORD not in str(caught.value)


def test_a_file_that_is_no_parquet_is_refused_without_its_text(folder):
    (folder / "tables/state.parquet").write_text(RECORD)
    rewrite(folder, lambda manifest: None, files=["tables/state.parquet"])
    with pytest.raises(ValueError, match=r"state\.parquet' is not a readable Parquet file; take a fresh") as caught:
        tt.Release.load(folder)
    assert RECORD not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        (lambda m: m["files"]["tables/all.parquet"].update(level="state"), "entry for 'tables/all.parquet' in 'files'"),
        (lambda m: m["statement"]["levels"].pop(), "'levels' in 'statement'"),
        (lambda m: m["statement"].update(levels=[3, 4, 5]), "'levels' in 'statement'"),
        (lambda m: m["statement"]["levels"][1].pop("nodes"), "level 'state' in 'statement'"),
        (lambda m: m["statement"].update(statistic="means"), "'statistic' in 'statement'"),
        (lambda m: m["statement"].update(release="today"), "'release' in 'statement'"),
        (lambda m: m["statement"]["release"].pop("id"), "'release' in 'statement'"),
        (lambda m: m["statement"].pop("release"), "'release' in 'statement'"),
        (lambda m: m["statement"].update(mechanism=None), "'mechanism' in 'statement'"),
        (lambda m: m["statement"].pop("counted"), "'counted' in 'statement'"),
    ],
)
def test_a_statement_about_something_else_is_refused(folder, change, lacking):
    rewrite(folder, change)
    with pytest.raises(ValueError, match=rf"its release\.json has no usable {lacking}"):
        tt.Release.load(folder)


@pytest.mark.parametrize("about", [{"id": "8f2e", "run": "2026-11-22", "plan": "00ff"}, {"id": "8f2e", "run": None}])
def test_a_release_of_a_run_is_loaded(folder, about):
    rewrite(folder, lambda manifest: manifest["statement"].update(release=about))
    assert tt.Release.load(folder).statement["release"] == about


def test_a_csv_that_was_changed_is_refused(made, tmp_path):
    folder = made["counts"].save(tmp_path / "out", csv=True)
    (folder / "tables/state.csv").write_text("state,count\n")
    with pytest.raises(ValueError, match=r"state\.csv' is missing or was changed"):
        tt.Release.load(folder)
    shutil.rmtree(folder)
    folder = made["counts"].save(tmp_path / "out", csv=True)
    rewrite(folder, lambda manifest: manifest["files"]["tables/state.csv"].update(rows=1))
    with pytest.raises(ValueError, match=r"no usable entry for 'tables/state\.csv' in 'files'"):
        tt.Release.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda levels: levels[0].pop("table"),
        lambda levels: levels[0].update(table="county"),
        lambda levels: levels[0].update(table=[3]),
        lambda levels: levels[0].update(table=["state", "sex"]),  # another table's columns
        lambda levels: levels[0].update(table=["county", RECORD]),
        lambda levels: levels[0].update(table=["sex", "sex"]),
        lambda levels: levels[0].update(asked=1),
        lambda levels: levels[0].pop("asked"),
        lambda levels: levels[0].pop("zeros_listed"),
        lambda levels: levels[0].update(zeros_listed="yes"),
        lambda levels: levels[0].update(nodes=99),  # of a table that is said to list its zeros
        lambda levels: levels[5].update(measured="no"),
    ],
)
def test_a_forged_statement_of_tables_is_refused(saved, change):
    folder = saved("tables")
    rewrite(folder, lambda manifest: change(manifest["statement"]["levels"]))
    with pytest.raises(ValueError, match=r"^(folder|hierarchy|release): ") as caught:
        tt.replicate_errors(tt.Release.load(folder), 10)
    assert "\n" not in str(caught.value)
    assert RECORD not in str(caught.value)
