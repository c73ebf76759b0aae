"""`deployment.yaml`: an entry for OpenDP's registry of deployments, as far as a privacy statement can fill it.

The rest says `TO_BE_FILLED`, and is the publisher's to write. Fields with fixed values, none of which follows from a
release, are named in the comment at the top. The file is text to be edited: release.json has no checksum of it, and
`Release.load` does not read it. See docs/decisions/0040-export.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tallytree.kinds.registry import kind_of
from tallytree.release.counted_unit import worded, words_of
from tallytree.release.statement import WARNING, description_of, marks_of, mechanism_code, unknown_records

REGISTRY_FILE = "deployment.yaml"
TO_BE_FILLED = "TO BE FILLED BY THE PUBLISHER"
"""How the text of a field begins, or goes on, that the publisher is to write."""

_HEAD = f"""\
# An entry for OpenDP's registry of deployments of differential privacy (https://registry.opendp.org), by tallytree.
# What follows from the privacy statement is filled in. Texts that say {TO_BE_FILLED} are yours
# to write. The registry reads texts as Markdown. `tallytree registry DIR` says what is left, and whether it is valid.
# These fields take one of some values, which a release does not tell; add those that apply:
#   deployment.basic.data_product_sector: Technology, Healthcare, Education, Government, Energy or Finance
#   deployment.deployment_model.release_type: One release or Many releases
#   deployment.deployment_model.data_source_type: Static or Dynamic
"""


def registry_entry(statement: Mapping[str, Any]) -> str:
    """The text of deployment.yaml for a release.

    Args:
        statement: its privacy statement, of a release that is private.

    Raises:
        ValueError: the release is not private: its noise was drawn from a seed.
    """
    if not statement["private"]:
        raise ValueError(
            "release: its noise was drawn from a seed, so it is not private, and is no deployment of differential "
            "privacy; make a release without a seed"
        )
    if "part_of" in statement:
        raise ValueError(
            "release: it is a part of a release of persons and households, whose loss is that of both parts; give the "
            "folder of the whole release"
        )
    entry = {
        "url_slug": _left("a short name for the address of the entry, such as households-2026"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(statement),
            "dp_variant": _variant(statement),
            "privacy_loss": _privacy_loss(statement),
            "deployment_model": _model(),
            "accounting": _accounting(statement),
            "implementation": _implementation(statement),
            "administrative": _administrative(statement),
        },
    }
    marks = "".join(f"# {_plain(mark)}\n" for mark in marks_of(statement))
    return marks + _HEAD + yaml.dump(entry, Dumper=_Blocks, sort_keys=False, allow_unicode=True, width=110)


def has_entry(statement: Mapping[str, Any]) -> bool:
    """Whether a release with this statement has an entry: it is private, and its statement says what it spent."""
    return (
        bool(statement["private"])
        and "part_of" not in statement
        and {"guarantee", "spent", "mechanism", "notes"} <= statement.keys()
    )


def stated_facts(statement: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry must say to agree with the release, by dotted key."""
    loss = _privacy_loss(statement)["privacy_parameters"]
    facts = {f"deployment.privacy_loss.privacy_parameters.{name}": amount for name, amount in loss.items()}
    return {"deployment.dp_variant.variant_name": _variant(statement)["variant_name"], **facts}


