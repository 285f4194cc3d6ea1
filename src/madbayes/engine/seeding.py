"""Where runs start: the paper's ++ seeding for features and clusters, quick enough not to dominate a run."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import rounding_error
from madbayes.paper.seeding import seed_clusters as paper_seed_clusters

Start = tuple[NDArray, NDArray]  # Z and A

# Cluster seeds are drawn from at most this many rows.
SEED_ROWS = 10_000
# Feature seeds that a thread makes at once.
SEED_CHUNK = 32


def seed_features(
    X: NDArray,
    K: int | None,
    seeds: Sequence[int],
    *,
    penalty: float | None = None,
    most: int | None = None,
    sample_weight: Weights = None,
    workers: Workers,
) -> list[Start]:
    """The starts of :func:`madbayes.paper.seed_features` for each seed; their first ``most`` features, if given."""
    from madbayes.engine import kernels

    N, D = X.shape
    weights = np.empty(0) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    blocks, masses = row_blocks(N, D), weights if weights.size else np.ones(N)
    base = sum(masses[rows] @ X[rows].astype(np.float64) for rows in blocks) / masses.sum()
    base_errors = np.concatenate([((X[rows] - base) ** 2).sum(axis=1) for rows in blocks])
    negligible, price = rounding_error(X), -1.0 if K is not None else float(penalty or 0.0)
    squares = np.einsum("nd,nd->n", X, X, dtype=np.float64)
    if K == 0 or most == 0 or squares.max() <= negligible:
        return [(np.zeros((N, 0), dtype=np.uint8), np.zeros((0, D))) for _ in seeds]

    last = K if K is not None else min(N + 1, N + 1 if most is None else most)

    def some(seeds: Sequence[int], room: int) -> list[Start]:
        A, Z = np.empty((len(seeds), room, D)), np.empty((len(seeds), N, room), dtype=np.uint8)
        uniforms, used = np.empty((len(seeds), room)), np.empty(len(seeds), dtype=np.int64)
        for r, seed in enumerate(seeds):
            np.random.default_rng(seed).random(out=uniforms[r])
        A[:, 0] = base
        kernels.seed_runs(X, weights, base_errors, uniforms, price, negligible, A, Z, used)
        exhausted = (used == room) if room < last else np.zeros(len(seeds), dtype=bool)
        return [
            some([seed], min(2 * room, last))[0] if exhausted[r] else (Z[r, :, : used[r]], A[r, : used[r]])
            for r, seed in enumerate(seeds)
        ]

    chunks = [seeds[i : i + SEED_CHUNK] for i in range(0, len(seeds), SEED_CHUNK)]
    starts = workers.map(lambda chunk: some(chunk, min(16, last) if K is None else K), chunks)
    return [start for chunk in starts for start in chunk]


def seed_clusters(X: NDArray, K: int, seed: int, *, sample_weight: Weights = None) -> NDArray:
    """K-means++ on a sample of the rows; on all of them, and as in the paper's room, if they are few."""
    if len(X) <= max(SEED_ROWS, 20 * K):
        return paper_seed_clusters(X, K, random_state=seed, sample_weight=sample_weight)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(X), max(SEED_ROWS, 20 * K), replace=False))
    weight = None if sample_weight is None else sample_weight[rows]
    return paper_seed_clusters(X[rows], K, random_state=rng, sample_weight=weight)
