"""Features of solutions that have more of them, in place of others: which of many to do without is hard to tell.

Where there are fewer features than there might be, one of them often stands for all that have no place, and the best
choice of these is another for each number. So a feature that has none is taken in, and another one given up, whose rows
may have others instead.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.climb import ALIKE, differences
from madbayes.engine.feature_search import FeatureLandscape, explained
from madbayes.engine.search import Solution, is_lower

# So many of the features that explain most of the residuals are tried, one at a time.
TAKEN = 4
# For each of them one of so many of the cheapest goes, and its rows may have one or two of so many others.
GIVEN, PARTNERS = 3, 4
# So many of the best allocations are polished, and so many times as long as that helps.
POLISHED, TIMES = 2, 3


def borrowed(landscape: FeatureLandscape, solution: Solution, others: Sequence[Solution]) -> Solution:
    """What features of other solutions lead to in place of some that a solution has."""
    columns, passes = unlike(np.hstack([other.groups for other in others])), 0
    for _ in range(TIMES):
        found, taken = _exchanged(landscape, solution, columns)
        passes += taken
        if not is_lower(found, solution):
            break
        solution = found
    return solution._replace(passes=max(passes, 1))


def _exchanged(landscape: FeatureLandscape, solution: Solution, columns: NDArray[np.uint8]) -> tuple[Solution, int]:
    """The best solution with one of these columns, and the passes that took; or the one there is."""
    own = differences(columns.astype(np.float64), solution.groups.astype(np.float64))
    columns = columns[:, own.min(axis=1) > ALIKE * len(columns)]
    best = explained(landscape, landscape.residuals(solution), columns).argsort()[::-1][:TAKEN]
    more = [landscape.glance(np.column_stack([solution.groups, columns[:, c]])) for c in best]
    allocations = [landscape.reduced(one, GIVEN, 1, PARTNERS)[0] for one in more if one.K > solution.K]
    fewer = [landscape.glance(Z) for Z in allocations]
    promising = sorted(fewer, key=lambda one: one.value)[:POLISHED]
    found = [landscape.polish(one.groups) for one in promising]
    lowest = min((one for one in found if one.K == solution.K), key=lambda one: one.value, default=solution)
    return lowest, sum(one.passes for one in [*more, *fewer, *found])


def unlike(columns: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Columns no two of which have hardly other rows; of those that have, the first."""
    Z = columns.astype(np.float64)
    is_other = differences(Z, Z) > ALIKE * len(Z)
    kept: list[int] = []
    for k in range(Z.shape[1]):
        if is_other[k, kept].all():
            kept.append(k)
    return columns[:, kept]
