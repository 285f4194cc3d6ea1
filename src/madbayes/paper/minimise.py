"""Plain coordinate descent on any objective: a new prior or likelihood runs at once."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from madbayes.model import Objective
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import RELATIVE_GAIN, Result, descend

NEEDED = {"prior": ("kind", "penalty"), "likelihood": ("kinds", "fit", "loss")}


def check_objective(objective: Objective) -> None:
    """Say which part of the objective :func:`minimise` misses."""
    for part, names in NEEDED.items():
        owner = getattr(objective, part)
        missing = [name for name in names if not hasattr(owner, name)]
        if missing:
            raise TypeError(f"minimise needs {', '.join(missing)} of the {part}, which {type(owner).__name__} lacks")


def minimise(
    X: NDArray,
    objective: Objective,
    Z: NDArray | None = None,
    *,
    sample_weight: Weights = None,
    max_iter: int = 100,
) -> Result:
    """Coordinate descent on J(Z) = min over A of objective(X, Z, A).

    One row after the other tries the neighbouring matrices: for clusters, every other cluster and a new one;
    for features, every single bit flipped and a new feature of its own. Then each group tries to be left out.
    Every candidate is refitted, so all that is asked of the likelihood is ``fit`` and ``loss``, of the prior
    ``penalty``. The price is time: this is for trying an idea on a few hundred rows.

    Parameters
    ----------
    X : array of shape (N, D)
    objective : Objective
    Z : array of shape (N, K), optional
        Where to start: if not given, one cluster, or no feature.
    sample_weight : array of shape (N,), optional
        Positive.
    max_iter : int

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> from madbayes.model import CRP, Gaussian, Objective
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> result = paper.minimise(X, Objective(Gaussian(), CRP(), penalty=9.0))
    >>> result.K, round(result.value, 6)
    (2, 10.0)
    """
    check_objective(objective)
    clusters = objective.prior.kind == "clusters"
    neighbours = _other_clusters if clusters else _other_bits
    without = _merged_into_others if clusters else _feature_left_out

    def best_of(candidates: Iterator[NDArray], Z: NDArray) -> NDArray:
        value = objective(X, Z, sample_weight=sample_weight)
        for candidate in candidates:
            tried = objective(X, candidate, sample_weight=sample_weight)
            if tried < value - RELATIVE_GAIN * abs(value):
                Z, value = candidate, tried
        return Z[:, Z.any(axis=0)]

    def step(Z: NDArray, A: object) -> tuple[NDArray, object]:
        for n in range(len(X)):
            Z = best_of(neighbours(Z, n), Z)
        for _ in range(Z.shape[1]):
            Z = best_of(without(Z), Z)
        return Z, objective.likelihood.fit(X, Z, sample_weight)

    Z = np.ones((len(X), int(clusters))) if Z is None else np.array(Z, dtype=float)
    A = objective.likelihood.fit(X, Z, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def _with_new_group(Z: NDArray) -> NDArray:
    return np.hstack([Z, np.zeros((len(Z), 1))])


def _other_clusters(Z: NDArray, n: int) -> Iterator[NDArray]:
    """Row n in each other cluster, and in one of its own."""
    Z = _with_new_group(Z)
    for k in np.flatnonzero(Z[n] == 0):
        candidate = Z.copy()
        candidate[n] = np.arange(Z.shape[1]) == k
        yield candidate[:, candidate.any(axis=0)]


def _other_bits(Z: NDArray, n: int) -> Iterator[NDArray]:
    """Row n with each bit flipped, and with a feature of its own."""
    Z = _with_new_group(Z)
    for k in range(Z.shape[1]):
        candidate = Z.copy()
        candidate[n, k] = 1 - candidate[n, k]
        yield candidate[:, candidate.any(axis=0)]


def _merged_into_others(Z: NDArray) -> Iterator[NDArray]:
    """Each cluster merged into each earlier one."""
    for k in range(1, Z.shape[1]):
        for j in range(k):
            candidate = Z.copy()
            candidate[:, j] += Z[:, k]
            yield np.delete(candidate, k, axis=1)


def _feature_left_out(Z: NDArray) -> Iterator[NDArray]:
    """Z without each feature."""
    for k in range(Z.shape[1]):
        yield np.delete(Z, k, axis=1)
