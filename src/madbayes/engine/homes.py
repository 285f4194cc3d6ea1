"""Where the rows of a large table live, part by part, and how a pass goes over them.

A pass is a *step*, a function of one part: it sees the rows of that part, what was kept of them by the pass before (the
labels, say), and an order that is the same for all parts; it gives what is to be kept and a summary whose size does not
depend on the number of rows. Summaries come back in the order of the parts, which are fixed by the shape of the table.
So the solvers, which see summaries only, give the same bits wherever the rows are: in memory, in a file, or on the
machines of a cluster.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.model.likelihoods import MeansCovariances, Weights
from madbayes.paper.result import ROUNDING

# Entries of a part: so many that its summary costs little beside its rows, so few that it fits in memory several times.
PART_ENTRIES = 2**20
# Narrow tables count as this wide: what is kept of a row takes memory, too.
WIDTH = 16
# Rows that tell where the table lies.
FEW = 1024

# What is kept of the rows of a part from one pass to the next: a few arrays, as small as they can be.
Kept = tuple[NDArray, ...]


def part_rows(n_rows: int, n_columns: int) -> list[slice]:
    """The rows of each part, the same for the same shape."""
    size = max(256, PART_ENTRIES // max(WIDTH, n_columns))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


class Part:
    """Consecutive rows of a table. They are read when a step asks for them.

    Parameters
    ----------
    rows : slice
        Which rows of the table these are.
    read : function
        Gives them.
    weights : array
        Theirs, or of length 0 when all weigh 1.
    """

    def __init__(self, rows: slice, read: Callable[[], NDArray], weights: NDArray[np.float64]) -> None:
        self.rows, self.read, self.weights = rows, read, weights

    def __len__(self) -> int:
        return self.rows.stop - self.rows.start

    @cached_property
    def X(self) -> NDArray:
        """The rows."""
        return self.read()


# The part, what was kept of it (None at first), the order, and a note for this part alone (None for most).
Step = Callable[[Part, Any, Any, Any], tuple[Kept | None, Any]]


class Home(Protocol):
    """Where the rows are. All that a solver asks of it."""

    shape: tuple[int, int]
    dtype: np.dtype
    parts: list[slice]  # the rows of each
    weighted: bool  # whether the rows have weights

    def __len__(self) -> int: ...

    def ledger(self) -> Any:
        """Nothing is kept yet of any part."""

    def go_over(self, step: Step, ledger: Any, order: Any, notes: dict[int, Any]) -> Iterator[Any]:
        """Take a step on every part; the summaries, in order. It ends when the last one was asked for."""

    def take(self, rows: NDArray[np.intp]) -> tuple[NDArray, NDArray[np.float64]]:
        """Some rows, and their weights (of length 0 when all weigh 1)."""


class LocalHome:
    """Rows in memory, or in a file that gives them slice by slice; threads share the parts.

    Parameters
    ----------
    X : array, or rows in a file
        Anything with ``shape``, ``dtype``, ``X[begin:end]`` and ``take``.
    sample_weight : array, optional
    workers : Workers
    ledger : function, optional
        Makes the place for what is kept of the parts; a list in memory if not given.
    """

    def __init__(
        self,
        X: Any,
        sample_weight: Weights,
        workers: Workers,
        ledger: Callable[[int], Any] = lambda n_parts: [None] * n_parts,
    ) -> None:
        self.X, self.shape, self.dtype, self.workers = X, X.shape, X.dtype, workers
        self.weights = np.empty(0) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.weighted = sample_weight is not None
        self.parts = part_rows(*X.shape)
        self.make_ledger = ledger

    def __len__(self) -> int:
        return self.shape[0]

    def ledger(self) -> Any:
        """Nothing is kept yet of any part."""
        return self.make_ledger(len(self.parts))

    def part(self, p: int) -> Part:
        """One of them."""
        rows = self.parts[p]
        return Part(rows, lambda: self.X[rows], self.weights[rows] if self.weighted else self.weights)

    def go_over(self, step: Step, ledger: Any, order: Any, notes: dict[int, Any]) -> Iterator[Any]:
        """Take a step on every part; the summaries, in order."""
        prefetch = getattr(self.X, "prefetch", lambda rows: None)

        def one(p: int) -> Any:
            if p + self.workers.n_threads < len(self.parts):
                prefetch(self.parts[p + self.workers.n_threads])
            ledger[p], summary = step(self.part(p), ledger[p], order, notes.get(p))
            return summary

        return self.workers.stream(one, range(len(self.parts)))

    def take(self, rows: NDArray[np.intp]) -> tuple[NDArray, NDArray[np.float64]]:
        """Some rows, and their weights."""
        return self.X.take(rows, axis=0), self.weights[rows] if self.weighted else self.weights


class Descent(NamedTuple):
    """Where a run on all rows is, or has ended."""

    A: Any  # means, or means and covariances, or features
    value: float  # the objective
    trace: list[float]  # the objective at the start and after each iteration
    converged: bool

    @property
    def K(self) -> int:
        """Number of groups."""
        return len(self.A.means if isinstance(self.A, MeansCovariances) else self.A)

    @property
    def iterations(self) -> int:
        """Passes over the rows."""
        return len(self.trace) - 1


def few_rows(home: Home) -> NDArray[np.float64]:
    """Some rows from all over the table."""
    N = home.shape[0]
    return home.take(np.arange(0, N, max(1, N // FEW)))[0].astype(np.float64)


class Moments(NamedTuple):
    """What is known of a table before any group is."""

    weight: float  # of all rows
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]  # of each column
    largest: float  # square of a row

    @classmethod
    def of(cls, home: Home) -> "Moments":
        """In one pass: each part about its own mean, so that an offset does not eat the digits."""
        parts = home.go_over(take_moments, home.ledger(), None, {})
        return reduce(cls.joined, parts)

    def joined(self, other: "Moments") -> "Moments":
        """Those of the rows of both, from differences of the means only (Chan, Golub and LeVeque)."""
        weight, shift = self.weight + other.weight, other.mean - self.mean
        mine, theirs = self.weight / weight, other.weight / weight
        variance = mine * self.variance + theirs * other.variance + mine * theirs * shift**2
        return Moments(weight, self.mean + theirs * shift, variance, max(self.largest, other.largest))

    @property
    def negligible(self) -> float:
        """The squared residual that rounding may leave of the longest row."""
        return ROUNDING * self.largest

    @property
    def scatter(self) -> float:
        """The squared error of all rows about their mean."""
        return float(self.weight * self.variance.sum())


def masses(part: Part) -> NDArray[np.float64]:
    """The weight of each row."""
    return part.weights if part.weights.size else np.ones(len(part))


def take_moments(part: Part, kept: Kept | None, order: None, note: None) -> tuple[None, Moments]:
    """A step: those of the rows of a part; nothing is kept."""
    X, weights = part.X, masses(part)
    largest, weight = np.einsum("nd,nd->n", X, X, dtype=np.float64).max(), weights.sum()
    mean = weights @ X.astype(np.float64) / weight
    R = X - mean
    return None, Moments(float(weight), mean, np.einsum("n,nd,nd->d", weights, R, R) / weight, float(largest))


def add_products(part: Part, kept: Kept | None, origin: NDArray, note: None) -> tuple[None, NDArray]:
    """The products of columns, about an origin; nothing is kept."""
    X = part.X - origin
    return None, (masses(part)[:, None] * X).T @ X


def squared_spectrum(home: Home, origin: NDArray) -> NDArray[np.float64]:
    """Squared singular values of the rows times the roots of their weights, about an origin; largest first."""
    products = sum(home.go_over(add_products, home.ledger(), origin, {}))
    return np.maximum(np.linalg.eigvalsh(products)[::-1], 0.0)
