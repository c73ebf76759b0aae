"""Names beside codes: what a publisher calls nodes and levels, in one language or several.

Names are public, and no key: they may repeat, and change from year to year. They decide no number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallytree.sources.column_types import is_text_type, type_in_messages
from tallytree.support.arrays import IntArray
from tallytree.support.validate import safe_text

ByLanguage = Mapping[str, str]
"""A text by language; `""` where no language is named. The first is shown where no language is asked for."""


def texts_by_language(given: Any, argument: str, known: Iterable[Any], what: str) -> dict[Any, dict[str, str]]:
    """A mapping from keys to texts, or to texts by language, with every text by language.

    Args:
        given: the mapping; None for none.
        argument: its name in messages.
        known: the keys that it may have.
        what: what they are, for messages.

    Raises:
        ValueError: an unknown key, no language, or a text without a letter, with a line break, or of over 200 bytes.
        TypeError: no mapping, or something in it that is no text.
    """
    if given is None:
        return {}
    example = f'{argument}={{"municipality": "name"}}, or by language {{"municipality": {{"en": "name_en"}}}}'
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument}: {safe_text(given)} must be a mapping, such as {example}")
    keys = set(known)
    found: dict[str, dict[str, str]] = {}
    for number, (key, texts) in enumerate(given.items(), 1):
        if key not in keys:  # it may be a private value, so it is not shown
            raise ValueError(f"{argument}: key {number} of {len(given)} is none of {what}; take these as keys")
        at = f"{argument}[{key!r}]"
        by_language = texts if isinstance(texts, Mapping) else {"": texts}
        if not by_language:
            raise ValueError(f"{at}: it is empty; give a text, or one for each language, such as {example}")
        found[key] = {}
        for language, text in by_language.items():
            for each, kind in ((language, "a language"), (text, "a text")):
                if not isinstance(each, str):
                    raise TypeError(f"{at}: {safe_text(each)} is not {kind}; give texts, such as {example}")
            if language and not (language.replace("-", "").isalnum() and language.isascii()):
                raise ValueError(f"{at}: {language[:50]!r} is not the code of a language, such as en or pt-BR")
            if not _is_a_name(text):
                raise ValueError(f"{at}: {text[:50]!r} must have 1 to 200 bytes, on one line, and not only blanks")
            found[key][language] = text
    return found


def columns_of_names(labels: Any) -> dict[str, str]:
    """The columns with the names of the areas of a list of areas and their parents, by language.

    Raises:
        ValueError: see `texts_by_language`.
        TypeError: neither the name of a column nor such names by language.
    """
    columns = labels.values() if isinstance(labels, Mapping) else [labels]
    if labels is not None and not all(isinstance(each, str) for each in columns):
        raise TypeError(
            "labels: a list of areas and their parents has one column of names for all levels; name it, "
            'labels="name", or such columns by language, labels={"en": "name_en", "de": "name_de"}'
        )
    return {} if labels is None else texts_by_language({"labels": labels}, "labels", ["labels"], "the areas")["labels"]


def _is_a_name(text: str) -> bool:
    legible = not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
    return legible and bool(text.strip()) and len(text.encode()) <= 200


def names_of_nodes(rows: pa.Table, column: str, nodes: IntArray, codes: pa.Array, level: str) -> pa.Array:
    """The names of the nodes of a level, from a column of the public table: large_string (n,), null for no name.

    Args:
        rows: the table.
        column: has the names. A cell that is empty, or has only blanks, is no name.
        nodes: int64 (rows,), the node of each row; −1 for a row without one.
        codes: the codes of the nodes, for messages.
        level: the level, for messages.

    Raises:
        ValueError: the rows of a node differ in it.
        TypeError: it holds no text.
    """
    values = rows.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not is_text_type(kind) and not pa.types.is_null(kind):
        raise TypeError(
            f"labels: column {column!r} holds {type_in_messages(kind)}; names must be strings (cast the column first)"
        )
    texts = pa.concat_arrays(values.cast(kind).cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])
    trimmed = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, pa.large_string()), trimmed)
    encoded = texts.dictionary_encode()
    name = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    order = np.flatnonzero(nodes >= 0)[::-1]
    first = np.zeros(len(codes), dtype=np.int64)
    first[nodes[order]] = order  # the last that is written is the first row of the node
    differ = np.flatnonzero((nodes >= 0) & (name != name[first][nodes]))
    if len(differ):
        raise ValueError(
            f"labels: column {column!r} has several names for the node {codes[int(nodes[differ[0]])].as_py()!r} of the "
            f"level {level!r} (no name beside a name counts too); give a node the same name in all of its rows"
        )
    return texts.take(pa.array(first))


def names_from_above(
    names: Mapping[str, pa.Array], above: Mapping[str, pa.Array], parents: IntArray, repeated: IntArray
) -> dict[str, pa.Array]:
    """The names of a level, by language, in which nodes that repeat the node above without a name have its name.

    Args:
        names: of the level.
        above: of the level above; empty where it has none.
        parents: int64 (n,), the parent of each node.
        repeated: the nodes below the end of a branch.
    """
    ends = np.zeros(len(parents), dtype=np.bool_)
    ends[repeated] = True
    if not ends.any() or not above:
        return dict(names)
    return {
        language: pc.if_else(
            pc.and_(pa.array(ends), own.is_null()), in_language(above, language).take(pa.array(parents)), own
        )
        for language, own in names.items()
    }


def in_language(texts: Mapping[str, Any], language: str | None) -> Any:
    """What is there in a language; in the first language where that one is missing, or none is asked for."""
    return texts[language] if language is not None and language in texts else next(iter(texts.values()))


def languages_of(every: Iterable[Mapping[str, Any]]) -> Sequence[str]:
    """The languages of several texts, in the order in which they first appear."""
    return [language for language in dict.fromkeys(each for texts in every for each in texts) if language]


def names_of_values(values: Sequence[Any], named: Mapping[Any, ByLanguage]) -> dict[str, pa.Array]:
    """The names of listed values by language, large_string (n,): null where a value has none."""
    of_value = [named.get(value, {}) for value in values]
    return {
        language: pa.array([each.get(language, each.get("")) for each in of_value], pa.large_string())
        for language in languages_of(of_value) or [""]
    }


def shown_names(
    names: Mapping[str, pa.Array], codes: pa.Array, parents: IntArray | None, language: str | None
) -> pa.Array:
    """What people read in place of codes: see `tallytree.Hierarchy.shown`.

    Args:
        names: by language; empty without names.
        codes: large_string (n,).
        parents: int64 (n,), the parent of each node; None for a root.
        language: the language that is asked for; None where none is.
    """
    if not names:
        return codes
    shown = pc.coalesce(in_language(names, language), codes)
    ids = shown.dictionary_encode().indices.to_numpy().astype(np.int64)
    key = ids if parents is None else parents * (int(ids.max()) + 1) + ids
    _, place, times = np.unique(key, return_inverse=True, return_counts=True)
    alike = pc.and_(pa.array(times[place] > 1), pc.not_equal(shown, codes))
    begin, end, nothing = (pa.scalar(each, pa.large_string()) for each in (" (", ")", ""))
    return pc.if_else(alike, pc.binary_join_element_wise(shown, begin, codes, end, nothing), shown)
