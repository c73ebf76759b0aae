"""What goes between a driver and its tasks arrives as it was, and what a task has made names nothing else."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from tallytree.measurements import Measurement, Noise
from tallytree.private.tabulate.packed import packed, unpacked
from tallytree.sizes.released_sizes import ReleasedSizes


def sent(value, *, made=True):
    return unpacked(b"".join(packed(value)), made=made)


def test_arrays_arrive_as_they_were_and_can_be_written_to():
    wide = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    arrays = [np.arange(5), np.arange(3, dtype=np.int8), np.empty(0), wide, np.arange(10)[::2]]
    number, found = sent((7, {"a": arrays}))
    assert number == 7
    for one, other in zip(found["a"], arrays, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
        assert one.flags.writeable
        assert one.flags.aligned
    assert found["a"][3].flags.f_contiguous


def test_measurements_and_released_sizes_arrive():
    noise = Noise("discrete_gaussian", Fraction(7, 3))
    taken = Measurement("county", "counts", np.array([2]), np.array([5], np.int8), np.array([0, 1]), noise)
    again, sizes = sent((taken, ReleasedSizes(np.array([1]), np.array([2]), np.array([3]))))
    assert (again.level, again.noise, again.values.dtype) == ("county", noise, np.int8)
    assert (sizes.nodes.tolist(), sizes.sizes.tolist(), sizes.groups.tolist()) == ([1], [2], [3])


class Strange:
    def __reduce__(self):
        return (print, ("called",))


def test_what_a_task_has_made_cannot_have_the_driver_call_anything(capsys):
    with pytest.raises(pickle.UnpicklingError, match="what no task makes"):
        sent([Strange()])
    assert capsys.readouterr().out == ""
    sent([Strange()], made=False)
    assert capsys.readouterr().out == "called\n"
