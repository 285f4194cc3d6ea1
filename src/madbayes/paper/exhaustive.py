"""Exhaustive search on tiny data: the truth that heuristics are measured against."""

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from madbayes.model import Objective
from madbayes.model.likelihoods import Weights
from madbayes.model.priors import one_hot
from madbayes.paper.result import Result


def partitions(N: int) -> Iterator[NDArray[np.uint8]]:
    """All clusterings of N rows, each once.

    Examples
    --------
    >>> from madbayes.paper import partitions
    >>> [sum(1 for _ in partitions(N)) for N in (1, 2, 3, 4)]  # the Bell numbers
    [1, 2, 5, 15]
    """

    def grow(labels: list[int]) -> Iterator[list[int]]:
        if len(labels) == N:
            yield labels
            return
        for k in range(max(labels) + 2):
            yield from grow([*labels, k])

    for labels in grow([0]):
        yield one_hot(np.array(labels), max(labels) + 1)


def allocations(N: int, max_components: int, *, repeats: bool = False) -> Iterator[NDArray[np.uint8]]:
    """All feature allocations of N rows, each once up to the order of columns, none of them empty.

    Without ``repeats``, columns differ from each other.

    Examples
    --------
    >>> from madbayes.paper import allocations
    >>> [len(list(allocations(2, K))) for K in (0, 1, 2)]
    [1, 4, 7]
    """
    columns = (np.arange(1, 2**N)[:, None] >> np.arange(N)) & 1
    for K in range(max_components + 1):
        for chosen in combinations_with_replacement(range(len(columns)), K):
            if repeats or len(set(chosen)) == K:
                yield columns[list(chosen)].T.reshape(N, K).astype(np.uint8)


def exhaustive(
    X: NDArray, objective: Objective, *, max_components: int | None = None, sample_weight: Weights = None
) -> Result:
    """The global optimum, by trying every matrix Z with its best A.

    For features, matrices with up to ``max_components`` columns; at most N are ever needed.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> from madbayes.model import dp_means_objective
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> paper.exhaustive(X, dp_means_objective(9.0)).value
    10.0
    """
    N = len(X)
    cap = N if max_components is None else max_components
    candidates = partitions(N) if objective.prior.kind == "clusters" else allocations(N, cap)
    Z = min(candidates, key=lambda Z: objective(X, Z, sample_weight=sample_weight))
    A = objective.likelihood.fit(X, Z, sample_weight)
    value = objective(X, Z, A, sample_weight)
    return Result(Z, A, value, np.array([value]), 0, True)
