"""The penalty path: which penalties each number of groups is best for."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.checks import as_float, is_number
from madbayes.paper import Result
from madbayes.paper.features import with_penalty

# Below this ratio of the ends of its interval, a number of groups is no better founded than in pure noise.
WEAK_RATIO = 1.25
# The same for a single feature, of which most groupless tables have no interval at all and few a wide one.
WEAK_FIRST_RATIO = 1.5
# A plausible interval is wider than those of groupless tables by so many of their standard deviations, in logarithms.
SPREADS = 3.0
# It may leave more of the squared error than they do by so many, no more.
LEFT_SPREADS = 2.0
# Up to so many the evidence is called weak, and is none for a number whose interval is not the widest.
WEAK_SPREADS = 4.5
# What that standard deviation is before any groupless table was seen, and how many tables that counts for; and that of
# the sum with the logarithms of outer ratios, which go along with them.
USUAL_SPREAD, USUAL_COUNT, USUAL_SUM_SPREAD = 0.1, 3, 0.15
# Intervals wider than this are as good as without end.
WIDEST = 1e9


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
    null_ratios : list of dict of int to float, optional
        The ratios of tables without groups, one dictionary for each table.
    null_shares : list of dict of int to float, optional
        What share of the squared error of the smallest number of groups is left in those tables.
    beyond : sequence of float
        Squared errors for the numbers after the last, which may not be chosen but tell how good the last ones are.
    n_outliers : int
        Rows in groups too small to count, which were set aside before.
    outliers : sequence of int
        Which rows these are.
    rows : array of int, optional
        Which of the user's rows ``groups`` of the solutions are about: not those that were set aside or weigh nothing,
        and of many rows a sample.
    has_base : bool
        Whether a single group is one of all rows. A single feature need not be, and then none is the simplest answer.
    null_firsts : sequence of float
        The ratios of a single feature in tables without groups, where it was in question.
    null_outer_ratios : list of dict of int to float, optional
        The ``outer_ratios`` of tables without groups, one dictionary for each of ``null_ratios``.

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
    null_ratios: Sequence[Mapping[int, float]] = ()
    null_shares: Sequence[Mapping[int, float]] = ()
    beyond: Sequence[float] = ()
    n_outliers: int = 0
    outliers: Sequence[int] = ()
    rows: NDArray[np.intp] | None = None
    has_base: bool = True
    null_firsts: Sequence[float] = ()
    null_outer_ratios: Sequence[Mapping[int, float]] = ()

    @property
    def sse(self) -> NDArray[np.float64]:
        """Squared error for each number of groups, made non-increasing."""
        return self._tried_sse[: len(self.losses)]

    @property
    def _tried_sse(self) -> NDArray[np.float64]:
        """The same for all numbers that were tried, those beyond the path as well."""
        return np.minimum.accumulate([*self.losses, *self.beyond])

    @property
    def intervals(self) -> dict[int, tuple[float, float]]:
        """For each number of groups on the lower hull, the lowest and highest penalty at which it is best."""
        return self._hull(self.sse)

    def _hull(self, sse: NDArray) -> dict[int, tuple[float, float]]:
        """The same for any squared errors that begin with those of the smallest number."""
        hull: list[int] = []
        for i in range(len(sse)):
            while len(hull) > 1 and _slope(sse, hull[-2], hull[-1]) <= _slope(sse, hull[-1], i):
                hull.pop()
            hull.append(i)
        slopes = [_slope(sse, i, j) for i, j in pairwise(hull)]
        ends, smallest = [np.inf, *slopes, 0.0], int(self.n_components[0])
        return {smallest + i: (ends[j + 1], ends[j]) for j, i in enumerate(hull) if ends[j] > ends[j + 1]}

    @property
    def best(self) -> int:
        """The most plausible number of groups; if no number is, the smallest, or one group of all rows.

        That is the number, two or more, with the widest interval on a logarithmic scale. The largest number tried does
        not count, for its interval has no lower end. A single feature of some rows is plausible if no larger number is.
        """
        if self.candidates:
            return self.candidates[0]
        return 1 if self.has_base and 1 in self.intervals else min(self.intervals)

    @property
    def candidates(self) -> list[int]:
        """Numbers of groups whose interval is wider than groupless tables make it, the widest first.

        More is asked of others than of the widest, for there are many of them. None may leave more of the squared error
        than groupless tables do.
        """
        spreads = (SPREADS if i == 0 else WEAK_SPREADS for i in range(len(self.contenders)))
        pairs = zip(self.contenders, spreads, strict=True)
        plausible = [K for K, least in pairs if self.stands_out(K, least) and self._explains(K)]
        return plausible or ([1] if self.null_firsts and self.stands_out(1) else [])

    def stands_out(self, K: int, spreads: float = SPREADS) -> bool:
        """Whether the interval of K is as wide as it must be; no interval is wider than one without end."""
        return min(self.ratios[K], WIDEST) >= self.threshold(K, spreads)

    def _explains(self, K: int) -> bool:
        """Whether K groups explain as much as in groupless tables, up to so many standard deviations of these."""
        shares = np.log([null[K] for null in self.null_shares if K in null])
        left = self.sse[K - self.n_components[0]] / self.sse[0]
        if not len(shares) or left <= 0:
            return True
        return bool(np.log(left) <= shares.mean() + LEFT_SPREADS * shares.std())

    @property
    def is_weak(self) -> bool:
        """Whether no number of groups is plausible, or hardly any, though there were some to choose from."""
        if not self.ratios:
            return False
        return not self.candidates or not self.stands_out(self.best, WEAK_SPREADS)

    @property
    def contenders(self) -> list[int]:
        """Numbers whose interval is at least half as wide as the widest, in logarithms; the widest first."""
        ratios = {K: min(ratio, WIDEST) for K, ratio in self.ratios.items() if K >= 2}
        least = max(WEAK_RATIO, max(ratios.values(), default=1.0) ** 0.5)
        return sorted((K for K, ratio in ratios.items() if ratio >= least), key=lambda K: -ratios[K])

    def threshold(self, K: int, spreads: float = SPREADS) -> float:
        """The ratio from which on K groups are plausible.

        It is what groupless tables reach. But where outer ratios are known, it is the product with them that has to be
        above those of groupless tables: chance gives one number an interval at the expense of its neighbours, but
        hardly one that is wide without them as well.
        """
        if not self._has_null(K) or not self._has_outer(K):
            return self.null_reach(K, spreads)
        mean, spread = self._null_sums(K)
        outer = np.log(self.outer_ratios[K])
        return max(WEAK_RATIO, _ratio(mean + spreads * spread - outer), _ratio(self._null_widest(K)))

    def null_reach(self, K: int, spreads: float = SPREADS) -> float:
        """The ratio that groupless tables hardly ever exceed with K groups.

        It is above theirs by so many standard deviations of logarithms, and no less than the widest ratios of these
        tables with any number of groups. For a single feature only single ones count, and each of them.
        """
        if not self._has_null(K):
            return WEAK_RATIO
        mean, spread = self._null_logarithms(K)
        least = WEAK_FIRST_RATIO if K == 1 else WEAK_RATIO
        return max(least, _ratio(mean + spreads * spread), _ratio(self._null_widest(K)))

    def _has_null(self, K: int) -> bool:
        """Whether there are groupless tables to judge K groups by."""
        return bool(self.null_firsts if K == 1 else self.null_ratios)

    def _has_outer(self, K: int) -> bool:
        """Whether the outer ratio of K is known here and in all groupless tables."""
        nulls = self.null_outer_ratios
        return len(nulls) == len(self.null_ratios) and all(K in ratios for ratios in (self.outer_ratios, *nulls))

    def _null_sums(self, K: int) -> tuple[float, float]:
        """Mean and standard deviation of the logarithms of ratio times outer ratio of groupless tables."""
        ratios = np.array([min(null.get(K, 1.0), WIDEST) for null in self.null_ratios])
        outer = np.array([min(null[K], WIDEST) for null in self.null_outer_ratios])
        return _mean_and_spread(np.log(ratios * outer)[:, None], USUAL_SUM_SPREAD)

    def _null_logarithms(self, K: int) -> tuple[float, float]:
        """Mean and standard deviation of the logarithms of the ratios of groupless tables.

        Those of the same number of groups, for a long cloud is easily cut in two and a square in four. The spread is
        that of its neighbours too, if any table has them, and begins with a usual one: a few tables tell little of it.
        """
        nulls = [{1: ratio} for ratio in self.null_firsts] if K == 1 else self.null_ratios
        neighbours = [k for k in (K - 1, K + 1) if any(k in null for null in nulls)]
        logs = np.log([[min(null.get(k, 1.0), WIDEST) for k in (K, *neighbours)] for null in nulls])
        return _mean_and_spread(logs, USUAL_SPREAD)

    def _null_widest(self, K: int) -> float:
        """Mean of the logarithms of the widest ratios of groupless tables, each at the number that suits it best.

        The number in question was chosen for its wide interval too. A long cloud most often has its widest at two
        groups, by chance at three: wide for three groups, but no wider than that of other such clouds. Of single
        features it is the logarithm of the widest ratio.
        """
        if K == 1:
            return float(np.log(np.minimum(self.null_firsts, WIDEST).max()))
        return float(np.log([min(max(null.values(), default=1.0), WIDEST) for null in self.null_ratios]).mean())

    @property
    def null_ratio(self) -> float | None:
        """The ratio that tables without groups hardly ever exceed at ``best``, or at the widest interval if none is.

        Infinite if there is no telling, None if there were no such tables. It does not decide alone: a number may be
        plausible with less if its interval is wide without its neighbours, too, as few are by chance, or else with more
        only.
        """
        ranked = self.candidates or sorted(self.ratios, key=lambda K: (K == 1, -self.ratios[K]))
        if not ranked or not self._has_null(ranked[0]):
            return None
        return self.null_reach(ranked[0])

    @property
    def ratio(self) -> float | None:
        """Highest over lowest penalty at which ``best`` is best; None when there was nothing to choose."""
        return self.ratios.get(self.best)

    @property
    def ratios(self) -> dict[int, float]:
        """Highest over lowest penalty for each number of groups that can be chosen; infinite where more do not help.

        These are two and more, and one feature that some rows do not have. Where numbers beyond the path were tried,
        they limit the intervals too.
        """
        return {K: ratio for K, ratio in self._all_ratios.items() if K >= 2 or not self.has_base}

    @property
    def outer_ratios(self) -> dict[int, float]:
        """What the ratios would be if only every second number of groups had been tried, as far as that is known."""
        sse, first = self._tried_sse, int(self.n_components[0]) + 2
        before, after = sse[:-4] - sse[2:-2], sse[2:-2] - sse[4:]
        is_known = (before > 0) & (after > 0)
        return {first + int(i): min(float(before[i] / after[i]), WIDEST) for i in np.flatnonzero(is_known)}

    @property
    def first_ratio(self) -> float:
        """That of a single feature, whether all rows have it or not; 1 if it is best at no penalty."""
        return self._all_ratios.get(1, 1.0)

    @property
    def _all_ratios(self) -> dict[int, float]:
        sse = self._tried_sse
        last, tried = int(self.n_components[-1]), int(self.n_components[0]) + len(sse) - 1
        ends = {K: ends for K, ends in self._hull(sse).items() if 1 <= K <= last}
        eligible = {K: (lo, hi) for K, (lo, hi) in ends.items() if lo > 0 or tried > K or self._is_exact(K)}
        return {K: hi / lo if lo > 0 else np.inf for K, (lo, hi) in eligible.items() if hi < np.inf}

    def __repr__(self) -> str:
        """The answer in words."""
        if not self.ratios:
            return "There was no number of groups to choose: the table is too small or too simple."
        if not self.candidates:
            return "No groups found: no number of them is best over a wider range of penalties than in groupless data."
        first, *others = self.candidates
        (lo, hi), groups = self.intervals[first], "group" if first == 1 else "groups"
        words = f"{first} {groups}: best for penalties from {lo:.4g} to {hi:.4g} ({self._compared()})."
        words += f" Also plausible: {', '.join(map(str, others))}." if others else ""
        return words + (f" {self.n_outliers} rows in tiny groups were set aside." if self.n_outliers else "")

    def _compared(self) -> str:
        """How wide the interval of the best number is, and those of groupless tables."""
        ratio, null = self.ratios[self.best], self.null_ratio
        words = [f"{ratio:.3g}x" if ratio < np.inf else "without a lower end"]
        if null is not None and ratio < null and self.best in self.outer_ratios:  # what makes it plausible
            words.append(f"without its neighbours {self.outer_ratios[self.best]:.3g}x")
        if null is not None:
            words.append(f"groupless data: up to {null:.3g}x" if null < np.inf else "groupless data: any width")
        return "; ".join(words)

    def _is_exact(self, K: int) -> bool:
        """Whether nothing is left to explain with K groups, so that more could not help."""
        return bool(self.sse[K - self.n_components[0]] <= 1e-12 * self.sse[0])

    def suggest(self, K: int | None = None) -> float:
        """A penalty inside the interval of K, or of ``best``: the middle on a logarithmic scale.

        Of an interval without an upper end, the double of its lower end; never less than a tenth of the upper.
        """
        K = self.best if K is None else K
        if not is_number(K, Integral) or K not in self.intervals:
            raise ValueError(f"K={K!r} is best at no penalty; those that are: {sorted(self.intervals)}")
        lo, hi = self.intervals[K]
        if not np.isfinite(hi):
            return 2 * lo if lo > 0 else 1.0
        return float(np.sqrt(max(lo, hi / 100)) * np.sqrt(hi))

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, None for what is infinite or not known: fit for JSON. The solutions are left out."""
        return {
            "n_components": self.n_components.tolist(),
            "sse": self.sse.tolist(),
            "intervals": [{"K": K, "low": lo, "high": _plain(hi)} for K, (lo, hi) in self.intervals.items()],
            "ratios": [{"K": K, "ratio": _plain(ratio)} for K, ratio in self.ratios.items()],
            "best": self.best,
            "ratio": _plain(self.ratio),
            "null_ratio": _plain(self.null_ratio),
            "candidates": self.candidates,
            "n_outliers": self.n_outliers,
            "outliers": list(self.outliers),
            "words": str(self),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the number of groups over the penalty, and the squared error over the number of groups.

        Parameters
        ----------
        ax : pair of matplotlib axes, optional
            Where to draw the two; a new figure if not given.

        Returns
        -------
        matplotlib.figure.Figure
            It needs the extra ``plot``.

        Examples
        --------
        >>> import numpy as np
        >>> from madbayes.engine.path import PenaltyPath
        >>> path = PenaltyPath(np.array([1, 2, 3, 4]), np.array([100.0, 60.0, 10.0, 9.0]), [None] * 4)
        >>> [axis.get_ylabel() for axis in path.plot().axes]
        ['groups', 'squared error']
        """
        from madbayes.display import PathDisplay
        from madbayes.display.figures import new_figure

        axes = list(new_figure(3, 8).subplots(1, 2) if ax is None else ax if np.iterable(ax) else [ax])
        if len(axes) != 2 or not all(hasattr(axis, "get_figure") for axis in axes):
            raise ValueError(f"ax={ax!r} is not accepted: give a pair of axes, or None for a new figure")
        first, second = axes
        PathDisplay(self).plot(second, kind="sse")
        return PathDisplay(self).plot(first).figure_

    def _repr_html_(self) -> str:
        """The answer in words, and the numbers behind it as a table."""
        from madbayes.display.table import path_table

        return path_table(self)

    def for_k(self, K: int) -> Any:
        """The solution with K groups."""
        first, last = (int(end) for end in self.n_components[[0, -1]])
        if not is_number(K, Integral) or not first <= K <= last:
            raise ValueError(f"K={K!r} is not on the path: give an integer from {first} to {last}")
        return self.solutions[K - first]

    def at(self, penalty: float) -> Any:
        """The solution that is best at a penalty; of two that are, the one with fewer groups."""
        if not is_number(penalty) or not 0 <= as_float(penalty) < np.inf:
            raise ValueError(f"penalty={penalty!r} is not accepted: give a finite number >= 0")
        return self.solutions[int((self.sse + penalty * self.n_components).argmin())]


def _slope(sse: NDArray, i: int, j: int) -> float:
    """Squared error saved by each further group from i to j."""
    return float((sse[i] - sse[j]) / (j - i))


def _mean_and_spread(logs: NDArray, usual: float) -> tuple[float, float]:
    """Mean of the first column, and the standard deviation of all of them, which begins with a usual one."""
    squares = ((logs - logs.mean(axis=0)) ** 2).sum() + USUAL_COUNT * usual**2
    return float(logs[:, 0].mean()), float(np.sqrt(squares / (logs.size - logs.shape[1] + USUAL_COUNT)))


def _ratio(logarithm: float) -> float:
    """The ratio of a logarithm; infinite if it is as good as that, but for rounding."""
    return float(np.exp(logarithm)) if logarithm < np.log(WIDEST) - 1e-9 else np.inf


def _plain(number: float | None) -> float | None:
    """None for what is infinite."""
    return None if number is None or not np.isfinite(number) else float(number)


def warn_of_weak_evidence(path: PenaltyPath) -> None:
    """Say so in words where no number of groups is plausible, or hardly any."""
    if path.is_weak:
        warnings.warn(f"weak evidence for groups. {path}", WeakEvidenceWarning, stacklevel=users_level())


def users_level() -> int:
    """The ``stacklevel`` of a warning that points to the user's line, however many layers are above the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("madbayes", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


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
