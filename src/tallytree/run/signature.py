"""Public functions from their arguments classes: signature and help text are made from the fields."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Collection
from types import NoneType, UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from tallytree.kinds.terms import Doc

P = ParamSpec("P")
Arguments = TypeVar("Arguments")
Result = TypeVar("Result")

WIDTH = 120
"""Columns of a help text."""


def takes(
    arguments: Callable[P, Arguments], *, shared: type
) -> Callable[[Callable[[Arguments], Result]], Callable[P, Result]]:
    """Make a public function of one that takes its arguments as one object.

    Type checkers see the signature of the class. At run time the function has that signature too, and `{arguments}` in
    its docstring is replaced by a line for each argument.

    Args:
        arguments: a dataclass, whose fields are annotated with `Doc`.
        shared: the base of it whose options are listed last.
    """

    def decorate(function: Callable[[Arguments], Result]) -> Callable[P, Result]:
        """The public function of one that takes its arguments as one object."""

        def public(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                given = arguments(*args, **kwargs)
            except TypeError as error:
                if "__init__()" not in str(error):
                    raise
                # Python names the class of the arguments where a call does not fit them.
                raise TypeError(re.sub(r"^\w+\.__init__\(\)", f"{function.__name__}()", str(error))) from None
            return function(given)

        parameters = _parameters(arguments, {field.name for field in dataclasses.fields(shared)})
        returned = inspect.signature(function).return_annotation
        public.__signature__ = inspect.Signature(parameters, return_annotation=returned)  # type: ignore[attr-defined]
        public.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": returned}
        public.__doc__ = (function.__doc__ or "").replace("{arguments}", _described(arguments, parameters))
        for name in ("__module__", "__name__", "__qualname__"):
            setattr(public, name, getattr(function, name))
        return public

    return decorate


def option_docs(arguments: Any) -> dict[str, tuple[Any, Doc]]:
    """The type (without its descriptions) and the description of each field, by name."""
    hints = get_type_hints(arguments, include_extras=True)
    found = {}
    for field in dataclasses.fields(arguments):
        kind = hints[field.name]
        doc = next(each for each in get_args(kind)[1:] if isinstance(each, Doc))
        others = tuple(each for each in get_args(kind)[1:] if not isinstance(each, Doc))
        plain = get_args(kind)[0]
        found[field.name] = (Annotated[(plain, *others)] if others else plain, doc)
    return found


def _parameters(arguments: Any, shared: Collection[str]) -> list[inspect.Parameter]:
    """Positional ones first, then those without a default, then the function's own, then the shared ones."""
    fields = {field.name: field for field in dataclasses.fields(arguments)}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY if fields[name].kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if fields[name].default is dataclasses.MISSING else fields[name].default,
            annotation=_shown(kind),
        )
        for name, (kind, _) in option_docs(arguments).items()
    ]

    def order(parameter: inspect.Parameter) -> tuple[bool, bool, bool]:
        optional = parameter.default is not inspect.Parameter.empty
        return parameter.kind is inspect.Parameter.KEYWORD_ONLY, optional, parameter.name in shared

    return sorted(parameters, key=order)


def _described(arguments: Any, parameters: list[inspect.Parameter]) -> str:
    """The lines of the arguments, as they stand in a docstring of the Google style."""
    docs = option_docs(arguments)
    lines = []
    for parameter in parameters:
        text = f"{parameter.name}: {docs[parameter.name][1].text}"
        first, rest = " " * 8, " " * 12
        filled = textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
        lines.append(filled.lstrip())
    return ("\n" + " " * 8).join(lines)


def _shown(kind: Any) -> str:
    """A type as one writes it, without the modules."""
    if get_origin(kind) is Annotated:
        return _shown(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(_shown(part) for part in get_args(kind))
    if kind is NoneType:
        return "None"
    return re.sub(r"\b\w+(\.\w+)*\.(?=[A-Z])", "", inspect.formatannotation(kind))
