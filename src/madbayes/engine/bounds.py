"""What no groups can fall below, from singular values alone."""

import numpy as np
from numpy.typing import NDArray

from madbayes.model.likelihoods import Weights


def singular_squares(X: NDArray, sample_weight: Weights) -> NDArray[np.float64]:
    """Squared singular values, largest first, the rows times the roots of their weights."""
    rows = X if sample_weight is None else np.sqrt(sample_weight)[:, None] * X
    return np.linalg.svd(rows, compute_uv=False) ** 2


def spectral_bound(squares: NDArray[np.float64], penalty: float, most: int | None = None) -> float:
    """The least of squared error and penalties that any X = ZA of rank at most ``most`` has.

    From the squared singular values of X.

    At rank K the squared error is at least the sum of s_i^2 over i > K (Eckart and Young), s_i the singular values; K
    penalties beside it, the best K takes the smaller of penalty and s_i^2 for each i.
    """
    paid = np.minimum(squares[:most], penalty)
    return float(paid.sum() + squares[len(paid) :].sum())
