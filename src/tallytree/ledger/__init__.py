"""The ledger: what was spent on which data set, recorded before any noise is drawn."""

from tallytree.ledger.ledger import Account, Ledger
from tallytree.ledger.names import checked_name, checked_run
from tallytree.ledger.new_events import KeyedDigest, OnChanged, Recorded, which_parts

__all__ = ["Account", "KeyedDigest", "Ledger", "OnChanged", "Recorded", "checked_name", "checked_run", "which_parts"]
