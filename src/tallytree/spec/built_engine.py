"""The engine that a spec asks for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tallytree.engines import ENGINES, Engine
from tallytree.spec.document import Document
from tallytree.spec.sections import EngineSpec
from tallytree.spec.wording import unknown


def built_engine(wanted: EngineSpec, document: Document) -> Engine:
    """The engine with its options.

    Raises:
        SpecError: no engine has this name, or it has no such option.
    """
    if wanted.name not in ENGINES:
        raise document.error(("engine", "name"), unknown(wanted.name, ENGINES, "engine"))
    options = {key: value for key, value in wanted if key in wanted.model_fields_set and key != "name"}
    fields = {field.name for field in dataclasses.fields(ENGINES[wanted.name])}
    taken = [name for name in type(wanted).model_fields if name in fields]
    for option in options:
        if option not in taken:
            says = f"it is no option of the engine {wanted.name}, which takes {', '.join(taken)}; leave it out"
            raise document.error(("engine", option), says)
    if wanted.temp_directory is not None:
        options["temp_directory"] = Path(document.name).parent / wanted.temp_directory
    engine: Engine = ENGINES[wanted.name](**options)
    return engine
