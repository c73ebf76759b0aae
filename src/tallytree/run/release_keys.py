"""The keys of one release, and the digest of its plan.

**Without a secret** every key is fresh (or, for experiments, of the seed), is used once and is thrown away.

**With a secret** every key is a pseudorandom function of (secret, data set, run):

    release key          = F(secret, "release", data set, run)
    records that count   = F(release key, "records that count")            before the records are read
    noise                = F(release key, "noise", release id, statistics, plan)
    noise after a choice = F(release key, "noise after a choice", release id, statistics, statistics₂, plan, plan₂)
    keyed digest         = F(release key, "statistics", release id, statistics)   kept in the ledger, never published
    digest of inputs     = F(release key, "inputs", release id, stamps)           likewise

F is keyed BLAKE2b (`entropy.derive`). `statistics` is a digest of all true statistics, and `plan` one of everything
else that decides what is measured and how it is published: the spec, the planned statement with every scale, the public
tree with its labels, and the versions of the software. The release id is drawn at random when the ledger's entry is
made, so that no two entries, of two ledgers either, have the same noise. `statistics₂` and `plan₂` are those of what is
measured after noisy answers have chosen the contribution bound (`auto_bound`); also without a secret.

**Why a repetition costs nothing.** The noise is a function of (secret, data set, run, entry, plan, statistics). Where
all of them are the same, so is every noisy measurement, and what is published is the same release again: it is one
output of one mechanism. Where one of them differs, the noise is that of another key, independent for all who do not
have the secret, so it is another release and has to be charged as one. In particular the same noise is never added to
two different statistics, whose difference would then be exact. The choice of the records that count does not depend on
the statistics: for each key it maps neighboring data sets to neighboring data sets (`contribution_bound`).

**Why a finished run is not compared where changes are charged.** Two outputs under one name that are equal, or not,
would say exactly whether the statistics have changed, which no noise protects. So a run shows one output at most for
free: with `on_changed="error"` it is the same release, or a refusal, which is outside the guarantee; with
`on_changed="charge"` a run whose last entry is finished, so that its output may have been seen, is charged and gets the
noise of a new entry, also where nothing changed. Only an entry that is still `started` is repeated then. And only the
last entry of a run is ever repeated: which of two was repeated would say which statistics the records agree with.
For the same reason an entry is finished before its output is shown (`order.make_release`), and of two processes that
run at once, only one shows an output that it was charged for: the other one finds that its entry is not the last, or is
finished, and shows nothing. (A ledger that is restored from a copy made between the two has the entry as started again;
no file can notice that. See `docs/decisions/0021-named-runs.md`.)

**Digest of inputs.** It tells whether the files that a release was made from were replaced since. Without a secret
there is none: a file's size tells how many records it has, and without a key everybody could try sizes.
`docs/decisions/0061-corrections.md` says what is told.

The ledger finds a repetition by the keyed digest. It is computed under the secret, so without the secret nobody can
test a guess of the records against it; with the secret they can, as they could subtract the noise.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from tallytree.accounting.spending import Entry
from tallytree.hierarchy import Hierarchy
from tallytree.ledger import KeyedDigest
from tallytree.private import entropy, read_secret
from tallytree.product import Product
from tallytree.release.stored_tree import described_tree
from tallytree.sources.same_tables import stamps_of

InputsSince = Literal["same", "changed", "not known"]
"""What is known of the inputs of a finished run: their files have the same sizes and times, or not; or nothing is."""


class KeyOptions(Protocol):
    """The options that decide the keys of a release; see `run.options`."""

    @property
    def secret(self) -> str | os.PathLike[str] | None:
        """The file with the publisher's secret."""

    @property
    def dataset(self) -> str | None:
        """The data set's name in the ledger."""

    @property
    def run(self) -> str | None:
        """The name of the run."""

    @property
    def seed(self) -> int | None:
        """What makes the noise reproducible, and the release not private."""


def release_key(options: KeyOptions) -> bytes:
    """The 32-byte key that the other keys of a release are derived from: of its secret, of its seed, or fresh."""
    if options.secret is not None:
        return run_key(options.secret, str(options.dataset), str(options.run))
    return entropy.fresh_key() if options.seed is None else entropy.key_from_seed(options.seed)


