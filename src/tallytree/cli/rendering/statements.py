"""The privacy statement of a release, at a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallytree.cli import logs
from tallytree.cli.rendering.terminal import filled_columns, fitted_table, printable, show_line
from tallytree.kinds.households import PERSONS, SIZES
from tallytree.kinds.kind import Kind
from tallytree.kinds.registry import kind_of
from tallytree.kinds.terms import AUTO

if TYPE_CHECKING:
    from rich.console import Console

    from tallytree.release import Release


NEIGHBORS = 3
"""So many choices of the bound are shown before and after the recommended one. The statement has all of them."""


def show_marks(console: Console, statement: Mapping[str, Any]) -> None:
    """Show what nobody may overlook, before all else."""
    from tallytree.release.statement import marks_of

    for mark in marks_of(statement):
        show_line(console, printable(mark), "bold red")


def show_published(
    console: Console,
    statement: Mapping[str, Any],
    rows: Mapping[str, int] | None = None,
    accuracy: Mapping[str, str] | None = None,
) -> None:
    """Show what is counted, and how many numbers every level has.

    Args:
        console: the terminal.
        statement: of the release, or of its plan.
        rows: of the published tables, by level, where the release is made.
        accuracy: of the numbers of a level in words, by the level as people are shown it, where it is known.
    """
    from tallytree.release.counted_unit import counted_unit

    show_marks(console, statement)
    kind = kind_of(statement)
    counted = kind.words.published.format(counted_unit(statement))
    show_line(console, f"{'To be published' if rows is None else 'Published'}: {counted}", "bold")
    names = shown_names(kind, [level["level"] for level in statement["levels"]])
    headings, columns = ["level"], [[printable(name) for name in names]]
    for heading, by_level in (("rows", rows), ("nodes" if kind.by_size else "numbers", _nodes(statement))):
        if by_level is not None:
            headings.append(heading)
            columns.append([f"{by_level[level['level']]:,}" for level in statement["levels"]])
    if accuracy:
        headings.append("accuracy")
        columns.append([accuracy.get(name, "") for name in names])
    console.print(fitted_table(console, headings, [*zip(*columns, strict=True)]))
    if "detail" in statement:
        listed, cells = statement["detail"]["cells_listed"], statement["detail"]["cells"]
        show_line(console, f"Published too: the detail, {listed:,} cells of {cells:,}, which are mostly noise.")
    show_bound(console, statement)


def _nodes(statement: Mapping[str, Any]) -> dict[str, int]:
    return {level["level"]: level["nodes"] for level in statement["levels"]}


def show_noise(console: Console, statement: Mapping[str, Any]) -> None:
    """Show the kind of the noise, and its standard deviation by level, in one sentence."""
    if statement["max_contributions"] == AUTO:
        show_line(console, "Noise: it depends on the bound m.")
        return
    levels: dict[str, dict[str, list[str]]] = {}
    names = shown_names(kind_of(statement), [level["level"] for level in statement["levels"]])
    for shown, level in zip(names, statement["levels"], strict=True):
        if "noise" in level:
            kind, name = level["noise"]["distribution"].split("_")
            of_kind = levels.setdefault(f"{kind} {name.capitalize()}", {})
            of_kind.setdefault(f"{level['noise']['std_dev']:.3g}", []).append(printable(shown))
    told = []
    for kind, by_size in levels.items():
        alike = len(by_size) == 1 and len(levels) == 1
        sizes = [f"{size} at {'every measured level' if alike else ', '.join(at)}" for size, at in by_size.items()]
        told.append(f"{kind}, std dev {'; '.join(sizes)}")
    show_line(console, f"Noise: {'; '.join(told) or 'none'}.")


def show_measurements(console: Console, statement: Mapping[str, Any]) -> None:
    """Show how every level is measured: the statistic, the share of the budget, sensitivity, scale, and std dev."""
    show_line(console, "Measurements:")
    headings = ["level", "measured", "share", "sensitivity", "scale", "std dev"]
    names = shown_names(kind_of(statement), [level["level"] for level in statement["levels"]])
    rows = [[printable(name), *_measurement(level)] for name, level in zip(names, statement["levels"], strict=True)]
    console.print(fitted_table(console, *filled_columns(headings, rows)))
    for level in statement["levels"]:
        if "threshold" in level:
            show_line(
                console,
                f"Threshold: noisy counts below {level['threshold']:,} at {printable(level['level'])} are left out.",
            )
    if "margin" in statement.get("maximum", {}):
        show_line(console, _largest_size(statement["maximum"]))
    if "contributions" in statement:
        show_line(console, _people_by_records(statement["contributions"]))
    if "chosen" in statement.get("contributions", {}):
        show_choices(console, statement["contributions"]["chosen"], statement["max_contributions"], word="Chosen")


def shown_names(kind: Kind, names: Sequence[str]) -> Sequence[str]:
    """The names of levels, or of tables, as people are shown them."""
    from tallytree.tables.layout import shown_tables

    return shown_tables(names) if kind.has_tables else names


def show_choices(console: Console, recommended: Mapping[str, Any], bound: int, *, word: str = "Recommended") -> None:
    """Show the first choice, the bound of the spec, the recommended one and those beside it.

    Args:
        console: the terminal.
        recommended: the choices, as the statement has them.
        bound: that of the spec.
        word: what was done with the best of them.
    """
    choices = recommended["choices"]
    chosen = [choice["max_contributions"] for choice in choices].index(recommended["max_contributions"])
    near = range(max(chosen - NEIGHBORS, 0), min(chosen + NEIGHBORS + 1, len(choices)))
    shown = [choice for i, choice in enumerate(choices) if i in (0, *near) or choice["max_contributions"] == bound]
    columns = ("max_contributions", "noise", "left_out", "expected_error")
    rows = [[f"{choice[column]:,}" for column in columns] for choice in shown]
    console.print(fitted_table(console, [column.replace("_", " ") for column in columns], rows))
    show_line(console, "Noise and records left out are summed over the cells of a level, and averaged over the levels.")
    show_line(console, f"{word}: max_contributions: {recommended['max_contributions']}. {recommended['objective']}")


def show_bound(console: Console, statement: Mapping[str, Any]) -> None:
    """Show what the numbers count and what the contribution bound leaves out; nothing without an enforced bound."""
    from tallytree.release.counted_unit import bound_sentence

    said = bound_sentence(statement)
    if said:
        show_line(console, said)


def show_drowned(console: Console, release: Release) -> None:
    """Show what a cell without a row is, and which levels are mostly noise, with what to publish instead."""
    from tallytree.release.remainders import unlisted_sentence
    from tallytree.release.surprises import drowned_sentence
    from tallytree.release.view.release_view import ReleaseView

    release = ReleaseView(release).release
    unlisted = unlisted_sentence(release.statement)
    if unlisted:
        show_line(console, unlisted)
    said = drowned_sentence(release)
    if said:
        show_line(console, printable(said), "yellow")


def _largest_size(maximum: Mapping[str, Any]) -> str:
    """How K is measured, and its value once it was measured."""
    share, norm, scale, std_dev = _measurement({**maximum, "measured": True})[1:]
    found = f", so K is {maximum['max_group_size']:,}" if "max_group_size" in maximum else ""
    return (
        f"Largest size: measured first (share {share}, sensitivity {norm}, scale {scale}, std dev {std_dev}); "
        f"K is the measured size plus {maximum['margin']:,}, at most {maximum['at_most']:,}{found}."
    )


def _people_by_records(contributions: Mapping[str, Any]) -> str:
    """How people are counted by their number of records."""
    share, norm, scale, std_dev = _measurement({**contributions, "measured": True})[1:]
    among = contributions.get("chosen_among")
    more = f" The bound m is chosen among {len(among)} numbers, {among[0]} to {among[-1]:,}." if among else ""
    return (
        f"People by their number of records: measured first (share {share}, sensitivity {norm}, scale {scale}, std dev "
        f"{std_dev}), up to {contributions['at_most']:,} records.{more}"
    )


def _measurement(level: Mapping[str, Any]) -> list[str]:
    if not level["measured"]:
        return ["no", "", "", "", ""]
    if "noise" not in level:
        return [level["statistic"], f"{level['share']:.4g}", "", "", ""]
    noise, sensitivity = level["noise"], level["sensitivity"]
    norm = "l1" if noise["distribution"] == "discrete_laplace" else "l2"
    return [
        level["statistic"],
        f"{level['share']:.4g}",
        f"{norm.upper()} {sensitivity[norm]:.4g}",
        f"{noise['scale']:.6g}",
        f"{noise['std_dev']:.6g}",
    ]


def show_terms(console: Console, statement: Mapping[str, Any], spends: str = "Spends") -> None:
    """Show what is published exactly, what is spent of which budget, and the guarantee."""
    show_invariants(console, statement)
    spent = ", ".join(f"{name} {_amount(amount)}" for name, amount in statement["spent"].items())
    granted = ", ".join(f"{name} {_amount(amount)}" for name, amount in statement["budget"].items())
    # The budget was spent for the first mechanism, also where another one made these tables.
    measured_for = statement.get("reconciled", {}).get("measured_for", statement["mechanism"])
    show_line(
        console, f"{spends} {spent} of {granted} ({measured_for['name']}, accounting: {statement['accounting']})."
    )
    show_line(console, f"Guarantee: {statement['guarantee']}")
    if "risk" in statement:
        show_line(console, f"Risk: {statement['risk']['summary']}")
    if "prior" in statement:
        from tallytree.release.statement import prior_words

        show_line(console, f"Prior: {prior_words(statement['prior'])}. What is measured does not depend on it.")


def _amount(amount: float | str) -> str:
    from tallytree.accounting.losses import shown_up

    return amount if isinstance(amount, str) else shown_up(amount)


def show_invariants(console: Console, statement: Mapping[str, Any]) -> None:
    """Show what is published exactly; every command that releases does."""
    show_line(console, "PUBLISHED EXACTLY, not protected (invariants):", "bold yellow")
    for fact in statement["invariants"]:
        show_line(console, f"  * {fact}", "yellow")


def note_invariants(statement: Mapping[str, Any]) -> None:
    """Say on standard error what nobody may overlook, where no summary is wanted: marks, what is published exactly."""
    from tallytree.release.statement import marks_of

    for mark in marks_of(statement):
        logs.loud_warning(mark)
    logs.note("PUBLISHED EXACTLY, not protected (invariants):", event="invariants", color="yellow", bold=True)
    for fact in statement["invariants"]:
        logs.note(fact, event="invariants", bullet="  * ", color="yellow")


def published_rows(folder: Path) -> dict[str, int]:
    """The number of rows of the published table of every level, from `release.json` in the folder."""
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    if kind_of(manifest["statement"]).parts:
        sizes = {f"{SIZES}/{level}": rows for level, rows in published_rows(folder / SIZES).items()}
        return {**published_rows(folder / PERSONS), **sizes}
    files = manifest["files"]
    return {facts["level"]: facts["rows"] for name, facts in files.items() if name.startswith("tables/")}


def warn_of_seed(seed: int | None) -> None:
    """Warn on standard error where the noise is drawn from a seed."""
    if seed is not None:
        logs.loud_warning(
            f"NOT PRIVATE. The noise is drawn from seed {seed}, so it can be removed; for experiments only."
        )


def say_repeated(number: int) -> None:
    """Say that a run was made again."""
    logs.note(f"This run is entry {number} of the ledger. It was made again; nothing more was spent.", event="repeated")
