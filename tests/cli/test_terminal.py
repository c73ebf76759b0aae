"""Sentences and tables at terminals of every width."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.cells import cell_len
from rich.console import Console

from tallytree.cli.rendering.terminal import fitted_table, show_command, show_line, wrapped

HEADINGS = ["level", "true commuters", "published commuters", "greatest error (commuters)"]
ROWS = [["destination_municipality", "50,000", "49,999", "1,234.5"], ["all", "1", "2", ""]]


def shown(width, headings=HEADINGS, rows=ROWS, prose=()):
    console = Console(file=io.StringIO(), width=width)
    console.print(fitted_table(console, headings, rows, prose))
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


@pytest.mark.parametrize("width", range(40, 130, 3))
def test_prose_is_broken_at_spaces_in_its_column_and_numbers_are_not(width):
    prose = "errors of all levels together, in words that are long"
    lines = shown(width, ["name", "shows", "minutes"], [["kuo", prose, "40"]], prose=("shows",)).splitlines()
    assert max(map(len, lines)) <= width
    rows = lines[2:]
    assert rows[0].split()[0] == "kuo"
    assert rows[0].split()[-1] == "40"
    assert " ".join(" ".join(rows).split()).replace("40 ", "").removesuffix(" 40") == f"kuo {prose}"


SENTENCE = "Guarantee: epsilon = 1 for adding or removing one person; `tallytree plan SPEC --like PUBLIC` tells more."


@pytest.mark.parametrize("width", range(37, 130))
def test_a_sentence_is_broken_at_spaces_and_not_inside_a_command(width):
    lines = wrapped(SENTENCE, width)
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == SENTENCE
    assert sum("`tallytree plan SPEC --like PUBLIC`" in line for line in lines) == 1
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_command_that_is_longer_than_a_line_is_broken_at_spaces():
    assert max(map(len, wrapped(SENTENCE, 20))) <= 20


def test_a_word_that_is_longer_than_a_line_stays_whole():
    path = "/" + 50 * "x"
    assert wrapped(f"Release: {path} is made", 30) == ["Release:", f"  {path}", "  is made"]


def test_lines_of_a_list_go_on_below_its_text():
    assert wrapped("  * the number of groups", 16) == ["  * the number", "    of groups"]
    assert wrapped("[ ] url_slug: a name", 16) == ["[ ] url_slug: a", "    name"]


def test_wide_letters_take_two_places():
    lines = wrapped("市区町村 " * 10, 30)
    assert max(map(cell_len, lines)) <= 30
    assert len(lines) == 4


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("file", "lines"), [(Terminal(), 3), (io.StringIO(), 1)], ids=["terminal", "pipe"])
def test_only_at_a_terminal_a_sentence_is_broken(file, lines):
    show_line(Console(file=file, width=50), SENTENCE)
    assert len(re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()) == lines


def test_a_command_by_itself_is_in_one_piece_at_a_terminal_too():
    file = Terminal()
    show_command(Console(file=file, width=30), f"  {SENTENCE}")
    assert re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines() == [f"  {SENTENCE}"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_an_error_at_a_real_terminal_is_broken_at_spaces(width):
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    name = "a spec that is nowhere" + 12 * " and nowhere"
    command = [sys.executable, "-m", "tallytree", "check", name]
    ended = subprocess.run(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(reader, 10_000).decode())
    os.close(reader)
    assert ended.returncode == 2
    lines = text.splitlines()
    assert len(lines) >= 2
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == (f"error: {name}: no such file; give the path of a YAML spec")
