"""The spec of each statistic."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal

from pydantic import Field

from tallytree import sizes
from tallytree.hierarchy import Hierarchy
from tallytree.pipeline import CountsJob, GroupSizesJob, Options, counts_job, flows_job, group_sizes_job
from tallytree.postprocess.reconcile_sizes import reconcile_group_sizes
from tallytree.product import Product
from tallytree.release import Release, refuse_existing, require_writable
from tallytree.spec.base import Spec
from tallytree.spec.error_lines import naming_lines
from tallytree.spec.scalars import Flag, Text, Texts, Whole
from tallytree.spec.sections import HierarchySpec, LargestSize, PrivateMaximumSpec, TreeSpec


class RecordsSpec(Spec):
    """What the specs of counts and flows share."""

    count: Text | None = Field(None, description="the column with the number of records of a row")
    person: Text | None = Field(None, description="the column with the ids of people, to enforce max_contributions")
    distinct: Flag = Field(False, description="with person: true to count every person at most once in a leaf")

    def _options(self, progress: bool = False) -> Options:
        return dataclasses.replace(super()._options(progress), person=self.person, distinct=self.distinct)


class CountsSpec(RecordsSpec):
    """The spec of `tallytree.release_counts`."""

    statistic: Literal["counts"]
    records: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    hierarchy: TreeSpec = Field(description="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}")

    tables = ("records",)

    def job(self, *, progress: bool = False) -> CountsJob:
        """See `Spec.job`."""
        hierarchy = self._build_tree()
        with naming_lines(self._document):
            records = self._path(self.records)
            return counts_job(records, hierarchy, self._budget(), self._options(progress), count=self.count)

    def _build_tree(self) -> Hierarchy | Product:
        given = self.hierarchy
        if isinstance(given, HierarchySpec):
            return self._build_hierarchy(given, ("hierarchy",))
        here = ("hierarchy", "attributes")
        hierarchies = {name: self._build_hierarchy(tree, (*here, name)) for name, tree in given.attributes.items()}
        keys = {key: ("hierarchy", key) for key in ("order", "columns")}
        with naming_lines(self._document, hierarchies=here, **keys):
            return Product(hierarchies, order=given.order, columns=given.columns)


class FlowsSpec(RecordsSpec):
    """The spec of `tallytree.release_flows`."""

    statistic: Literal["flows"]
    trips: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    origins: HierarchySpec = Field(description="give the public tree: origins: {path: areas.parquet, levels: [state]}")
    destinations: HierarchySpec = Field(
        description="give the public tree: destinations: {path: areas.parquet, levels: [state]}"
    )
    origin: Texts = Field(description="list the columns of trips with the origin, top first: origin: [home_state]")
    destination: Texts = Field(
        description="list the columns of trips with the destination, top first: destination: [work_state]"
    )
    tree: Text = Field("destination", description="destination or origin, whichever is refined first")

    tables = ("trips",)

    def job(self, *, progress: bool = False) -> CountsJob:
        """See `Spec.job`."""
        origins = self._build_hierarchy(self.origins, ("origins",))
        destinations = self._build_hierarchy(self.destinations, ("destinations",))
        with naming_lines(self._document):
            return flows_job(
                self._path(self.trips),
                self._budget(),
                self._options(progress),
                origins=origins,
                destinations=destinations,
                origin=self.origin,
                destination=self.destination,
                tree=self.tree,
                count=self.count,
            )


class GroupSizesSpec(Spec):
    """The spec of `tallytree.release_group_sizes`."""

    statistic: Literal["group_sizes"]
    records: Text = Field(description="give the path or glob of the private table (Parquet, CSV)")
    hierarchy: HierarchySpec = Field(
        description="give the public tree: hierarchy: {path: areas.parquet, levels: [state]}"
    )
    group: Text | None = Field(None, description="for entity rows: the column that names an entity's group")
    quantity: Text | None = Field(None, description="for entity rows: what each adds to its group's size")
    max_quantity: Whole = Field(1, description="larger quantities are cut to it")
    size: Text | None = Field(None, description="for (leaf, size, groups) rows: the column with the size")
    groups: Text | None = Field(None, description="for (leaf, size, groups) rows: the column with the number of groups")
    public_groups: Text | None = Field(None, description="for entity rows: the public table of groups per leaf")
    invariants: Text | None = Field(None, description="groups, total or none: which numbers of groups are public")
    max_group_size: LargestSize = Field(
        10_000, description="larger groups are set to it; private or {share: ..., at_most: ...} if it is not public"
    )
    min_group_size: Whole = Field(0, description="smaller groups are set to it")

    tables = ("records", "public_groups")
    mechanisms = (sizes, sizes.SizesMechanism)

    def job(self, *, progress: bool = False) -> GroupSizesJob:
        """See `Spec.job`."""
        hierarchy = self._build_hierarchy(self.hierarchy, ("hierarchy",))
        with naming_lines(self._document):
            return group_sizes_job(
                self._path(self.records),
                hierarchy,
                self._budget(),
                self._options(progress),
                group=self.group,
                quantity=self.quantity,
                max_quantity=self.max_quantity,
                size=self.size,
                groups=self.groups,
                public_groups=None if self.public_groups is None else self._path(self.public_groups),
                invariants=self.invariants,
                max_group_size=self._largest_size(),
                min_group_size=self.min_group_size,
            )

    def reconcile(self, release: Release, folder: str | os.PathLike[str], *, csv: bool = False) -> Release:
        """See `Spec.reconcile` and `tallytree.reconcile_group_sizes`; of the other keys nothing is read.

        Raises:
            SpecError: the hierarchy is not the release's, or the mechanism wants what was not measured.
            ValueError: the release cannot be used.
            OSError: the folder exists or cannot be written to, or the table of the hierarchy cannot be read.
        """
        require_writable(refuse_existing(folder))
        hierarchy = self._build_hierarchy(self.hierarchy, ("hierarchy",))
        with naming_lines(self._document, elsewhere=("release",)):
            mechanism = None if self.mechanism is None else self._build_mechanism(self.mechanism)
            again = reconcile_group_sizes(release, hierarchy, mechanism=mechanism)
        again.save(folder, csv=csv)
        return again

    def _largest_size(self) -> int | str | sizes.PrivateMaximum:
        given = self.max_group_size
        return sizes.PrivateMaximum(given.share, given.at_most) if isinstance(given, PrivateMaximumSpec) else given


SPECS: dict[str, type[Spec]] = {"counts": CountsSpec, "flows": FlowsSpec, "group_sizes": GroupSizesSpec}
