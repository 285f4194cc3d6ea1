"""Features of solutions that have more of them, in place of others: which of many to do without is hard to tell.

Where there are fewer features than there might be, one of them often stands for all that have no place, and the best
choice of these is another for each number. So a feature that has none is taken in, and another one given up, whose rows
may have others instead; or it just takes the other one's place, and a short descent tells of all such swaps which
promise most.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.climb import ALIKE, differences
from madbayes.engine.feature_search import FeatureLandscape, explained
from madbayes.engine.search import Solution, is_lower

# So many of the features that explain most of the residuals are tried, one at a time.
TAKEN = 3
# For each of them one of so many of the cheapest goes, and its rows may have one or two of so many others.
GIVEN, PARTNERS = 3, 4
# So many of the best allocations are polished, and so many times as long as that helps.
POLISHED, TIMES = 2, 2
# A swap is judged after so many iterations; so many of the best are polished.
BRIEF, SWAPS = 2, 3
# Takes a column in, and returns the best solution that leads to, or the one there is, and the passes that took.
Change = Callable[[FeatureLandscape, Solution, NDArray[np.uint8]], tuple[Solution, int]]


def borrowed(landscape: FeatureLandscape, solution: Solution, others: Sequence[Solution]) -> Solution:
    """What features of other solutions lead to in place of some that a solution has, whose rows may have others."""
    return _as_long_as_it_helps(_exchanged, landscape, solution, others)


def swapped(landscape: FeatureLandscape, solution: Solution, others: Sequence[Solution]) -> Solution:
    """What features of other solutions lead to in place of any that a solution has."""
    return _as_long_as_it_helps(_swapped, landscape, solution, others)


def _as_long_as_it_helps(
    change: Change, landscape: FeatureLandscape, solution: Solution, others: Sequence[Solution]
) -> Solution:
    """Changes by which columns come in that are not like those of a solution, a few times; all passes are counted."""
    columns, passes = unlike(np.hstack([other.groups for other in others])), 0
    for _ in range(TIMES):
        own = differences(columns.astype(np.float64), solution.groups.astype(np.float64))
        found, taken = change(landscape, solution, columns[:, own.min(axis=1) > ALIKE * len(columns)])
        passes += taken
        if not is_lower(found, solution):
            break
        solution = found
    return solution._replace(passes=max(passes, 1))


def _exchanged(landscape: FeatureLandscape, solution: Solution, columns: NDArray[np.uint8]) -> tuple[Solution, int]:
    """The best solution with one of these columns, and the passes that took; or the one there is."""
    best = explained(landscape, landscape.residuals(solution), columns).argsort()[::-1][:TAKEN]
    more = [landscape.glance(np.column_stack([solution.groups, columns[:, c]])) for c in best]
    allocations = [landscape.reduced(one, GIVEN, 1, PARTNERS)[0] for one in more if one.K > solution.K]
    fewer = [landscape.glance(Z) for Z in allocations]
    found, passes = _polished(landscape, solution, fewer, POLISHED)
    return found, passes + sum(one.passes for one in more)


def _swapped(landscape: FeatureLandscape, solution: Solution, columns: NDArray[np.uint8]) -> tuple[Solution, int]:
    """The same of all ways in which one of these columns takes the place of a feature."""
    tried = []
    for column in columns.T:
        for k in range(solution.K):
            Z = solution.groups.copy()
            Z[:, k] = column
            tried.append(landscape.glance(Z, BRIEF))
    return _polished(landscape, solution, tried, SWAPS)


def _polished(
    landscape: FeatureLandscape, solution: Solution, tried: list[Solution], most: int
) -> tuple[Solution, int]:
    """The best solution that so many of the best of those that were tried lead to, and the passes all that took."""
    promising = sorted((one for one in tried if one.K == solution.K), key=lambda one: one.value)[:most]
    found = [landscape.polish(one.groups) for one in promising]
    lowest = min((one for one in found if one.K == solution.K), key=lambda one: one.value, default=solution)
    return lowest, sum(one.passes for one in [*tried, *found])


def unlike(columns: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Columns no two of which have hardly other rows; of those that have, the first."""
    Z = columns.astype(np.float64)
    is_other = differences(Z, Z) > ALIKE * len(Z)
    kept: list[int] = []
    for k in range(Z.shape[1]):
        if is_other[k, kept].all():
            kept.append(k)
    return columns[:, kept]
