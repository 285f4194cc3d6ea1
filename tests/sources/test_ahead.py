import threading

import pytest

from madbayes.sources import ahead


def running():
    return [thread for thread in threading.enumerate() if thread.name.startswith("madbayes-ahead")]


def test_order_and_items_are_kept():
    assert list(ahead(range(1000))) == list(range(1000))
    assert list(ahead([])) == []
    assert not running()


def test_the_next_item_is_made_while_this_one_is_used(seconds):
    made = [threading.Event() for _ in range(3)]

    def items():
        for n in range(3):
            made[n].set()
            yield n

    with seconds(30):
        for n in ahead(items()):
            if n < 2:
                assert made[n + 1].wait(20)


def test_no_more_than_one_item_is_made_before_it_is_wanted():
    made = []
    coming = ahead(made.append(n) or n for n in range(10))
    next(coming)
    coming.close()
    assert made in ([0], [0, 1])
    assert not running()


def test_errors_come_where_the_item_would():
    def items():
        yield 1
        raise KeyError("broken")

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(KeyError, match="broken"):
        next(coming)
    assert not running()


def test_the_thread_ends_when_the_consumer_stops():
    def consume():
        for item in ahead(range(100)):
            raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        consume()
    assert not running()
