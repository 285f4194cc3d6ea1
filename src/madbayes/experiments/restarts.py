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
        return run(X, penalty, starts(X, penalty, seeds, workers), workers=workers)


def starts(X: NDArray, penalty: float, seeds: Sequence[int], workers: Workers) -> list[tuple[NDArray, NDArray]]:
    """++ seeds that always have the base, whatever it saves.

    As the paper says: only further features have to pay. In a table of principal components, whose mean is zero, the
    base saves nothing at first. A constant column makes it pay; residuals are zero there, and it is dropped again.
    """
    constant = np.sqrt(2 * (penalty + 1) + np.einsum("nd,nd->n", X, X).max())
    wider = np.column_stack([X, np.full(len(X), constant)])
    found = seed_features(wider, None, seeds, penalty=penalty, workers=workers)
    # What is left of a mean of zero by rounding would decide which rows keep the base.
    rounding = ROUNDING * np.abs(X).max()
    return [(Z, np.where(np.abs(A) <= rounding, 0.0, A)[:, :-1].copy()) for Z, A in found]


def best_of(results: Sequence[Result]) -> Result:
    """The run with the lowest objective."""
    return min(results, key=lambda result: result.value)


def k_means(X: NDArray, K: int, options: dict[str, Any]) -> DPMeans:
    """The best K clusters."""
    return DPMeans(penalty=0, max_clusters=K, **options).fit(X)
