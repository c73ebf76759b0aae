import os
import threading
import time

import pytest

from tallytree.support.machine import side_by_side


def test_results_come_in_the_order_of_the_items_whichever_is_done_first():
    def work(number):
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(side_by_side(work, range(12))) == [number * number for number in range(12)]
    assert list(side_by_side(work, [])) == []


def test_a_single_item_needs_no_thread():
    assert list(side_by_side(lambda item: threading.get_ident(), [1])) == [threading.get_ident()]
    assert threading.get_ident() not in list(side_by_side(lambda item: threading.get_ident(), [1, 2], threads=2))


def test_no_more_items_are_taken_than_there_are_threads_and_one():
    taken, done = [], []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    for result in side_by_side(lambda number: number, items()):
        done.append(result)
        assert len(taken) - len(done) <= (os.cpu_count() or 1) + 1
    assert done == list(range(100))


def test_a_failure_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda number: 1 // number, [1, 0, 2]))
