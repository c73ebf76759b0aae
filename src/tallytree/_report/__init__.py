"""The report of a release, and its pictures: all from the published files."""

from tallytree._report.page import report_page, write_report
from tallytree._report.reading import hierarchies_by_level
from tallytree.release.manifest import REPORT as FILE

__all__ = ["FILE", "hierarchies_by_level", "report_page", "write_report"]
