"""Equivalent solutions told in the same way."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.estimators.problem import means_of

# Weights whose shares differ by no more than this are equal.
SAME = 1e-12


def canonical_order(A: Any, sizes: NDArray) -> NDArray[np.intp]:
    """Largest group first, equal ones by their means: equal solutions print equal."""
    return np.lexsort((*means_of(A).T[::-1], -sizes))


def told_otherwise(A: NDArray, sizes: NDArray, total: float, pairs: NDArray, n_rows: int) -> NDArray | None:
    """The same sums told with a base in all rows, where there can be one, and components that the fewer rows have.

    ``pairs`` is Z'Z, ``n_rows`` the number of rows, others as in :func:`told_by_the_fewer`. Where all rows have just
    one of two components, the first can be in all of them, and the difference in those that had the second. None where
    everything is told so already.
    """
    counts = np.diag(pairs)
    in_all = counts == n_rows
    halves = np.argwhere((counts[:, None] + counts == n_rows) & (pairs == 0))
    if not len(halves):
        return told_by_the_fewer(A, sizes, total, in_all)
    base, other = halves[0]
    A, sizes = A.astype(np.float64), sizes.astype(np.float64)
    A[other] -= A[base]
    sizes[base], in_all[base] = total, True
    fewer = told_by_the_fewer(A, sizes, total, in_all)
    return A if fewer is None else fewer


def told_by_the_fewer(A: NDArray, sizes: NDArray, total: float, in_all: NDArray[np.bool_]) -> NDArray | None:
    """Components that no more than half of the rows have, their sum with a base in all rows unchanged.

    ``sizes`` is the weight of the rows that have each, ``total`` that of all, ``in_all`` whether all rows have it. With
    a base b, a component a is as well told by the rows that lack it: base b + a, component -a. None where all are
    told so already, or no component is in all rows.
    """
    base = np.flatnonzero(in_all)
    # Of two that halve the rows, the one whose first number is positive.
    beyond = sizes / total - 0.5
    turned = (beyond > SAME) | ((beyond >= -SAME) & (_first_numbers(A) < 0))
    turned[base] = False
    if not base.size or not turned.any():
        return None
    return turn_around(A, base[0], turned)


def turn_around(A: NDArray, base: int, turned: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The same sums, some components told by the rows that lack them: these change their sign, and the base grows."""
    A = A.astype(np.float64)
    A[base] += A[turned].sum(axis=0)
    A[turned] *= -1
    return A


def _first_numbers(A: NDArray) -> NDArray:
    """The first number of each row that is not negligible beside its largest."""
    matters = np.abs(A) > 1e-6 * np.abs(A).max(axis=1, keepdims=True, initial=0.0)
    return A[np.arange(len(A)), matters.argmax(axis=1)]
