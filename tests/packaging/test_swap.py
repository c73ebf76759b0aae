"""The environment that is in use is never without its package while a new wheel is built."""

import importlib.util
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_package_its_metadata_and_its_programs_take_the_place_of_the_old_ones(tmp_path):
    packages, scripts, beside = (tmp_path / name for name in ("packages", "scripts", "beside"))
    for folder, text in ((packages, "old"), (beside, "new")):
        (folder / "library").mkdir(parents=True)
        (folder / "library" / "__init__.py").write_text(text)
        (folder / f"library-{text}.dist-info").mkdir()
    (packages / "library" / "gone.py").write_text("old")
    (packages / "other").mkdir()
    (beside / "bin").mkdir()
    (beside / "bin" / "program").write_text("new")
    scripts.mkdir()
    (scripts / "program").write_text("old")
    module_of(REPOSITORY / "requirements" / "swap.py").swap(beside, packages, scripts)
    assert sorted(each.name for each in packages.iterdir()) == ["library", "library-new.dist-info", "other"]
    assert [each.name for each in (packages / "library").iterdir()] == ["__init__.py"]
    assert (packages / "library" / "__init__.py").read_text() == "new"
    assert (scripts / "program").read_text() == "new"


def test_the_makefile_reinstalls_nothing_into_the_environment():
    assert "--force-reinstall" not in (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def module_of(file):
    spec = importlib.util.spec_from_file_location("swap", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
