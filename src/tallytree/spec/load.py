"""From a file to a validated spec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tallytree.spec.changes import Changes, changed
from tallytree.spec.document import read_document
from tallytree.spec.findings import explained
from tallytree.spec.models import SPECS, Spec
from tallytree.spec.plain_values import document_of
from tallytree.spec.scalars import shown
from tallytree.spec.variables import substituted
from tallytree.spec.wording import alternatives


def load_spec(
    spec: str | os.PathLike[str] | Mapping[str, Any], *, changes: Changes = (), allow_code: bool = False
) -> Spec:
    """Read and validate a spec; tables are not opened yet.

    Args:
        spec: a YAML file, whose paths are relative to its folder; or a mapping with the same keys, whose paths are
            relative to the working directory. In a mapping numbers are plain numbers, and a float is the decimal number
            that it is written as, so 0.1 is 1/10.
        changes: keys to use in place of the spec's, by dotted names, such as `{"budget.epsilon": 0.5}`; values of
            variables are among them, such as `{"variables.DATE": "2026-11-22"}`. Or texts such as
            `["budget.epsilon=0.5"]`, whose values are read as in YAML (the option `--set` of the command line).
        allow_code: whether a mechanism that the spec names as `module:Class` is imported, which runs its code. One that
            is installed as an entry point of `tallytree.mechanisms` is imported where the spec names it.

    Raises:
        SpecError: the file is not a spec, or a key or value is wrong.
        ValueError: a change is not of the form KEY=VALUE, or is given twice.
        TypeError: `spec` or `changes` is of the wrong kind.
        OSError: the file cannot be read.

    Example:
        >>> from tallytree.spec import load_spec
        >>> load_spec("examples/counts.yaml").statistic
        'counts'
    """
    if not isinstance(spec, str | os.PathLike | Mapping):
        raise TypeError(f"spec: {type(spec).__name__} must be the path of a YAML file, or a mapping of keys")
    read = document_of(spec) if isinstance(spec, Mapping) else read_document(spec)
    document = substituted(*changed(read, changes), os.environ)
    statistic = document.data.get("statistic")
    if statistic is None:
        raise document.error(("statistic",), f"is missing; choose {alternatives(SPECS)}")
    if not isinstance(statistic, str) or statistic not in SPECS:
        raise document.error(("statistic",), f"{shown(statistic)} is not known; choose {alternatives(SPECS)}")
    try:
        return SPECS[statistic].from_document(document, allow_code=allow_code)
    except ValidationError as error:
        raise explained(document, statistic, error.errors()) from None
