"""The sections of a report as data: facts, sentences, tables and pictures; the template only arranges them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tallytree.kinds.measurements import BESIDE_THE_LEVELS
from tallytree.kinds.registry import kind_of
from tallytree.release import Release
from tallytree.release.counted_unit import bound_sentence, counted_unit, is_bounded, worded, words_of
from tallytree.release.remainders import unlisted_sentence
from tallytree.release.statement import description_of, fitted_to_persons, mechanism_code, prior_words, unknown_records
from tallytree.release.view.release_view import ReleaseView
from tallytree.sources.addresses import LIST_OF_FILES
from tallytree.views.boundaries import Boundaries
from tallytree.views.reasons import why_numbers_are_off
from tallytree.views.report.checks import Check
from tallytree.views.report.front import period_words
from tallytree.views.report.numbers import number_pictures, people_picture
from tallytree.views.report.pictures import Grid, Picture, errors_picture, risk_picture
from tallytree.views.report.reading import PublishedError
from tallytree.views.report.wording import about, amount, listed, name, percent, plural, rounded, titled, whole


@dataclass(frozen=True)
class ReportSection:
    """One section of the page.

    Attributes:
        key: its id.
        title: its heading.
        facts: terms with what they are here.
        paragraphs: sentences.
        warnings: what must not be missed.
        points: items of a list.
        pictures: charts with their tables.
        grids: further tables.
        code: lines to copy, each with its language.
    """

    key: str
    title: str
    facts: Sequence[tuple[str, str]] = ()
    paragraphs: Sequence[str] = ()
    warnings: Sequence[str] = ()
    points: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    grids: Sequence[Grid] = ()
    code: Sequence[tuple[str, str]] = field(default_factory=tuple)


def all_sections(
    view: ReleaseView,
    errors: Sequence[PublishedError],
    checks: Sequence[Check],
    boundaries: Mapping[str, Boundaries],
    folder: str,
) -> list[ReportSection]:
    """The sections in the order of the page."""
    release = view.release
    return [
        _numbers(view, errors, boundaries),
        _guarantee(release.statement),
        _invariants(release.statement),
        _bound(release),
        _use(release, folder),
        _checks(checks),
        _appendix(release),
    ]


_TOWARDS = (
    "The numbers are also moved towards those of {}, as far as the noisy numbers, which do not depend on it, resemble "
    "them."
)


def part_section(
    view: ReleaseView, errors: Sequence[PublishedError], boundaries: Mapping[str, Boundaries]
) -> ReportSection:
    """The numbers of the second part of a release: households by size."""
    return replace(_numbers(view, errors, boundaries), key="households", title=f"{TITLE_OF_SIZES}, {_AND_ERRORS}")


def _appendix(release: Release) -> ReportSection:
    statement, spec = release.statement, release.spec
    which = statement["release"]
    ledger = statement.get("ledger") or {}
    mechanism = statement["mechanism"]
    private = {"records": "records", "trips": "trips"}
    public = {"hierarchy": "areas", "origins": "origins", "destinations": "destinations", "public_groups": "groups"}
    from_files, beside = _sources(spec, private), _sources(spec, public)
    software = statement.get("software") or {}
    facts = [
        ("Kind of statistic", worded(_kind(statement), words_of(statement))),
        ("From the private table", listed(from_files) or "not named in the release"),
        ("With the public tables", listed(beside) or "the hierarchy, which is in the folder"),
        ("Method", f"{name(mechanism['name'])} ({_options(mechanism.get('options') or {})})"),
        *([("Code of the method", f"{name(code)}, from outside")] if (code := mechanism_code(statement)) else []),
        *([("Prior", name_long(_TOWARDS.format(prior_words(prior))))] if (prior := statement.get("prior")) else []),
        ("Records outside the hierarchy", unknown_records(statement)),
        ("Data set in the ledger", name(ledger.get("dataset", "none: no ledger was used"))),
        ("Run", name(which.get("run") or "without a name")),
        ("Release id", name(which["id"])),
        *_of_time(which),
        ("Made with", f"tallytree {name(software.get('tallytree', '?'))}"),
    ]
    rows = [
        (name(titled(each)), f"{each['nodes']:,}", f"{release.level_tables[each['level']].num_rows:,}",
         "yes" if each.get("measured") else "no")
        for each in statement["levels"] if each["level"] in release.level_tables
    ]  # fmt: skip
    others = (
        unlisted_sentence(statement)
        or "Nodes and cells without a row are published as 0, which does not say that they are 0."
    )
    grid = Grid(
        "What each level or table has",
        ("level or table", "nodes or cells", "published rows", "measured with noise"),
        rows,
        f"A level that was not measured follows from other numbers, or is public. {others}",
    )
    notes = [name_long(note) for note in statement.get("notes", ())]
    grids = [grid, _split(statement)] if statement["private"] else [grid]
    title = "Appendix: what was released, from what, and how"
    return ReportSection("appendix", title, facts=facts, grids=grids, points=notes)


def _of_time(which: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whether the period was compared with the records, and which release this one takes the place of."""
    facts = []
    if "period_is" in which:
        facts.append(("Period", f"{name(which['period'])} ({name(which['period_is'], 200)})"))
    if "revises" in which:
        earlier = which["revises"]
        facts.append(("Takes the place of", f"{name(earlier['folder'])}, release {name(earlier['id'])}"))
    return facts


