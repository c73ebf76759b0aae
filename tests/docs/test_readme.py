"""Does the README's word hold? A copy of the repository is tried as a newcomer would, command by command."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DROPPED = ("VIRTUAL_ENV", "PYTHONPATH", "TALLYTREE_REPORT")  # what a newcomer does not have
NOT_RUN_HERE = "make test"  # it is what runs this


def blocks():
    return BLOCK.findall((REPOSITORY / "README.md").read_text(encoding="utf-8"))


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
    compiled = Path("src", "tallytree", "_compute", "compiled")
    if (REPOSITORY / compiled).is_dir():  # by `make test`; to compile the same once more takes minutes
        shutil.copytree(REPOSITORY / compiled, target / compiled)
    return target


def run(command, folder, **more):
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def with_python_joined(found):
    """The blocks, where Python blocks that follow each other are one program, as a reader would run them."""
    joined = []
    for kind, text in found:
        if kind == "python" and joined and joined[-1][0] == "python":
            text = joined.pop()[1] + text
        joined.append((kind, text))
    return joined


@pytest.mark.slow
def test_every_command_and_code_block_works_in_a_fresh_clone(clone):
    kinds = [kind for kind, _ in blocks()]
    assert kinds == ["sh", "sh", "python", "python", "python", "yaml", "sh", "sh", "sh"]
    for kind, text in with_python_joined(blocks()):
        if kind == "yaml":
            name = re.match(r"# (\S+\.yaml)\n", text)
            (clone / name[1]).write_text(text, encoding="utf-8")
        elif kind == "python":
            printed = run([".venv/bin/python", "-W", "error", "-c", text], clone)
            assert "epsilon = 1 " in printed
            assert "groups" in printed
        elif text.strip() != NOT_RUN_HERE:
            activate = ". .venv/bin/activate\n" if (clone / ".venv").exists() else ""
            run(["bash", "-euc", activate + text], clone)
    assert (clone / "tallytree-demo" / "households-release" / "release.json").is_file()
    assert (clone / "tallytree-demo" / "households-release" / "report.html").is_file()
    for release in ("households", "people", "commutes"):
        assert (clone / "out" / release / "release.json").is_file()
    assert (clone / "out" / "2026-11-22" / "release.json").is_file()
    assert (clone / "out" / "households" / "tables" / "state.csv").is_file()


def test_every_link_leads_somewhere():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) >= 7
    for link in links:
        assert (REPOSITORY / link).exists(), link


def test_documented_pages_link_to_each_other():
    for page in [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "benchmarks" / "README.md"]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page}: {link}"
