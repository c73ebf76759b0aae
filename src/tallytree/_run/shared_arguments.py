"""The options that every kind of release has, besides those that say what is protected (`tallytree._terms`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_args

from tallytree._accounting.periods import Period
from tallytree._terms import Doc, Terms
from tallytree._validate import choice, flag, memory_text, text
from tallytree.engines import Engine
from tallytree.ledger import Ledger, OnChanged, checked_name, checked_run

LeafColumns: TypeAlias = Annotated[Any, "text or texts"]
"""A column, or columns by attribute; see `tallytree.product.leaf_keys`."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SharedArguments(Terms):
    """The options that every kind of release has, besides those that say what is protected."""

    leaf: Annotated[
        LeafColumns,
        Doc(
            "the one column of the records that has the code of a leaf, in place of the columns of all levels. The "
            "hierarchy gives the path, so its leaves must have codes of their own. Of flows and products a mapping "
            'from attributes to columns, such as `{"origin": "home", "destination": "work"}`.',
            hint="the column of the records with the code of a leaf, or such columns by attribute",
        ),
    ] = None
    engine: Annotated[
        Engine | None,
        Doc(
            "where records are tabulated; `tallytree.engines.Local()` by default.",
            hint="give memory_limit, threads or temp_directory: engine: {threads: 2}",
        ),
    ] = None
    ledger: Annotated[
        Ledger | str | os.PathLike[str] | None,
        Doc(
            "a file, or a `tallytree.ledger.Ledger`, in which the release is recorded before its noise is drawn, and "
            "which refuses it where the data set's limit has no room. The file is made where there is none.",
            hint="give the path of the ledger that keeps what is spent",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        Doc(
            "the data set's name in the ledger; the same for all releases of the same people.",
            hint="give the data set's name in the ledger",
        ),
    ] = None
    run: Annotated[
        str | None,
        Doc(
            "a name for the release, such as the day that it is about. The ledger admits a run of a data set once; "
            "with a `secret` the same run can be repeated.",
            hint='name the run, such as "2026-11-22"',
        ),
    ] = None
    period: Annotated[
        str | None,
        Doc(
            "the days that the records are about, for a ledger's limits of a week, a month or a year: a day "
            "(`2026-03-04`), a week (`2026-W10`), a month, a year, or the first and the last day "
            "(`2026-03-04/2026-03-10`). By default the name of the run, if that is a day, a week or a month. A release "
            "without a period counts in all windows.",
            hint='give the days that the records are about, such as "2026-03-04" or "2026-W10"',
        ),
    ] = None
    secret: Annotated[
        str | os.PathLike[str] | None,
        Doc(
            "a file with the publisher's secret, made by `tallytree secret new`. The keys are then derived from it, "
            "the data set, the run and the plan: the same run on the same records makes the same release and costs "
            "nothing more. It needs `run`, `ledger` and `dataset`.",
            hint="give the path of the secret that `tallytree secret new` made",
        ),
    ] = None
    on_changed: Annotated[
        OnChanged,
        Doc(
            'where the ledger has the run already, but with another plan or other records: `"error"`, or `"charge"` to '
            "make it a new release and charge it as one.",
            hint="error, or charge a changed run as a new release",
        ),
    ] = "error"
    approved_by: Annotated[str | None, Doc("for the ledger: who approved the release.")] = None
    reason: Annotated[str | None, Doc("for the ledger: why it is made.")] = None
    ticket: Annotated[str | None, Doc("for the ledger: a reference, such as the number of a ticket.")] = None
    memory: Annotated[
        str | None,
        Doc(
            'about how much memory the run may take, such as `"4GB"`: what does not fit is worked on part by part, '
            "from and to temporary files. The released numbers do not depend on it. By default all is done in memory.",
            hint='about how much memory the run may take, such as "4GB"',
        ),
    ] = None
    keep_measurements: Annotated[
        bool,
        Doc(
            "keep the noisy measurements in the release. Without them it is smaller, and `reconcile_group_sizes` "
            "cannot be used on it later.",
            hint="false to leave the noisy measurements out of the release",
        ),
    ] = True
    progress: Annotated[bool, Doc("show a progress bar on standard error.")] = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError, TypeError: a value that cannot be used.
        """
        super().__post_init__()
        if self.memory is not None:
            memory_text(self.memory, "memory")
        flag(self.keep_measurements, "keep_measurements")
        choice(self.on_changed, "on_changed", get_args(OnChanged))
        if self.dataset is not None:
            object.__setattr__(self, "dataset", checked_name(self.dataset))
        if self.run is not None:
            object.__setattr__(self, "run", checked_run(self.run))
        flag(self.progress, "progress")
        if self.period is not None:
            object.__setattr__(
                self, "period", str(Period.parse(text(self.period, "period", "days such as 2026-03-04")))
            )

    @property
    def days(self) -> Period | None:
        """The days that the records are about: as stated, or as the run's name says; None where neither does."""
        if self.period is not None:
            return Period.parse(self.period)
        return None if self.run is None else Period.of_name(self.run)

    @property
    def key_from_secret(self) -> bool:
        """See `Terms.key_from_secret`."""
        return self.secret is not None