def _sources(spec: Mapping[str, Any], words: Mapping[str, str]) -> list[str]:
    """The tables that a spec names, each with its file."""
    found = [(word, spec[key]) for key, word in words.items() if isinstance(spec.get(key), str)]
    return [f"{word}: {_source(source)}" for word, source in found]


def _source(named: str) -> str:
    """A table that a spec names; one in memory is named by its type, as <Table>."""
    if named == LIST_OF_FILES:
        return "a list of files"
    return "a table in memory" if named[:1] == "<" else name(named)


def name_long(text: object) -> str:
    """A sentence of a statement: cleaned like a name, but not cut."""
    return name(text, 5_000)


def _kind(statement: Mapping[str, Any]) -> str:
    kind = kind_of(statement)
    return f"{kind.name.replace('_', ' ')}: {kind.words.meaning}"


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name(key)} {name(value)}" for key, value in options.items()) or "no options"


TITLE_OF_SIZES, _AND_ERRORS = "Households by size", "and how far off they are"
_OF_TAILS = " (where sizes have none: of the number of groups of a size or more)"


def _numbers(
    view: ReleaseView, errors: Sequence[PublishedError], boundaries: Mapping[str, Boundaries]
) -> ReportSection:
    release = view.release
    of_tails = _OF_TAILS if view.kind.by_size else ""
    pictures = number_pictures(view, boundaries)
    shown = errors_picture(view, errors)
    bound = name_long(bound_sentence(release.statement))
    why = why_numbers_are_off(release.statement)
    paragraphs = [
        *([bound] if bound else []),
        _what_intervals_are(release),
        *([f"Why they are off: {why}"] if why else []),
    ]
    noise = [
        (name(each.level), f"{each.rows:,}", rounded(each.noise) if each.noise else "not measured",
         rounded(each.median) if each.median is not None else "not computed",
         about(each.reach) if each.reach is not None else "not computed")
        for each in errors
    ]  # fmt: skip
    grid = Grid(
        f"Error of the numbers of each level{of_tails}",
        ("level or table", "rows", "noise (std_dev)", "typical error (middle)", "nine in ten within"),
        noise,
    )  # fmt: skip
    usable = _usable(errors, of_tails)
    return ReportSection(
        "numbers", f"The published numbers, {_AND_ERRORS}", paragraphs=paragraphs,
        pictures=[*pictures, *([shown] if shown else [])], grids=[*([usable] if usable else []), grid],
    )  # fmt: skip


def _usable(errors: Sequence[PublishedError], of_tails: str) -> Grid | None:
    """How many numbers of each level can be used; None where no number has a verdict."""
    rows = []
    for each in errors:
        if each.usable is not None:
            least = f"about {whole(math.ceil(each.usable_from))}" if each.usable_from else "-"
            rows.append((name(each.level), *(f"{number:,}" for number in each.usable), least))
    headings = ("level or table", "reliable", "with care", "do not use", "usable from")
    remark = (
        "By typical error ÷ number, as statistical offices do: below 16.6 % reliable, to 33.3 % with care. Where most "
        "numbers of a level are near 0, those to be used with care are off by more: take the reliable ones there."
    )
    return Grid(f"Which numbers can be used{of_tails}", headings, rows, remark) if rows else None


def _what_intervals_are(release: Release) -> str:
    errors = release.statement.get("errors")
    true = (
        f"the true number of {counted_unit(release.statement)}," if is_bounded(release.statement) else "the true number"
    )
    covers = "They cover the privacy noise only: not errors in the records, nor records that are missing."
    if errors:
        return f"Ends of intervals hold {true} nine times in ten. {covers}"
    elsewhere = "elsewhere the command “tallytree error DIR” computes it from the published files"
    if fitted_to_persons(release.statement):
        elsewhere = "elsewhere it is not known"
    return (
        f"Where an error is shown, it is known from the method itself; {elsewhere}. "
        f"Ends of intervals hold {true} nine times in ten. {covers}"
    )


