"""Amounts of memory as users write them."""

import pytest

from tallytree.support.machine import LEAST_LIMIT, described_bytes, enough_memory, memory_bytes


@pytest.mark.parametrize(
    ("amount", "bytes_"),
    [("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("1000000B", 10**6), ("2mb", 2 * 10**6), ("1TiB", 2**40)],
)
def test_an_amount_is_a_number_and_a_unit(amount, bytes_):
    assert memory_bytes(amount, "memory") == bytes_


@pytest.mark.parametrize("amount", ["4", "GB", "4 XB", "-1GB", "4GB ", "٤GB", "1e3MB"])
def test_other_texts_are_refused(amount):
    with pytest.raises(ValueError, match=r"^memory: .* must be a number and a unit, such as '4GB'$"):
        memory_bytes(amount, "memory")


@pytest.mark.parametrize("amount", ["999999B", "1001TB"])
def test_an_amount_out_of_range_is_refused(amount):
    with pytest.raises(ValueError, match="must be between 1MB and 1000TB"):
        memory_bytes(amount, "memory")


def test_a_use_may_need_more():
    with pytest.raises(ValueError, match=r"^memory_limit: '7MB' must be between 8MB and 1000TB"):
        memory_bytes("7MB", "memory_limit", LEAST_LIMIT)


@pytest.mark.parametrize(
    ("needed", "text"),
    [(1_200_001, "1.3MB"), (3_000_000, "3MB"), (25_961_000, "26MB"), (640_100_000, "641MB"),
     (999_999_999, "1000MB"), (4_040_000_000, "4.1GB"), (31 * 10**12, "31000GB")],
)  # fmt: skip
def test_enough_memory_is_an_amount_that_can_be_given_and_is_not_less(needed, text):
    assert enough_memory(needed) == text
    assert needed <= memory_bytes(text, "memory", 0) <= 1.1 * needed + 10**5


def test_an_amount_is_described_in_a_unit_that_suits_it():
    assert [described_bytes(each) for each in (4.04e9, 3e7)] == ["4.0 GB", "30 MB"]
