"""The options of releases, each once, in groups: a function's arguments are made of those that it has.

A group is a dataclass that checks its own options. Those that every release has are `SharedArguments`, on what is
protected (`tallytree.kinds.terms`). The arguments of each function are in `tallytree.run.arguments`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, get_args

from tallytree.accounting.periods import Period
from tallytree.counts import CountsMechanism
from tallytree.engines import Engine
from tallytree.kinds.contributions import Contributions, asked_contributions
from tallytree.kinds.terms import AUTO, OF_A_RUN, Doc, Terms
from tallytree.ledger import Ledger, OnChanged, checked_name, checked_run
from tallytree.private import InPeriod
from tallytree.release.statement import Status, checked_line, checked_words
from tallytree.run.revised import Revised
from tallytree.support.validate import choice, column, flag, memory_text, path_text, text

LeafColumns: TypeAlias = Annotated[Any, "text or texts"]
"""A column, or columns by attribute; see `tallytree.trees.leaf_keys.leaf_keys`."""
Unlisted: TypeAlias = Literal["zero", "remainder"]

COUNTS_MECHANISM = Doc(
    "how noisy measurements become counts, one of `tallytree.counts`; `LeastSquares()` by default. "
    "(`StabilityHistogram()` has Laplace noise, with δ too.)",
    hint="give its name, and options if any: mechanism: {name: ...}",
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SharedArguments(Terms):
    """The options that every kind of release has, besides those that say what is protected."""

    private_argument: ClassVar[str] = "records"
    """The argument with the private records."""

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
    ledger: Annotated[Ledger | str | os.PathLike[str] | None, OF_A_RUN["ledger"]] = None
    dataset: Annotated[str | None, OF_A_RUN["dataset"]] = None
    run: Annotated[str | None, OF_A_RUN["run"]] = None
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
    period_column: Annotated[
        str | None,
        Doc(
            "the column that says when a record was: dates, timestamps, or days, months (`2026-03`) or weeks "
            "(`2026-W10`) as text; other text is refused. Records that do not lie in the period, or have no date, are "
            "left out; how many is not shown (the total is private then). Without it, that all lie in the period is "
            "assumed.",
            hint="the column that says when a record was; records outside the period are left out",
        ),
    ] = None
    revises: Annotated[str | os.PathLike[str] | None, OF_A_RUN["revises"]] = None
    secret: Annotated[str | os.PathLike[str] | None, OF_A_RUN["secret"]] = None
    on_changed: Annotated[OnChanged, OF_A_RUN["on_changed"]] = "error"
    approved_by: Annotated[str | None, OF_A_RUN["approved_by"]] = None
    reason: Annotated[str | None, OF_A_RUN["reason"]] = None
    ticket: Annotated[str | None, OF_A_RUN["ticket"]] = None
    memory: Annotated[str | None, OF_A_RUN["memory"]] = None
    keep_measurements: Annotated[
        bool,
        Doc(
            "keep the noisy measurements in the release. Without them it is smaller, and `reconcile_group_sizes` "
            "cannot be used on it later.",
            hint="false to leave the noisy measurements out of the release",
        ),
    ] = True
    title: Annotated[
        str | None,
        Doc("what the release is called, for its readers.", hint='name the release, such as "Commutes 2026"'),
    ] = None
    publisher: Annotated[
        str | None, Doc("who publishes the release, for its readers.", hint="name the office that publishes it")
    ] = None
    contact: Annotated[
        str | None,
        Doc("whom readers can ask: an address, a telephone number.", hint="give an address that readers can write to"),
    ] = None
    status: Annotated[
        Status | None,
        Doc(
            'how final the numbers are, for readers: `"provisional"`, `"revised"` or `"final"`.',
            hint="provisional, revised or final",
        ),
    ] = None
    words: Annotated[
        Mapping[str, str] | None,
        "words",
        Doc(
            'what `"record"`, `"person"` and `"group"` are called in the report and the statement, such as '
            '`{"record": "trip", "person": "child/children"}`; with a slash before a plural that is not regular.',
            hint="name units: words: {record: trip, person: commuter, group: household}",
        ),
    ] = None
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
        column(self.period_column, "period_column")
        if self.revises is not None:
            path_text(self.revises, "revises", "the folder of an earlier release")
        for name in ("title", "publisher", "contact"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_line(getattr(self, name), name))
        if self.status is not None:
            choice(self.status, "status", get_args(Status))
        if self.words is not None:
            object.__setattr__(self, "words", checked_words(self.words))
        if self.period is not None:
            object.__setattr__(
                self, "period", str(Period.parse(text(self.period, "period", "days such as 2026-03-04")))
            )

    @property
    def private_table(self) -> Any:
        """The table with the private records."""
        return getattr(self, self.private_argument)

    @property
    def asked_contributions(self) -> Contributions | None:
        """How people are counted by their number of records; None where they are not."""
        return None

    @property
    def days(self) -> Period | None:
        """The days that the records are about: as stated, or as the run's name says; None where neither does."""
        if self.period is not None:
            return Period.parse(self.period)
        return None if self.run is None else Period.of_name(self.run)

    @property
    def checked_period(self) -> tuple[str, str] | None:
        """See `Terms.checked_period`.

        Raises:
            ValueError: no period is known.
        """
        if self.period_column is None:
            return None
        if self.days is None:
            raise ValueError(
                f"period_column: {self.period_column!r} is compared with the period, and none is known; give period, "
                "or a run that is a day, a week or a month"
            )
        return self.period_column, str(self.days)

    @property
    def in_period(self) -> InPeriod | None:
        """The same, as an engine is asked for it."""
        checked = self.checked_period
        return None if checked is None else InPeriod(checked[0], Period.parse(checked[1]))

    @property
    def period_spec(self) -> dict[str, Any]:
        """What the published spec says of it; nothing where no record is left out for its date."""
        checked = self.checked_period
        return {} if checked is None else {"period_column": checked[0], "period": checked[1]}

    @cached_property
    def revised(self) -> Revised | None:
        """The release that this one takes the place of; None without one. It is read once.

        Raises:
            ValueError: the folder holds no release that can be revised.
        """
        return None if self.revises is None else Revised.load(self.revises)

    @property
    def description(self) -> dict[str, Any]:
        """What the publisher says of the release, as far as it does. It changes nothing of it."""
        names = ("title", "publisher", "contact", "status", "words")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    @property
    def key_from_secret(self) -> bool:
        """See `Terms.key_from_secret`."""
        return self.secret is not None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PersonOptions(SharedArguments):
    """The options about people with several records."""

    person: Annotated[
        str | None,
        Doc(
            "the column with the id of the person whom a record belongs to (text or integers). Of every person at most "
            "`max_contributions` records then count, chosen by a secret key. The total is private then. For group "
            "sizes a record is an entity row: a membership of a group.",
            hint="the column with the ids of people, to enforce max_contributions",
        ),
    ] = None
    contributions: Annotated[
        Contributions | float | None,
        Doc(
            "with `person`, a share of the budget, or `tallytree.Contributions(share=…, at_most=…)`: measures first "
            "how many people have how many records, and publishes it with the share of the records that "
            "`max_contributions` leaves out, and its interval.",
            hint="with person: a share such as 0.05, or {share: ..., at_most: ...}, to see what max_contributions cuts",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: people are to be counted by their records, but nothing names them; or up to a number that the
                contribution bound reaches already.
            TypeError: a value of the wrong kind.
        """
        super().__post_init__()
        column(self.person, "person")
        asked = asked_contributions(self.contributions)
        object.__setattr__(self, "contributions", asked)
        if self.max_contributions == AUTO:
            self._check_auto(asked)
        if asked is None:
            return
        if self.person is None:
            raise ValueError(
                f"contributions: {asked!r} counts people by their number of records, so it needs person, the column "
                "that names them; give it, or leave contributions out"
            )
        if self.max_contributions != AUTO and asked.at_most <= self.bound:
            raise ValueError(
                f"contributions: at_most={asked.at_most} must be more than max_contributions, which is "
                f"{self.bound}; give the most records that a person may have"
            )

    def _check_auto(self, asked: Contributions | None) -> None:
        """Refuse to choose the contribution bound where nothing is measured that it could be chosen from.

        Raises:
            ValueError: people are not named, or not counted by their number of records.
        """
        if self.person is None:
            raise ValueError(
                'max_contributions: "auto" is chosen by how many records people have, so it needs person, the column '
                "that names them; give it, or give a number"
            )
        if asked is None:
            raise ValueError(
                'max_contributions: "auto" is chosen from what contributions measures; give contributions='
                "tallytree.Contributions(share=…, at_most=…), with the most records that a person may have, or give a "
                "number"
            )

    @property
    def person_column(self) -> str | None:
        """See `Terms.person_column`."""
        return self.person

    @property
    def asked_contributions(self) -> Contributions | None:
        """See `SharedArguments.asked_contributions`: the option, as it is after the check."""
        return cast("Contributions | None", self.contributions)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RecordOptions(PersonOptions):
    """The options of all that counts records."""

    count: Annotated[
        str | None,
        Doc(
            "a column with the number of records that each row stands for; by default each row is one.",
            hint="the column with the number of records of a row",
        ),
    ] = None
    distinct: Annotated[
        bool,
        Doc(
            "with `person`, count every person at most once in a leaf (for flows a pair of leaves). At most "
            "`max_contributions` leaves of a person count, and the leaves have less noise (by √m with Gaussian noise).",
            hint="with person: true to count every person at most once in a leaf",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: distinct without a person: a smaller sensitivity that nothing enforces.
            TypeError: a value of the wrong kind.
        """
        super().__post_init__()
        column(self.count, "count")
        flag(self.distinct, "distinct")
        if self.distinct and self.person is None:
            raise ValueError(
                "distinct: True counts every person at most once in a leaf, so it needs person, the column that names "
                "them; give it, or leave distinct out"
            )

    @property
    def distinct_people(self) -> bool:
        """See `Terms.distinct_people`."""
        return self.distinct


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PriorOptions(RecordOptions):
    """The options about an earlier table that the numbers are expected to resemble."""

    prior: Annotated[
        Any,
        "table",
        Doc(
            "an earlier release (an object, or its folder), or a public table with columns of the hierarchies and "
            "`count`, which the numbers are expected to resemble: last month's, the last census, a register. How far "
            "they do is learned from the noisy numbers. It costs no budget and changes nothing of what is measured.",
            hint="the folder of an earlier release, or a public table, that the numbers are expected to resemble",
        ),
    ] = None
    prior_is_public: Annotated[
        bool,
        Doc(
            "of a `prior` that is a table, or a release that the ledger does not have: that it is public. What was "
            "made of private records without protection must not be given. The statement repeats it.",
            hint="true if the prior is public: a table, or a published release that the ledger does not have",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            TypeError: a value of the wrong kind.
        """
        super().__post_init__()
        flag(self.prior_is_public, "prior_is_public")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CountsOptions(SharedArguments):
    """The options that counts and flows share."""

    mechanism: Annotated[CountsMechanism | None, COUNTS_MECHANISM] = None
    unlisted: Annotated[
        Unlisted,
        Doc(
            'of flows and other products, what a cell is that is not listed. `"zero"`: its count is 0. `"remainder"`: '
            "cells are listed where that lowers the expected error, and each table has rows, null in the finer "
            "columns, with how much of a coarser cell is not listed. For sparse data (`docs/explanation/counts.md`).",
            hint="zero or remainder",
        ),
    ] = "zero"
