"""What a publisher says of a release, in a spec."""

import pytest

from helpers.specs import COUNTS, write
from tallytree.spec import load_spec


def test_a_spec_has_the_keys_with_its_variables(folder):
    text = COUNTS + 'title: "Commutes ${YEAR}"\nwords: {person: "${WHO}"}\nstatus: final\nvariables: [YEAR, WHO]\n'
    spec = load_spec(write(folder, text, "said.yaml"), changes={"variables.YEAR": "2026", "variables.WHO": "commuter"})
    statement = spec.release(folder / "out").statement
    assert statement["description"] == {
        "title": "Commutes 2026", "status": "final", "words": {"person": "commuter"}
    }  # fmt: skip


def test_a_spec_with_wrong_words_names_its_line(folder):
    with pytest.raises(ValueError, match=r"line \d+, words: 'trip' must be a mapping from units to words"):
        load_spec(write(folder, f"{COUNTS}words: trip\n", "wrong.yaml"))
