"""The structure of the code itself: what import-linter cannot state, and limits that keep files readable."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from helpers.order import LONGEST, in_order
from tallytree.errors import ARGUMENT

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "tallytree"
TESTS = REPOSITORY / "tests"
MAX_LINES = 500
MAX_COLUMNS = 120
SOLVER_PACKAGES = {"clarabel", "cvxpy", "highspy", "ortools", "osqp", "pyscipopt", "scs"}
# An import contract is static. These find a module, or an object that another module holds, without an import.
AROUND_THE_CONTRACTS = {"importlib", "gc"}
WITHOUT_A_PACKAGE = {
    "checker",
    "docs",
    "faults",
    "helpers",
    "mutants",
    "packaging",
}  # test folders of what is no part of the package


def imported(tree):
    """The top-level names of all packages that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def uses_loaded_modules(tree):
    """Whether a module reads `sys.modules`, or calls `__import__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "modules" and ast.unparse(node.value) == "sys":
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "sys" and "modules" in {a.name for a in node.names}:
            return True
        if isinstance(node, ast.Name) and node.id == "__import__":
            return True
    return False


def parsed(folder):
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def named(paths):
    return [str(path.relative_to(REPOSITORY)) for path in paths]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    import gc", True),
        ("from importlib import util", True),
        ("import importlib.util as u", True),
        ("import sys\nsys.modules['tallytree.private']", True),
        ("from sys import modules", True),
        ("__import__('gc')", True),
        ("import sys\nsys.maxsize", False),
        ("from tallytree.support import gc", False),
    ],
)
def test_ways_around_the_contracts_are_seen(source, found):
    tree = ast.parse(source)
    assert (bool(AROUND_THE_CONTRACTS & set(imported(tree))) or uses_loaded_modules(tree)) == found


@pytest.mark.parametrize("folder", ["counts", "sizes", "solvers"])
def test_no_mechanism_or_solver_gets_around_the_import_contracts(folder):
    modules = parsed(SOURCE / folder)
    assert modules
    around = [
        path
        for path, tree in modules.items()
        if AROUND_THE_CONTRACTS & set(imported(tree)) or uses_loaded_modules(tree)
    ]
    assert named(around) == []


@pytest.mark.slow
def test_the_papers_solver_packages_are_imported_only_beside_the_papers_solvers():
    users = [path for path, tree in parsed(SOURCE).items() if SOLVER_PACKAGES & set(imported(tree))]
    assert users
    assert named(path for path in users if SOURCE / "solvers" / "papers" not in path.parents) == []


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["source", "tests"])
def test_no_file_is_longer_than_can_be_read_at_once(folder):
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py")}
    assert named(path for path, number in lines.items() if number > MAX_LINES) == []


def rooms(folder):
    names = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return {name for name in names if not name.startswith("__")}


def test_what_is_public_is_listed_and_the_contracts_list_all_that_is_private():
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    named = {each["name"].split(" ")[1]: each for each in contracts["contracts"]}
    page = (REPOSITORY / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
    listed = re.findall(r"`tallytree\.(\w+)", page.split("## Public modules")[1].split("\n## ")[0])
    private = {name.rsplit(".", 1)[1] for name in named["lab"]["forbidden_modules"]}
    assert set(listed) | private == rooms(SOURCE)
    assert set(listed) & private == {"private", "solvers"}  # of which single modules are public
    assert {name.rsplit(".", 1)[1] for name in named["door:"]["protected_modules"]} == rooms(SOURCE / "private")


@pytest.mark.slow
def test_a_class_name_has_one_meaning():
    """But `counts.LeastSquares` and `tables.LeastSquares`, which users know by their packages."""
    places = {}
    for path, tree in parsed(SOURCE).items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert len(places) > 300
    assert {name: files for name, files in places.items() if len(files) > 1} == {
        "LeastSquares": ["least_squares.py"] * 2
    }


def test_tests_mirror_the_layout():
    """`tests/run` has the tests of the package `run`."""
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert len(folders) > 10
    assert {
        str(folder)
        for folder in folders
        if folder.parts and folder.parts[0] not in WITHOUT_A_PACKAGE and not (SOURCE / folder / "__init__.py").exists()
    } == set()


def prose(text):
    """(number, line) of every line of a page outside code blocks and tables."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = mark[1] if fence is None else None
        elif fence is None and not line.lstrip().startswith("|"):
            yield number, line


