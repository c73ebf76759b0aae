"""How charts look: one palette, in a light and in a dark scheme, and sizes of text.

The colors that tell things apart are those of Okabe and Ito (2008), which people with any kind of color vision can tell
apart; some are a little darker or lighter, so that each has a contrast of at least 3:1 with the background (WCAG 2.2,
1.4.11). Text has at least 4.5:1 with all that it is drawn on (1.4.3). `tests/views/charts/test_theme.py` checks both.

Every color of a scheme is unique within it. So a drawing in one scheme can be turned into the other by replacing
colors, which `tallytree.views.charts.drawing` does: a page has one drawing, and its style sheet has the colors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
TEXT_SIZE, TITLE_SIZE = 12, 13
"""In pixels."""


@dataclass(frozen=True)
class Scheme:
    """The colors of charts and pages, as #rrggbb.

    Attributes:
        background: of pages and charts.
        surface: of boxes on the background, such as notes.
        text: of text.
        muted: of text that matters less.
        line: of axes, rules and borders.
        grid: of grid lines.
        accent: of the numbers that were published.
        interval: of intervals around them.
        warning: of what must not be missed.
        orange, green, pink, yellow: further colors that tell things apart.
        step_1, …, step_6: a sequence from little to much.
        on_steps: of text on the last three steps.
        sure, unsure, vague: pale colors of boxes with text, for small, middling and large errors.
    """

    background: str
    surface: str
    text: str
    muted: str
    line: str
    grid: str
    accent: str
    interval: str
    warning: str
    orange: str
    green: str
    pink: str
    yellow: str
    step_1: str
    step_2: str
    step_3: str
    step_4: str
    step_5: str
    step_6: str
    on_steps: str
    sure: str
    unsure: str
    vague: str

    @property
    def steps(self) -> list[str]:
        """From little to much."""
        return [self.step_1, self.step_2, self.step_3, self.step_4, self.step_5, self.step_6]

    @property
    def categories(self) -> list[str]:
        """What tells things apart, in the order of use."""
        return [self.accent, self.orange, self.green, self.pink, self.yellow, self.muted]

    def colors(self) -> dict[str, str]:
        """All colors by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


LIGHT = Scheme(
    background="#ffffff", surface="#f3f6f9", text="#1a1c1f", muted="#565c64", line="#8a9099", grid="#dfe3e8",
    accent="#0072b2", interval="#23272c", warning="#a33a00", orange="#d55e00", green="#00876a", pink="#b5598f",
    yellow="#8f7a00", step_1="#e8f1f8", step_2="#c3dcee", step_3="#93c1e0", step_4="#1f7fba", step_5="#0b639c",
    step_6="#06406a", on_steps="#fffffe", sure="#d3e6f3", unsure="#fbe6bd", vague="#f7cfc0",
)  # fmt: skip
DARK = Scheme(
    background="#14171b", surface="#1e2329", text="#eceff2", muted="#aab2bb", line="#727a84", grid="#30363d",
    accent="#56b4e9", interval="#f2f4f6", warning="#ff9e6b", orange="#f0803c", green="#2bc29a", pink="#dc8fbc",
    yellow="#f0e442", step_1="#1c2a36", step_2="#213f57", step_3="#28567a", step_4="#6fb0dd", step_5="#98caec",
    step_6="#cfe7f8", on_steps="#14171c", sure="#1d4058", unsure="#574312", vague="#663022",
)  # fmt: skip


def config(scheme: Scheme = LIGHT) -> dict[str, Any]:
    """The `config` of a Vega-Lite chart."""
    axis = {
        "domainColor": scheme.line, "tickColor": scheme.line, "gridColor": scheme.grid, "labelColor": scheme.text,
        "titleColor": scheme.text, "labelFontSize": TEXT_SIZE, "titleFontSize": TEXT_SIZE, "labelLimit": 160,
        "labelSeparation": 10,
        "titleFontWeight": "normal", "titlePadding": 8,
    }  # fmt: skip
    legend = {
        "labelColor": scheme.text, "titleColor": scheme.text, "labelFontSize": TEXT_SIZE, "titleFontSize": TEXT_SIZE,
        "titleFontWeight": "normal", "labelLimit": 220, "titleLimit": 320, "symbolStrokeColor": scheme.line,
        "columnPadding": 24,
    }  # fmt: skip
    return {
        "background": scheme.background,
        # Labels are measured in one font and shown in whichever the reader has, which may be a fifth wider.
        "padding": {"left": 34, "right": 12, "top": 6, "bottom": 6},
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "legend": legend,
        "header": {"labelColor": scheme.text, "titleColor": scheme.text, "labelFontSize": TEXT_SIZE},
        "title": {"color": scheme.text, "fontSize": TITLE_SIZE, "anchor": "start", "fontWeight": "bold"},
        "text": {"color": scheme.text, "fontSize": TEXT_SIZE},
        "bar": {"color": scheme.accent},
        "line": {"color": scheme.accent, "strokeWidth": 2},
        "point": {"color": scheme.accent, "filled": True, "size": 50},
        "rule": {"color": scheme.interval},
        "range": {"category": scheme.categories, "ramp": scheme.steps, "heatmap": scheme.steps},
    }


def styled(chart: Any, scheme: Scheme = LIGHT) -> Any:
    """An Altair chart that looks like all others; for the outermost chart alone."""
    changed = chart.copy(deep=False)
    import altair

    changed.config = altair.Config.from_dict(config(scheme), validate=False)
    return changed


def luminance(color: str) -> float:
    """The relative luminance of a color #rrggbb, 0 … 1 (WCAG 2.2)."""
    channels = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colors, 1 … 21 (WCAG 2.2)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def css_variables(scheme: Scheme, prefix: str = "--tt-") -> Mapping[str, str]:
    """The names of the colors in a style sheet, with their values."""
    return {prefix + name.replace("_", "-"): color for name, color in scheme.colors().items()}
