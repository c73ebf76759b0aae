"""The ledger: what was spent on which data set, recorded before any noise is drawn."""

from tallytree.ledger.book import Account, Ledger

__all__ = ["Account", "Ledger"]
