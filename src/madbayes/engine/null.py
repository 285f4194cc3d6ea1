"""Tables without groups, to compare a table with."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from madbayes.model.likelihoods import Weights

# Quantiles that tell how skewed a column is, and how heavy its tails are.
MIDDLE, TAIL = 0.1, 0.025


def groupless(X: NDArray, sample_weight: Weights, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows of one cloud with the means and covariances of X, its columns as skewed and heavy-tailed as those of X.

    Normal rows, stretched column by column as in Tukey's g-and-h distributions. Of the shape of a column only skewness
    and tails are kept: two humps may well be two groups.
    """
    N, weights = len(X), np.ones(len(X)) if sample_weight is None else sample_weight
    mean = weights @ X / weights.sum()
    R = (X - mean) * np.sqrt(weights / weights.sum())[:, None]
    factor = np.linalg.qr(R, mode="r")
    Y = rng.standard_normal((N, len(factor))) @ factor
    scales = np.sqrt((R**2).sum(axis=0))
    scales[scales == 0] = 1.0
    stretched = np.column_stack([_stretch(y, x, weights) for y, x in zip((Y / scales).T, X.T, strict=True)])
    stretched -= stretched.mean(axis=0)
    spread = stretched.std(axis=0)
    return mean + stretched / np.where(spread > 0, spread, 1.0) * scales


def _quantiles(column: NDArray, weights: NDArray, levels: NDArray) -> NDArray:
    """Quantiles of weighted numbers."""
    order = column.argsort()
    cumulative = np.cumsum(weights[order])
    return np.interp(levels * cumulative[-1], cumulative - 0.5 * weights[order], column[order])


def _stretch(normal: NDArray, column: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Normal numbers made as skewed (g) and heavy-tailed (h) as a column is."""
    levels = np.array([TAIL, MIDDLE, 0.5, 1 - MIDDLE, 1 - TAIL])
    low, left, middle, right, high = _quantiles(column, weights, levels)
    if left == middle or right == middle:
        return normal
    z, outer = -ndtri(MIDDLE), -ndtri(TAIL)
    g = float(np.clip(np.log((right - middle) / (middle - left)) / z, -1.5, 1.5))
    expected = (right - left) * (np.sinh(g * outer) / np.sinh(g * z) if abs(g) > 1e-6 else outer / z)
    h = float(np.clip(2 * np.log((high - low) / expected) / (outer**2 - z**2), 0.0, 0.3))
    skewed = np.expm1(g * normal) / g if abs(g) > 1e-6 else normal
    return skewed * np.exp(0.5 * h * np.minimum(normal**2, 9.0))