ALSO_IMPORTED = ("tallytree.private.noise", "tallytree.private.tabulate.spark_")
"""Of private rooms: a public name, and what cannot be imported without PySpark."""
PROGRAMS = {"faults/zygote.py"}
"""What loads a private module when a command needs it."""


def modules_of(tree):
    """Each imported module, or name of a package, wherever in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_tests_of_other_rooms_know_private_modules_by_one_list():
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    named = {each["name"].split(" ")[1]: each for each in contracts["contracts"]}
    private = tuple(f"{room}." for room in named["lab"]["forbidden_modules"] if room != "tallytree.solvers")
    found = []
    for path, tree in parsed(TESTS).items():
        name = path.relative_to(TESTS)
        own = f"tallytree.{name.parts[0]}."
        others = {each for each in modules_of(tree) if f"{each}.".startswith(private) and not each.startswith(own)}
        if str(name) not in {"helpers/inside.py", *PROGRAMS}:
            found += [f"{name}: {each}" for each in sorted(others) if not each.startswith(ALSO_IMPORTED)]
    assert found == []


def test_tests_that_use_the_spark_session_have_spark_in_their_name():
    """So one process runs them: `helpers/scheduling.py`."""
    users = [
        f"{path.relative_to(TESTS)}::{node.name}"
        for path, tree in parsed(TESTS).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if {"spark", "spark_sessions"} & {each.arg for each in node.args.args}
    ]
    assert len(users) > 10
    assert [each for each in users if "spark" not in each] == []


def test_the_files_that_begin_first_are_there():
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    files = [TESTS / "a.py", TESTS / LONGEST[1], TESTS / "b.py", TESTS / LONGEST[0], TESTS / "c.py"]
    first = [Path(name).name for name in LONGEST[:2]]
    assert [path.name for path in in_order(files)] == [*first, "a.py", "c.py", "b.py"]


def test_lines_of_the_documentation_fit_a_screen():
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("benchmarks/*.md")]
    assert len(pages) > 30
    assert [
        f"{page.relative_to(REPOSITORY)}:{number}"
        for page in pages
        for number, line in prose(page.read_text(encoding="utf-8"))
        if len(line) > MAX_COLUMNS
    ] == []


FOR_PROGRAMMERS = (
    "accounting/pld.py", "accounting/scales.py",  # planning asks them, and says it with the argument that decides
    "lab/audit/inputs.py",  # `shift` begins with "neighbor: "
    # called by programs only:
    "support/spill_folders.py", "private/noise/", "views/report/plots.py", "solvers/", "lab/datasets/",
    "ledger/books.py", "ledger/events.py", "ledger/books.py",  # the ledger adds its name
    "run/output.py",  # begins with the message of `Release.load`
    "sources/reading.py",  # begins with the argument, which callers give
    "private/engines/engine.py", "private/engines/spark.py",  # `what` is "engine: …"; a range of two arguments
    "private/tabulate/leaf_statistics.py", "private/tabulate/spark_session.py",  # what no caller does
    "spec/scalars.py", "spec/sections.py", "spec/table_values.py",  # pydantic's; the spec says it with file and line
)  # fmt: skip


def messages(tree):
    """The line and the text of each ValueError, TypeError and MemoryError that is raised here, `x` for its values."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call) or not node.exc.args:
            continue
        made, said = node.exc.func, node.exc.args[0]
        if isinstance(made, ast.Name) and made.id in ("ValueError", "TypeError", "MemoryError"):
            while isinstance(said, ast.BinOp):
                said = said.left
            while isinstance(said, ast.IfExp):
                said = said.body
            parts = said.values if isinstance(said, ast.JoinedStr) else [said]
            if isinstance(parts[0], ast.Constant | ast.FormattedValue):
                yield (
                    node.lineno,
                    "".join(getattr(part, "value", "") if isinstance(part, ast.Constant) else "x" for part in parts),
                )


@pytest.mark.slow
def test_every_message_is_recognised_as_one_of_ours():
    """Others are withheld at the command line, since they may quote a record."""
    unknown = [
        f"{path.relative_to(SOURCE)}:{line}: {said}"
        for path, tree in parsed(SOURCE).items()
        if not str(path.relative_to(SOURCE)).startswith(FOR_PROGRAMMERS)
        for line, said in messages(tree)
        if not ARGUMENT.match(said)
    ]
    assert unknown == []
