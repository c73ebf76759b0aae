"""`release.plot`: the pictures of the report as Altair charts, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallytree.release import Release
from tallytree.release.view.release_view import ReleaseView
from tallytree.views.charts import require_charts
from tallytree.views.report.pictures import (
    Picture,
    errors_picture,
    flows_picture,
    tree_picture,
)
from tallytree.views.report.pyramids import first_pyramid
from tallytree.views.report.reading import has_groups, root_labels
from tallytree.views.report.size_pictures import cumulative_picture, sizes_picture

Node = str | Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class Plots:
    """Charts of a release. They need the extra `report`.

    Attributes:
        view: of the release that they show.
    """

    view: ReleaseView

    def tree(self, *, width: int | None = None) -> Any:
        """The icicle of the hierarchy: a box for each node, as wide as its share.

        Raises:
            ValueError: the release is about a product of hierarchies, which is no simple tree.
            ModuleNotFoundError: the extra `report` is not installed.
        """
        return self._drawn(tree_picture, width, "plot.tree: it shows one hierarchy with several levels; see plot.flows")

    def errors(self, *, width: int | None = None) -> Any:
        """How far the numbers of each level are off.

        Raises:
            ValueError: the release does not know its errors.
            ModuleNotFoundError: the extra `report` is not installed.
        """
        how = "this release does not know its errors; estimate them with tallytree.replicate_errors"
        return self._drawn(errors_picture, width, f"plot.errors: {how}")

    def sizes(self, node: Node = None, *, cumulative: bool = False, log: bool = False, width: int | None = None) -> Any:
        """The distribution of the group sizes of a node.

        Args:
            node: its labels from the top: one, a list of them, or by column; by default the root.
            cumulative: groups of a size or more, with their error band where that is known.
            log: a logarithmic axis of sizes.
            width: in pixels.

        Raises:
            ValueError: the release is not of group sizes, or has no such node.
            ModuleNotFoundError: the extra `report` is not installed.
        """
        if not self.view.kind.by_size:
            raise ValueError(f"plot.sizes: this release is of {self.view.statistic}, not group sizes")
        if not has_groups(self.view):
            raise ValueError("plot.sizes: no group was released, so there is no size to show; see plot.tree")
        level, labels = self._node(node)

        def picture(view: ReleaseView) -> Picture:
            shown = cumulative_picture if cumulative else sizes_picture
            return shown(view, level, labels, log=log)

        return self._drawn(picture, width, "")

    def flows(self, level: str | None = None, *, width: int | None = None) -> Any:
        """The matrix of origins and destinations at a level; by default the finest that fits into a picture.

        Raises:
            ValueError: the release is not of flows, the level is unknown, or too large for a picture.
            ModuleNotFoundError: the extra `report` is not installed.
        """
        if not self.view.kind.sides:
            raise ValueError(f"plot.flows: this release is of {self.view.statistic}, not flows")
        if level is not None and level not in self.view.levels:
            raise ValueError(f"level: {level!r} is not one of the release's levels {', '.join(self.view.levels)}")
        return self._drawn(
            lambda view: flows_picture(view, level),
            width,
            f"level: {level!r} has one side only, or too many flows for a picture; choose another one",
        )

    def pyramid(self, *table: str, width: int | None = None) -> Any:
        """The population pyramid of a table by two attributes of which one has two labels, such as age and sex.

        A table that has areas too gives small pyramids, one for each area.

        Args:
            table: its levels, in any order; by default the table with the fewest columns that is one.
            width: in pixels.

        Raises:
            ValueError: the release has no such table.
            ModuleNotFoundError: the extra `report` is not installed.
        """
        what = f"({', '.join(table)}) is none" if table else "this release has none"
        return self._drawn(
            lambda view: first_pyramid(view, table),
            width,
            f"plot.pyramid: it shows a table by two attributes, one with two labels, one with 4 to 40; {what}",
        )

    def _drawn(self, picture: Any, width: int | None, remedy: str) -> Any:
        require_charts("plot", "a chart")
        found = picture(self.view)
        if found is None:
            raise ValueError(remedy)
        return found.draw(found.widest if width is None else width)

    def _node(self, node: Node) -> tuple[str, list[str]]:
        """The level of a node, and its labels from the top."""
        if node is None:
            return self.view.levels[0], root_labels(self.view)
        columns = {level: self.view.paths(level) for level in self.view.levels if self.view.rows(level)}
        if isinstance(node, Mapping):
            labels = [str(label) for label in node.values()]
            wanted = [level for level, names in columns.items() if names == [*node]]
        else:
            labels = [node] if isinstance(node, str) else [str(label) for label in node]
            wanted = [level for level, names in columns.items() if len(names) == len(labels)]
        if not wanted:
            deepest = ", ".join(columns[self.view.levels[-1]])
            raise ValueError(f"node: give its labels from the top, of the columns {deepest}, as many as its level has")
        return wanted[-1], labels


def plots_of(release: Release) -> Plots:
    """`Release.plot`."""
    return Plots(ReleaseView(release))
