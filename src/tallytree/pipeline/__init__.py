"""From arguments to a release, one way: arguments, checked plan, run, release.

The order of a run is what keeps noise safe. The true statistics are complete before the noise key exists, and the key
is bound to a digest of them and to the spec: the same noise never meets different statistics. The ledger records the
release after the statistics are complete, so that refused records spend nothing, and before any noise is drawn.
"""

from tallytree.pipeline.counts_job import CountsJob
from tallytree.pipeline.options import Options
from tallytree.pipeline.plan_counts import counts_job, flows_job
from tallytree.pipeline.plan_sizes import group_sizes_job
from tallytree.pipeline.sizes_job import GroupSizesJob

__all__ = ["CountsJob", "GroupSizesJob", "Options", "counts_job", "flows_job", "group_sizes_job"]
