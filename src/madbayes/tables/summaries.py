"""What must be known of each column to decide about it, gathered block by block of rows."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from madbayes.tables.distinct import Distinct, keys_of_numbers, keys_of_texts
from madbayes.tables.values import LOOKED_AT, as_numbers, finite, looks_like_dates, role_of

# Roles of blocks that together are text.
SIMPLE = {"number", "flag", "text", "categories"}


class Summary:
    """A column as far as it has been seen.

    Parameters
    ----------
    n_values : int
        Different values of text that are kept, in the order in which they came.
    capacity, folder
        See :class:`madbayes.tables.distinct.Distinct`.
    as_text : bool, default=False
        Numbers are texts too.

    Attributes
    ----------
    n_rows, n_missing : int
        Rows, and those without a value.
    first : object
        The first value that there is.
    """

    def __init__(
        self, n_values: int, capacity: int | None = None, folder: Path | str | None = None, *, as_text: bool = False
    ) -> None:
        self.most, self.as_text = max(n_values, LOOKED_AT), as_text
        self.n_rows = self.n_missing = 0
        self.first: Any = None
        self._roles: set[str] = set()
        self._low, self._high = np.inf, -np.inf
        self._values: dict[Any, None] = {}
        self._distinct = Distinct(capacity, folder)
        self._may_count = True  # whole numbers without a repetition, as far as is known

    def add(self, values: pd.Series) -> None:
        """See some rows."""
        present = values[values.notna()]
        self.n_rows += len(values)
        self.n_missing += len(values) - len(present)
        role = role_of(values)
        if role == "empty":
            return
        if self.first is None:
            self.first = present.iloc[0]
        self._roles.add(role)
        if role in ("text", "categories") or (self.as_text and role in SIMPLE):
            self._add_texts(present)
        elif role in ("number", "flag"):
            self._add_numbers(values, role)

    def _add_numbers(self, values: pd.Series, role: str) -> None:
        found = finite(as_numbers(values))
        known = found[~np.isnan(found)]
        if len(known):
            self._low, self._high = min(self._low, known.min()), max(self._high, known.max())
        self._may_count &= role == "number" and len(known) == len(found) and bool((found == np.floor(found)).all())
        if self._may_count:
            self._distinct.add(keys_of_numbers(found))
            self._may_count = not self._distinct.has_repeats
        if not self._may_count:
            self._distinct = Distinct()

    def _add_texts(self, present: pd.Series) -> None:
        found = present.unique()
        if self._distinct.n_added:
            self._distinct.add(keys_of_texts(found))
            return
        self._values.update(dict.fromkeys(found))
        if len(self._values) > self.most:
            self._distinct.add(keys_of_texts(np.array([*self._values, None], dtype=object)[:-1]))
            self._values = dict.fromkeys(islice(self._values, self.most))

    @property
    def role(self) -> str:
        """What the column holds: number, flag, text, date, empty, or other."""
        if not self._roles:
            return "empty"
        if self._roles == {"categories"}:
            return "text"
        role = next(iter(self._roles)) if len(self._roles) == 1 else "text" if self._roles <= SIMPLE else "other"
        return "date" if role == "text" and looks_like_dates(self.values) else role

    @property
    def is_mixed(self) -> bool:
        """Whether it is text of which some blocks were numbers: they must be seen again, as text."""
        has_numbers = bool(self._roles & {"number", "flag"})
        return self._roles <= SIMPLE and has_numbers and len(self._roles) > 1 and not self.as_text

    @property
    def values(self) -> list[Any]:
        """Different values of text, in the order in which they came: the first ones if there are more."""
        return list(self._values)

    @property
    def n_values(self) -> int:
        """Different values of text."""
        return self._distinct.count() if self._distinct.n_added else len(self._values)

    @property
    def is_constant(self) -> bool:
        """Whether all finite numbers that there are are the same."""
        return not self._low < self._high

    def is_counter(self) -> bool:
        """Whole numbers without a repetition, none missing."""
        return self._may_count and self.n_missing == 0 and self._distinct.count() == self.n_rows

    @property
    def leaves_none_out(self) -> bool:
        """Whether so many rows are between the lowest number and the highest."""
        return self._high - self._low == self.n_rows - 1


def summarise(
    frames: Iterable[pd.DataFrame],
    names: Sequence[str],
    n_values: int,
    *,
    capacity: int | None = None,
    folder: Path | str | None = None,
) -> dict[str, Summary]:
    """Look at columns of a table that comes in blocks.

    Parameters
    ----------
    frames : iterable of DataFrame
        Blocks of rows; gone through twice if a column is text in some of them and numbers in others.
    names : sequence of str
        The columns.
    n_values : int
        Different values to keep of each column of text.
    capacity, folder
        See :class:`madbayes.tables.distinct.Distinct`; the capacity is that of all columns together.

    Returns
    -------
    dict of str to Summary
        In the order of the columns.
    """
    each = None if capacity is None else capacity // max(1, len(names))
    found = {name: Summary(n_values, each, folder) for name in names}
    _go_through(frames, found)
    again = {name: Summary(n_values, each, folder, as_text=True) for name, one in found.items() if one.is_mixed}
    if again:
        _go_through(frames, again)
    return found | again


def _go_through(frames: Iterable[pd.DataFrame], found: Mapping[str, Summary]) -> None:
    for frame in frames:
        for name, one in found.items():
            one.add(frame[name])