def _guarantee(statement: Mapping[str, Any]) -> ReportSection:
    if not statement["private"]:
        return ReportSection(
            "guarantee", "The guarantee",
            warnings=["NOT PRIVATE. The noise came from a seed and can be removed. There is no guarantee."],
            facts=[("In one sentence", name_long(statement["guarantee"]))],
        )  # fmt: skip
    part = statement.get("part_of")
    spent, budget = (part or statement)["spent"], statement["budget"]
    facts = [
        ("Who is protected", name(statement["unit_of_protection"])),
        ("Which data sets look alike", worded(_relation(statement["neighboring"]), words_of(statement))),
        ("Spent by both parts" if part else "Spent", _amounts(spent)),
        *([("Of these by this part", _amounts(statement["spent"]))] if part else []),
        ("Of a budget of", _amounts((part or {}).get("budget", budget))),
        ("Added up by", name(statement["accounting"])),
        ("Formally", name_long(statement["guarantee"])),
    ]
    words = words_of(statement)
    paragraphs = [worded(_in_plain_words(spent, statement["neighboring"]), words)]
    if part:
        paragraphs.insert(0, OF_BOTH_PARTS)
    grids = []
    risk = statement.get("risk")
    if risk:
        paragraphs.append(name_long(risk["attack"]))
        grids.append(
            Grid(
                worded("What an attacker can find out about one person, at most", words),
                ("wrongly suspected", "rightly recognised, at most", "by blind guessing"),
                [
                    (percent(rate["false_positive_rate"]), percent(rate["true_positive_rate"]),
                     percent(rate["false_positive_rate"]))
                    for rate in risk["rates"]
                ],
                "The attacker knows all other records. The smaller the difference between the last two columns, the "
                "better the protection.",
            )
        )  # fmt: skip
    pictures = [risk_picture(statement)] if risk else []
    return ReportSection(
        "guarantee", "The guarantee", facts=facts, paragraphs=paragraphs, pictures=pictures, grids=grids
    )


OF_BOTH_PARTS = (
    "What follows is the guarantee of both parts together, persons and households by size: whoever has one can have "
    "the other."
)


def _amounts(spent: Mapping[str, Any]) -> str:
    return ", ".join(f"{_greek(key)} = {amount(value)}" for key, value in spent.items())


def _in_plain_words(spent: Mapping[str, Any], neighboring: str) -> str:

    epsilon = spent.get("epsilon")
    if isinstance(epsilon, int | float):
        factor = f"{rounded(math.exp(min(epsilon, 700.0)))} times"
        other = "without" if neighboring == "add_remove" else "with others in their place"
        words = (
            f"Epsilon (ε) bounds what one person's records can change: any outcome of this release is at most {factor} "
            f"as probable with these records as {other}. Zero would mean no influence; around 1 is a strong "
            "protection, and 4 or more a weak one."
        )
        if spent.get("delta"):
            words += f" Delta (δ = {amount(spent['delta'])}) is about the probability with which this bound may fail."
        return words
    return (
        "Rho (ρ) bounds, on average over the outcomes, what one person's records can change. Zero would mean no "
        "influence; 0.02 is a strong protection, and 1 or more a weak one."
    )


def _relation(neighboring: str) -> str:
    if neighboring == "add_remove":
        return "with and without one person's records"
    return "with one person's records, and with others in their place"


def _greek(key: str) -> str:
    return {"epsilon": "ε (epsilon)", "delta": "δ (delta)", "rho": "ρ (rho)"}.get(key, name(key))


def _split(statement: Mapping[str, Any]) -> Grid:
    found = kind_of(statement).measured_beside(statement).values()
    beside = [(BESIDE_THE_LEVELS[each["statistic"]], each) for each in found if "noise" in each]
    measured = [(name(titled(each)), each) for each in statement["levels"] if each.get("measured")]
    return Grid(
        "How the budget was split",
        ("level, table or other", "share of the budget", "spent", "noise", "std_dev of the noise"),
        [
            (title, percent(each["share"]),
             ", ".join(f"{key} {amount(value)}" for key, value in each["spent"].items()),
             name(each["noise"]["distribution"]).replace("_", " "), rounded(each["noise"]["std_dev"]))
            for title, each in (*beside, *measured)
        ],
    )  # fmt: skip


