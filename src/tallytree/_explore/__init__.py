"""A release in the browser: `tallytree explore DIR`. It reads the release's own files, and nothing else."""

from tallytree._validate import require_packages

PACKAGES = {"nicegui": "nicegui", "altair": "altair", "vl_convert": "vl-convert-python"}
"""Modules of the extra `explore`, and the packages that have them."""


def require_explorer() -> None:
    """Refuse to explore without the packages of the extra.

    Raises:
        ModuleNotFoundError: one is not installed.
    """
    require_packages("explore", "the explorer", PACKAGES, "explore")
