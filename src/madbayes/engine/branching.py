"""Branch and bound over the codes of rows: the best features there are, for few rows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.bounds import singular_squares
from madbayes.model import Objective
from madbayes.paper.features import independent_columns

# Above this many features their codes are too many to branch on.
COMPONENT_LIMIT = 10
# Values that differ by this share of themselves, or by this share of the squares of all rows, are the same.
SAME, ROUNDING = 1e-9, 1e-13
# Rows of a block: large enough to say something about the features, small enough to be solved.
BLOCK = 50
# Rows from which on the squared error is bounded, at most: each takes a singular value decomposition.
TAILS = 250
# The squared error that a search reaches on some rows of these weights, with so many features.
Reach = Callable[[NDArray, NDArray, int], float]


class Proof:
    """The best features known of different rows, made better or proved to be the best.

    ``reach`` says what can be had on rows at the end of a long table. It is not asked where there is one block only.
    """

    def __init__(
        self, X: NDArray, weights: NDArray, objective: Objective, Z: NDArray[np.uint8], reach: Reach = lambda *_: np.inf
    ) -> None:
        self.rows, self.row_weights, self.objective, self.reach = X, weights, objective, reach
        self.Z, self.value = self._value(Z)
        U, s, _ = np.linalg.svd(X, full_matrices=False)
        far, n_blocks = far_apart(X, weights), max(1, round(len(X) / BLOCK))
        parts = [far[i::n_blocks] for i in range(n_blocks)]
        self.order, ends = np.concatenate(parts), np.cumsum([len(part) for part in parts])
        self.blocks = [slice(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        self.X, self.weights = (U * s)[self.order], weights[self.order]  # no more columns than rows
        self.squares = tail_squares(self.X, self.weights)
        self.block_squares = [tail_squares(self.X[block], self.weights[block]) for block in self.blocks]

    def _value(self, Z: NDArray) -> tuple[NDArray[np.uint8], float]:
        """Z without what it does not need, and the objective."""
        Z = Z[:, independent_columns(Z)]
        return Z, self.objective(self.rows, Z, sample_weight=self.row_weights)

    @property
    def slack(self) -> float:
        """Differences of the objective that do not count."""
        return SAME * self.value + ROUNDING * float(self.squares[0].sum())

    def bound(self, node_limit: int, most: int) -> float:
        """A lower bound on the objective with up to so many features."""
        price, lowest = self.objective.penalty, np.inf
        for K in range(0 if price > 0 else most, most + 1):
            if K * price >= self.value:
                break  # the features alone cost more than what is known, and so do more of them
            least, used = self._bound_for(K, node_limit)
            lowest, node_limit = min(lowest, least), node_limit - used
        return float(min(lowest, self.value))

    def _bound_for(self, K: int, node_limit: int) -> tuple[float, int]:
        """A lower bound on the objective with K features or fewer, charged as K, and the nodes it took."""
        price = K * self.objective.penalty
        by_rank = price + self.squares[0, K:].sum()
        if K == 0 and by_rank < self.value:
            self.Z, self.value = self._value(self.Z[:, :0])
        if by_rank >= self.value - self.slack or K > COMPONENT_LIMIT or node_limit <= 0:
            return by_rank, 0
        tails, used = self._tails(K, node_limit)
        error, unexplored, nodes, Z = self._branch(0, K, tails, self.value - price, node_limit - used)
        if Z is not None:
            better, value = self._value(Z)
            if value > price + error + self.slack:
                return by_rank, used + nodes  # rounding has spoilt the least squares on the way: they prove nothing
            self.Z, self.value = better, value
        return price + max(tails[0], min(error, unexplored)), used + nodes

    def _tails(self, K: int, node_limit: int) -> tuple[NDArray[np.float64], int]:
        """What the rows from each one on cost at least with K features, and the nodes it took to know.

        By rank, or better: the last block is a small problem, solved exactly; so is the one before together with it,
        as what remains of a block by rank and the following ones, already solved, bound it well; and so on.
        """
        tails, after, used = self.squares[:, K:].sum(axis=1), 0.0, 0
        for j in reversed(range(len(self.blocks))):
            block = self.blocks[j]
            tails[block] = np.maximum(tails[block], self.block_squares[j][:-1, K:].sum(axis=1) + after)
            if j > 0:
                known = self.reach(self.X[block.start :], self.weights[block.start :], K)
                share = (node_limit - used) // (j + 1)
                error, unexplored, nodes, _ = self._branch(block.start, K, tails, known, share)
                after = max(tails[block.start], min(error, unexplored) - self.slack)
                tails[block.start], used = after, used + nodes
        return tails, used

    def _branch(
        self, start: int, K: int, tails: NDArray, cutoff: float, node_limit: int
    ) -> tuple[float, float, int, NDArray[np.uint8] | None]:
        """The kernel on the rows from one on; Z is given in the order of the table, and for all rows only."""
        from madbayes.engine.kernels import certificates as kernels

        codes = np.full(len(self.X) - start, -1)
        error, unexplored, nodes = kernels.branch_rows(
            self.X[start:], self.weights[start:], tails[start:], K, cutoff, self.slack, node_limit, codes
        )
        if start > 0 or codes[0] < 0:
            return error, unexplored, nodes, None
        Z = np.empty((len(codes), K), dtype=np.uint8)
        Z[self.order] = (codes[:, None] >> np.arange(K)) & 1
        return error, unexplored, nodes, Z


def far_apart(X: NDArray, weights: NDArray) -> NDArray[np.intp]:
    """An order of the rows, each as far as possible from those before it and from zero.

    Rows whose codes differ come first, so that wrong codes show early.
    """
    distances, order = weights * (X**2).sum(axis=1), np.empty(len(X), dtype=np.intp)
    for i in range(len(X)):
        order[i] = n = distances.argmax()
        distances = np.minimum(distances, weights * ((X - X[n]) ** 2).sum(axis=1))
        distances[order[: i + 1]] = -1.0
    return order


def tail_squares(X: NDArray, weights: NDArray) -> NDArray[np.float64]:
    """Squared singular values of the rows from each one on, a row of zeros at the end.

    In a long table not of all: those of fewer rows are no larger, and stand for the rows in between.
    """
    squares, N = np.zeros((len(X) + 1, min(X.shape))), len(X)
    step = -(-N // TAILS)
    for n in range(0, N, step):
        found = singular_squares(X[n:], weights[n:])
        squares[max(n - step + 1, 0) : n + 1, : len(found)] = found
    return squares
