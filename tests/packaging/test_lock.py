"""The lock files agree with what pyproject.toml asks for; and the linters' look at known vulnerabilities."""

import json
import re
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = {"dev": ["dev"], "demo": ["report"]}
PYTHONS = ("3.11", "3.12")


def locked(name, python):
    """The versions that a lock has for a Python on this system, and the hashes of each package."""
    text = (REPOSITORY / "requirements" / f"{name}.lock").read_text()
    found = {}
    for entry in re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", text, flags=re.M)).strip().splitlines():
        stated, *hashes = entry.split(" --hash=")
        requirement = Requirement(stated.strip())
        full = {"python_version": python, "python_full_version": f"{python}.7"}
        if requirement.marker is None or requirement.marker.evaluate(full):
            assert requirement.name not in found
            ((operator, version),) = ((each.operator, each.version) for each in requirement.specifier)
            assert operator == "=="
            found[requirement.name] = version, {each.strip() for each in hashes}
    return found


def asked(extras):
    """The requirements of the package with some extras, and of its build."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    waiting = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    waiting += [each for extra in extras for each in project["project"]["optional-dependencies"][extra]]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name == "tallytree":
            for extra in requirement.extras:
                waiting += project["project"]["optional-dependencies"][extra]
        else:
            yield requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_a_version_that_is_allowed_and_its_hashes_for_everything_asked_for(name, python):
    found = locked(name, python)
    for requirement in asked(LOCKS[name]):
        package = canonicalize_name(requirement.name)
        assert package in found, "run `make lock`"
        version, _ = found[package]
        assert requirement.specifier.contains(version), f"{requirement}: {version}; run `make lock`"
    assert all(hashes for _, hashes in found.values())
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for _, hashes in found.values() for each in hashes)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_demo_and_the_tests_get_the_same_versions(python):
    assert locked("demo", python).items() <= locked("dev", python).items()


def test_the_makefile_takes_the_lock_with_the_pythons_that_are_tested():
    classifiers = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["classifiers"]
    said = [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.[0-9]+$", each)]
    assert said == list(PYTHONS)
    assert f"LOCKED := $(filter {' '.join(PYTHONS)}," in (REPOSITORY / "Makefile").read_text()


def steps_of(target, folder):
    """What `make` would run for a target where nothing is installed yet."""
    command = ["make", "--dry-run", target, f"VENV={folder / 'venv'}", f"PYTHON={sys.executable}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout


@pytest.mark.skipif(f"{sys.version_info[0]}.{sys.version_info[1]}" not in PYTHONS, reason="no versions are locked")
def test_the_demo_installs_what_its_lock_has_and_compiles_nothing_ahead(tmp_path):
    steps = steps_of("demo", tmp_path)
    assert steps.count(" install ") == 2
    assert "install --no-compile --require-hashes -r requirements/demo.lock" in steps
    assert "install --no-deps --no-build-isolation ." in steps
    assert "compiling_ahead" not in steps
    for target in ("wheel", "test"):
        assert "compiling_ahead" in steps_of(target, tmp_path)
    assert "install --require-hashes -r requirements/dev.lock" in steps_of("test", tmp_path)


def test_the_demo_takes_the_wheel_where_it_is_installed(tmp_path):
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".wheel").touch()
    assert "compiling_ahead" in steps_of(
        "demo", tmp_path
    )  # a source may have changed since; the light one never replaces it


@pytest.fixture
def vulnerabilities():
    """A server like OSV's, and what it answers by package."""
    known, seen = {}, []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self):
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(query["package"]["name"])
            content = json.dumps(known.get(query["package"]["name"], {})).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_): ...

    server = HTTPServer(("127.0.0.1", 0), Answering)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", known, seen
    server.shutdown()
    server.server_close()


def audit(lock, url):
    command = [sys.executable, REPOSITORY / "requirements" / "audit.py", lock, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.needs("pip_audit")
def test_known_vulnerabilities_of_the_lock_fail_the_linters(vulnerabilities):
    url, known, seen = vulnerabilities
    code, said = audit("requirements/dev.lock", url)
    assert code == 0, said
    assert "No known vulnerabilities" in said
    assert {"numpy", "pyarrow"} <= set(seen)
    assert len(seen) > 200
    affected = [{"package": {"name": "pyarrow", "ecosystem": "PyPI"}}]
    known["pyarrow"] = {"vulns": [{"id": "PYSEC-1", "summary": "reads too far", "affected": affected}]}
    code, said = audit("requirements/demo.lock", url)
    assert code == 1
    assert "PYSEC-1" in said


def test_the_linters_say_in_one_line_that_the_data_of_vulnerabilities_were_not_reached():
    code, said = audit("requirements/dev.lock", "http://127.0.0.1:9")
    assert code == 0
    assert said.startswith("pip-audit: http://127.0.0.1:9 was not reached, so requirements/dev.lock was not compared")
    assert said.count("\n") == 1
