"""Cluster steps: which cluster a row belongs to, given the clusters."""

import numpy as np
from numpy.typing import NDArray

from madbayes.model.priors import one_hot
from madbayes.paper.clusters import squared_distances

# Rows are taken in blocks so that a table of distances stays below 64 MiB.
BLOCK_ENTRIES = 2**23


def row_blocks(n_rows: int, entries_per_row: int) -> list[slice]:
    """Consecutive slices of rows, each with at most BLOCK_ENTRIES entries."""
    size = max(1, BLOCK_ENTRIES // max(1, entries_per_row))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def nearest(X: NDArray, A: NDArray) -> NDArray[np.uint8]:
    """Each row in the cluster of nearest mean; the first of several."""
    blocks = [squared_distances(X[rows], A).argmin(axis=1) for rows in row_blocks(len(X), len(A))]
    return one_hot(np.concatenate(blocks), len(A))
