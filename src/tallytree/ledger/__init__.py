"""The ledger: what was spent on which data set, recorded before any noise is drawn."""

from tallytree.ledger.account import Account
from tallytree.ledger.dataset_names import checked_name
from tallytree.ledger.ledger import Ledger

__all__ = ["Account", "Ledger", "checked_name"]
