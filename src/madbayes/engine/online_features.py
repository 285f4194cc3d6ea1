"""Features of rows that keep coming, from exact statistics of the rows before.

Rows that came before keep the codes Z they were given. All that the squared error of any features A needs of them is
Z'WZ, the features of least squares, and the squared error there: with those, the error at A is that one plus
tr(D' Z'WZ D) for the difference D. So nothing is ever taken from anything much larger, however far the rows lie from
the origin.

A batch may open features at the price it would have if it were all there is. Those that do not pay for all rows seen
stay hidden: they are known, and shown once they do.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.codes import best_codes
from madbayes.engine.feature_search import FeatureLandscape, direction_columns, explained, row_columns
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

# Hidden features that are kept from batch to batch, and those a batch may open.
HIDDEN, NEW = 8, 16
# Columns that are tried for a new feature before it is given up.
TRIES = 3
# Up to so many columns a bound on what a feature gains is cheaper than to try one.
NARROW = 512


class FeatureSums(NamedTuple):
    """What is known of the rows seen: their codes are fixed, and these are the features of least squares."""

    pairs: NDArray[np.float64]  # Z'WZ, K x K
    A: NDArray[np.float64]  # K x D
    error: float  # squared error there
    shown: NDArray[np.bool_]  # which features the model has; the others are hidden

    @property
    def K(self) -> int:
        """Number of features, hidden ones with them."""
        return len(self.A)

    def deletion_costs(self) -> NDArray[np.float64]:
        """What the squared error grows by without each feature, the others refitted: |a_k|^2 over [(Z'WZ)^-1]_kk."""
        return (self.A**2).sum(axis=1) / np.diag(np.linalg.inv(self.pairs))

    def without(self, k: int) -> "FeatureSums":
        """The same with one feature less, the others refitted."""
        inverse = np.linalg.inv(self.pairs)
        A = self.A - np.outer(inverse[:, k], self.A[k]) / inverse[k, k]
        error = self.error + float(self.A[k] @ self.A[k] / inverse[k, k])
        pairs = np.delete(np.delete(self.pairs, k, axis=0), k, axis=1)
        return FeatureSums(pairs, np.delete(A, k, axis=0), error, np.delete(self.shown, k))

    def only_shown(self) -> "FeatureSums":
        """The same without the hidden features."""
        sums = self
        while not sums.shown.all():
            sums = sums.without(int(sums.shown.argmin()))
        return sums


class State(NamedTuple):
    """In the middle of the work on a batch."""

    before: FeatureSums  # of the rows before; features of the batch alone are not in it
    Z: NDArray[np.uint8]  # of the batch, its new features last
    sums: FeatureSums  # of all rows
    origins: list[int | None]  # which of the features before each is

    def price(self, fine: float) -> float:
        """Squared error and the price of the features."""
        return self.sums.error + fine * self.sums.K


class Batch(NamedTuple):
    """Rows that have come."""

    X: NDArray[np.float64]
    weights: NDArray[np.float64]
    max_iter: int
    workers: Workers

    def fitted(self, before: FeatureSums, Z: NDArray[np.uint8], origins: list[int | None]) -> State:
        """Features of least squares for all rows; new ones that are combinations of others are left out."""
        from madbayes.engine import kernels

        K, D = Z.shape[1], self.X.shape[1]
        A, pairs = np.zeros((K, D)), np.zeros((K, K))
        A[: before.K], pairs[: before.K, : before.K] = before.A, before.pairs
        ZW = Z.T * self.weights
        gram, independent = pairs + ZW @ Z, np.empty(K, dtype=bool)
        step = ZW @ (self.X - Z @ A)
        kernels.eliminate(gram.copy(), step, K, independent)
        kept = np.flatnonzero(independent | (np.arange(K) < before.K))
        if len(kept) < K:
            return self.fitted(before, np.ascontiguousarray(Z[:, kept]), [origins[k] for k in kept])
        R = self.X - Z @ (A + step)
        error = before.error + float(np.einsum("kd,kl,ld->", step, pairs, step, optimize=True))
        error += float(self.weights @ np.einsum("nd,nd->n", R, R))
        shown = np.concatenate([before.shown, np.zeros(K - before.K, dtype=bool)])
        return State(before, Z, FeatureSums(gram, A + step, error, shown), origins)

    def descend(self, state: State) -> State:
        """Best codes of the batch and least squares of all rows in turn, as long as the error falls."""
        for _ in range(self.max_iter):
            Z = best_codes(self.X, state.sums.A, self.workers)
            found = self.fitted(state.before, Z, state.origins)
            if not found.sums.error < state.sums.error * (1 - RELATIVE_GAIN) and found.sums.K == state.sums.K:
                break
            state = found
        return state

    def grown(self, state: State, column: NDArray[np.uint8]) -> State:
        """With one more feature, which these rows have at first."""
        Z = np.column_stack([state.Z, column])
        return self.descend(self.fitted(state.before, Z, [*state.origins, None]))

    def without(self, state: State, k: int) -> State:
        """With one feature less."""
        before = state.before.without(k) if k < state.before.K else state.before
        Z, origins = np.delete(state.Z, k, axis=1), state.origins[:k] + state.origins[k + 1 :]
        return self.descend(self.fitted(before, Z, origins))


class Absorbed(NamedTuple):
    """Statistics with a batch among them."""

    sums: FeatureSums
    Z: NDArray[np.uint8]  # of the batch, hidden features with them
    origins: list[int | None]  # which of the features before each is, None for a new one


def absorb(
    known: FeatureSums,
    X: NDArray,
    sample_weight: Weights,
    price: float,
    total: float,
    cap: int | None,
    rng: np.random.Generator,
    max_iter: int,
    workers: Workers,
) -> Absorbed:
    """Give codes to the rows of a batch; features open, and go, by their price.

    Parameters
    ----------
    known : FeatureSums
    X : array of shape (n, D)
    sample_weight : array of shape (n,), optional
        Positive.
    price : float
        Of a feature, for all rows seen and these. If it is zero, features stay, and open up to the cap.
    total : float
        The weight of all rows, these with them.
    cap : int, optional
        At most so many features.
    rng : Generator
    max_iter : int
        Descents of a batch at most.
    workers : Workers

    Returns
    -------
    Absorbed
    """
    weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    batch = Batch(np.ascontiguousarray(X, dtype=np.float64), weights, max_iter, workers)
    fine = price * float(weights.sum() / total)
    Z = best_codes(batch.X, known.A, workers)
    state = batch.descend(batch.fitted(known, Z, list(range(known.K))))
    state = open_where_it_pays(batch, state, fine, cap, rng)
    if price > 0:
        state = delete_what_does_not_pay(batch, state, fine, price)
    sums = state.sums._replace(shown=paying(state.sums, price))
    order = in_the_order_before(sums.shown, known.shown, state.origins)
    return Absorbed(
        FeatureSums(sums.pairs[np.ix_(order, order)], sums.A[order], sums.error, sums.shown[order]),
        np.ascontiguousarray(state.Z[:, order]),
        [state.origins[k] for k in order],
    )


def open_where_it_pays(batch: Batch, state: State, fine: float, cap: int | None, rng: np.random.Generator) -> State:
    """New features, each from the residuals of the batch, as long as they are worth their price there."""
    most = state.sums.K + NEW if cap is None else min(cap, state.sums.K + NEW)
    landscape, tries = FeatureLandscape.of(batch.X, fine, batch.weights), 0
    negligible = batch.weights.sum() * rounding_error(batch.X)
    while most > state.sums.K and tries < TRIES:
        R = batch.X - state.Z @ state.sums.A
        if not may_pay(R * np.sqrt(batch.weights)[:, None], max(fine, negligible)):
            return state
        columns = np.hstack([row_columns(landscape, R, rng), direction_columns(landscape, R, rng)])
        found = batch.grown(state, columns[:, explained(landscape, R, columns).argmax()])
        if found.sums.K > state.sums.K and found.price(fine) < state.price(fine) * (1 - RELATIVE_GAIN):
            state, tries = found, 0
        else:
            tries += 1
    return state


def may_pay(R: NDArray, price: float) -> bool:
    """Whether one more feature might explain more than the price of these residuals: the largest squared singular
    value is the most that it can."""
    if np.einsum("nd,nd->", R, R) <= price:
        return False
    if min(R.shape) > NARROW:
        return True
    scatter = R.T @ R if R.shape[1] <= len(R) else R @ R.T
    return bool(np.linalg.eigvalsh(scatter)[-1] > price)


def delete_what_does_not_pay(batch: Batch, state: State, fine: float, price: float) -> State:
    """Without the features that explain less than their price in all rows; and not too many hidden ones."""
    while state.sums.K:
        costs, shown = state.sums.deletion_costs(), paying(state.sums, price)
        k = int(np.where(shown, np.inf, costs).argmin())
        if shown.all() or (costs[k] >= fine and (~shown).sum() <= HIDDEN):
            break
        state = batch.without(state, k)
    return state


def paying(sums: FeatureSums, price: float) -> NDArray[np.bool_]:
    """Which features are worth the price in all rows seen: the cheapest goes until all are."""
    shown, rest = np.zeros(sums.K, dtype=bool), list(range(sums.K))
    while rest:
        costs = sums.deletion_costs()
        k = int(costs.argmin())
        if costs[k] >= price:
            break
        sums = sums.without(k)
        del rest[k]
    shown[rest] = True
    return shown


def in_the_order_before(
    shown: NDArray[np.bool_], was_shown: NDArray[np.bool_], origins: list[int | None]
) -> NDArray[np.intp]:
    """Features that were shown and are, in their order; those shown for the first time; then the hidden ones."""
    stays = np.array([k is not None and bool(was_shown[k]) for k in origins], dtype=bool)
    return np.lexsort((np.arange(len(shown)), ~stays, ~shown))
