"""The search for events: what is hidden in joint distributions is found, and chance is not mistaken for a finding."""

import numpy as np
import pytest

from tallytree.lab.audit.confidence_bounds import clopper_pearson, epsilon_at_least
from tallytree.lab.audit.events import AuditedView, best_events

N = 4_000


def objective(p, q):
    return epsilon_at_least(p, q, 0.0)


def view(before, after):
    return AuditedView(before, after, [f"cell {i}" for i in range(before.shape[1])])


def noise(cells, seed):
    return np.random.default_rng(seed).integers(-50, 51, (N, cells))


def found(seen):
    """The best event, and the ε that it shows on runs that it was not chosen on."""
    chosen_on, counted_on = seen.split()
    event = best_events(chosen_on, {"loss": objective})["loss"]
    more, fewer = event.counts(counted_on)
    trials = len(counted_on.before)
    low, high = clopper_pearson(more, trials, 1e-5)[0], clopper_pearson(fewer, trials, 1e-5)[1]
    return event, float(objective(low, high))


def test_noise_that_two_cells_share_shows_in_their_difference():
    before, after = noise(4, 1), noise(4, 2)
    before[:, 3], after[:, 3] = before[:, 1], after[:, 1] + 1
    event, epsilon = found(view(before, after))
    assert epsilon > 4
    assert event.score.name in ("cell 1 − cell 3", "the linear discriminant of all cells")


def test_noise_that_cancels_in_a_sum_of_many_cells_shows_in_the_linear_discriminant():
    before, after = noise(5, 3), noise(5, 4)
    for runs, shift in ((before, 0), (after, 1)):
        runs[:, 4] = runs[:, 0] + 2 * runs[:, 1] - runs[:, 2] + shift
    event, epsilon = found(view(before, after))
    assert event.score.name == "the linear discriminant of all cells"
    assert epsilon > 4


def test_a_value_in_the_middle_that_one_input_gives_more_often_is_an_event():
    before, after = noise(1, 5), noise(1, 6)
    after[::5] = 7
    event, epsilon = found(view(before, after))
    assert (event.comparison, event.value, event.likelier_after) == ("equal to", 7, True)
    assert epsilon > 2


@pytest.mark.parametrize("seed", range(10))
def test_equal_distributions_show_nothing(seed):
    # Each may be wrong with probability 2e-5.
    assert found(view(noise(6, 100 + seed), noise(6, 200 + seed)))[1] == 0


def test_events_are_chosen_and_counted_on_different_runs():
    chosen_on, counted_on = view(noise(2, 7), noise(2, 8)).split()
    assert len(chosen_on.before) + len(counted_on.before) == N
    assert len(chosen_on.before) == N // 4


def test_nothing_seen_is_no_event():
    nothing = np.empty((N, 0), dtype=np.int64)
    assert best_events(view(nothing, nothing), {"loss": objective}) == {}


def test_an_event_says_what_it_is():
    before, after = noise(1, 9), noise(1, 10) + 200
    event, _ = found(view(before, after))
    assert str(event).startswith("cell 0 is at ")
    assert str(event).endswith((" (likelier under neighbor)", " (likelier under data)"))