def _invariants(statement: Mapping[str, Any]) -> ReportSection:
    facts = [name_long(worded(fact, words_of(statement))) for fact in statement["invariants"]]
    is_exact, them = ("is", "it") if len(facts) == 1 else ("are", "them")
    warning = (
        f"{plural(len(facts), 'fact')} of this release {is_exact} exact. "
        f"No noise was added to {them}, and the guarantee does not cover {them}."
    )
    return ReportSection(
        "invariants", "Published exactly, not protected", points=facts,
        warnings=[warning] if facts else ["Nothing was published exactly."],
    )  # fmt: skip


def _bound(release: Release) -> ReportSection:
    statement = release.statement
    bound, found = statement.get("max_contributions"), statement.get("contributions") or {}
    title = "What the bound on contributions cut"
    people = release.contributions
    pictures = [] if people is None else [people_picture(people)]
    if bound is None:
        return ReportSection(
            "bound", title, paragraphs=["Nothing was cut: this release bounds nothing."], pictures=pictures
        )
    if is_bounded(statement):
        return ReportSection("bound", title, paragraphs=[name_long(bound_sentence(statement))], pictures=pictures)
    records = plural(int(bound), "record")
    words = (
        f"The guarantee assumes that nobody has more than {records}. This was not enforced: nothing was cut, and a "
        "person with more records is protected less."
    )
    words = worded(words, words_of(statement))
    more = [name_long(found["summary"])] if found.get("summary") else []
    return ReportSection("bound", title, paragraphs=[words, *more], pictures=pictures)


def _checks(checks: Sequence[Check]) -> ReportSection:
    numbers = max((check.checked for check in checks), default=0)
    failed = [check for check in checks if check.failed]
    done = [check for check in checks if check.failed is not None]
    grid = Grid(
        "Checks of the files",
        ("check", "numbers checked", "not passed", "remark"),
        [
            (name(check.name), f"{check.checked:,}", "–" if check.failed is None else f"{check.failed:,}",
             check.remark or ("passed" if check.passed else "see the method's limits, below"))
            for check in checks
        ],
    )  # fmt: skip
    total = sum(check.checked for check in done)
    words = (
        f"{plural(len(done), 'check')} were run on the published files when this page was made, on "
        f"{plural(numbers, 'number')} ({total:,} comparisons). "
        + ("All passed." if not failed else f"{plural(len(failed), 'check')} found numbers that do not pass.")
        + " The files also agree with the checksums in release.json."
    )
    return ReportSection(
        "checks", "Checks that were run on the files", paragraphs=[words.replace("1 check were", "1 check was")],
        grids=[grid], warnings=[f"Not passed: {listed([name(check.name) for check in failed])}."] if failed else [],
    )  # fmt: skip


def _use(release: Release, folder: str) -> ReportSection:
    which = release.statement["release"]["id"]
    software = release.statement.get("software") or {}
    made = name(software.get("tallytree", ""))
    example = 0 if kind_of(release.statement).has_tables else -1
    level = release.levels[example]
    said = description_of(release.statement)
    period = period_words(release.statement["release"].get("period"))
    named = ". ".join(name(each, 200) for each in (said.get("publisher"), said.get("title") or folder, period) if each)
    cite = (
        f"{named}. Differentially private release {which[:12]}, made with tallytree {made}. "
        f"{name_long(release.statement['guarantee'])}"
    )
    import json

    shown = release.tables[example]
    table = ", ".join(json.dumps(each, ensure_ascii=False) for each in shown)
    exact = ", ".join([*([table] if table else []), "alpha=0.1"])
    code = [
        ("Python", f"import tallytree as tt\nrelease = tt.Release.load({json.dumps(folder, ensure_ascii=False)})\n"
                   f"release.table({exact})  # a pyarrow table\nrelease.to_pandas({table})"),
        ("Any other program", f"tables/{name(level)}.parquet (and the other files in tables/)"),
    ]  # fmt: skip
    sums = not fitted_to_persons(release.statement)
    if sums:
        command = f"tallytree total {shlex.quote(name(folder))} AREAS.csv --by district"
        code.append(("Sums over any areas, with their errors", command))
    asked = [f"Questions: {name(said['contact'], 200)}."] if said.get("contact") else []
    paragraphs = [
        *asked,
        f"Cite it as: {cite}",
        "State the error beside every number that you use, and that intervals cover the privacy noise only. If two "
        "numbers differ by less than their errors, do not conclude that the areas differ. "
        + (
            "For totals over areas use the command below: their errors do not follow from the errors of the parts."
            if sums
            else "The errors of totals over other areas do not follow from the errors of the parts."
        ),
    ]
    return ReportSection("use", "How to cite and to load it", paragraphs=paragraphs, code=code)
