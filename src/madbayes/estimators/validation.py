"""Checks of what the user gives. Every message names the argument, the value and what is accepted."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from madbayes.engine.checks import as_float, is_number
from madbayes.engine.search import Search
from madbayes.sources.numbers import is_arrow

DTYPES = (np.float64, np.float32)


class PenaltyChoice(NamedTuple):
    """The penalty parameter, understood: a value, a share of the one-group error, or neither for "auto"."""

    value: float | None
    share: float | None


def check_penalty(penalty: Any, name: str = "penalty") -> PenaltyChoice:
    """A number, a share such as "2%", or "auto"."""
    if isinstance(penalty, str):
        if penalty == "auto":
            return PenaltyChoice(None, None)
        share = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", penalty)
        if share:
            return PenaltyChoice(None, float(share[1]) / 100)
    elif is_number(penalty) and 0 <= (value := as_float(penalty)) < np.inf:
        return PenaltyChoice(value, None)
    raise ValueError(
        f"{name}={penalty!r} is not a penalty: give a finite number >= 0, a share of the one-group squared error "
        'such as "2%", or "auto"'
    )


def check_count(name: str, value: Any, *, minimum: int = 1, other: Any = ...) -> None:
    """An integer of at least ``minimum``, or the one other value allowed."""
    if type(value) is type(other) and value == other:
        return
    if not is_number(value, Integral) or value < minimum:
        alternative = "" if other is ... else f" or {other!r}"
        raise ValueError(f"{name}={value!r} is not accepted: give an integer >= {minimum}{alternative}")


def check_positive(name: str, value: Any, *, optional: bool = False) -> None:
    """A finite number above zero, or None if that is allowed."""
    if optional and value is None:
        return
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name}={value!r} is not accepted: give a finite number > 0{' or None' * optional}")


def check_decay(decay: Any) -> None:
    """A factor for weights that does not make them grow."""
    if not is_number(decay) or not 0 < decay <= 1:
        raise ValueError(f"decay={decay!r} is not accepted: give a number above 0 and at most 1")


def check_path(name: str, value: Any) -> None:
    """The name of a file or folder, or None."""
    if value is not None and (not isinstance(value, str | os.PathLike) or not os.fspath(value)):
        raise ValueError(f"{name}={value!r} is not accepted: give the name of a folder, or None")


def check_choice(name: str, value: Any, accepted: tuple[Any, ...]) -> None:
    """One of a few values."""
    if not any(type(value) is type(choice) and value == choice for choice in accepted):
        raise ValueError(f"{name}={value!r} is not accepted: give one of {', '.join(map(repr, accepted))}")


def check_search(value: Any) -> None:
    """One of the names, or how to search."""
    if not isinstance(value, Search):
        try:
            check_choice("search", value, ("best", "paper"))
        except ValueError as error:
            raise ValueError(f"{error}, or a madbayes.engine.search.Search") from None


def check_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} is not accepted: give True or False")


def check_random(random_state: Any) -> np.random.RandomState:
    """A seed, or a generator of scikit-learn's kind."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state={random_state!r} is not accepted: give None, an integer from 0 to 2**32 - 1, "
            "or a RandomState"
        ) from error


