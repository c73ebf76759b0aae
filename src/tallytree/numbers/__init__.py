"""From a release again: other tables and error bars from what was published. Spends nothing."""
