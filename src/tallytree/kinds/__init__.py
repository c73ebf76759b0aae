"""What a mechanism is, what it measures, and what a release protects: the words that all other rooms share."""
