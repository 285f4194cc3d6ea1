"""Scouts look for features where good starts all lead to the same: in few columns, and by other bases alone."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.search import Solution

if TYPE_CHECKING:
    from madbayes.engine.feature_search import FeatureLandscape

# Other bases that are tried where nothing else helps, all there are of up to eight features.
BASES = 168
# Bases that a scout tries in one step.
STEP = 24


class FeatureScout:
    """Tries other bases in the coarse table, from rows as features, as long as that helps there."""

    def __init__(self, landscape: "FeatureLandscape", rng: np.random.Generator) -> None:
        self.landscape, self.coarse, self.rng = landscape, landscape.coarse, rng
        self.move_to(self.coarse.polish(rows_as_features(self.coarse.table.X, landscape.most, rng)))

    def move_to(self, place: Solution) -> None:
        """Go to a place in the coarse table; what it leads to in the table itself is found."""
        self.place, self.bases = place, random_bases(place.K, self.rng)
        self.found = self.landscape.polish_collapsed(self.landscape.polish(place.groups))

    @property
    def is_done(self) -> bool:
        """Whether no basis is left to try."""
        return not self.bases

    def step(self) -> Solution:
        """Try some bases, and move to the first that is better. What is found then."""
        some, self.bases = self.bases[:STEP], self.bases[STEP:]
        place = self.coarse.first_lower(self.place, some)
        if self.coarse.is_lower(place, self.place):
            self.move_to(place)
        return self.found._replace(passes=self.found.passes + place.passes)


def rows_as_features(X: NDArray, K: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """K rows, each of them a feature of the rows that are nearer with it than without."""
    A = X[rng.choice(len(X), K, replace=False)]
    return ((A**2).sum(axis=1) < 2 * X @ A.T).astype(np.uint8)


def leading_columns(X: NDArray, weights: NDArray, n_columns: int) -> NDArray:
    """Rows in their leading principal directions: what features tell apart stays, and most of the noise goes."""
    directions = np.linalg.svd(np.sqrt(weights)[:, None] * X, full_matrices=False)[2]
    return np.ascontiguousarray(X @ directions[:n_columns].T)


def all_bases(K: int) -> list[tuple[int, int, int]]:
    """What :func:`rebased` may be asked for."""
    return [(j, k, how) for j in range(K) for k in range(K) if j != k for how in range(3)]


def random_bases(K: int, rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """All of them in random order, or many."""
    bases = all_bases(K)
    return [bases[i] for i in rng.permutation(len(bases))[:BASES]]


def rebased(solution: Solution, j: int, k: int, how: int) -> NDArray[np.uint8]:
    """Allocations with feature j replaced by its union with k, their difference, or what is in one of them only."""
    Z = solution.groups.copy()
    a, b = solution.groups[:, j], solution.groups[:, k]
    Z[:, j] = (a | b, a & (1 - b), a ^ b)[how]
    return Z
