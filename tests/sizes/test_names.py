"""The public names of `tallytree.sizes`."""

import tallytree as tt


def test_tab_completion_shows_the_mechanisms_and_what_their_authors_need():
    assert dir(tt.sizes) == [
        "BottomUp",
        "CensusTopDown",
        "Chain",
        "CumulativeProjection",
        "HistogramProjection",
        "Independent",
        "Joint",
        "Matching",
        "MeanConsistency",
        "PrivateMaximum",
        "ReleasedSizes",
        "SizesDomain",
        "SizesMechanism",
    ]
    assert all(hasattr(tt.sizes, name) for name in dir(tt.sizes))
