"""Restarts of the paper's algorithms from the paper's starts, and K-means."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes import DPMeans
from madbayes.engine.allocation import bp_means, collapsed_bp_means
from madbayes.engine.blocks import Workers
from madbayes.engine.seeding import seed_features
from madbayes.paper import Result

# Numbers up to this share of the largest one are zero.
ROUNDING = 1e-12


def restarts(
    X: NDArray, penalty: float, seeds: Sequence[int], *, collapsed: bool = False, n_jobs: int | None = None
) -> list[Result]:
    """A run of BP-means, or of collapsed BP-means, for each seed."""
    run = collapsed_bp_means if collapsed else bp_means
    with Workers(n_jobs) as workers:
        found = seed_features(X, None, seeds, penalty=penalty, workers=workers)
        # What rounding leaves of a mean of zero would decide which rows keep the base.
        rounding = ROUNDING * np.abs(X).max()
        starts = [(Z, np.where(np.abs(A) <= rounding, 0.0, A)) for Z, A in found]
        return run(X, penalty, starts, workers=workers)


def best_of(results: Sequence[Result]) -> Result:
    """The run with the lowest objective."""
    return min(results, key=lambda result: result.value)


def k_means(X: NDArray, K: int, options: dict[str, Any]) -> DPMeans:
    """The best K clusters."""
    return DPMeans(penalty=0, max_clusters=K, **options).fit(X)
