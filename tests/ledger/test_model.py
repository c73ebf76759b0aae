"""The ledger against a list, in random sequences of operations."""

import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import tallytree as tt
from helpers.inside import Approval
from helpers.ledger_entries import approximate, posting, pure, zcdp
from tallytree.ledger import Ledger, verified

AMOUNTS = st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=50)
LOSSES = st.one_of(
    AMOUNTS.map(pure),
    st.builds(lambda epsilon, delta: approximate(epsilon, delta / 100), AMOUNTS, AMOUNTS),
    AMOUNTS.map(zcdp),
)
LIMITS = st.one_of(
    AMOUNTS.map(lambda epsilon: tt.Budget(epsilon=3 * epsilon)),
    st.builds(lambda epsilon, delta: tt.Budget(epsilon=3 * epsilon, delta=delta / 40), AMOUNTS, AMOUNTS),
    AMOUNTS.map(lambda rho: tt.Budget(rho=3 * rho)),
)
APPROVAL = Approval(reason="more was approved")


def fits(losses, limit):
    """Whether the losses can be counted against the limit, and lie within it."""
    if limit is None:
        return True
    if limit.rho is not None:
        return sum(loss.rho for loss in losses) <= limit.rho
    if any(loss.epsilon is None for loss in losses):
        return False
    return sum(loss.epsilon for loss in losses) <= limit.epsilon and sum(loss.delta for loss in losses) <= (
        limit.delta or 0
    )


class Bookkeeping(RuleBasedStateMachine):
    """The ledger against a list."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(verified, "CHUNK", 3)
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger(Path(self.folder.name) / "ledger.db")
        self.losses, self.limit, self.finished = [], None, set()

    def teardown(self):
        self.patch.undo()
        self.folder.cleanup()

    @rule(loss=LOSSES)
    def record(self, loss):
        if fits([*self.losses, loss], self.limit):
            self.ledger.check(posting(loss))
            assert self.ledger.record(posting(loss)).number == len(self.losses) + 1
            self.losses.append(loss)
        else:
            with pytest.raises((tt.BudgetExceeded, ValueError), match=r"^budget: "):
                self.ledger.record(posting(loss))

    @rule(limit=LIMITS)
    def set_limit(self, limit):
        if fits(self.losses, limit):
            self.ledger.set_limit("people", limit, neighboring="unbounded", approval=APPROVAL)
            self.limit = limit
        else:
            with pytest.raises(ValueError, match=r"^budget: "):
                self.ledger.set_limit("people", limit, neighboring="unbounded", approval=APPROVAL)

    @rule()
    def begin_another_process(self):
        verified.forget()

    @precondition(lambda self: self.losses)
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.integers(1, len(self.losses)))
        self.ledger.finish(number)
        self.finished.add(number)

    @invariant()
    def the_books_agree(self):
        if not self.losses:
            return
        standing, listed = self.ledger.standing("people"), self.ledger.dataset("people")
        for name in ("sums", "limits", "least_bound", "most_bounds", "unit", "spent"):
            assert getattr(standing, name) == getattr(listed, name)
        entries = self.ledger.entries("people")
        assert [entry.loss for entry in entries] == self.losses
        assert {entry.number for entry in entries if entry.state == "finished"} == self.finished
        assert self.ledger.dataset("people").limit == self.limit
        for name, amount in self.ledger.spent("people").items():
            assert amount == sum(getattr(loss, name) for loss in self.losses)


TestBookkeeping = Bookkeeping.TestCase
TestBookkeeping.settings = settings(max_examples=12, stateful_step_count=12)