def run_key(secret: str | os.PathLike[str], dataset: str, run: str) -> bytes:
    """The release key of a run with a secret."""
    return entropy.derive(read_secret(secret), "release", dataset, run)


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


@dataclass(frozen=True, repr=False)
class ReleaseKeys:
    """The keys of a release whose statistics are complete. The secret is read once, so that they belong together.

    Attributes:
        key: the release key.
        from_secret: whether it is derived from a secret.
        statistics: the digest of the true statistics.
        asked: the canonical text of the spec and of the planned statement.
        plan: `plan_digest` of it and of the tree.
    """

    key: bytes
    from_secret: bool
    statistics: bytes
    asked: str
    plan: str

    def noise(self, release_id: str) -> bytes:
        """The key of the noise of an entry in the ledger."""
        if not self.from_secret:
            return entropy.derive(self.key, "noise", self.statistics.hex(), self.asked)
        return entropy.derive(self.key, "noise", release_id, self.statistics.hex(), self.plan)

    def noise_after_a_choice(self, release_id: str, statistics: bytes, plan: str) -> bytes:
        """The key of the noise of what is measured after a choice; it is bound to what was measured before, too.

        Args:
            release_id: the id of the release.
            statistics: the digest of the true statistics that are measured now.
            plan: the digest of the plan that was chosen.
        """
        digests = self.statistics.hex(), statistics.hex(), self.plan, plan
        return entropy.derive(self.key, "noise after a choice", release_id, *digests)

    def keyed_digest(self, release_id: str) -> str:
        """The digest of the true statistics under the secret, 64 hexadecimal digits.

        Raises:
            ValueError: there is no secret, and a digest without one would be a test for guesses of the records.
        """
        if not self.from_secret:
            raise ValueError("secret: a digest of the statistics needs one")
        return entropy.derive(self.key, "statistics", release_id, self.statistics.hex()).hex()

    def unrecorded_id(self) -> str:
        """The id of a release that no ledger has: 32 hexadecimal digits, random unless it has a seed."""
        return entropy.derive(self.key, "id", self.asked).hex()[:32]


def plan_digest(asked: str, tree: Hierarchy | Product) -> str:
    """A public digest of all that decides a release besides its records and its key: 64 hexadecimal digits.

    Args:
        asked: the canonical text of the spec and of the planned statement.
        tree: the public tree; its labels and their order are part of the digest. Names beside them, and words, are
            not: they decide neither what is measured nor the noise, and no number depends on them. So a release that is
            repeated after a name was corrected has the same numbers, and pays nothing.
    """
    description, hierarchies = described_tree(tree, names=False)
    digest = hashlib.sha256()
    for text in (asked, json.dumps(description, sort_keys=True)):
        _add(digest, text.encode("utf-8", "surrogatepass"))
    for file, hierarchy in hierarchies.items():
        _add(digest, json.dumps([file, hierarchy.levels, hierarchy.columns]).encode())
        for labels, parent in zip(hierarchy.labels, hierarchy.parent, strict=True):
            lengths, content = _text_bytes(labels)
            for part in (lengths, content, np.ascontiguousarray(parent, dtype="<i8").tobytes()):
                _add(digest, part)
        if hierarchy.reach is not None:  # it decides which records belong to a leaf
            _add(digest, np.ascontiguousarray(hierarchy.reach, dtype="<i8").tobytes())
    return digest.hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    """Add a part with its length, so that the parts cannot be divided in another way."""
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def _text_bytes(labels: pa.Array) -> tuple[bytes, bytes]:
    """The offsets of the labels in UTF-8, from 0, and their bytes one after the other."""
    text = pa.concat_arrays([labels.cast(pa.large_string())])
    _, offsets, content = text.buffers()
    ends = np.frombuffer(offsets, dtype="<i8")[text.offset : text.offset + len(text) + 1]
    here = b"" if content is None else content.to_pybytes()[ends[0] : ends[-1]]
    return (ends - ends[0]).tobytes(), here
