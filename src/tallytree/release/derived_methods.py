"""The methods of `Release` that give derived numbers: ratios, shares, means and quantiles, with their errors.

The functions behind them lie on floors above `release/`, which imports nothing from there. So `ABOVE` says where each
is, and it is imported when the method is first called.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tallytree.hierarchy import TOTAL

ABOVE: dict[str, tuple[str, str]] = {
    "difference": ("tallytree.numbers.differences", "difference"),
    "mean": ("tallytree.numbers.derived", "mean"),
    "mean_of_households": ("tallytree.numbers.households", "mean_of_households"),
    "plot": ("tallytree.views.report.plots", "plots_of"),
    "quantile": ("tallytree.numbers.derived", "quantile_of"),
    "ratio": ("tallytree.numbers.derived", "ratio"),
    "records": ("tallytree.numbers.records", "records"),
    "scaled": ("tallytree.numbers.all_records", "scaled_levels"),
    "share": ("tallytree.numbers.derived", "share"),
    "total": ("tallytree.numbers.derived", "total"),
}
"""By method of `Release`, or `HouseholdsRelease`, the module and the name of its function, which gets the release."""


def method_from_above(name: str) -> Callable[..., Any]:
    """The function of a method of `Release`."""
    module, function = ABOVE[name]
    method: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return method


class DerivedNumbers(ABC):
    """What a release tells beyond its published numbers; `docs/how-to/derived-numbers.md` has examples."""

    @abstractmethod
    def _name(self, given: tuple[str, ...]) -> str:
        """The level, or the table, that somebody names."""

    def share(
        self,
        *level: str,
        within: str | tuple[str, ...] = (),
        alpha: float = 0.1,
        replicates: int | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """Every number of a level, or of a table, as a share of the number that it is a part of, with its error.

        A part and its whole err together, so the error of a share follows from both variances and their covariance:
        that of the least-squares estimate of all measurements, or that of replicates. Intervals are Fieller's, within
        0 … 1; they cover the privacy noise only. Nothing is spent.

        Args:
            level: the name of a level, or of a table, as in `table`.
            within: the level, or the table, of the wholes: coarser, and by default the total. Of tables it is named by
                its levels, such as `("county",)` for the shares of each county's sexes.
            alpha: intervals are to miss the true share with this probability.
            replicates: of counts, estimate the errors from so many replicates. By default exact errors are used where
                there are any, and else as many replicates as the release's own errors are from, or 50.
            seed: makes the replicates reproducible, for tests.

        Returns:
            The path columns; `count`; `of`, the published number of the whole; `share`, null where that is 0;
            `std_dev`, null where the whole may be 0; `ci_lower`, `ci_upper`, and `quality`.

        Raises:
            ValueError: an unknown level or table, one that is not coarser, a value out of range; or a release whose
                errors of sums are not known, such as flows that are not all listed.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"within": within, "alpha": alpha, "replicates": replicates, "seed": seed}
        return method_from_above("share")(self, self._name(level), **options)

    def difference(
        self, first: Any, second: Any, *, alpha: float = 0.1, replicates: int | None = None, seed: int | None = None
    ) -> pa.Table:
        """By how much one number is larger than another one of the release, with its error.

        Two numbers of one release err together, so the error of their difference does not follow from theirs alone.
        Nothing is spent.

        Args:
            first: an area: its label, such as "01001", or labels by columns, such as `{"state": "AL", "county": "x"}`;
                of tables also those of attributes: `{"county": "01001", "sex": "f"}`. Attributes that are not named are
                added up.
            second: likewise. It differs from the first by its area or by its attributes, not by both.
            alpha: the interval is to miss the true difference with this probability.
            replicates: of counts, from how many replicates the error is; by default as in `share`.
            seed: makes the replicates reproducible, for tests.

        Returns:
            One row: `first` and `second`; `difference` (int64); `std_dev`, `ci_lower`, `ci_upper`; and `verdict`:
            "more" or "fewer" where the interval does not hold 0, "no difference can be told" where it does, "no
            difference" where both numbers are exact and equal.

        Raises:
            ValueError: labels that name no area or several, areas of which one lies in the other; flows and group
                sizes; a release whose errors of sums are not known.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"alpha": alpha, "replicates": replicates, "seed": seed}
        return method_from_above("difference")(self, first, second, **options)

    def ratio(
        self,
        numerator: Any,
        denominator: Any,
        *,
        areas: Any = None,
        by: str | None = None,
        alpha: float = 0.1,
        replicates: int | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """The ratio of two sums of published numbers, with its error.

        The error follows from the variances of both sums and their covariance, as in `share`. Intervals are Fieller's:
        where the denominator may be 0, the ratio has no upper end, and `ci_upper` is null.

        Args:
            numerator: of tables a condition on the attributes, as `where` of `total`, such as
                `{"age": ["0-14", "65+"]}` (`{}` for all); of counts a public table of areas, as in `total`.
            denominator: likewise. The two may overlap.
            areas: of tables, a public table of areas, as in `total`; by default all areas are one.
            by: a column that gives each row its area: of `areas`, or of counts of both tables. Of tables without
                `areas` it may also be a level: one ratio for each of its nodes.
            alpha: intervals are to miss the true ratio with this probability.
            replicates: of counts, estimate the errors from so many replicates; by default as in `share`.
            seed: makes the replicates reproducible, for tests.

        Returns:
            The column `by` (or the path columns of the level); `numerator`, `denominator`; `ratio`, null where the
            denominator is 0; `std_dev`, null where the denominator may be 0; `ci_lower`, `ci_upper`, and `quality`.

        Raises:
            ValueError: areas or conditions that cannot be used (see `total`), areas of the numerator without any in the
                denominator; or a release whose errors of sums are not known.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"areas": areas, "by": by, "alpha": alpha, "replicates": replicates, "seed": seed}
        return method_from_above("ratio")(self, numerator, denominator, **options)

    def mean(
        self,
        level: str = TOTAL,
        *,
        attribute: str | None = None,
        values: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        alpha: float = 0.1,
        replicates: int | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """The mean size of groups, or the mean of a numeric attribute of tables, in every area of a level.

        Args:
            level: the level of the areas; "total", the default, is all areas together.
            attribute: of tables, the column of the attribute, such as "age".
            values: of tables, what its labels mean: a number, or a pair (from, to) for a class, to exclusive. By
                default "7" is 7, and "20-24" is the class from 20 to 25. The mean takes the middle of a class.
            where: of tables, a condition on other attributes, as in `total`.
            alpha: intervals are to miss the true mean with this probability.
            replicates: of group sizes, from how many replicates the errors are; by default as in `share`.
            seed: makes the replicates reproducible, for tests.

        Returns:
            The path columns; `count` (records, or groups); `mean`, null where there are none; `std_dev`, `ci_lower` and
            `ci_upper`, null as in `ratio`; and `quality`.

        Raises:
            ValueError: an unknown level or attribute; labels without a number; a release of another statistic.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"attribute": attribute, "values": values, "where": where, "alpha": alpha}
        options |= {"replicates": replicates, "seed": seed}
        return method_from_above("mean")(self, level, **options)

    def quantile(
        self,
        level: str,
        q: float,
        *,
        attribute: str | None = None,
        values: Mapping[str, Any] | None = None,
        where: Mapping[str, Any] | None = None,
        alpha: float = 0.1,
        replicates: int | None = None,
        seed: int | None = None,
    ) -> pa.Table:
        """A quantile of the sizes of groups, or of a numeric attribute of tables, in every area of a level.

        The interval has the values at which the number of records below may be the share `q` of all: it inverts the
        intervals of these cumulated counts (Woodruff 1952). Within a class of values the quantile is interpolated.

        Args:
            level: as in `mean`.
            q: the share of records below, such as 0.5 for the median.
            attribute: as in `mean`.
            values: as in `mean`; a class that is open, such as "85+", needs its end here.
            where: as in `mean`.
            alpha: intervals are to miss the true quantile with this probability.
            replicates: as in `mean`.
            seed: makes the replicates reproducible, for tests.

        Returns:
            The path columns; `count`; `quantile`, null where there are no records; `ci_lower` and `ci_upper`. A
            quantile has no `std_dev`.

        Raises:
            ValueError: as `mean`; a `q` that is not between 0 and 1.
            TypeError: an argument of the wrong kind.
        """
        options: dict[str, Any] = {"attribute": attribute, "values": values, "where": where, "alpha": alpha}
        options |= {"replicates": replicates, "seed": seed}
        return method_from_above("quantile")(self, level, q, **options)

    def records(self, *, dictionaries: bool = False, seed: int | None = None) -> pa.RecordBatchReader:
        """Made-up records that give every published number back, exactly, when they are counted.

        One row for each unit of the finest counts: a record, a trip, a member of a group. The columns are those that
        the published tables have for places and attributes, down to the leaves, and the code of a leaf where the
        private records had one (`leaf`); of group sizes also `group`, a made-up number. With `count=` a row stands for
        one unit, and not for a row of the private table. Persons of `release_households` are put into the households of
        their leaf at random (`household`, null in none): who lives with whom carries no information.

        No row is about a person. Only numbers of the published tables, and sums of them, have known errors; finer
        counts are mostly noise. `docs/how-to/records.md` says what such records can be used for. Nothing is spent.

        Args:
            dictionaries: give the columns as Arrow dictionaries, each batch with its own; many times as fast.
            seed: of persons and households, another public shuffle; by default it follows from the statement.

        Returns:
            A reader of batches, which are made when they are read. The metadata of its schema say what the rows are.

        Raises:
            ValueError: tables that were released without `keep_detail`; numbers that are negative or have fractions,
                or do not add up; `unlisted="remainder"`; people by their number of records; a total alone.
        """
        return method_from_above("records")(self, dictionaries=dictionaries, seed=seed)
