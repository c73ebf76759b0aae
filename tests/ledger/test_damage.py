"""A ledger that was changed or damaged is refused, or what is read of it is what was written."""

import hashlib
import json
import random
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

import tallytree as tt
from helpers.changed_ledgers import changed
from helpers.inside import Approval
from helpers.ledger_entries import TERMS, approximate, posting, pure, zcdp
from tallytree.ledger import Ledger, verified
from tallytree.ledger.chain import START, encoded

REFUSED = (ValueError, OSError)
"""What a damaged file may raise; a message of SQLite's own, or of Python's, is none of these."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small ledger with every kind of event."""
    ledger = Ledger(tmp_path_factory.mktemp("whole") / "ledger.db")
    ledger.set_limit("census", tt.Budget(epsilon=2, delta=1e-6), **TERMS, max_contributions=2)
    ledger.record(posting(approximate("1/2", "1/10000000"), dataset="census", max_contributions=2, run="monday"))
    ledger.finish(1)
    ledger.set_limit("census", tt.Budget(epsilon=3, delta=1e-6), approval=Approval(reason="more", approved_by="A. P."))
    ledger.set_strict(False)
    ledger.record(posting(zcdp("1/3"), dataset="tr\N{LATIN SMALL LETTER I WITH DIAERESIS}ps", unit="trip"))
    ledger.record(posting(pure("1/3"), dataset="census", max_contributions=3))
    return ledger


def copy_of(ledger, path):
    shutil.copyfile(ledger.path, path)
    return Ledger(path, timeout=0)


def everything(ledger):
    books = ledger.contents()
    return books.strict, books.last_number, books.datasets, books.head


def refused_or_as_before(ledger, before):
    """True where it was refused.

    Anything but a refusal, or what was written, fails the test.
    """
    try:
        found = everything(ledger)
    except REFUSED as error:
        assert str(error).startswith("ledger: ")  # noqa: PT017
        return True
    assert found == before
    return False


def damaged_by(ledger, path, content):
    path.write_bytes(content)
    verified.forget()  # as the next process would read it; see test_verified.py for this one
    return refused_or_as_before(Ledger(path, timeout=0), ledger)


@pytest.mark.parametrize("change", [0x01, 0x80], ids=["lowest bit", "highest bit"])
def test_a_byte_of_what_counts_cannot_change(whole, path, change):
    """Every byte of the texts and digests of the events."""
    before, content = everything(whole), whole.path.read_bytes()
    with closing(sqlite3.connect(whole.path)) as connection:
        kept = [value.encode() for row in connection.execute("SELECT facts, digest FROM events") for value in row]
    places = [i for value in kept for i in range(content.find(value), content.find(value) + len(value), 13)]
    assert len(places) > 150
    refused = [damaged_by(before, path, flipped(content, place, change)) for place in places]
    assert all(refused)


@pytest.mark.slow
def test_no_byte_of_the_file_can_change_what_is_read(whole, path):
    """A seeded sample of places and of changes."""
    chosen = random.Random(13)  # noqa: S311
    before, content = everything(whole), whole.path.read_bytes()
    flips = [(chosen.randrange(len(content)), chosen.randrange(1, 256)) for _ in range(1_200)]
    flips += [(place, chosen.randrange(1, 256)) for place in range(100)]  # the file's header
    refused = [damaged_by(before, path, flipped(content, place, change)) for place, change in flips]
    assert 200 < sum(refused) < len(refused)  # much of a page is empty


def flipped(content, place, change):
    return content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]


def cut(content, chosen):
    return content[: chosen.randrange(len(content))]


def overwritten(content, chosen):
    start, length = chosen.randrange(len(content)), chosen.randrange(1, 600)
    return content[:start] + chosen.randbytes(length) + content[start + length :]


def blanked(content, chosen):
    start, length = chosen.randrange(len(content)), chosen.randrange(1, 2_000)
    return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]


def moved(content, chosen):
    one, other = chosen.randrange(len(content) - 64), chosen.randrange(len(content) - 64)
    return content[:one] + content[other : other + 64] + content[one + 64 :]


def without_a_page(content, chosen):
    page = 4_096 * chosen.randrange(len(content) // 4_096)
    return content[:page] + content[page + 4_096 :]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, overwritten, blanked, moved, without_a_page])
