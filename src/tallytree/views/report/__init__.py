"""The report of a release, and its pictures: all from the published files."""

from tallytree.release.manifest import REPORT as FILE
from tallytree.release.view.sides import hierarchies_by_level
from tallytree.views.report.page import report_page, write_report
from tallytree.views.report.series import ComparedReleases

__all__ = ["FILE", "ComparedReleases", "hierarchies_by_level", "report_page", "write_report"]
