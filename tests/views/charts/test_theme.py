from itertools import combinations

import pytest

from tallytree.views.charts.theme import DARK, LIGHT, Scheme, config, contrast, css_variables

BOTH = pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])


@BOTH
def test_text_has_the_contrast_that_wcag_asks_for_on_all_it_is_drawn_on(scheme: Scheme) -> None:
    grounds = [scheme.background, scheme.surface, scheme.sure, scheme.unsure, scheme.vague, *scheme.steps[:3]]
    assert min(contrast(scheme.text, ground) for ground in grounds) >= 4.5
    assert min(contrast(scheme.on_steps, step) for step in scheme.steps[3:]) >= 4.0  # large numbers in small boxes
    for ink in (scheme.muted, scheme.warning, scheme.accent):
        assert min(contrast(ink, ground) for ground in (scheme.background, scheme.surface)) >= 4.5


@BOTH
def test_marks_can_be_told_from_the_background(scheme: Scheme) -> None:
    assert min(contrast(color, scheme.background) for color in scheme.categories) >= 3.0
    assert contrast(scheme.line, scheme.background) >= 3.0


@BOTH
def test_every_color_of_a_scheme_is_unique_so_that_drawings_can_be_turned_into_the_other(scheme: Scheme) -> None:
    colors = scheme.colors().values()
    assert all(one != other for one, other in combinations(colors, 2))
    assert css_variables(LIGHT).keys() == css_variables(DARK).keys()


def test_black_on_white_has_the_contrast_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # the example of WCAG's techniques


@BOTH
def test_the_configuration_uses_the_schemes_colors(scheme: Scheme) -> None:
    made = config(scheme)
    assert made["background"] == scheme.background
    assert made["range"]["category"] == scheme.categories
