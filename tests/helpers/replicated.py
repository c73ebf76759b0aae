"""The tree that the tests of replicates share."""

import pyarrow as pa

TREE = pa.table({"state": [s for s in "ABCD" for _ in range(5)], "county": [c for _ in range(4) for c in "vwxyz"]})
