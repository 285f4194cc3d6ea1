"""Restarts of the paper's algorithms from the paper's starts, and K-means."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from madbayes import DPMeans
from madbayes.engine.allocation import bp_means, collapsed_bp_means
from madbayes.engine.blocks import Workers
from madbayes.engine.seeding import seed_features
from madbayes.paper import Result


def restarts(
    X: NDArray, penalty: float, seeds: Sequence[int], *, collapsed: bool = False, n_jobs: int | None = None
) -> list[Result]:
    """A run of BP-means, or of collapsed BP-means, for each seed."""
    run = collapsed_bp_means if collapsed else bp_means
    with Workers(n_jobs) as workers:
        starts = seed_features(X, None, seeds, penalty=penalty, workers=workers)
        return run(X, penalty, starts, workers=workers)


def best_of(results: Sequence[Result]) -> Result:
    """The run with the lowest objective."""
    return min(results, key=lambda result: result.value)


def k_means(X: NDArray, K: int, options: dict[str, Any]) -> DPMeans:
    """The best K clusters."""
    return DPMeans(penalty=0, max_clusters=K, **options).fit(X)