def test_damaged_blocks_are_refused_or_make_no_difference(whole, path, damage):
    chosen = random.Random(7)  # noqa: S311
    before, content = everything(whole), whole.path.read_bytes()
    refused = [damaged_by(before, path, damage(content, chosen)) for _ in range(100)]
    assert sum(refused) > 20


EDITS = {
    "an amount": "UPDATE events SET facts = replace(facts, '1/2', '1/3')",
    "a longer amount": "UPDATE events SET facts = replace(facts, '\"1/3\"', '\"01/3\"')",
    "a limit": "UPDATE events SET facts = replace(facts, '\"2\"', '\"9\"')",
    "a name": "UPDATE events SET facts = replace(facts, 'census', 'cencus')",
    "a bound": "UPDATE events SET facts = replace(facts, '\"max_contributions\":2', '\"max_contributions\":1')",
    "a relation": "UPDATE events SET facts = replace(facts, 'add_remove', 'change_one')",
    "a state": "UPDATE events SET facts = replace(facts, '\"number\":1}', '\"number\":2}')",
    "strict": "UPDATE events SET facts = replace(facts, 'false', 'true')",
    "no text": "UPDATE events SET facts = x'00ff' WHERE number = 3",
    "not UTF-8": "UPDATE events SET facts = CAST(x'fffe' AS TEXT) WHERE number = 3",
    "a number": "UPDATE events SET facts = 7 WHERE number = 3",
    "huge digits": f"UPDATE events SET facts = replace(facts, '1/3', '{'9' * 100_000}')",
    "no event": "DELETE FROM events WHERE number = 4",
    "no last event": "DELETE FROM events WHERE number = (SELECT max(number) FROM events)",
    "no events": "DELETE FROM events",
    "two exchanged": "UPDATE events SET number = CASE number WHEN 3 THEN 40 ELSE number END",
    "one more": "INSERT INTO events SELECT number + 1, facts, digest FROM events ORDER BY number DESC LIMIT 1",
    "no head": "DELETE FROM head",
    "another head": "UPDATE head SET number = number + 1",
    "a head of blobs": "UPDATE head SET digest = x'00'",
    "another digest": "UPDATE events SET digest = upper(digest)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_refused_at_every_reading_and_writing(whole, path, edit):
    ledger = copy_of(whole, path)
    changed(path, EDITS[edit])
    verified.forget()
    after = path.read_bytes()
    asked = (
        ledger.datasets,
        lambda: ledger.head,
        lambda: ledger.record(posting(pure("1/10"))),
        lambda: ledger.check(posting(pure("1/10"))),
        lambda: ledger.finish(2),
        lambda: ledger.set_limit("people", tt.Budget(rho=1), **TERMS),
        lambda: ledger.set_strict(True),
    )
    for ask in asked:
        with pytest.raises(ValueError, match=r"^ledger: '.*' was changed, or is damaged: .*; restore it from a copy"):
            ask()
    assert path.read_bytes() == after


def rechained(path, texts):
    """Replace all events and compute a new chain, as only somebody who knows how would."""
    digest, rows = START, []
    for number, text in enumerate(texts, 1):
        digest = hashlib.sha256(b"%b\n%d\n%b" % (digest.encode(), number, text)).hexdigest()
        rows.append((number, text.decode(errors="surrogateescape"), digest))
    inserted = [("INSERT INTO events VALUES (?, ?, ?)", row) for row in rows]
    head = ("INSERT INTO head VALUES (1, ?, ?)", (len(rows), digest))
    changed(path, "DELETE FROM events", "DELETE FROM head", *inserted, head)
    verified.forget()


def texts_of(ledger):
    with closing(sqlite3.connect(ledger.path)) as connection:
        return [text.encode() for (text,) in connection.execute("SELECT facts FROM events ORDER BY number")]


def test_a_new_chain_is_not_noticed_but_by_who_has_noted_the_head(whole, path):
    """As the documentation says: the chain is no signature."""
    ledger = copy_of(whole, path)
    assert ledger.head == whole.head
    rechained(path, [text.replace(b'"1/2"', b'"1/4"') for text in texts_of(whole)])
    assert ledger.spent("census")["epsilon"] == Fraction(1, 4) + Fraction(1, 3)
    assert ledger.head != whole.head


def test_the_head_moves_with_every_writing(whole, path):
    ledger = copy_of(whole, path)
    heads = [ledger.head]
    for write in (
        lambda: ledger.record(posting(pure(1), dataset="other")),
        lambda: ledger.finish(4),
        lambda: ledger.set_limit("other", tt.Budget(epsilon=3)),
        lambda: ledger.set_strict(True),
    ):
        write()
        heads.append(ledger.head)
    assert len(set(heads)) == 5
    ledger.finish(4)
    assert ledger.head == heads[-1]


def altered_facts(whole, kind, **facts):
    """The texts of a ledger in which the last event of a kind has other facts."""
    texts = texts_of(whole)
    place = max(i for i, text in enumerate(texts) if json.loads(text)["event"] == kind)
    texts[place] = encoded(json.loads(texts[place]) | facts)
    return texts


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("release", {"epsilon": "9" * 4_301}),
        ("release", {"epsilon": "9" * 4_300}),
        ("release", {"epsilon": "1" + "0" * 300}),
        ("release", {"rho": "9" * 4_300}),
        ("release", {"number": 2**63}),
        ("limit", {"epsilon": "9" * 4_300}),
        ("release", {"epsilon": "1/" + "9" * 4_301}),
        ("release", {"epsilon": "-1"}),
        ("release", {"epsilon": 1}),
        ("release", {"epsilon": None}),
        ("release", {"dataset": "nowhere"}),
        ("release", {"number": 1}),
        ("release", {"number": True}),
        ("release", {"run": ""}),
        ("release", {"plan": "ab"}),
        ("release", {"release_id": "x" * 32}),
        ("release", {"release_id": None}),
        ("release", {"unit": "house"}),
        ("release", {"reason": "a\nb"}),
        ("release", {"more": 1}),
        ("release", {"event": "gift"}),
        ("release", {"event": "dataset"}),
        ("finish", {"number": 9}),
        ("finish", {"at": None}),
        ("limit", {"epsilon": None}),
        ("limit", {"dataset": "nowhere"}),
        ("dataset", {"dataset": "census"}),
        ("dataset", {"dataset": ""}),
        ("dataset", {"neighboring": "none"}),
        ("ledger", {"strict": "no"}),
        ("ledger", {"made_from_format": 1}),
        ("strict", {"at": "yesterday"}),
    ],
)
def test_facts_that_no_event_may_have_are_refused_in_a_new_chain_too(whole, path, kind, facts):
    ledger = copy_of(whole, path)
    rechained(path, altered_facts(whole, kind, **facts))
    with pytest.raises(ValueError, match=r"^ledger: '.*' was changed, or is damaged: event \d+ cannot be one of a "):
        ledger.datasets()


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"7", b'{"event":7}', b"[" * 100_000, b"9" * 100_000])
def test_text_that_is_no_event_is_refused_in_a_new_chain_too(whole, path, text):
    ledger = copy_of(whole, path)
    rechained(path, [*texts_of(whole), text])
    with pytest.raises(ValueError, match=r"^ledger: '.*' was changed, or is damaged: event \d+ cannot be one of a "):
        ledger.datasets()


