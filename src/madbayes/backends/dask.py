"""Rows on the workers of a Dask cluster, and what is kept of them; orders go there and summaries come back.

A step is a task for each group of parts that are on the same worker. It gets the rows, what the step before kept of
them, and the order, and changes none of these. So the scheduler can take any of them again, on another worker, when one
has died: the answer is the same.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import DTypeLike, NDArray

from madbayes.backends import is_dask
from madbayes.engine.blocks import Workers
from madbayes.engine.homes import Kept, Part, Step
from madbayes.estimators.validation import DTYPES, check_finite, check_range, check_weights

# Parts whose summaries are fetched at a time: many, because a message takes a few ms; not all, because of their size.
WINDOW = 256
# Partitions with missing values that a message names.
SHOWN = 3


def find_client() -> Any:
    """The client in use."""
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError(
            "X is a Dask collection: install dask.distributed with pip install 'madbayes[dask]'"
        ) from error
    try:
        client = get_client()
    except ValueError:
        raise ValueError(
            "X is a Dask collection, and no Dask client is there to compute with: make one first, "
            "for example client = dask.distributed.Client()"
        ) from None
    if client.asynchronous:
        raise ValueError(
            "X is a Dask collection, and the Dask client in use is asynchronous: call this in a thread with a client "
            "of its own, dask.distributed.Client(address)"
        )
    return client


def is_frame(X: Any) -> bool:
    """Whether X has columns; a series says so, too."""
    return hasattr(X, "columns") and dimensions(X) == 2


def dimensions(X: Any) -> int | None:
    """How many X has; None of what is not known to have any, such as a delayed object."""
    found = getattr(X, "ndim", None)
    return found if isinstance(found, int) else None


def check_matrix(X: Any) -> None:
    """Refuse what has no rows and columns."""
    if dimensions(X) != 2 or not hasattr(X, "rechunk" if not is_frame(X) else "columns"):
        raise ValueError(f"X={type(X).__name__} is not accepted: give a Dask array of 2 dimensions, or a data frame")


def as_rows(X: Any) -> Any:
    """A Dask array or data frame as an array of floats whose chunks are whole rows; their number may be unknown.

    Its keys are new in every call: a scheduler that remembers some must not take them for those of another graph, in
    which the same tasks were put together in another way.
    """
    check_matrix(X)
    if is_frame(X):
        X = _array_of_frame(X)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers only: it has {X.dtype} values")
    if np.isnan(X.shape[1]):
        X = X.compute_chunk_sizes()
    X, dtype = X if len(X.chunks[1]) == 1 else X.rechunk({1: -1}), float_type(X.dtype)
    return X.map_blocks(_contiguous, meta=_empty(X.shape[1], dtype), name=f"madbayes-rows-{uuid4().hex}")


def float_type(dtype: np.dtype) -> np.dtype:
    """Single and double precision stay, all else becomes double."""
    return dtype if dtype in DTYPES else np.dtype(np.float64)


def _empty(n_columns: int, dtype: np.dtype) -> NDArray:
    return np.empty((0, n_columns), dtype)


def _contiguous(block: Any) -> NDArray:
    """Rows one after the other in memory; the same array if they are."""
    return np.ascontiguousarray(block, dtype=float_type(block.dtype))


def _array_of_frame(X: Any) -> Any:
    """The columns of a data frame side by side."""
    from pandas.api.types import is_complex_dtype, is_numeric_dtype

    odd = [name for name, dtype in X.dtypes.items() if not is_numeric_dtype(dtype) or is_complex_dtype(dtype)]
    if odd:
        raise ValueError(f"X must hold numbers only: encode or leave out column {', '.join(map(repr, odd))}")
    dtypes = [getattr(dtype, "numpy_dtype", dtype) for dtype in X.dtypes]
    dtype = float_type(np.result_type(*dtypes)) if dtypes else np.dtype(np.float64)
    return X.map_partitions(_values, dtype, meta=_empty(len(X.columns), dtype))


def _values(frame: Any, dtype: np.dtype) -> NDArray:
    """The numbers of a data frame; missing ones are not numbers."""
    return frame.to_numpy(dtype=dtype, na_value=np.nan)


def lazy_rows(
    X: Any,
    function: Callable[[NDArray], NDArray],
    dtype: DTypeLike | None,
    *,
    width: int | None = None,
    lengths: Sequence[int] | None = None,
) -> Any:
    """What a function gives for the rows of a Dask array or data frame, as a Dask array that is not computed yet.

    Parameters
    ----------
    X : Dask array or data frame
    function : function
        Of some rows, as an array of floats; never called with none. It travels to the workers.
    dtype : dtype, optional
        Of what it gives; that of the rows if not given.
    width : int, optional
        The number of columns of what it gives; None if it gives one number for each row.
    lengths : sequence of int, optional
        The rows of each partition, if X does not say so itself.

    Examples
    --------
    >>> import dask.array as da
    >>> from madbayes.backends.dask import lazy_rows
    >>> X = da.ones((6, 2), chunks=(4, 1))
    >>> sums = lazy_rows(X, lambda rows: rows.sum(axis=1), float)
    >>> sums.chunks
    ((4, 2),)
    >>> sums.compute()
    array([2., 2., 2., 2., 2., 2.])
    """
    rows, shape = as_rows(X), (0,) if width is None else (0, width)
    nothing = np.empty(shape, rows.dtype if dtype is None else dtype)
    one = partial(_of_block, function, nothing)
    chunks = (rows.chunks[0] if lengths is None else tuple(lengths),)
    if width is None:
        return rows.map_blocks(one, drop_axis=1, chunks=chunks, meta=nothing)
    return rows.map_blocks(one, chunks=(*chunks, (width,)), meta=nothing)


def _of_block(
    function: Callable[[NDArray], NDArray], nothing: NDArray, block: NDArray, block_id: tuple[int, ...]
) -> NDArray:
    """What a function gives for some rows; nothing for none."""
    try:
        return function(block).astype(nothing.dtype, copy=False) if len(block) else nothing
    except ValueError as error:
        raise ValueError(f"partition {block_id[0]}: {error}") from error


def weights_like(sample_weight: Any, lengths: tuple[int, ...]) -> Any:
    """A Dask array of weights with chunks of these lengths."""
    import dask.array as da

    if hasattr(sample_weight, "to_frame") and is_dask(sample_weight):
        sample_weight = as_rows(sample_weight.to_frame())[:, 0]
    weights = sample_weight if is_dask(sample_weight) else da.from_array(np.asarray(sample_weight))
    if np.isnan(weights.size):
        weights = weights.compute_chunk_sizes()
    n_rows = sum(lengths)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n_rows} rows: give ({n_rows},)")
    return weights.rechunk((lengths,))


def weighted_sum(values: Any, sample_weight: Any) -> float:
    """The sum of a number for each row, times its weight."""
    if sample_weight is None:
        return float(values.sum(dtype=np.float64).compute())
    if np.isnan(values.shape[0]):
        values = values.compute_chunk_sizes()
    weights = weights_like(sample_weight, values.chunks[0])
    check_weights([weights.min().compute(), weights.max().compute()], 2)
    return float((values * weights).sum(dtype=np.float64).compute())


class Block(NamedTuple):
    """What a worker has of a part."""

    X: NDArray
    weights: NDArray[np.float64]  # or of length 0 when all weigh 1


class Sealed:
    """Something that travels as it is: Dask does not look into it for tasks."""

    def __init__(self, content: Any) -> None:
        self.content = content


class Facts(NamedTuple):
    """What is known of the rows of a partition before they are used."""

    n_rows: int
    complaint: str  # about values that are not finite; empty if all are
    extremes: NDArray  # the least and the largest of each column; empty without rows


def block_of(X: NDArray) -> Block:
    """Rows that all weigh 1."""
    return Block(X, np.empty(0))


def with_weights(blocks: tuple[Block, ...], weights: list[NDArray]) -> tuple[Block, ...]:
    """The same rows with weights."""
    return tuple(Block(block.X, own.astype(np.float64)) for block, own in zip(blocks, weights, strict=True))


def facts(block: Block, columns: Sealed) -> Facts:
    """What is known of some rows."""
    X, complaint = block.X, ""
    try:
        check_finite(X, columns.content)
    except ValueError as error:
        complaint = str(error)
    extremes = np.stack([X.min(axis=0), X.max(axis=0)]) if X.size else X[:0]
    return Facts(len(X), complaint, extremes)


def about_weights(blocks: tuple[Block, ...]) -> tuple[float, float, int]:
    """The least and the largest, and how many are zero; not a number if there is one that is none."""
    weights = np.concatenate([block.weights for block in blocks])
    return float(weights.min()), float(weights.max()), int((weights == 0).sum())


def together(blocks: list[Block]) -> tuple[Block, ...]:
    """Blocks of one worker; their rows are not copied."""
    return tuple(blocks)


def part_of(block: Block, rows: slice) -> Part:
    """As a step wants it."""
    return Part(rows, lambda: block.X, block.weights)


# What is kept of a part, and its summary.
Result = tuple[Kept | None, Any]


def take_steps(blocks: tuple[Block, ...], before: list[Result] | None, sealed: Sealed) -> list[Result]:
    """Take a step on each of some parts, from what was kept before."""
    step, order, slices, notes = sealed.content
    kept = [None] * len(blocks) if before is None else [result[0] for result in before]
    with Workers(1):
        return [
            step(part_of(block, rows), kept[i], order, notes.get(i))
            for i, (block, rows) in enumerate(zip(blocks, slices, strict=True))
        ]


def summaries(results: list[Result], which: list[int]) -> list[Any]:
    """Only these travel."""
    return [results[i][1] for i in which]


def some_rows(blocks: tuple[Block, ...], wanted: Sealed) -> Block:
    """Some rows of some of the blocks: pairs of a block and places in it."""
    X = [blocks[i].X.take(places, axis=0) for i, places in wanted.content]
    weights = [blocks[i].weights[places] for i, places in wanted.content if blocks[i].weights.size]
    return Block(np.concatenate(X), np.concatenate(weights) if weights else np.empty(0))


@contextmanager
def scheduler_needed(client: Any) -> Iterator[None]:
    """If the connection to the scheduler is lost, one error says so and what to do."""
    from distributed.comm import CommClosedError

    try:
        yield
    except Exception as error:
        # What a step or a reader of rows has raised on a worker is none of this.
        if client.status == "running" and not isinstance(error, CommClosedError | CancelledError):
            raise
        raise _lost(error) from error


def _lost(error: BaseException) -> ConnectionError:
    words = " ".join(str(error).split())
    return ConnectionError(
        f"the Dask scheduler was lost, or the work was cancelled ({type(error).__name__}: {words}); connect to a "
        "scheduler and fit again: with the same checkpoint=... it goes on from the last one"
    )


class DaskHome:
    """Rows on the workers of a Dask cluster; they are read once and stay there as long as this home is.

    The parts are the partitions or row chunks that have rows.

    Parameters
    ----------
    X : Dask array or data frame
    sample_weight : Dask array or series, or array, optional
        Positive; :meth:`weigh` takes them, too.
    client : distributed.Client, optional
        The one in use, if not given.

    Attributes
    ----------
    source : Dask array or data frame
        X.
    columns : list or None
        The names of the columns of a data frame.
    lengths : tuple of int
        The rows of every partition, of those without rows, too.
    """

    def __init__(self, X: Any, sample_weight: Any = None, client: Any = None) -> None:
        self.client = find_client() if client is None else client
        self.source, self.columns = X, list(X.columns) if is_frame(X) else None
        self.weighted = False
        with scheduler_needed(self.client):
            with self.client.as_current():
                table = as_rows(X)
            if not table.shape[1]:
                raise ValueError("X has 0 columns: give at least one")
            self.dtype = np.dtype(table.dtype)
            blocks = self._map(block_of, self._computed(table))
            self.lengths = self._check(blocks)
            blocks = [block for block, n in zip(blocks, self.lengths, strict=True) if n]
            ends = np.cumsum([n for n in self.lengths if n]).tolist()
            self.parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
            self.shape = (ends[-1], int(table.shape[1]))
            self.groups = self._grouped(blocks)
            self.held = self._map(together, [[blocks[p] for p in parts] for parts in self.groups])
        self.weigh(sample_weight)

    def __len__(self) -> int:
        return self.shape[0]

    def _computed(self, array: Any) -> list:
        """The chunks of an array, on the workers."""
        return self.client.compute(list(array.to_delayed().ravel()))

    def _map(self, function: Callable, *columns: list, name: str | None = None) -> list:
        """A task for each part, on the worker that has it."""
        from dask import config

        # Orders may be large, and they have to travel: a graph of 10 MB is no mistake.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.client.map(function, *columns, pure=False, key=f"madbayes-{name or function.__name__}")

    def _check(self, blocks: list) -> tuple[int, ...]:
        """The number of rows of each; all must be finite, and their squares representable."""
        found = self.client.gather(self._map(facts, blocks, [Sealed(self.columns)] * len(blocks)))
        bad = [f"partition {p}: {fact.complaint}" for p, fact in enumerate(found) if fact.complaint]
        if bad:
            more = f"; and {len(bad) - SHOWN} more partitions" if len(bad) > SHOWN else ""
            raise ValueError("; ".join(bad[:SHOWN]) + more)
        if not any(fact.n_rows for fact in found):
            raise ValueError("X has 0 rows: give at least one")
        check_range(np.concatenate([fact.extremes for fact in found]))
        return tuple(fact.n_rows for fact in found)

    def weigh(self, sample_weight: Any) -> None:
        """Lay weights beside the rows, if they are given and not all are 1."""
        if sample_weight is None:
            return
        with scheduler_needed(self.client):
            with self.client.as_current():
                like_rows = weights_like(sample_weight, tuple(n for n in self.lengths if n))
            weights = self._computed(like_rows)
            held = self._map(with_weights, self.held, [[weights[p] for p in parts] for parts in self.groups])
            found = np.array(self.client.gather(self._map(about_weights, held)))
        self.weighted = check_weights(found[:, :2].ravel(), 2 * len(found)) is not None
        if zeros := int(found[:, 2].sum()):
            raise ValueError(f"sample_weight is zero for {zeros} rows of a table that is not in memory: leave them out")
        if self.weighted:
            self.held = held

    def _grouped(self, blocks: list) -> list[list[int]]:
        """Parts that are on the same worker, as many groups for each as it has threads."""
        holders, threads = self.client.who_has(blocks), self.client.nthreads()
        found: dict[str, list[int]] = {}
        for p, block in enumerate(blocks):
            found.setdefault(next(iter(holders.get(block.key, ())), ""), []).append(p)
        split = [np.array_split(parts, min(len(parts), threads.get(worker, 1))) for worker, parts in found.items()]
        return [parts.tolist() for groups in split for parts in groups]

    def ledger(self) -> list:
        """Nothing is kept yet of any part."""
        return [None] * len(self.groups)

    def go_over(self, step: Step, ledger: list, order: Any, notes: dict[int, Any]) -> Iterator[Any]:
        """Take a step on every part; the summaries, in order."""

        def sealed(parts: list[int]) -> Sealed:
            own = {i: notes[p] for i, p in enumerate(parts) if p in notes}
            return Sealed((step, order, [self.parts[p] for p in parts], own))

        with scheduler_needed(self.client):
            ledger[:] = self._map(take_steps, self.held, ledger, [*map(sealed, self.groups)], name=step.__name__)
        for begin in range(0, len(self.parts), WINDOW):
            with scheduler_needed(self.client):
                window = self._summaries(ledger, range(begin, begin + WINDOW))
            yield from window

    def _summaries(self, ledger: list, window: range) -> list[Any]:
        """Those of some parts, in order."""
        which = [[i for i, p in enumerate(parts) if p in window] for parts in self.groups]
        used = [g for g, some in enumerate(which) if some]
        found = self.client.gather(self._map(summaries, [ledger[g] for g in used], [which[g] for g in used]))
        by_part = {
            self.groups[g][i]: summary
            for g, some in zip(used, found, strict=True)
            for i, summary in zip(which[g], some, strict=True)
        }
        return [by_part[p] for p in sorted(by_part)]

    def take(self, rows: NDArray[np.intp]) -> tuple[NDArray, NDArray[np.float64]]:
        """Some rows, and their weights."""
        rows = np.asarray(rows)
        begins = np.array([part.start for part in self.parts])
        owners = np.searchsorted(begins, rows, side="right") - 1
        X, weights = np.empty((len(rows), self.shape[1]), self.dtype), np.empty(len(rows) if self.weighted else 0)
        places, wanted, held = [], [], []
        for blocks, parts in zip(self.held, self.groups, strict=True):
            mine = [(i, np.flatnonzero(owners == p)) for i, p in enumerate(parts) if (owners == p).any()]
            if mine:
                places.append(np.concatenate([place for _, place in mine]))
                wanted.append(Sealed([(i, rows[place] - begins[parts[i]]) for i, place in mine]))
                held.append(blocks)
        with scheduler_needed(self.client):
            found = self.client.gather(self._map(some_rows, held, wanted))
        for place, block in zip(places, found, strict=True):
            X[place] = block.X
            if self.weighted:
                weights[place] = block.weights
        return X, weights
