"""Errors of libraries that are withheld, and those that are not."""

import pyarrow as pa
import pytest

from tallytree.sources.failures import SourceError, Withheld


@pytest.mark.parametrize("error", [pa.ArrowInvalid("NAME-1"), OSError("NAME-1")])
def test_an_error_of_the_kinds_is_withheld_and_leaves_no_trace(error):
    with pytest.raises(ValueError, match="ours") as caught:  # noqa: PT012
        with Withheld(pa.ArrowException, OSError) as failure:
            raise error
        assert failure.kind is type(error)
        raise ValueError("ours")
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError(), SourceError("said before"), KeyError("x"), KeyboardInterrupt()]
)
def test_a_lack_of_memory_and_what_is_said_already_are_raised(error):
    assert isinstance(pa.ArrowMemoryError(), pa.ArrowException)
    with pytest.raises(type(error)) as caught, Withheld(pa.ArrowException, OSError):
        raise error
    assert caught.value is error


def test_without_an_error_nothing_is_withheld():
    with Withheld(Exception) as failure:
        pass
    assert failure.kind is None
