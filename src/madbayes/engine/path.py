"""The penalty path: which penalties each number of groups is best for."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.paper import Result
from madbayes.paper.features import with_penalty

# Below this ratio of the ends of its interval, a number of groups is no better founded than in pure noise.
WEAK_RATIO = 1.25
# How many times wider than the widest interval of groupless tables an interval must be.
NULL_MARGIN = 1.2
# Up to this many times the threshold, the evidence is called weak.
WEAK_FACTOR = 1.25


class WeakEvidenceWarning(UserWarning):
    """The number of groups is hardly better founded than in data without groups."""


@dataclass(frozen=True)
class PenaltyPath:
    """Solutions for K = smallest, smallest + 1, ... groups and the penalties at which each is best.

    A number of groups on the lower convex hull of K -> squared error is optimal for the penalties between the
    slopes to its neighbours on the hull.

    Parameters
    ----------
    n_components : array of int
        Numbers of groups, consecutive and increasing.
    losses : array of float
        Squared error of the solution for each of them.
    solutions : list
        The solutions themselves.
    null_ratios : dict of int to float, optional
        The largest ratio that tables without groups have shown for each number of groups.
    cap : int, optional
        No larger number is chosen, though larger ones were tried.
    n_outliers : int
        Rows in groups too small to count, which were set aside before.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.engine.path import PenaltyPath
    >>> path = PenaltyPath(np.array([1, 2, 3, 4]), np.array([100.0, 60.0, 10.0, 9.0]), [None] * 4)
    >>> path.intervals
    {1: (45.0, inf), 3: (1.0, 45.0), 4: (0.0, 1.0)}
    >>> path.best, path.ratio
    (3, 45.0)
    """

    n_components: NDArray[np.int64]
    losses: NDArray[np.float64]
    solutions: list[Any]
    null_ratios: dict[int, float] = field(default_factory=dict)
    cap: int | None = None
    n_outliers: int = 0

    @property
    def sse(self) -> NDArray[np.float64]:
        """Squared error for each number of groups, made non-increasing."""
        return np.minimum.accumulate(self.losses)

    @property
    def intervals(self) -> dict[int, tuple[float, float]]:
        """For each number of groups on the lower hull, the lowest and highest penalty at which it is best."""
        hull: list[int] = []
        for i in range(len(self.sse)):
            while len(hull) > 1 and self._slope(hull[-2], hull[-1]) <= self._slope(hull[-1], i):
                hull.pop()
            hull.append(i)
        slopes = [self._slope(i, j) for i, j in pairwise(hull)]
        ends = [np.inf, *slopes, 0.0]
        return {int(self.n_components[i]): (ends[j + 1], ends[j]) for j, i in enumerate(hull) if ends[j] > ends[j + 1]}

    def _slope(self, i: int, j: int) -> float:
        """Squared error saved by each further group from i to j."""
        return float((self.sse[i] - self.sse[j]) / (self.n_components[j] - self.n_components[i]))

    @property
    def best(self) -> int:
        """The most plausible number of groups; the smallest, but one rather than none, if no number is.

        That is the number, two or more, with the widest interval on a logarithmic scale. The largest number tried does
        not count, for its interval has no lower end.
        """
        if self.candidates:
            return self.candidates[0]
        return 1 if 1 in self.intervals else min(self.intervals)

    @property
    def candidates(self) -> list[int]:
        """Numbers of groups whose interval is wider than any of groupless tables, the widest first."""
        ratios = self.ratios
        plausible = [K for K, ratio in ratios.items() if ratio >= self.threshold(K)]
        return sorted(plausible, key=lambda K: -ratios[K])

    def threshold(self, K: int) -> float:
        """The ratio from which on K groups are plausible."""
        return max(WEAK_RATIO, NULL_MARGIN * self._null_ratio(K))

    def _null_ratio(self, K: int) -> float:
        # A long cloud is easily cut in two, but not in any larger number: two is compared with two, others with others.
        return max((ratio for other, ratio in self.null_ratios.items() if (other == 2) == (K == 2)), default=0.0)

    @property
    def null_ratio(self) -> float | None:
        """What ``ratio`` is to be compared with: the largest of tables without groups; None if there were none."""
        if not self.null_ratios:
            return None
        return self._null_ratio(self.best) if self.candidates else max(self.null_ratios.values())

    @property
    def ratio(self) -> float | None:
        """Highest over lowest penalty at which ``best`` is best; None when there was nothing to choose."""
        return self.ratios.get(self.best)

    @property
    def ratios(self) -> dict[int, float]:
        """Highest over lowest penalty for each number of groups that can be chosen."""
        ends = {K: ends for K, ends in self.intervals.items() if K >= 2 and (self.cap or np.inf) >= K}
        eligible = {K: (lo, hi) for K, (lo, hi) in ends.items() if hi < np.inf and (lo > 0 or self._is_exact(K))}
        return {K: hi / lo if lo > 0 else np.inf for K, (lo, hi) in eligible.items()}

    def __str__(self) -> str:
        """The answer in words."""
        if not self.candidates:
            return "No groups found: no number of them is best over a wider range of penalties than in groupless data."
        first, *others = self.candidates
        lo, hi = self.intervals[first]
        words = f"{first} groups: best for penalties from {lo:.4g} to {hi:.4g} ({self.ratios[first]:.3g}x"
        words += f"; groupless data: {self.null_ratio:.3g}x)." if self.null_ratio else ")."
        words += f" Also plausible: {', '.join(map(str, others))}." if others else ""
        return words + (f" {self.n_outliers} rows in tiny groups were set aside." if self.n_outliers else "")

    def _is_exact(self, K: int) -> bool:
        """Whether nothing is left to explain with K groups, so that more could not help."""
        return bool(self.sse[K - self.n_components[0]] <= 1e-12 * self.sse[0])

    def suggest(self, K: int | None = None) -> float:
        """A penalty inside the interval of K, or of ``best``: the middle on a logarithmic scale.

        Of an interval without an upper end, the double of its lower end; never less than a tenth of the upper.
        """
        K = self.best if K is None else K
        if K not in self.intervals:
            raise ValueError(f"K={K} is best at no penalty; those that are: {sorted(self.intervals)}")
        lo, hi = self.intervals[K]
        if not np.isfinite(hi):
            return 2 * lo if lo > 0 else 1.0
        return float(np.sqrt(max(lo, hi / 100)) * np.sqrt(hi))

    def for_k(self, K: int) -> Any:
        """The solution with K groups."""
        if not self.n_components[0] <= K <= self.n_components[-1]:
            raise ValueError(f"K={K} is not on the path: give {self.n_components[0]} to {self.n_components[-1]}")
        return self.solutions[K - int(self.n_components[0])]

    def at(self, penalty: float) -> Any:
        """The solution that is best at a penalty; of two that are, the one with fewer groups."""
        return self.solutions[int((self.sse + penalty * self.n_components).argmin())]


def warn_of_weak_evidence(path: PenaltyPath, stacklevel: int = 2) -> None:
    """Say so in words where no number of groups is plausible, or hardly any."""
    if not path.ratios:
        return
    if not path.candidates or path.ratios[path.best] < WEAK_FACTOR * path.threshold(path.best):
        warnings.warn(f"weak evidence for groups. {path}", WeakEvidenceWarning, stacklevel=stacklevel + 1)


def k_features_path(
    run: Callable[[int, Sequence[int]], list[Result]],
    *,
    n_init: int,
    max_components: int | None,
    seed: int,
    negligible: float,
) -> Iterator[Result]:
    """The best of ``n_init`` runs for K = 0, 1, 2, ... until the squared error is negligible.

    ``run(K, seeds)`` gives results of K-features, one for each seed or the best of them.
    """
    rng = np.random.default_rng(seed)
    (best,) = run(0, [0])
    yield best
    while best.value > negligible and (max_components is None or max_components > best.K):
        K, seeds = best.K + 1, [int(seed) for seed in rng.integers(2**31, size=n_init)]
        results = run(K, seeds)
        if not results:  # interrupted
            return
        best = min(results, key=lambda result: (max(result.value, negligible), result.K))
        yield best
        if best.K < K:  # nothing is left to explain
            return


def stepwise(path: Iterator[Result], penalty: float) -> Result:
    """The solution at which the BP-means objective stops falling."""
    best = with_penalty(next(path), penalty)
    for result in path:
        candidate = with_penalty(result, penalty)
        if candidate.value >= best.value:
            break
        best = candidate
    return best
