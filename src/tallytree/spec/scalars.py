"""Scalars: kept as they are written, with what YAML takes them for, until a key decides how to read them.

YAML 1.1 reads `1e-8` as text, `0500` as octal and `no` as false. Here numbers are read exactly (0.1 is 1/10), and names
must be text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainValidator, TypeAdapter

from tallytree.budget import MAX_EXPONENT
from tallytree.kinds.terms import AUTO
from tallytree.spec.wording import article, shortened

NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][-+]?\d+)?", re.ASCII)

_MAX_EXPONENT = MAX_EXPONENT


@dataclass(frozen=True)
class Plain:
    """A scalar that YAML does not read as text, as it is written.

    Attributes:
        text: as written.
        kind: what YAML takes it for.
    """

    text: str
    kind: Literal["number", "boolean", "date", "empty value"]

    def where_text_is_wanted(self) -> str:
        """What is wrong, and the remedy."""
        text = shortened(self.text)
        return f'{text} is read as {article(self.kind)}; put it in quotes: "{text}"'


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, Plain):
        return shortened(value.text)
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else repr(shortened(value) if isinstance(value, str) else value)


def read_text(value: object) -> str:
    """Text that is not empty.

    Raises:
        ValueError: it is none.
    """
    match value:
        case "":
            raise ValueError("'' is empty; give some text or leave the key out")
        case str():
            return value
        case Plain(text=""):
            raise ValueError("an item of the list is empty; fill it in or take it out")
        case Plain():
            raise ValueError(value.where_text_is_wanted())
    raise ValueError(f"{shown(value)} is given where text is wanted")


def read_list(value: object) -> list[object]:
    """A list.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, list):
        raise ValueError(f"{shown(value)} must be a list, such as [{value if isinstance(value, str) else 'name'}]")
    return value


def _number(value: object) -> Fraction:
    """A number exactly as written, quoted or not."""
    text = value.text if isinstance(value, Plain) else value
    if not isinstance(text, str) or not NUMBER.fullmatch(text.strip()):
        point = "; write it with a point" if isinstance(value, str) and value.replace(",", "", 1).isdigit() else ""
        raise ValueError(f"{shown(value)} must be a number{point}")
    try:
        number = Decimal(text.strip().replace("_", ""))
    except InvalidOperation:  # an exponent that not even Decimal can hold
        number = None
    if number is None or len(text) > _MAX_EXPONENT or not -_MAX_EXPONENT <= number.adjusted() < _MAX_EXPONENT:
        raise ValueError(f"{text[:40]} is out of range; give a number between 1e-300 and 1e300")
    return Fraction(number)


def written_number(text: str, argument: str) -> Fraction:
    """A number exactly as written, as an argument of that name.

    Raises:
        ValueError: not a number, or one too large or too long.
    """
    try:
        return _number(text)
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None


def _positive(value: object) -> Fraction:
    number = _number(value)
    if number <= 0:
        raise ValueError(f"{shown(value)} must be greater than 0")
    return number


def _probability(value: object) -> Fraction:
    number = _positive(value)
    if number >= 1:
        raise ValueError(
            f"{shown(value)} must lie strictly between 0 and 1 (for instance 1e-8 for delta, 0.01 for a share)"
        )
    return number


def integer_as_written(value: object) -> int:
    """An integer as it is written, quoted or not.

    Raises:
        ValueError: it is none.
    """
    number = _number(value)
    if number.denominator != 1:
        raise ValueError(f"{shown(value)} must be an integer")
    return int(number)


def _records_of_a_person(value: object) -> int | Literal["auto"]:
    if isinstance(value, str) and not NUMBER.fullmatch(value.strip()):
        if value != AUTO:
            raise ValueError(f"{shown(value)} must be an integer, or auto")
        return AUTO
    return integer_as_written(value)


def _text_or_texts(value: object) -> str | dict[str, str]:
    """A text, or texts by name."""
    if isinstance(value, dict) and value:
        return {name: read_text(each) for name, each in value.items()}
    return read_text(value)


def read_flag(value: object) -> bool:
    """True or false.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(value, Plain) or value.kind != "boolean":
        raise ValueError(f"{shown(value)} must be true or false")
    return _truth(value)


def _truth(value: Plain) -> bool:
    return value.text.lower() in ("yes", "true", "on")


def _option(value: object) -> Any:
    """A mechanism's option; its own type decides what is right."""
    if isinstance(value, dict):
        return {key: _option(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_option(item) for item in value]
    if isinstance(value, Plain) and value.kind == "number":
        number = _number(value)
        return int(number) if number.denominator == 1 else float(number)
    if isinstance(value, Plain) and value.kind == "boolean":
        return _truth(value)
    return read_text(value)


Text = Annotated[str, PlainValidator(read_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(read_list)]
Flag = Annotated[bool, PlainValidator(read_flag)]
Integer = Annotated[int, PlainValidator(integer_as_written)]
TextOrTexts = Annotated[Any, PlainValidator(_text_or_texts)]
RecordsOfAPerson = Annotated[int | Literal["auto"], PlainValidator(_records_of_a_person)]
Positive = Annotated[Fraction, PlainValidator(_positive)]
Probability = Annotated[Fraction, PlainValidator(_probability)]
Option = Annotated[Any, PlainValidator(_option)]


def _tables(value: object) -> tuple[str | tuple[str, ...], ...]:
    """Tables, each a list of level names, or text with commas between them."""
    return tuple(
        tuple(map(read_text, each)) if isinstance(each, list) else read_text(each) for each in read_list(value)
    )


TableNames = Annotated[tuple[Any, ...], PlainValidator(_tables)]

_WEIGHTS = TypeAdapter(dict[str, Positive])


def _split(value: object) -> str | dict[str, Fraction]:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _WEIGHTS.validate_python(value)  # a finding in it is found at its key
    raise ValueError(f'{shown(value)} must be "even" or "auto", or a mapping from level names to weights')


def _numbers(value: object) -> dict[str, Fraction]:
    if not isinstance(value, dict):
        raise ValueError(f'{shown(value)} must be a mapping from tables to numbers, such as {{"county, sex": 10}}')
    return _WEIGHTS.validate_python(value)  # a finding in it is found at its key


Numbers = Annotated[dict[str, Fraction], PlainValidator(_numbers)]
Split = Annotated[str | dict[str, Fraction], PlainValidator(_split)]


def _words(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} must be a mapping from units to words, such as {{record: trip}}")
    return _TEXTS.validate_python(value)  # a finding in it is found at its key


_TEXTS = TypeAdapter(dict[str, Text])
Words = Annotated[dict[str, str], PlainValidator(_words)]
