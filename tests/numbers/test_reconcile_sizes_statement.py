"""The statement of tables made again from noisy measurements."""

import dataclasses

import pytest

import tallytree as tt
from helpers.reconciled import released
from tallytree.numbers.reconcile import MADE_AGAIN

# --- The statement ---


def test_the_statement_is_the_earlier_one_with_another_mechanism(areas, tmp_path):
    made = released(areas, invariants="total", ledger=tmp_path / "ledger", dataset="homes", on_unknown="drop")
    again = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Joint(smoothness=1))
    changed = {"mechanism", "reconciled", "notes"}
    for key in made.statement.keys() - changed:
        assert again.statement[key] == made.statement[key], key
    assert again.statement["mechanism"] == {"name": "Joint", "options": {"smoothness": 1, "tolerance": 0.01}}
    assert again.statement["reconciled"]["measured_for"] == made.statement["mechanism"]
    assert again.statement["reconciled"]["software"]["tallytree"] == tt.__version__
    note, *others = again.statement["notes"]
    assert note.startswith(MADE_AGAIN)
    assert "nothing more was spent" in note
    assert others == made.statement["notes"]
    assert again.spec == made.spec
    assert "reconciled" not in made.statement
    loaded = tt.Release.load(again.save(tmp_path / "again"))
    assert loaded.statement == again.statement
    assert len(tt_ledger(tmp_path / "ledger").entries) == 1


def tt_ledger(path):
    from tallytree.ledger import Ledger

    return Ledger(path).dataset("homes")


def test_again_and_again_names_the_first_mechanism_and_says_it_once(areas):
    made = released(areas)
    again = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.Joint())
    twice = tt.reconcile_group_sizes(again, areas, mechanism=tt.sizes.CumulativeProjection())
    assert twice.statement["reconciled"]["measured_for"] == made.statement["mechanism"]
    assert sum(note.startswith(MADE_AGAIN) for note in twice.statement["notes"]) == 1
    assert "by CumulativeProjection" in twice.statement["notes"][0]


def test_a_seeded_release_stays_one_that_protects_nobody(areas):
    again = tt.reconcile_group_sizes(released(areas, seed=1), areas)
    assert again.statement["private"] is False
    assert again.statement["spent"] == {"epsilon": "infinity"}
    assert again.statement["guarantee"].startswith("NOT PRIVATE")


def test_a_published_calibration_is_stated_and_stays(areas):
    chain = tt.sizes.Chain("as_published")
    with pytest.warns(UserWarning, match="truly spends"):
        made = released(areas, mechanism=chain)
    again = tt.reconcile_group_sizes(made, areas, mechanism=chain)
    assert all(again.table(level).equals(made.table(level)) for level in made.levels)
    valid = tt.reconcile_group_sizes(again, areas, mechanism=tt.sizes.Chain())
    for each in (again, valid):
        assert any("truly spends" in note for note in each.statement["notes"])
        assert each.statement["spent"] == made.statement["spent"]
    with pytest.raises(ValueError, match=r"mechanism: Chain\(calibration='as_published'\)"):
        tt.reconcile_group_sizes(released(areas, mechanism=tt.sizes.Chain()), areas, mechanism=chain)


def test_what_does_not_add_up_is_cautioned_about_and_mended(areas):
    pytest.importorskip("cvxpy")
    relaxed = tt.sizes.HistogramProjection(solver="relaxed")
    with pytest.warns(UserWarning, match="need not add up"):
        made = released(areas, mechanism=relaxed, invariants="none")
    mended = tt.reconcile_group_sizes(made, areas, mechanism=tt.sizes.HistogramProjection())
    assert not any("need not add up" in note for note in mended.statement["notes"])
    assert mended.statement["constraint_violations"] == 0
    with pytest.warns(UserWarning, match="mechanism: .* need not add up"):
        back = tt.reconcile_group_sizes(mended, areas, mechanism=relaxed)
    assert back.statement["notes"][0] == made.statement["notes"][0]
    assert back.statement["constraint_violations"] == made.statement["constraint_violations"]


def test_public_numbers_that_the_tables_do_not_have_are_not_taken_from_them(areas):
    """A mechanism of one's own that loses a group says so in its statement, and is not built upon."""

    @dataclasses.dataclass(frozen=True)
    class Loses(tt.sizes.Matching):
        def reconcile(self, domain, measurer):
            levels = super().reconcile(domain, measurer)
            return [dataclasses.replace(level, groups=level.groups + (level.sizes == 3)) for level in levels]

    for invariants in ("groups", "total"):
        made = released(areas, mechanism=Loses(), invariants=invariants, budget=tt.Budget(epsilon=5_000))
        assert made.statement["public_groups_kept"] is False
        with pytest.raises(ValueError, match="release: its tables do not have the public numbers of groups"):
            tt.reconcile_group_sizes(made, areas)
    made = released(areas, mechanism=Loses(), invariants="none", budget=tt.Budget(epsilon=5_000))
    assert made.statement["public_groups_kept"] is True
    tt.reconcile_group_sizes(made, areas)
