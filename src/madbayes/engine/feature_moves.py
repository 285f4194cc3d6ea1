"""The moves in the landscape of features."""

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.feature_search import (
    FeatureLandscape,
    best_column,
    direction_columns,
    exchange_gains,
    inverse_gram,
    join_costs,
    long_direction,
    rebased,
    row_columns,
)
from madbayes.engine.reductions import joined
from madbayes.engine.search import Move, Solution

# How many of the best exchanges are about as likely as the best.
EXCHANGES = 3


def new_column(landscape: FeatureLandscape, R: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The rows of a new feature: the best of some made of rows, or of the two ends of a direction."""
    return best_column(landscape, R, (row_columns, direction_columns)[rng.integers(2)], rng)


def drawn(order: NDArray[np.intp], rng: np.random.Generator) -> int:
    """One of the features, the first ones more often."""
    return int(order[min(int(rng.exponential(len(order) / 3)), len(order) - 1)])


def leave_out(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Z without a feature drawn by how little it costs to delete it, and the residuals that are left then."""
    P = inverse_gram(landscape, solution)
    k = drawn(((solution.A**2).sum(axis=1) / np.diag(P)).argsort(), rng)
    # What the other features do not explain of column k is what its feature leaves behind.
    left = np.outer(solution.groups @ (P[:, k] / P[k, k]), solution.A[k])
    return np.delete(solution.groups, k, axis=1), landscape.residuals(solution) + left


def reseed(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One of the cheaper features is deleted, and another made of a residual."""
    if not solution.K:
        return None
    Z, R = leave_out(landscape, solution, rng)
    return np.column_stack([Z, new_column(landscape, R, rng)])


def rebase(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A feature is replaced by its union with another, their difference, or what is in one of them only."""
    if solution.K < 2:
        return None
    j, k = rng.choice(solution.K, 2, replace=False)
    return rebased(solution, j, k, int(rng.integers(3)))


def add(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One more feature."""
    if landscape.most <= solution.K or landscape.K is not None:
        return None
    return np.column_stack([solution.groups, new_column(landscape, landscape.residuals(solution), rng)])


def join(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """The rows of a feature have one or two others instead, and another is made of what is left."""
    if solution.K < 2:
        return None
    costs = join_costs(landscape, solution)
    k = drawn(costs.min(axis=1).argsort(), rng)
    Z = joined(solution.groups, k, costs[k].argsort()[: rng.integers(1, min(3, solution.K))])
    R = landscape.residuals(landscape.descend(Z, node_limit=0))
    return np.column_stack([Z, new_column(landscape, R, rng)])


def exchange(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A feature is replaced by one made of residuals: of all such exchanges, one of those that explain most."""
    if not solution.K:
        return None
    R = landscape.residuals(solution)
    columns = np.hstack([make(landscape, R, rng) for make in (row_columns, row_columns, direction_columns)])
    gains = exchange_gains(landscape, solution, columns)
    place = (-gains).argsort(axis=None)[min(int(rng.exponential(EXCHANGES)), gains.size - 1)]
    k, c = np.unravel_index(place, gains.shape)
    return np.column_stack([np.delete(solution.groups, k, axis=1), columns[:, c]])


def split(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """One of the cheaper features is deleted, and the rows of another are split along their residuals."""
    if solution.K < 2:
        return None
    Z, R = leave_out(landscape, solution, rng)
    rows = np.flatnonzero(Z[:, rng.integers(Z.shape[1])])
    column = np.zeros(len(Z), dtype=np.uint8)
    column[rows[R[rows] @ long_direction(R[rows], rng) > 0]] = 1
    return np.column_stack([Z, column])


def scramble(landscape: FeatureLandscape, solution: Solution, rng: np.random.Generator) -> NDArray | None:
    """A few rows get random codes; in a tiny table it may be all."""
    Z = solution.groups.copy()
    count = int(rng.integers(1, len(Z) + 1)) if landscape.is_tiny else 1 + len(Z) // 20
    rows = rng.choice(len(Z), count, replace=False)
    Z[rows] = rng.integers(2, size=(len(rows), solution.K))
    return Z


feature_moves: dict[str, Move] = {
    "reseed": reseed,
    "rebase": rebase,
    "split": split,
    "scramble": scramble,
    "add": add,
    "join": join,
    "exchange": exchange,
}
