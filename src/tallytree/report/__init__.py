"""The report of a release, and its pictures: all from the published files."""

from tallytree.report.page import FILE, report_page, write_report

__all__ = ["FILE", "report_page", "write_report"]
