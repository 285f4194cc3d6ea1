"""How kernels are compiled."""

from collections.abc import Callable
from typing import Any

from numba import njit

# Sums may be reordered for the sake of vector instructions: the same machine code gives the same bits.
REORDER = {"reassoc", "contract", "nsz"}


def compiled(**options: Any) -> Callable:
    """Numba's njit, cached on disk where that is possible."""

    def decorate(function: Callable) -> Callable:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder to write the cache to: compile anew in each process
            return njit(nogil=True, **options)(function)

    return decorate
