"""Data in row blocks, and the one place where threads are made.

Blocks are fixed by the shape of the table, not by the number of threads, and what they give is reduced in their
order: the same seed gives the same bits for any ``n_jobs``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Lock
from typing import Any, Self

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

# Rows of a block: about this many entries of X, so that a block and what is computed from it stay in the cache.
BLOCK_ENTRIES = 2**18


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Consecutive slices of rows, the same for the same shape."""
    size = max(256, BLOCK_ENTRIES // max(1, n_columns))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


@cache
def _controller() -> ThreadpoolController:
    """The libraries with threads of their own; to look for them takes as long as a small batch of rows."""
    return ThreadpoolController()


class _SingleThreadedBLAS:
    """Holds BLAS to one thread while anyone is inside; several threads may be, in any order."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limits: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limits = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0 and self.limits is not None:
                self.limits.restore_original_limits()


_blas = _SingleThreadedBLAS()


def count_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: None is 1, -1 all cores, -2 all but one.

    Examples
    --------
    >>> from madbayes.engine.blocks import count_threads
    >>> count_threads(None), count_threads(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)


class Workers:
    """Threads for the duration of a ``with`` block; ``n_jobs`` as in scikit-learn.

    Examples
    --------
    >>> from madbayes.engine.blocks import Workers
    >>> with Workers(2) as workers:
    ...     workers.map(lambda x: x * x, range(4))
    [0, 1, 4, 9]
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_threads = count_threads(n_jobs)
        self.pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        _blas.__enter__()
        if self.n_threads > 1:
            self.pool = ThreadPoolExecutor(self.n_threads)
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
        _blas.__exit__()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """The results in the order of the items."""
        return list(map(function, items) if self.pool is None else self.pool.map(function, items))

    def stream(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """The same one by one: no more are under way, or wait to be taken, than twice as many as there are threads."""
        if self.pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future] = deque()
        try:
            for item in items:
                waiting.append(self.pool.submit(function, item))
                if len(waiting) >= 2 * self.n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # Whoever asked has gone, or one has failed: those that have not begun never will, the others end first.
            wait([future for future in waiting if not future.cancel()])
