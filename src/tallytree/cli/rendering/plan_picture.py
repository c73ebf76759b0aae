"""Expected errors as a picture, by Altair; SVG files are drawn by vl-convert. Both are in the extra `report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallytree._validate import require_packages

if TYPE_CHECKING:
    from tallytree._accuracy.error_plan import ErrorPlan

FORMATS = (".svg", ".html")
PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""Modules, and the packages that have them."""
WIDTH, HEIGHT = 360, 240


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is computed.

    Raises:
        ValueError: neither SVG nor HTML, or no folder to write it in.
        ModuleNotFoundError: a package of the extra is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"picture: {path.name!r} must end in .svg or .html")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"picture: {str(path.parent)!r} is no folder; make it first")
    require_packages("picture", repr(path.name), PACKAGES, "report")


def save_picture(plan: ErrorPlan, path: Path) -> None:
    """Draw the standard deviation of every level, by budget and by mechanism.

    Raises:
        OSError: the file cannot be written, or the process that draws ended.
    """
    from tallytree._charts import html, svg
    from tallytree.release.files import write_whole

    drawn = svg if path.suffix.lower() == ".svg" else html
    write_whole(path, drawn(_chart(plan)))


def _chart(plan: ErrorPlan) -> Any:
    import altair

    from tallytree._charts import styled

    rows = [row for row in plan.table.to_pylist() if row["std_dev"]]
    amount = "rho" if plan.budget.kind == "zcdp" else "epsilon"
    levels = [row["level"] for row in plan.levels]
    color = altair.Color("level:N", sort=levels, title="level")
    budgets = altair.Chart(
        altair.Data(values=[row for row in rows if row["mechanism"] == plan.mechanism]),
        title=f"By budget ({plan.mechanism})",
        width=WIDTH,
        height=HEIGHT,
    )
    lines = budgets.mark_line(point=True).encode(
        altair.X(f"{amount}:Q", scale=altair.Scale(type="log"), title=amount),
        altair.Y("std_dev:Q", scale=altair.Scale(type="log"), title="expected std_dev"),
        color,
    )
    own = plan.levels[0][amount]
    mechanisms = altair.Chart(
        altair.Data(values=[row for row in rows if row[amount] == own]),
        title=f"By mechanism ({amount} {own:.4g})",
        width=WIDTH,
        height=HEIGHT,
    )
    points = mechanisms.mark_point(filled=True, size=70).encode(
        altair.X("level:N", sort=levels, title="level"),
        altair.Y("std_dev:Q", scale=altair.Scale(type="log"), title="expected std_dev"),
        altair.Shape("mechanism:N", title="mechanism"),
        color,
    )
    return styled(altair.hconcat(lines, points))
