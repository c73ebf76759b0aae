"""Whether the files that a release was made from were replaced since: a keyed digest of their stamps.

    digest of inputs = F(release key, "inputs", release id, stamps)        kept in the ledger, never published

F and the release key are those of `release_keys`. Without a secret there is no digest: a file's size tells how many
records it has, and without a key everybody could try sizes. `docs/decisions/0061-corrections.md` says what is told.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from tallytree.accounting.spending import Entry
from tallytree.ledger import KeyedDigest
from tallytree.private import entropy
from tallytree.run.release_keys import run_key
from tallytree.sources.stamps import stamps_of

InputsSince = Literal["same", "changed", "not known"]
"""What is known of the inputs of a finished run: their files have the same sizes and times, or not; or nothing is."""


def inputs_digest(
    secret: str | os.PathLike[str] | None, dataset: str | None, run: str | None, table: Any, argument: str
) -> KeyedDigest | None:
    """Gives the digest of a private table's files, as they are now, for a release id; None where it is not known.

    Args:
        secret: the file with the publisher's secret.
        dataset: the data set's name in the ledger, in its normal form.
        run: the name of the run, in its normal form.
        table: the private table, of which no row is read.
        argument: its name in messages.

    Raises:
        ValueError, OSError: the secret cannot be used.
    """
    if secret is None:
        return None
    stamps = stamps_of(table, argument)
    if stamps is None:
        return None
    key = run_key(secret, str(dataset), str(run))
    return lambda release_id: entropy.derive(key, "inputs", release_id, stamps).hex()


def inputs_since(entry: Entry, now: KeyedDigest | None) -> InputsSince:
    """Whether the files of a release are those that it was made from.

    Args:
        entry: of the release.
        now: gives the digest of the files as they are now; None where it is not known.
    """
    if entry.inputs is None or now is None:
        return "not known"
    return "same" if now(entry.release_id) == entry.inputs else "changed"
