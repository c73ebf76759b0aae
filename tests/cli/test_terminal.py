"""Tables at terminals of every width."""

import io

import pytest
from rich.console import Console

from tallytree.cli.rendering.terminal import fitted_table

HEADINGS = ["level", "true commuters", "published commuters", "greatest error (commuters)"]
ROWS = [["destination_municipality", "50,000", "49,999", "1,234.5"], ["all", "1", "2", ""]]


def shown(width, headings=HEADINGS, rows=ROWS):
    console = Console(file=io.StringIO(), width=width)
    console.print(fitted_table(console, headings, rows))
    return console.file.getvalue()


@pytest.mark.parametrize("width", range(12, 120))
def test_nothing_is_cut_at_any_width(width):
    lines = shown(width).splitlines()
    assert max(map(len, lines)) <= width
    text = "".join("".join(lines).split())
    for cell in (cell for row in ROWS for cell in row):
        assert cell.replace(" ", "") in text


def test_headings_are_broken_only_where_the_table_would_not_fit():
    assert len(shown(100).splitlines()) == 4
    assert len(shown(70).splitlines()) > 4
    assert shown(70).splitlines()[-1].split() == ["all", "1", "2"]


def test_a_narrow_terminal_has_a_paragraph_for_each_row_broken_between_facts():
    assert shown(50) == (
        "destination_municipality: true commuters 50,000,\n"
        "    published commuters 49,999,\n"
        "    greatest error (commuters) 1,234.5\n"
        "all: true commuters 1, published commuters 2\n"
    )
