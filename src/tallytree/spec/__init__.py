"""The YAML spec of a release: its keys are the arguments' names, and every message names file, line and key.

`load_spec` validates all that can be validated without opening a table; `Spec.check` reads the public tables and the
private ones' schemas; `Spec.release` spends the budget. The keys are documented in `docs/reference/spec.md`.
"""

from tallytree.errors import SpecError
from tallytree.spec.document import read_document
from tallytree.spec.known_mechanisms import known_mechanisms
from tallytree.spec.load import load_spec
from tallytree.spec.models import SPECS, Spec
from tallytree.spec.sections import (
    BudgetSpec,
    ContributionsSpec,
    EngineSpec,
    HierarchySpec,
    MechanismSpec,
    ProductSpec,
)

__all__ = [
    "SPECS",
    "BudgetSpec",
    "ContributionsSpec",
    "EngineSpec",
    "HierarchySpec",
    "MechanismSpec",
    "ProductSpec",
    "Spec",
    "SpecError",
    "known_mechanisms",
    "load_spec",
    "read_document",
]
