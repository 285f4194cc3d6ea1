"""Reading ahead."""

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The same items, the next of which is made in a thread while this one is used.

    An error in making an item is raised where that item would have come. The thread ends with the items, or when they
    are no longer wanted.

    Parameters
    ----------
    items : iterable

    Yields
    ------
    item

    Examples
    --------
    >>> from madbayes.sources import ahead
    >>> list(ahead(n * n for n in range(4)))
    [0, 1, 4, 9]
    """
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "madbayes-ahead") as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]