@pytest.mark.parametrize(
    "texts_of_a_forger",
    [
        lambda texts: [],
        lambda texts: texts[1:],
        lambda texts: texts[2:],
        lambda texts: [texts[1], texts[0], *texts[2:]],
        lambda texts: [texts[0], *texts],
        lambda texts: [text for text in texts if b'"event":"strict"' in text],
    ],
    ids=["no event", "no first event", "no data set either", "a later one", "two of them", "strict alone"],
)
def test_a_ledger_that_no_first_event_makes_is_refused_in_a_new_chain_too(whole, path, texts_of_a_forger):
    ledger = copy_of(whole, path)
    rechained(path, texts_of_a_forger(texts_of(whole)))
    for ask in (ledger.contents, lambda: ledger.spent("census"), lambda: ledger.record(posting(pure(1)))):
        with pytest.raises(ValueError, match=r"^ledger: '.*' was changed, or is damaged: "):
            ask()


@pytest.mark.parametrize("loss", [pure(Fraction(1, 10**4_301)), pure(10**301)], ids=["long", "large"])
def test_an_amount_with_too_many_digits_is_not_written(ledger, loss):
    ledger.record(posting(pure(1)))
    with pytest.raises(ValueError, match=r"^budget: .*at most 4300 digits, below 1e300"):
        ledger.record(posting(loss))
    with pytest.raises(ValueError, match=r"^epsilon: .* (more than 2,000 digits|out of range); give a "):
        ledger.set_limit("people", tt.Budget(epsilon=loss.epsilon))
    assert len(ledger.entries()) == 1
