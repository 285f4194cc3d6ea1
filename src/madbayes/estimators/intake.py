"""The tables that estimators take: in memory, in files, or on a cluster."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.backends import is_dask
from madbayes.estimators import validation
from madbayes.sources import FileRows, open_rows


def take_in(estimator: Any, X: Any) -> Any:
    """X as an array, as rows in a file, or as a home of rows on other machines; all finite numbers.

    The estimator remembers its columns.
    """
    if is_dask(X):
        from madbayes.backends.dask import DaskHome

        home = DaskHome(X)
        know_columns(estimator, home.shape[1], home.columns, reset=True)
        return home
    return _here(estimator, X, reset=True)


def look_at(estimator: Any, X: Any) -> Any:
    """New rows as an array, as rows in a file, or as a collection of Dask, of which nothing is computed yet.

    Their columns must be those that the estimator knows.
    """
    if is_dask(X):
        from madbayes.backends.dask import check_matrix, is_frame

        check_matrix(X)
        names = list(X.columns) if is_frame(X) else None
        know_columns(estimator, X.shape[1] if names is None else len(names), names, reset=False)
        return X
    return _here(estimator, X, reset=False)


def _here(estimator: Any, X: Any, *, reset: bool) -> Any:
    """An array, or rows in a file."""
    source = open_rows(X, spill_dir=getattr(estimator, "spill_dir", None))
    if source is None:
        return validation.check_table(estimator, X, reset=reset)
    know_columns(estimator, source.rows.shape[1], source.columns, reset=reset)
    return source.rows


def held(estimator: Any, X: Any) -> Any:
    """Rows that can be gone over twice; of blocks that come but once, a copy in a file."""
    return open_rows(X, spill_dir=estimator.spill_dir) if isinstance(X, Iterator) else X


def applied(model: Any, method: str, rows: NDArray) -> NDArray:
    """What a method of a model gives for rows on another machine."""
    validation.check_finite(rows, getattr(model, "feature_names_in_", None))
    return getattr(model, method)(rows)


def know_columns(estimator: Any, n_columns: int, names: list[str] | None, *, reset: bool) -> None:
    """Remember how many columns there are and their names; or refuse others than those."""
    known = getattr(estimator, "feature_names_in_", None)
    if reset:
        estimator.n_features_in_ = n_columns
        if names is not None and all(isinstance(name, str) for name in names):  # as in scikit-learn
            estimator.feature_names_in_ = np.array(names, dtype=object)
        elif known is not None:
            del estimator.feature_names_in_
        return
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )
    if names is not None and known is not None and list(names) != list(known):
        odd = next((name, wanted) for name, wanted in zip(names, known, strict=True) if name != wanted)
        raise ValueError(
            f"X has the column {odd[0]!r} where the fit had {odd[1]!r}: give the same columns in that order"
        )


def check_positive_weights(sample_weight: ArrayLike | None, table: Any) -> NDArray[np.float64] | None:
    """The weights of the rows; rows in files or on a cluster must not weigh nothing."""
    if not isinstance(table, np.ndarray | FileRows):
        table.weigh(sample_weight)
        return None
    weights = validation.check_weights(sample_weight, len(table))
    if weights is not None and isinstance(table, FileRows) and not weights.all():
        raise ValueError(
            f"sample_weight is zero for {(weights == 0).sum()} rows of a table that is not in memory: leave them out"
        )
    return weights
