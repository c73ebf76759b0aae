"""Programs in the folder `tools`, which are no package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def _loaded(name):
    spec = spec_from_file_location(name, Path(__file__).parents[2] / "tools" / f"{name}.py")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_release = _loaded("check_release")