class _Blocks(yaml.SafeDumper):
    """Writes long texts as blocks, which are easy to edit, and which ruamel.yaml leaves as they are."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else ">" if len(text) > 80 else None
    )


_Blocks.add_representer(str, _as_block)


def _left(what: str) -> str:
    return f"{TO_BE_FILLED}: {what}"


def _basic(statement: Mapping[str, Any]) -> dict[str, Any]:
    levels = statement["levels"]
    kind = kind_of(statement)
    what = _plain(worded(kind.words.listed, words_of(statement)))
    names = ", ".join(f"{_plain(each['level'])} ({each['nodes']:,})" for each in levels[:20])
    more = f" and {len(levels) - 20} others" if len(levels) > 20 else ""
    exact = not (statement.get("constraint_violations") or statement.get("negative_numbers"))
    adds_up = " Children add up to their parent." if exact and kind.reconciled else ""
    said = description_of(statement)
    title, publisher, status = (_plain(said[key]) if key in said else "" for key in ("title", "publisher", "status"))
    period = statement["release"].get("period")
    about = f" The records are about {_plain(period)}." if period else ""
    final = f" The publisher calls the numbers {status}." if status else ""
    return {
        "name": title or _left("the name of the data product"),
        "data_curators": [publisher or _left("the office, agency or company that publishes it")],
        "description": f"{what}, with noise. Levels or tables, with their numbers of cells: {names}{more}.{adds_up}"
        f"{about}{final}\n\n"
        + _left("what the records are, of whom, of which time, and where the data product is found"),
        "intended_use": _left("what the data product is for"),
        "data_product_type": "Summary statistics",
        "data_product_region": _left("the region that the data describe, or whose laws apply"),
        "publication_date": _left("the day of publication, as YYYY-MM-DD"),
    }


def _variant(statement: Mapping[str, Any]) -> dict[str, Any]:
    spent = statement["spent"]
    name = "Approximate DP" if "delta" in spent else "Pure DP" if "epsilon" in spent else "Zero-concentrated DP"
    invariants = "; ".join(_plain(each) for each in statement["invariants"]) or "none"
    return {
        "variant_name": name,
        "data_domain": f"{kind_of(statement).words.domain}, and that have the same unprotected quantities.",
        "unprotected_quantities": f"Published exactly, and not protected: {invariants}.",
    }


def _privacy_loss(statement: Mapping[str, Any]) -> dict[str, Any]:
    spent = statement["spent"]
    unit = _plain(statement["unit_of_protection"])
    added = statement["neighboring"] == "add_remove"
    change = "one of them has and the other has not" if added else "is replaced by another in one of them"
    bound = statement["max_contributions"]
    held = {
        True: "Of every person at most so many records count; the others are dropped before anything is counted.",
        False: "That nobody has more records is assumed, not enforced.",
    }.get(statement["max_contributions_enforced"], "Nothing is assumed of how many records a person has.")
    most = "" if bound is None else f" The bound on the records of a person is {bound}."
    given = "delta" if "delta" in spent else "epsilon" if "epsilon" in spent else "rho"
    names = {"delta": ("epsilon", "delta"), "epsilon": ("epsilon",), "rho": ("rho",)}[given]
    said = (statement.get(WARNING), statement["guarantee"], (statement.get("risk") or {}).get("summary"))
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"Adjacent data sets differ in one unit, which {change}; all else, and the "
        f"unprotected quantities, are the same. The unit is {unit}.{most} {held}",
        "privacy_parameters": {name: spent[name] for name in names},
        "privacy_parameters_details": " ".join(_plain(each) for each in said if each),
    }


def _model() -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "The publisher holds the records, and publishes the noisy statistics alone.",
        "actors": _left("who sees the records, who sees the data product, and whom the people in the data trust"),
        "release_type_details": _left("whether the same data are used, or were used, for other publications"),
        "access_type": "Non-interactive",
    }


def _accounting(statement: Mapping[str, Any]) -> dict[str, Any]:
    mechanism, code = statement["mechanism"]["name"], mechanism_code(statement)
    of = f"({_plain(code)}, code from outside, not audited by tallytree)" if code else "of tallytree"
    measured = [each for each in statement["levels"] if each["measured"]]
    measured += [{**part, "level": key} for key, part in kind_of(statement).measured_beside(statement).items()]
    spends = "; ".join(
        f"{_plain(each['level'])}: {name} = {amount:.6g}"
        for each in measured[:20]
        for name, amount in each["spent"].items()
    )
    more = f"; and {len(measured) - 20} others" if len(measured) > 20 else ""
    how = {
        "exact": "The losses of the measurements add up (sequential composition); a level's loss is of all its nodes",
        "pld": "The privacy-loss distributions of all measurements are composed",
        "zcdp": "The zero-concentrated losses add up, and are converted to epsilon and delta",
        "paper": "The zero-concentrated losses add up, and are converted as in Boninsegna's Lemma 3",
    }[statement["accounting"]]
    return {
        "post_processing": f"The mechanism {_plain(mechanism)} {of} makes the published numbers from noisy "
        "measurements and public facts alone.",
        "composition": f"{how}. What is measured spends about: {spends}{more}.",
    }


def _implementation(statement: Mapping[str, Any]) -> dict[str, Any]:
    noises = {each["noise"]["distribution"] for each in statement["levels"] if each["measured"]}
    named = " and ".join(sorted(name.replace("_", " ") for name in noises)) or "integer"
    software = ", ".join(f"{_plain(name)} {_plain(version)}" for name, version in statement["software"].items())
    unknown = _plain(unknown_records(statement))
    return {
        "preprocessing_and_hyperparameter_tuning": f"Records outside the hierarchy {unknown}. "
        + _left("how the data were prepared, and how the privacy parameters and other options were chosen"),
        "mechanisms": f"Noise is drawn as integers from {named} distributions, exactly: no floating-point number "
        f"carries noise. Running time is outside the guarantee. Software: {software}. "
        + _left("how the records, and the secret where there is one, are kept from others"),
        "justification": _left("why these choices were made, by whom, and how they were tested"),
    }


def _administrative(statement: Mapping[str, Any]) -> dict[str, Any]:
    contact = description_of(statement).get("contact")
    notes = [f"Release {_plain(statement['release']['id'])}."]
    notes += [f"Contact: {_plain(contact)}."] if contact else []
    return {
        "sources": _left("links to the data product, and to texts about it"),
        "notes": "\n".join(f"- {_plain(note)}" for note in [*notes, *statement["notes"]]),
        "registry_authors": [_left("who wrote this entry")],
    }


_MARKDOWN = re.compile(r"[\\`*\[\]<>$~|&#]|(?<![^\W_])_|_(?![^\W_])")


def _plain(text: object) -> str:
    """Text of the release, such as names of levels and columns, that Markdown, LaTeX and terminals show as it is."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return _MARKDOWN.sub(r"\\\g<0>", shown)
