"""Lines are checked alike however the bytes come in pieces."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tallytree.datasets.checked_lines import BadLineError, CheckedLines


def faulty_lines(text):
    """The numbers of the lines that break a rule, read off the whole text."""
    lines = text.replace("\r\n", "\n").split("\n")
    last = max((i for i, line in enumerate(lines) if line), default=-1)
    return {
        number
        for number, line in enumerate(lines, start=1)
        if "\r" in line or "\0" in line or line.count('"') % 2 or (line == "" and 1 < number <= last)
    }


def read_in_pieces(raw, size, encoding="latin-1"):
    lines = CheckedLines(io.BytesIO(raw), encoding)
    pieces = []
    while piece := lines.read(size):
        pieces.append(piece)
    return b"".join(pieces)


@settings(max_examples=500)
@given(st.text(alphabet='aé;"\n\r\0', max_size=14).map(lambda text: "head\n" + text), st.integers(1, 9))
def test_what_is_refused_is_what_is_wrong_with_the_whole_text(text, size):
    text = text.rstrip("\r")  # a return at the very end ends a line for Arrow, too
    faulty = faulty_lines(text)
    if not faulty:
        assert read_in_pieces(text.encode("latin-1"), size) == text.encode()
        return
    with pytest.raises(BadLineError) as raised:
        read_in_pieces(text.encode("latin-1"), size)
    number = int(str(raised.value).split("line ")[1].split(":")[0])
    assert number in faulty


@given(st.integers(0, 5), st.integers(1, 9))
def test_what_cannot_be_decoded_is_named_by_its_line(n_before, size):
    raw = b"ok;\xc3\xa9\n" * n_before + b"\xe9;\n"
    with pytest.raises(BadLineError, match=f"line {n_before + 1}: it is not utf-8"):
        read_in_pieces(raw, size, "utf-8")
