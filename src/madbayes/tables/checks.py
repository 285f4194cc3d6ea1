"""Checks of tables. Every message says what to do."""

import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from madbayes.words import listed

# Columns that a message names, at most.
SHOWN = 10


class TableError(ValueError):
    """Something about a table that its owner can put right; the message says how."""


def as_frame(X: Any) -> pd.DataFrame:
    """A data frame whose columns have different names, all of them text."""
    if not isinstance(X, pd.DataFrame):
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        else:
            array = np.asarray(X)
            if array.ndim != 2:
                raise TableError(f"the table has {array.ndim} dimensions: give rows and columns")
            X = pd.DataFrame(array, columns=[f"x{d}" for d in range(array.shape[1])])
    frame = X.set_axis([str(name) for name in X.columns], axis=1)
    if frame.columns.has_duplicates:
        twice = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
        raise TableError(f"columns of the same name: {quoted(twice)}. Rename them, so that each name is there once")
    return frame


def check_length(n_rows: int, n_dropped: int = 0) -> None:
    """Two rows at least."""
    if n_rows < 2:
        lost = f" when the {n_dropped} with missing values are left out" if n_dropped else ""
        count = f"{n_rows} row{'' if n_rows == 1 else 's'}"
        raise TableError(f"the table has {count}{lost}: groups need at least 2, and better many more")


def check_names(names: Sequence[str], known: Sequence[str], what: str) -> None:
    """Say which columns there are not, and which are spelled much the same."""
    for name in names:
        if name not in known:
            lower = {other.lower(): other for other in known}
            close = [lower[other] for other in get_close_matches(name.lower(), lower, n=2, cutoff=0.75)]
            hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {quoted(known)}"
            raise TableError(f"{what}: there is no column {name!r}; {hint}")


def quoted(names: Sequence[str]) -> str:
    """Some names, not too many."""
    return listed(map(repr, names[:SHOWN]), len(names))


def refuse(problems: Sequence[tuple[str, str]], missing: Sequence[str]) -> NoReturn:
    """Name all columns that cannot be used, and those with missing values, so that one correction is enough."""
    words = "; ".join(f"column {name!r} {what}" for name, what in problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    flags = " ".join(f"--leave-out {shlex.quote(name)}" for name, _ in problems)
    if missing:
        more += f"; values are missing in {quoted(missing)}"
        flags += " --missing median"
    raise TableError(f"{words}{more}. To go on without: {flags}")
