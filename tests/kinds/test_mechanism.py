"""`Mechanism`: the choice of one, its traits, and which modules its package imports."""

import subprocess
import sys

import pytest

import tallytree as tt
from tallytree.counts import CountsMechanism, LeastSquares, TopDown
from tallytree.kinds.mechanism import Mechanism
from tallytree.sizes import Joint, Matching, SizesMechanism

PAPERS = ("tallytree.solvers.papers", "cvxpy", "clarabel", "highspy", "osqp", "scs", "ortools", "pyscipopt")


@pytest.mark.parametrize(("base", "default"), [(CountsMechanism, LeastSquares()), (SizesMechanism, Joint())])
def test_without_a_mechanism_the_default_is_chosen(base, default):
    assert base.chosen(None, default) is default


@pytest.mark.parametrize(
    ("base", "given", "default"), [(CountsMechanism, TopDown(), LeastSquares()), (SizesMechanism, Matching(), Joint())]
)
def test_a_given_mechanism_is_chosen(base, given, default):
    assert base.chosen(given, default) is given


@pytest.mark.parametrize(
    ("base", "given", "default", "message"),
    [
        (CountsMechanism, TopDown, LeastSquares(), r"^mechanism: TopDown is a class; write TopDown\(\)$"),
        (CountsMechanism, Joint(), LeastSquares(), r"tallytree.counts, for instance LeastSquares\(\)$"),
        (SizesMechanism, Matching, Joint(), r"^mechanism: Matching is a class; write Matching\(\)$"),
        (
            SizesMechanism,
            "Joint",
            Joint(),
            r"mechanism: str must be one of tallytree.sizes, for instance Joint\(\)$",
        ),
    ],
)
def test_anything_else_is_refused_with_what_to_give_instead(base, given, default, message):
    with pytest.raises(TypeError, match=message):
        base.chosen(given, default)


def test_all_public_mechanisms_have_one_base():
    for package, base in ((tt.counts, CountsMechanism), (tt.sizes, SizesMechanism)):
        offered = [getattr(package, name) for name in package.__all__]
        mechanisms = [kind for kind in offered if issubclass(kind, Mechanism) and kind is not base]
        assert len(mechanisms) > 3
        assert all(kind.__mro__[1:].index(base) < kind.__mro__[1:].index(Mechanism) for kind in mechanisms)


@pytest.mark.parametrize("package", ["counts", "sizes"])
def test_importing_mechanisms_imports_none_of_the_papers_solvers(package):
    """In a process of its own, where nothing else was imported."""
    code = (
        f"import sys, tallytree.{package}\n"
        f"print([name for name, module in sys.modules.items() if module and name.startswith({PAPERS!r})])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
