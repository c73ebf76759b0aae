"""The report of a release as one HTML file, which needs no network and runs no script.

Charts are drawn beforehand, as SVG. Why: `docs/decisions/0041-report.md`. All text of the release is escaped by the
template; a content security policy forbids whatever the page does not need, should anything slip through.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tallytree.release import HouseholdsRelease, Release
from tallytree.release.statement import marks_of
from tallytree.release.view.release_view import ReleaseView
from tallytree.support.validate import path_text
from tallytree.support.whole_files import write_whole
from tallytree.views import charts
from tallytree.views.boundaries import Boundaries
from tallytree.views.report.checks import run_checks
from tallytree.views.report.front import front_page, in_all
from tallytree.views.report.pictures import NARROW, Grid, Picture
from tallytree.views.report.reading import level_errors
from tallytree.views.report.sections import ReportSection, all_sections, name_long, part_section
from tallytree.views.report.series import ComparedReleases
from tallytree.views.report.summary import summary
from tallytree.views.report.wording import capitalized, what_is_counted

TEMPLATES = Path(__file__).parent / "templates"
WORDY = frozenset({"remark", "level", "to", "noise", "spent", "measured with noise"})
"""Headings of columns with words, which stand at the left."""


@dataclass(frozen=True)
class _Drawn:
    """A picture, drawn: see `Picture`."""

    title: str
    description: str
    wide: Any
    narrow: Any
    grid: Grid


def write_report(
    release: Release,
    out: str | os.PathLike[str],
    *,
    title: str = "release",
    boundaries: Mapping[str, Boundaries] | None = None,
    language: str | None = None,
    earlier: ComparedReleases | None = None,
) -> Path:
    """Write the report of a release; a file of that name is replaced, in one step.

    Args:
        release: its tables are read, slice by slice.
        out: the file to make.
        title: the heading; by default of a folder its name.
        boundaries: by level, for maps.
        language: of names and words; by default the first that each is in.
        earlier: releases that its numbers are compared with, in a section of their own.

    Raises:
        ModuleNotFoundError: a package of the extra `report` is not installed.
        OSError: the file cannot be written, or the process that draws ended.
    """
    target = Path(path_text(out, "out", "the path of an .html file"))
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"out: {target.name!r} must end in .html")
    charts.require_charts("report", "a report")
    with charts.one_drawing_process():
        page = report_page(release, title=title, boundaries=boundaries, language=language, earlier=earlier)
    write_whole(target, page)
    return target


def report_page(
    release: Release,
    *,
    title: str = "release",
    boundaries: Mapping[str, Boundaries] | None = None,
    language: str | None = None,
    earlier: ComparedReleases | None = None,
) -> str:
    """The report as HTML; see `write_report`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    parts = [*release.parts.values()] if isinstance(release, HouseholdsRelease) else [release]
    view, *others = (ReleaseView(part, language=language) for part in parts)
    errors, checks = level_errors(view), [check for each in (view, *others) for check in run_checks(each)]
    sections = all_sections(view, errors, checks, boundaries or {}, title)
    sections[1:1] = [part_section(each, level_errors(each), boundaries or {}) for each in others]
    if earlier is not None:
        sections.insert(1, earlier.section(parts[0]))
    style = _style(templates)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    front = front_page(view, errors, title)
    if others:
        what = capitalized(name_long(what_is_counted(release.statement, release.spec)))
        front = replace(front, what=f"{what}.", beside=[in_all(each) for each in others])
    return templates.get_template("report.html").render(
        title=front.title,
        front=front,
        private=release.statement["private"],
        marks=[name_long(mark) for mark in marks_of(release.statement)],
        summary=summary(view, errors),
        sections=[_drawn_section(section) for section in sections],
        style=_safe(style),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        wordy=WORDY,
    )


def _style(templates: Any) -> str:
    """The style sheet; it holds nothing of the release."""
    light, dark = (_safe_values(charts.css_variables(scheme)) for scheme in (charts.LIGHT, charts.DARK))
    from tallytree.views.charts.theme import FONT

    return str(templates.get_template("report.css").render(light=light, dark=dark, font=_safe(FONT)))


def _drawn_section(section: ReportSection) -> dict[str, Any]:
    """A section with its pictures drawn."""
    pictures = [_drawn(picture, f"{section.key}-{place}") for place, picture in enumerate(section.pictures)]
    return {**vars(section), "pictures": pictures}


def _drawn(picture: Picture, prefix: str) -> _Drawn:
    wide, narrow = (
        _safe(charts.svg_in_page(picture.draw(width), f"{prefix}-{width}")) for width in (picture.widest, NARROW)
    )
    return _Drawn(picture.title, picture.description, wide, narrow, picture.grid)


def _safe_values(texts: Mapping[str, str]) -> dict[str, Any]:
    return {key: _safe(text) for key, text in texts.items()}


def _safe(text: str) -> Any:
    """Text that is HTML already: our own, or a drawing, in which vl-convert has escaped all labels."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704
