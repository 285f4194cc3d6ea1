"""Rows of a stream that cannot be used: found, told where they are, or put aside."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madbayes.tables.checks import SHOWN, TableError
from madbayes.tables.columns import Column
from madbayes.tables.streaming import Block, TableStream
from madbayes.tables.values import as_numbers, finite
from madbayes.words import counted, listed

if TYPE_CHECKING:
    from madbayes.tables.recipe import Recipe

MISSING, STRANGE = "has no finite value", "is no number"


class Fault(NamedTuple):
    """Rows of a block in which a column cannot be used."""

    column: str
    what: str
    rows: NDArray[np.bool_]
    example: str  # the value of the first of them


class Good(NamedTuple):
    """Numbers of those rows of a block that are used, before they are scaled."""

    X: NDArray[np.float64]
    kept: NDArray[np.bool_]  # of all rows of the block
    reasons: NDArray[np.object_] | None  # why a row is bad, of all rows; empty text for those that are not


class Screen:
    """Lets good rows through.

    A row is bad if it has text where a number should be, or no finite value where the recipe does not allow for that.

    Parameters
    ----------
    recipe : Recipe
        That has looked at the columns.
    stream : TableStream
    quarantine : bool, default=False
        Whether bad rows are left out; otherwise :meth:`finish` refuses them.
    is_new : bool, default=False
        Whether these are not rows of the fit.

    Attributes
    ----------
    n_rows, n_bad : int
        Rows seen, and bad ones among them.
    unknown : dict of str to int
        Values of categories that the recipe does not know, by column.
    """

    def __init__(
        self, recipe: "Recipe", stream: TableStream, *, quarantine: bool = False, is_new: bool = False
    ) -> None:
        self.recipe, self.stream, self.quarantine, self.is_new = recipe, stream, quarantine, is_new
        self.n_rows = self.n_bad = 0
        self.unknown: dict[str, int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._first: str | None = None

    def passed(self, block: Block) -> Good:
        """Good rows of a block."""
        self.n_rows += len(block.frame)
        faults = faults_of(self.recipe.columns_, block.frame, self.recipe.missing)
        if not faults:
            return self._encoded(block.frame, None)
        reasons = reasons_of(faults, len(block.frame))
        self.n_bad += int((reasons != "").sum())
        for one in faults:
            key = one.column, one.what
            self._counts[key] = self._counts.get(key, 0) + int(one.rows.sum())
        if self._first is None:
            first = min(faults, key=lambda one: int(one.rows.argmax()))
            place = self.stream.where(block, int(first.rows.argmax()))
            self._first = f"{place}, column {first.column!r}, {first.example!r}"
        return self._encoded(block.frame, reasons)

    def _encoded(self, frame: pd.DataFrame, reasons: NDArray[np.object_] | None) -> Good:
        good = np.ones(len(frame), dtype=bool) if reasons is None else np.asarray(reasons == "", dtype=bool)
        X, kept, unknown = self.recipe.encode(frame if reasons is None else frame[good], is_new=self.is_new)
        for name, count in unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count
        good[good] = kept
        return Good(X, good, reasons)

    def finish(self) -> None:
        """Refuse the bad rows that there were, all at once, and say where the first one is."""
        if self.quarantine or not self._counts:
            return
        strange = [name for name, what in self._counts if what == STRANGE]
        kinds = "values that are no numbers" if strange else "missing or infinite values"
        found = [
            f"{name!r}: {count}" for (name, what), count in self._counts.items() if (what == STRANGE) == bool(strange)
        ]
        lost = f"{self.n_bad} of {counted(self.n_rows, 'row')}"
        raise TableError(
            f"{kinds}, by column {listed(found[:SHOWN], len(found))}; the first is in {self._first}. "
            f"{self._advice(bool(strange))}, or put {lost} aside with --bad-rows quarantine"
        )

    def _advice(self, strange: bool) -> str:
        if strange:
            return "Correct them or leave them empty"
        if self.is_new:
            return "Correct them, or fit the model with --missing median or drop"
        return "Fill them in with --missing median, leave out their rows with --missing drop"


class Passed:
    """Numbers of good rows, block by block, as often as one likes."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        for block in self.screen.stream.blocks():
            X = self.screen.passed(block).X
            if len(X):
                yield X


def faults_of(columns: Sequence[Column], frame: pd.DataFrame, missing: str) -> list[Fault]:
    """What is wrong with rows, by column."""
    found = []
    for column in columns:
        values = frame[column.name]
        is_gap = values.isna().to_numpy(dtype=bool)
        strange = np.zeros(len(values), dtype=bool)
        if column.role != "category":
            numbers = as_numbers(values)
            strange = numbers.isna().to_numpy(dtype=bool) & ~is_gap
            is_gap = np.isnan(finite(numbers)) & ~strange
        for what, rows in ((STRANGE, strange), (MISSING, is_gap)):
            if rows.any() and (what == STRANGE or missing == "error"):
                found.append(Fault(column.name, what, rows, str(values[rows].iloc[0])[:40]))
    return found


def reasons_of(faults: Sequence[Fault], n_rows: int) -> NDArray[np.object_]:
    """Of each row what is wrong with it."""
    reasons = np.full(n_rows, "", dtype=object)
    for one in faults:
        reasons[one.rows] = [
            f"{before}{'; ' if before else ''}column {one.column!r} {one.what}" for before in reasons[one.rows]
        ]
    return reasons


def unknown_words(name: str, count: int) -> str:
    """Values of no known category, in words."""
    return f"column {name!r} has {count} values that the model has never seen: they count as none of those it knows"
