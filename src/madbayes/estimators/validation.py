"""Checks of what the user gives. Every message names the argument, the value and what is accepted."""

import re
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, validate_data

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
    elif is_number(penalty) and 0 <= penalty < np.inf:
        return PenaltyChoice(float(penalty), None)
    raise ValueError(
        f"{name}={penalty!r} is not a penalty: give a finite number >= 0, a share of the one-group squared error "
        'such as "2%", or "auto"'
    )


def is_number(value: Any, kind: type = Real) -> bool:
    """Real (or integral) numbers, but not booleans."""
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


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


def check_choice(name: str, value: Any, accepted: tuple[Any, ...]) -> None:
    """One of a few values."""
    if not any(type(value) is type(choice) and value == choice for choice in accepted):
        raise ValueError(f"{name}={value!r} is not accepted: give one of {', '.join(map(repr, accepted))}")


def check_jobs(n_jobs: Any) -> None:
    """None, or any integer but zero, as in scikit-learn."""
    if n_jobs is not None and (not is_number(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} is not accepted: give None, a positive integer, or -1 for all cores")


def check_device(device: Any) -> None:
    """Only the CPU so far."""
    if device != "cpu":
        raise ValueError(f"device={device!r} is not available: this version computes on device='cpu' only")


def check_table(estimator: Any, X: Any, *, reset: bool) -> NDArray:
    """X as a finite float32 or float64 matrix; the estimator remembers or compares its columns."""
    try:
        table = validate_data(estimator, X, reset=reset, dtype=DTYPES, ensure_all_finite=False)
    except (ValueError, TypeError) as error:
        if "convert" not in str(error) and "numeric" not in str(error):
            raise
        raise ValueError(f"X must hold numbers only{_text_columns(X)}: {error}") from error
    _check_finite(table, getattr(X, "columns", None))
    return table


def _column_name(columns: Any, d: np.intp) -> str:
    return repr(columns[d]) if columns is not None else str(d)


def _text_columns(X: Any) -> str:
    """Which columns of a data frame are not numeric."""
    if not hasattr(X, "columns"):
        return ""
    text = []
    for column in X.columns:
        try:
            np.asarray(X[column], dtype=float)
        except (ValueError, TypeError):
            text.append(repr(column))
    return f" (encode or leave out column {', '.join(text)})"


def _check_finite(X: NDArray, columns: Any) -> None:
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
    spread = X - X[:1]
    largest = np.abs(X).max(initial=0.0)
    with np.errstate(over="ignore", under="ignore"):
        total = float(largest) ** 2 * X.size if largest < 1e200 else np.inf
        vanishes = spread.any() and (spread**2).sum() == 0
    if not np.isfinite(total) or vanishes:
        raise ValueError(
            f"{name} has values up to {largest:.3g} whose squares leave the range of floating point: "
            "rescale it, so that squared values lie between 1e-290 and 1e290"
        )


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Finite weights, none negative, some positive. None when all are one."""
    if sample_weight is None:
        return None
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n_rows} rows: give shape ({n_rows},)")
    if (weights < 0).any():
        raise ValueError(f"sample_weight has {weights.min():.6g} as its lowest value: give weights >= 0")
    if not weights.sum() > 0:
        raise ValueError("sample_weight is zero for all rows: give some row a positive weight")
    return None if (weights == 1).all() else weights


def check_matrix(name: str, value: Any, shape: tuple[int | None, int | None]) -> NDArray[np.float64]:
    """A finite matrix of this shape, where None stands for any length."""
    matrix = check_array(value, dtype=np.float64, ensure_min_samples=0, ensure_min_features=0, input_name=name)
    if any(wanted is not None and wanted != length for wanted, length in zip(shape, matrix.shape, strict=True)):
        wanted_shape = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} has shape {matrix.shape}: give shape ({wanted_shape})")
    return matrix


def check_binary(name: str, Z: NDArray) -> None:
    """Zeros and ones only."""
    odd = Z[(Z != 0) & (Z != 1)]
    if odd.size:
        raise ValueError(f"{name} holds {odd.flat[0]:.6g}: give zeros and ones only")


def check_covariance(name: str, matrix: NDArray, n_columns: int) -> None:
    """A symmetric positive definite D x D matrix, or a stack of them."""
    if matrix.ndim not in (2, 3) or matrix.shape[-2:] != (n_columns, n_columns) or not len(matrix):
        raise ValueError(f"{name} has shape {matrix.shape}: give shape ({n_columns}, {n_columns})")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.swapaxes(-1, -2)):
        raise ValueError(f"{name} is not a finite symmetric matrix: give a covariance matrix")
    lowest = np.linalg.eigvalsh(matrix).min()
    if not lowest > 0:
        raise ValueError(f"{name} has the eigenvalue {lowest:.3g}: give a positive definite matrix")


def check_verbose(verbose: Any) -> None:
    """A boolean or a whole number."""
    if not isinstance(verbose, bool):
        check_count("verbose", verbose, minimum=0)
