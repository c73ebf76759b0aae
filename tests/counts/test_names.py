"""The public names of `tallytree.counts`."""

import tallytree as tt


def test_tab_completion_shows_the_mechanisms_and_what_their_authors_need():
    assert dir(tt.counts) == [
        "CountsMechanism",
        "LeafGaussian",
        "LeastSquares",
        "ReleasedCounts",
        "StabilityHistogram",
        "TopDown",
    ]
    assert all(hasattr(tt.counts, name) for name in dir(tt.counts))
