"""What a run returns, the loop that every algorithm of the paper shares, and random restarts."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Step = Callable[[NDArray, Any], tuple[NDArray, Any]]
Value = Callable[[NDArray, Any], float]

# A move is an improvement only above this share of what it is compared with. Ties keep what is there.
RELATIVE_GAIN = 1e-12


# A squared residual up to this share of the largest square is rounding error, not data: a few hundred ulps.
ROUNDING = 1e-26


def rounding_error(X: NDArray) -> float:
    """The squared residual that rounding may leave of the longest row."""
    return ROUNDING * float(np.einsum("nd,nd->n", X, X).max(initial=0.0))


class Result(NamedTuple):
    """A local optimum and how it was reached."""

    Z: NDArray[np.uint8]  # N x K
    A: Any  # K x D means, or MeansCovariances
    value: float  # the objective at (Z, A)
    trace: NDArray[np.float64]  # the objective at the start and after each iteration
    iterations: int
    converged: bool

    @property
    def K(self) -> int:
        """Number of groups."""
        return self.Z.shape[1]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The group of each row, for clusterings."""
        return self.Z.argmax(axis=1)


class Run(NamedTuple):
    """One line about one restart."""

    seed: int | str | None  # what the start was made from
    K: int
    value: float
    iterations: int
    seconds: float


def descend(step: Step, value: Value, Z: NDArray, A: Any, max_iter: int) -> Result:
    """Repeat ``step`` until the value no longer falls, which is when it changes nothing."""
    trace, reached, converged = [value(Z, A)], 0, False
    while not converged and len(trace) <= max_iter:
        Z_next, A_next = step(Z, A)
        trace.append(value(Z_next, A_next))
        converged = trace[-1] >= trace[-2] - RELATIVE_GAIN * abs(trace[-2])
        if not converged:
            Z, A, reached = Z_next, A_next, len(trace) - 1
    return Result(np.asarray(Z, dtype=np.uint8), A, trace[reached], np.array(trace), len(trace) - 1, converged)


def restarts(run: Callable[[Any], Result], seeds: Iterable[int | str | None]) -> tuple[Result, list[Run]]:
    """Best result over the seeds (the first among equals), and a line about each.

    Paper: section 5, random restarts.
    """

    def timed(seed: int | str | None) -> tuple[Result, Run]:
        start = perf_counter()
        result = run(seed)
        return result, Run(seed, result.K, result.value, result.iterations, perf_counter() - start)

    results, runs = zip(*map(timed, seeds), strict=True)
    return min(results, key=lambda result: result.value), list(runs)
