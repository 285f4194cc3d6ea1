"""Where runs start: the paper's ++ seeding for features and clusters, quick enough not to dominate a run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import rounding_error
from madbayes.paper.seeding import seed_clusters as paper_seed_clusters

Start = tuple[NDArray, NDArray]  # Z and A

# Cluster seeds are drawn from at most this many rows.
SEED_ROWS = 10_000


def seed_features(
    X: NDArray,
    K: int | None,
    seeds: Sequence[int],
    *,
    penalty: float | None = None,
    sample_weight: Weights = None,
    workers: Workers,
) -> list[Start]:
    """The starts of :func:`madbayes.paper.seed_features` for each seed."""
    from madbayes.engine import kernels

    N, D = X.shape
    weights = np.ones(N) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    base = np.average(X, axis=0, weights=weights)
    base_errors = ((X - base) ** 2).sum(axis=1, dtype=np.float64)
    negligible, price = rounding_error(X), -1.0 if K is not None else float(penalty or 0.0)
    squares = np.einsum("nd,nd->n", X, X, dtype=np.float64)
    gain = weights @ squares - weights @ base_errors
    if K == 0 or squares.max() <= negligible or (K is None and not gain > price):
        return [(np.zeros((N, 0), dtype=np.uint8), np.zeros((0, D))) for _ in seeds]

    def one(seed: int) -> Start:
        room = 16 if K is None else K
        while True:
            A, Z = np.empty((room, D)), np.zeros((N, room), dtype=np.uint8)
            uniforms = np.random.default_rng(seed).random(room)
            used = kernels.seed_run(X, weights, base, base_errors, uniforms, price, negligible, A, Z, np.empty(N))
            if used < room or K is not None or room > N:
                return Z[:, :used], A[:used]
            room = min(2 * room, N + 1)

    return workers.map(one, seeds)


def seed_clusters(X: NDArray, K: int, seed: int, *, sample_weight: Weights = None) -> NDArray:
    """K-means++ on a sample of the rows; on all of them, and as in the paper's room, if they are few."""
    if len(X) <= max(SEED_ROWS, 20 * K):
        return paper_seed_clusters(X, K, random_state=seed, sample_weight=sample_weight)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(X), max(SEED_ROWS, 20 * K), replace=False))
    weight = None if sample_weight is None else sample_weight[rows]
    return paper_seed_clusters(X[rows], K, random_state=rng, sample_weight=weight)
