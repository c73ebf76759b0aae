"""From a file to a validated spec."""

from __future__ import annotations

import os

from pydantic import ValidationError

from tallytree.spec.document import read_document
from tallytree.spec.findings import explained
from tallytree.spec.models import SPECS, Spec
from tallytree.spec.scalars import shown
from tallytree.spec.wording import alternatives


def load_spec(path: str | os.PathLike[str]) -> Spec:
    """Read and validate a spec; tables are not opened yet, and paths are relative to the spec's folder.

    Raises:
        SpecError: the file is not a spec, or a key or value is wrong.
        OSError: the file cannot be read.

    Example:
        >>> from tallytree.spec import load_spec
        >>> load_spec("examples/counts.yaml").statistic
        'counts'
    """
    document = read_document(path)
    statistic = document.data.get("statistic")
    if statistic is None:
        raise document.error(("statistic",), f"is missing; choose {alternatives(SPECS)}")
    if not isinstance(statistic, str) or statistic not in SPECS:
        raise document.error(("statistic",), f"{shown(statistic)} is not known; choose {alternatives(SPECS)}")
    try:
        return SPECS[statistic].from_document(document)
    except ValidationError as error:
        raise explained(document, statistic, error.errors()) from None
