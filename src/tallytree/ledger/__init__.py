"""The ledger: what was spent on which data set, recorded before any noise is drawn."""

from tallytree.ledger.account import Account
from tallytree.ledger.dataset_names import checked_name, checked_run
from tallytree.ledger.ledger import Ledger
from tallytree.ledger.release_events import Recorded
from tallytree.ledger.runs import KeyedDigest, OnChanged, which_parts

__all__ = ["Account", "KeyedDigest", "Ledger", "OnChanged", "Recorded", "checked_name", "checked_run", "which_parts"]
