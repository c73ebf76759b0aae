"""Does the README's word hold? A copy of the repository is tried as a newcomer would, command by command.

What a block prints is compared with the `output` below it (`helpers/pages.py`).
"""

import codeop
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.pages import blocks, check

REPOSITORY = Path(__file__).resolve().parents[2]
DROPPED = ("VIRTUAL_ENV", "PYTHONPATH", "TALLYTREE_REPORT")  # what a newcomer does not have
TUTORIALS = ("first", "mobility", "statistical-office")
NOT_RUN_HERE = "make test"  # it is what runs this


def in_readme():
    return blocks((REPOSITORY / "README.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The files of the repository as they are now; and of what was built, the kernels."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout
    target = tmp_path_factory.mktemp("clone")
    for name in filter(None, listed.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name)
    compiled = Path("src", "tallytree", "support", "compiled")
    if (REPOSITORY / compiled).is_dir():  # by `make test`; to compile the same once more takes minutes
        shutil.copytree(REPOSITORY / compiled, target / compiled)
    return target


def run(command, folder, **more):
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_every_command_and_code_block_works_in_a_fresh_clone(clone):
    found = []
    assert [block.kind for block in in_readme()] == ["sh", "sh", "python", "sh"]
    for block in in_readme():
        if block.kind == "python":
            found.append((block, run([".venv/bin/python", "-W", "error", "-c", block.text], clone)))
        elif block.text.strip() != NOT_RUN_HERE:
            activate = ". .venv/bin/activate\n" if (clone / ".venv").exists() else ""
            run(["bash", "-euc", activate + block.text], clone)
    assert [block for block, _ in found if block.output] == [block for block, _ in found]
    check(REPOSITORY / "README.md", found)
    assert (clone / "tallytree-demo" / "households-release" / "release.json").is_file()
    assert (clone / "tallytree-demo" / "households-release" / "report.html").is_file()
    assert list(clone.glob("dist/tallytree-*.whl"))


def test_every_link_leads_somewhere():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) >= 7
    for link in links:
        assert (REPOSITORY / link.partition("#")[0]).exists(), link


def test_documented_pages_link_to_each_other():
    for page in [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "benchmarks" / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page}: {link}"


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_installs_as_the_readme_does_but_for_its_extras(name):
    def commands(text):
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        return [re.sub(r"\[[a-z,]+\]", "", line) for line in lines if line.startswith(("make wheel", "pip install"))]

    page = (REPOSITORY / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    (installing,) = [block.text for block in blocks(page) if block.kind == "text"]
    assert commands(installing) == commands("".join(block.text for block in in_readme())) != []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/tutorials/{name}.md" for name in TUTORIALS)])
def test_python_blocks_can_be_typed_line_by_line(page):
    """A prompt wants an empty line after the body of a loop, which a file does not need."""
    written = [
        block.text for block in blocks((REPOSITORY / page).read_text(encoding="utf-8")) if block.kind == "python"
    ]
    assert written
    for text in written:
        typed = []
        for line in [*text.splitlines(), ""]:
            typed.append(line)
            if codeop.compile_command("\n".join(typed)) is not None:
                typed = []
        assert typed == []


def test_a_loop_without_an_empty_line_below_it_cannot_be_typed():
    with pytest.raises(SyntaxError):
        codeop.compile_command("for x in y:\n    x\nprint()")
