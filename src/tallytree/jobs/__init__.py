"""A release as a job: planned and checked without opening private data, then run once.

`publish` makes a job and runs it; `tallytree check` only makes it. The order of `run` is what keeps noise safe: the
true statistics are complete before the noise key exists, and the key is bound to a digest of them and to the job's
spec, so the same noise never meets different statistics. The ledger has the release before the key exists, too: after
the statistics, so that records which are refused spend nothing, and before anything is drawn, so that nothing is drawn
unrecorded.
"""

from tallytree.jobs.counts import CountsJob
from tallytree.jobs.sizes import GroupSizesJob

__all__ = ["CountsJob", "GroupSizesJob"]
