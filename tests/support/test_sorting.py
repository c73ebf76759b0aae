import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallytree.support.kernel_arrays import stable_order


@given(st.lists(st.integers(-3, 3), max_size=200), st.sampled_from([np.int64, np.float64]))
def test_the_order_in_kernels_is_stable(keys, kind):
    keys = np.array(keys, dtype=kind)
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_the_order_holds_for_extremes():
    keys = np.array([np.inf, -np.inf, 0.0, -0.0, np.inf] * 9)
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    limits = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1], dtype=np.int64)
    assert stable_order(limits).tolist() == [1, 2, 0, 3]
