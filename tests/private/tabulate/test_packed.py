"""What goes between a driver and its tasks arrives as it was, and what a task has made names nothing else."""

import importlib
import pickle
import struct
from fractions import Fraction

import numpy as np
import pytest

from tallytree.mechanisms import Measurement, Noise
from tallytree.private.tabulate.packed import packed, unpacked
from tallytree.sizes.mechanism import ReleasedSizes
from tallytree.solvers.sizes.joint_families import FromBelow
from tallytree.solvers.sizes.joint_rates import Estimate


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


def test_what_bands_send_up_and_single_numbers_arrive():
    up = FromBelow(Estimate(np.ones((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))), np.arange(2.0))
    again, numbers = sent((up, (3, 0.5, np.float64(1.5), np.bool_(True), np.int64(2))))
    assert isinstance(again, FromBelow)
    assert again.sums.mean.tolist() == up.sums.mean.tolist()
    assert numbers == (3, 0.5, 1.5, True, 2)


class Strange:
    def __reduce__(self):
        return (print, ("called",))


def test_what_a_task_has_made_cannot_have_the_driver_call_anything(capsys):
    with pytest.raises(pickle.UnpicklingError, match="what no task makes"):
        sent([Strange()])
    assert capsys.readouterr().out == ""
    sent([Strange()], made=False)
    assert capsys.readouterr().out == "called\n"


def changing(module, name, state):
    """What sets the state of what is found under a name."""
    body = f"c{module}\n{name}\n".encode() + pickle.dumps(state, protocol=0)[:-1] + b"b."
    return struct.pack("<2q", 1, len(body)) + body


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("fractions", "Fraction"),
        ("tallytree.kinds.measurements", "Noise"),
        ("tallytree.solvers.sizes.joint_rates", "Estimate"),
        ("tallytree.private.tabulate.packed", "record"),
        ("numpy._core.numeric", "_frombuffer"),
    ],
)
@pytest.mark.parametrize("state", [(None, {"__doc__": "changed"}), {"changed": 1}])
def test_what_a_task_has_made_cannot_change_a_class_of_the_driver(module, name, state):
    with pytest.raises((pickle.UnpicklingError, TypeError)):
        unpacked(changing(module, name, state), made=True)
    found = getattr(importlib.import_module(module), name)
    assert found.__doc__ != "changed"
    assert not hasattr(found, "changed")


@pytest.mark.parametrize("value", [np.array([print], dtype=object), np.zeros(2, "i4,O"), np.array(["a"])])
def test_what_a_task_has_made_holds_arrays_of_numbers_alone(value):
    with pytest.raises(pickle.UnpicklingError, match="what no task makes"):
        sent(value)


def test_a_type_of_numpy_stays_as_it_is():
    body = b"cnumpy\ndtype\n(Vi8\nI00\nI01\ntR(I3\nV>\nNNNI-1\nI-1\nI0\ntb."
    assert unpacked(struct.pack("<2q", 1, len(body)) + body, made=True) == np.dtype("i8")
    assert np.dtype("i8").isnative