def check_jobs(n_jobs: Any) -> None:
    """None, or any integer but zero, as in scikit-learn."""
    if n_jobs is not None and (not is_number(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} is not accepted: give None, a positive integer, or -1 for all cores")


def check_device(device: Any) -> None:
    """Only the CPU so far."""
    if device != "cpu":
        raise ValueError(f"device={device!r} is not available: this version computes on device='cpu' only")


@contextmanager
def columns_kept(estimator: Any) -> Iterator[None]:
    """If what follows fails, the estimator remembers the columns it knew before."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    try:
        yield
    except BaseException:
        for name in names:
            if hasattr(estimator, name):
                delattr(estimator, name)
        for name, value in before.items():
            setattr(estimator, name, value)
        raise


def check_table(estimator: Any, X: Any, *, reset: bool) -> NDArray:
    """X as a finite float32 or float64 matrix; the estimator remembers or compares its columns."""
    X = _plain_table(X)
    if not issparse(X) and (text := _text_columns(X)):
        raise ValueError(f"X must hold numbers only: encode or leave out {text}")
    try:
        table = validate_data(estimator, X, reset=reset, dtype=DTYPES, order="C", ensure_all_finite=False)
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise ValueError(f"X must hold numbers only: {error}") from error
    check_finite(table, getattr(X, "columns", None))
    check_range(table)
    return table


def _plain_table(X: Any) -> Any:
    """A table of Arrow as a data frame; refuse kinds of numbers of which scikit-learn would print the whole table."""
    if is_arrow(X):
        return X.to_pandas()
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.names:
        raise ValueError(f"X has the fields {', '.join(dtype.names)}: give rows and columns of numbers of one type")
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise ValueError(f"X must hold real numbers, it has {dtype} ones. Complex data not supported")
    return X


def _column_name(columns: Any, d: np.intp) -> str:
    return repr(columns[d]) if columns is not None else str(d)


def _text_columns(X: Any) -> str:
    """Which columns are not numeric, in words; dates are not."""
    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        return "dates"
    if not hasattr(X, "columns") or not hasattr(X, "__getitem__"):
        return ""
    found = [repr(column) for column in X.columns if not _is_numeric(X[column])]
    return f"column {', '.join(found)}" if found else ""


def _is_numeric(column: Any) -> bool:
    """Whether a column of a data frame holds numbers; nullable ones may be missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if kind in tuple("biufcmM"):
        return kind not in ("m", "M")
    try:
        values = np.asarray(column)
        np.asarray(values, dtype=complex)
        return values.dtype.kind not in "mM"
    except (ValueError, TypeError):
        return False


def check_finite(X: NDArray, columns: Any) -> None:
    """Count missing and infinite values for each column that has any."""
    if np.isfinite(X.sum(dtype=np.float64)):
        return
    missing, infinite = np.isnan(X).sum(axis=0), np.isinf(X).sum(axis=0)
    found = [
        f"{_column_name(columns, d)}: {missing[d]} NaN, {infinite[d]} inf" for d in np.flatnonzero(missing + infinite)
    ]
    if found:
        shown = "; ".join(found[:10]) + ("; ..." if len(found) > 10 else "")
        raise ValueError(
            f"X contains {missing.sum()} NaN and {infinite.sum()} inf values, finite numbers are accepted; "
            f"in column {shown}"
        )


def check_range(X: NDArray, name: str = "X") -> None:
    """Squared errors must be representable: neither overflow, nor vanish for data that do vary."""
    if not X.size:
        return
    largest = float(max(abs(X.max()), abs(X.min())))
    spread = float((X.max(axis=0) - X.min(axis=0)).max())
    if largest > 1e140 or 0 < largest < 1e-140 or 0 < spread < 1e-140:
        raise ValueError(
            f"{name} has values up to {largest:.3g} that differ by up to {spread:.3g}: their squares leave the range "
            "of floating point; rescale it, so that both lie between 1e-140 and 1e140"
        )


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Finite weights, none negative, some positive. None when all are one."""
    if sample_weight is None:
        return None
    weights = _as_numbers("sample_weight", sample_weight)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n_rows} rows: give shape ({n_rows},)")
    if (weights < 0).any():
        raise ValueError(f"sample_weight has {weights.min():.6g} as its lowest value: give weights >= 0")
    if not weights.any():
        raise ValueError("sample_weight is zero for all rows: give some row a positive weight")
    highest = weights.max()
    if not 1e-150 < highest <= 1e300:
        raise ValueError(f"sample_weight has {highest:.3g} as its highest value: give weights between 1e-150 and 1e300")
    return None if (weights == 1).all() else weights


def _as_numbers(name: str, value: Any) -> NDArray[np.float64]:
    """An array of finite real numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "cmM":
            raise TypeError(f"{array.dtype} numbers")
        array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}={shown(value)} is not accepted: give an array of real numbers ({error})") from error
    if not np.isfinite(array).all():
        found = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} contains {found}: give finite numbers")
    return array


def shown(value: Any) -> str:
    """A value for a message, cut short if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def check_matrix(name: str, value: Any, shape: tuple[int | None, int | None]) -> NDArray[np.float64]:
    """A finite matrix of this shape, where None stands for any length."""
    matrix = _as_numbers(name, value)
    wanted_shape = ", ".join("any" if length is None else str(length) for length in shape)
    if matrix.ndim != 2:
        raise ValueError(f"{name}={shown(value)} is no matrix: give shape ({wanted_shape})")
    if any(wanted is not None and wanted != length for wanted, length in zip(shape, matrix.shape, strict=True)):
        raise ValueError(f"{name} has shape {matrix.shape}: give shape ({wanted_shape})")
    return matrix


def check_binary(name: str, Z: NDArray) -> None:
    """Zeros and ones only."""
    odd = Z[(Z != 0) & (Z != 1)]
    if odd.size:
        raise ValueError(f"{name} holds {odd.flat[0]:.6g}: give zeros and ones only")


def check_covariance(name: str, value: Any, n_columns: int, *, stack: bool = False) -> NDArray[np.float64]:
    """A symmetric positive definite D x D matrix, or a stack of them where that is allowed."""
    matrix = _as_numbers(name, value)
    if matrix.ndim not in ((2, 3) if stack else (2,)) or matrix.shape[-2:] != (n_columns, n_columns) or not len(matrix):
        raise ValueError(f"{name} has shape {matrix.shape}: give shape ({n_columns}, {n_columns})")
    if not np.allclose(matrix, matrix.swapaxes(-1, -2)):
        raise ValueError(f"{name} is not symmetric: give a covariance matrix")
    lowest = np.linalg.eigvalsh(matrix).min()
    if not lowest > 0:
        raise ValueError(f"{name} has the eigenvalue {lowest:.3g}: give a positive definite matrix")
    return matrix


def check_verbose(verbose: Any) -> None:
    """A boolean or a whole number."""
    if not isinstance(verbose, bool):
        check_count("verbose", verbose, minimum=0)


def check_names(known: Sequence[str], names: Any) -> list[str]:
    """The names of all groups after some were changed; no two may be the same."""
    if not isinstance(names, Mapping):
        raise ValueError(f"names={shown(names)} is not accepted: give a dictionary such as {{0: 'cheap'}}")
    renamed = list(known)
    for group, name in names.items():
        if not is_number(group, Integral) or not 0 <= group < len(renamed):
            groups = f"0 to {len(renamed) - 1}" if renamed else "none, for there are no groups"
            raise ValueError(f"there is no group {group!r} to rename: numbers of groups are {groups}")
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"{name!r} is no name for group {group}: give a text of one line")
        renamed[int(group)] = name.strip()
    if twice := sorted({name for name in renamed if renamed.count(name) > 1}):
        raise ValueError(f"two groups would be named {twice[0]!r}: give each a name of its own")
    return renamed
