"""What a release is: its tables and statement, and the folder that it is saved in."""

from tallytree.release.files import refuse_existing, require_writable
from tallytree.release.households_release import HouseholdsRelease, part_folders
from tallytree.release.level_tables import LevelTable, NodeTable, beside_paths
from tallytree.release.quality import QualityThresholds
from tallytree.release.release import Release

__all__ = [
    "HouseholdsRelease",
    "LevelTable",
    "NodeTable",
    "QualityThresholds",
    "Release",
    "beside_paths",
    "part_folders",
    "refuse_existing",
    "require_writable",
]
