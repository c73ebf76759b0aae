"""Group sizes: isotonic regressions, the joint estimate, matchings, and histograms over a hierarchy."""
