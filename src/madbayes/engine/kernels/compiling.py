"""How kernels are compiled, and what the user is told meanwhile."""

import sys
from collections.abc import Callable
from threading import Timer
from time import perf_counter
from typing import Any

from numba import njit
from numba.core import event

# Sums may be reordered for the sake of vector instructions: the same machine code gives the same bits.
REORDER = {"reassoc", "contract", "nsz"}
# Compiling for so many seconds goes without a word.
PATIENCE = 2.0
MESSAGE = "madbayes is compiling code for this machine. It does so once; afterwards it is there at once."


def compiled(**options: Any) -> Callable:
    """Numba's njit, cached on disk where that is possible."""

    # The type hints of Numba do not know no_cfunc_wrapper.
    wanted: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, **options}

    def decorate(function: Callable) -> Callable:
        try:
            return njit(cache=True, **wanted)(function)
        except RuntimeError:  # no folder to write the cache to: compile anew in each process
            return njit(**wanted)(function)

    return decorate


class Announcement(event.Listener):
    """Says on the standard error stream, once in a process, that kernels are being compiled if that takes long.

    Numba compiles in one thread at a time, and what a kernel calls within the kernel's own turn.
    """

    def __init__(self) -> None:
        self.depth, self.began, self.spent = 0, 0.0, 0.0
        self.timer: Timer | None = None
        self.said = False

    def on_start(self, event: event.Event) -> None:
        """A kernel, or something it calls, is about to be compiled."""
        if not event.data["dispatcher"].py_func.__module__.startswith("madbayes."):
            return
        self.depth += 1
        if self.depth == 1 and not self.said:
            self.began = perf_counter()
            self.timer = Timer(max(0.0, PATIENCE - self.spent), self.say)
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: event.Event) -> None:
        """It has been compiled."""
        if not event.data["dispatcher"].py_func.__module__.startswith("madbayes."):
            return
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.spent += perf_counter() - self.began

    def say(self) -> None:
        """Tell the user."""
        self.said = True
        print(MESSAGE, file=sys.stderr, flush=True)


event.register("numba:compile", Announcement())
