"""From arguments to a planned job: everything is checked here, before any private data is opened."""

from tallytree.planning.counts import counts_job, flows_job
from tallytree.planning.options import Options
from tallytree.planning.sizes import group_sizes_job

__all__ = ["Options", "counts_job", "flows_job", "group_sizes_job"]
