"""Tables without groups, to compare a table with."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from madbayes.model.likelihoods import Weights

# Quantiles that tell how skewed a column is, and how heavy its tails are.
MIDDLE, TAIL = 0.1, 0.025
# A column is mostly one number if so much of its weight has it.
MOSTLY = 0.5
# The width of uniform numbers of variance one.
UNIFORM = 12**0.5


def groupless(
    X: NDArray, sample_weight: Weights, rng: np.random.Generator, n_rows: int | None = None
) -> NDArray[np.float64]:
    """Rows of one cloud with the means and covariances of X, its columns as skewed and heavy-tailed as those of X.

    As many rows as X has, unless ``n_rows`` says otherwise. Normal rows, stretched column by column as in Tukey's
    g-and-h distributions. Of the shape of a column only skewness and tails are kept: two humps may well be two groups.
    A column that is mostly one number, as counts and sparse tables have, keeps all of its numbers instead, if there are
    more than two; what they have to do with those of other columns is weakened by that.
    """
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    mean = weights @ X / weights.sum()
    R = (X - mean) * np.sqrt(weights / weights.sum())[:, None]
    factor = np.linalg.qr(R, mode="r")
    Y = rng.standard_normal((len(X) if n_rows is None else n_rows, len(factor))) @ factor
    scales = np.sqrt((R**2).sum(axis=0))
    scales[scales == 0] = 1.0
    stretched = np.column_stack([_stretch(y, x, weights) for y, x in zip((Y / scales).T, X.T, strict=True)])
    stretched -= stretched.mean(axis=0)
    spread = stretched.std(axis=0)
    return mean + stretched / np.where(spread > 0, spread, 1.0) * scales


def _is_mostly_one_number(column: NDArray, weights: NDArray) -> bool:
    """Whether a column is; two numbers are two humps."""
    numbers, which = np.unique(column, return_inverse=True)
    return len(numbers) > 2 and bool(np.bincount(which, weights).max() >= MOSTLY * weights.sum())


def _numbers(normal: NDArray, column: NDArray, weights: NDArray) -> NDArray:
    """The numbers of a column, drawn by normal ones; not one number alone."""
    order = column.argsort()
    cumulative = np.cumsum(weights[order])
    places = np.searchsorted(cumulative, ndtr(normal) * cumulative[-1]).clip(max=len(column) - 1)
    numbers = column[order][places]
    if np.ptp(numbers) == 0:
        farthest = np.abs(normal).argmax()
        numbers[farthest] = column.max() if column.max() > numbers[farthest] else column.min()
    return numbers


def _quantiles(column: NDArray, weights: NDArray, levels: NDArray) -> NDArray:
    """Quantiles of weighted numbers."""
    order = column.argsort()
    cumulative = np.cumsum(weights[order])
    return np.interp(levels * cumulative[-1], cumulative - 0.5 * weights[order], column[order])


def _stretch(normal: NDArray, column: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Normal numbers made as skewed (g) as a column is, and as heavy-tailed (h) or as flat, or like it in all."""
    if _is_mostly_one_number(column, weights):
        return _numbers(normal, column, weights)
    levels = np.array([TAIL, MIDDLE, 0.5, 1 - MIDDLE, 1 - TAIL])
    low, left, middle, right, high = _quantiles(column, weights, levels)
    if left == middle or right == middle:
        return normal
    z, outer = -ndtri(MIDDLE), -ndtri(TAIL)
    g = float(np.clip(np.log((right - middle) / (middle - left)) / z, -1.5, 1.5))
    expected = (right - left) * (np.sinh(g * outer) / np.sinh(g * z) if abs(g) > 1e-6 else outer / z)
    stretch = (high - low) / expected
    h = float(np.clip(2 * np.log(stretch) / (outer**2 - z**2), 0.0, 0.3))
    flat = _flattened(normal, stretch * outer / z)
    skewed = np.expm1(g * flat) / g if abs(g) > 1e-6 else flat
    return skewed * np.exp(0.5 * h * np.minimum(normal**2, 9.0))


def _flattened(normal: NDArray, tails: float) -> NDArray[np.float64]:
    """Normal numbers mixed with their ranks, until the outer quantiles are so many times the inner ones.

    Uniform numbers are as flat as it gets: what is flatter has two humps.
    """
    z, outer = -ndtri(MIDDLE), -ndtri(TAIL)
    inner_rank, outer_rank = UNIFORM * (0.5 - MIDDLE), UNIFORM * (0.5 - TAIL)
    share = (outer - tails * z) / (tails * (inner_rank - z) + outer - outer_rank)
    share = float(np.clip(share, 0.0, 1.0))
    return (1 - share) * normal + share * UNIFORM * (ndtr(normal) - 0.5)
