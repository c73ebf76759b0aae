import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallytree.support.arrays import numbered


@given(st.lists(st.integers(0, 9)), st.sampled_from([10, 1_000]))
def test_values_are_numbered_in_the_order_in_which_they_first_appear(values, size):
    distinct, place = numbered(np.array(values, dtype=np.int64), size)
    assert distinct.tolist() == list(dict.fromkeys(values))
    assert distinct[place].tolist() == values
