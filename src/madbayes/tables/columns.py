"""What a column holds, what is to be done with it, and its numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madbayes.tables.checks import TableError
from madbayes.tables.summaries import Summary
from madbayes.tables.values import LOOKED_AT, as_numbers, finite, is_number, one_hot, text_of

# Text with more values than this is not encoded; nor is text of which every second value is new.
MAX_CATEGORIES, MAX_SHARE = 50, 0.5
# From this share of different values on, text tells rows apart: names, keys.
ID_SHARE = 0.9
# Columns that call themselves so are identifiers if no two rows are alike.
ID_NAME = re.compile(r"(?i:(.*[ _.-])?(id|ids|uuid|guid|key|index|row|nr)|unnamed: \d+)|.*[a-z](Id|ID)")


class Decision(NamedTuple):
    """What was done with a column."""

    column: str
    role: str  # number, flag, category; id, constant, empty, date, left out
    words: str

    @property
    def is_used(self) -> bool:
        """Whether it takes part in forming groups."""
        return self.role in ("number", "flag", "category")


@dataclass(frozen=True)
class Column:
    """A column that is used, and how its values become numbers."""

    name: str
    role: str  # number, flag or category
    categories: tuple[str, ...] = ()

    @property
    def encoded_names(self) -> list[str]:
        """What its numbers are called."""
        return [f"{self.name}={value}" for value in self.categories] if self.role == "category" else [self.name]

    def encode(self, values: pd.Series) -> tuple[NDArray[np.float64], int]:
        """The numbers, NaN where a value is missing, and how many values are of no known category."""
        if self.role == "category":
            return one_hot(values, self.categories)
        numbers = as_numbers(values)
        lost = int((numbers.isna() & ~values.isna()).sum())
        if lost:
            example = values[numbers.isna() & ~values.isna()].iloc[0]
            raise TableError(
                f"column {self.name!r} was numeric when the model was made and now has {lost} other values, "
                f"{str(example)[:40]!r} for example: correct them, or leave them empty"
            )
        return finite(numbers)[:, None], 0


class Found(NamedTuple):
    """What looking at the columns of a table gave."""

    columns: list[Column]
    decisions: list[Decision]
    problems: list[tuple[str, str]]  # columns that cannot be used, and why


def look_at(
    summaries: Mapping[str, Summary],
    asked: Sequence[str],
    id_columns: Sequence[str],
    max_categories: int,
    *,
    lenient: bool = False,
) -> Found:
    """Decide about every column; those that were asked for are not taken for identifiers.

    Text most of which is numbers is a problem, or numbers for those who are lenient and look at every value later.
    """
    found = Found([], [], [])
    for name, one in summaries.items():
        if name in id_columns:
            found.decisions.append(Decision(name, "id", "identifies the rows, kept beside the groups"))
        elif asked and name not in asked:
            found.decisions.append(unused(name, one))
        else:
            look_at_one(name, one, bool(asked), max_categories, found, lenient=lenient)
    return found


def unused(name: str, one: Summary) -> Decision:
    """What to do with a column that nobody asked for: what identifies rows stays beside the groups."""
    found = Found([], [], [])
    look_at_one(name, one, False, 0, found)
    if found.decisions and found.decisions[0].role == "id":
        return found.decisions[0]
    return Decision(name, "left out", "left out, not asked for")


def look_at_one(
    name: str, one: Summary, asked: bool, max_categories: int, found: Found, *, lenient: bool = False
) -> None:
    """Decide about a column."""
    role = one.role
    if role == "empty":
        found.decisions.append(Decision(name, "empty", "has no values, left out"))
    elif role == "other":
        found.problems.append((name, f"holds values of type {type(one.first).__name__}"))
    elif role == "date":
        if asked:
            found.problems.append((name, "holds dates: give a number instead, such as days since the first of them"))
        found.decisions.append(Decision(name, "date", "dates, left out"))
    elif role == "text":
        look_at_text(name, one, asked, max_categories, found, lenient=lenient)
    elif one.is_constant:
        found.decisions.append(Decision(name, "constant", "the same in all rows, left out"))
    elif role == "number" and not asked and is_counter(name, one):
        found.decisions.append(Decision(name, "id", "counts or identifies the rows: left out, kept beside the groups"))
    else:
        found.columns.append(Column(name, role))
        found.decisions.append(Decision(name, role, ""))


def look_at_text(name: str, one: Summary, asked: bool, max_categories: int, found: Found, *, lenient: bool) -> None:
    """Encode it, leave it out, or say what is wrong with it."""
    n_values, n_rows, some = one.n_values, one.n_rows - one.n_missing, one.values[:LOOKED_AT]
    if n_values == 1:
        found.decisions.append(Decision(name, "constant", "the same in all rows, left out"))
    elif n_values <= min(max_categories, max(2.0, MAX_SHARE * n_rows)):
        categories = tuple(sorted({text_of(value) for value in one.values}))
        found.columns.append(Column(name, "category", categories))
        found.decisions.append(Decision(name, "category", ""))
    elif (share := sum(map(is_number, some)) / len(some)) >= 0.5 and lenient:
        found.columns.append(Column(name, "number"))
        found.decisions.append(Decision(name, "number", ""))
    elif share >= 0.5:
        odd = [str(value) for value in some if not is_number(value)][:3]
        words = f"is text, though {share:.0%} of its values are numbers; correct or empty {', '.join(map(repr, odd))}"
        found.problems.append((name, words))
    elif n_values > ID_SHARE * n_rows and not asked:
        found.decisions.append(Decision(name, "id", "text that tells rows apart: left out, kept beside the groups"))
    else:
        found.problems.append((name, f"is text with {n_values} different values in {n_rows} rows"))


def is_counter(name: str, one: Summary) -> bool:
    """Whole numbers without a repetition that leave none out, or whose name says what they are."""
    return (one.leaves_none_out or ID_NAME.fullmatch(name) is not None) and one.is_counter()
