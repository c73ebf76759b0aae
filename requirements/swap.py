"""Puts what was installed beside an environment into its place: `python requirements/swap.py FOLDER`.

`pip install --force-reinstall` takes seconds, in which whoever uses the environment finds half of a package. Here each
package is two renames away.
"""

import shutil
import sys
import sysconfig
from pathlib import Path


def swap(beside: Path, packages: Path, scripts: Path) -> None:
    """Replace packages and scripts by those of a folder that `pip install --target` made, on the same file system.

    Args:
        beside: the folder; it is empty afterwards, but for what was replaced.
        packages: the environment's folder of packages.
        scripts: the environment's folder of programs.
    """
    replaced = beside / "replaced"
    replaced.mkdir()
    for new in sorted(beside.iterdir()):
        if new == replaced:
            continue
        if new.name == "bin":
            for script in new.iterdir():
                script.replace(scripts / script.name)
            continue
        old = packages / new.name
        stem = new.name.split("-")[0]
        others = packages.glob(f"{stem}-*.dist-info") if new.name.endswith(".dist-info") else [old]
        for each in [each for each in others if each.exists()]:
            each.rename(replaced / each.name)
        new.rename(old)
    shutil.rmtree(replaced)


if __name__ == "__main__":
    swap(Path(sys.argv[1]), Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts")))
