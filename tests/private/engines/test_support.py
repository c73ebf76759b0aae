"""What each engine supports is declared, and the page of the documentation says the same."""

from pathlib import Path

from tallytree.private.engines import ENGINES, support_table

PAGE = Path(__file__).parents[3] / "docs/how-to/large-data.md"
BEGIN, END = "<!-- support -->\n", "<!-- end of support -->"


def test_the_table_of_the_page_is_what_the_code_declares():
    written = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert written == support_table()


def test_every_engine_says_of_every_table_that_the_local_one_reads_how_it_reads_it():
    local = set(ENGINES["local"].support)
    assert all(local <= set(engine.support) for engine in ENGINES.values())
