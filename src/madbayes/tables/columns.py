"""What a column holds, what is to be done with it, and its numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from madbayes.tables.checks import TableError

# Text with more values than this is not encoded; nor is text of which every second value is new.
MAX_CATEGORIES, MAX_SHARE = 50, 0.5
# From this share of different values on, text tells rows apart: names, keys.
ID_SHARE = 0.9
# Columns that call themselves so are identifiers if no two rows are alike.
ID_NAME = re.compile(r"(?i:(.*[ _.-])?(id|ids|uuid|guid|key|index|row|nr)|unnamed: \d+)|.*[a-z](Id|ID)")
DAY = r"(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4})"
DATE = re.compile(DAY + r"([ T].*)?")
# Values looked at to tell dates, and numbers among text.
LOOKED_AT = 1000


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


def finite(numbers: pd.Series) -> NDArray[np.float64]:
    """As an array; infinite ones are as good as missing."""
    found = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(found), found, np.nan)


def as_numbers(values: pd.Series) -> pd.Series:
    """Numbers of a column, missing where there are none."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(object)
    if types.is_bool_dtype(values.dtype) or types.is_numeric_dtype(values.dtype):
        return values
    truth = values.map({True: 1.0, False: 0.0, "True": 1.0, "False": 0.0, "true": 1.0, "false": 0.0})
    numbers = pd.to_numeric(values.astype(object).where(truth.isna(), truth), errors="coerce")
    return numbers.astype(np.float64)


def one_hot(values: pd.Series, categories: Sequence[str]) -> tuple[NDArray[np.float64], int]:
    """A column of zeros and ones for each category; rows of unknown categories are zero, and counted."""
    codes, uniques = pd.factorize(values)
    places = {value: i for i, value in enumerate(categories)}
    columns = np.array([*(places.get(text_of(value), -1) for value in uniques), -2], dtype=np.intp)[codes]
    found = np.zeros((len(values), len(categories)))
    known = np.flatnonzero(columns >= 0)
    found[known, columns[known]] = 1
    found[columns == -2] = np.nan
    return found, int((columns == -1).sum())


def text_of(value: Any) -> str:
    """A value as the name of a category: 1.0 is 1, as it is in a table where no value is missing."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def role_of(values: pd.Series) -> str:
    """What a column holds: number, flag, text, date, empty, or other."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "text" if values.notna().any() else "empty"
    if values.isna().all():
        return "empty"
    if types.is_bool_dtype(dtype):
        return "flag"
    if types.is_complex_dtype(dtype):
        return "other"
    if types.is_numeric_dtype(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype) or types.is_timedelta64_dtype(dtype):
        return "date"
    return role_of_objects(values)


ROLES = {
    "boolean": "flag",
    **dict.fromkeys(("integer", "floating", "decimal", "mixed-integer-float"), "number"),
    **dict.fromkeys(("datetime", "date", "datetime64", "timedelta", "timedelta64", "time", "period"), "date"),
    **dict.fromkeys(("string", "mixed-integer", "categorical"), "text"),
}


def role_of_objects(values: pd.Series) -> str:
    """The same for a column of Python objects or strings."""
    role = ROLES.get(types.infer_dtype(values, skipna=True))
    if role is None:
        simple = (str, bool, int, float, np.generic)
        return "text" if all(isinstance(value, simple) for value in values.dropna()) else "other"
    return "date" if role == "text" and looks_like_dates(values) else role


def looks_like_dates(values: pd.Series) -> bool:
    """Whether every text is a date."""
    some = values.dropna().unique()[:LOOKED_AT]
    return all(isinstance(value, str) and DATE.fullmatch(value.strip()) for value in some)


class Found(NamedTuple):
    """What looking at the columns of a table gave."""

    columns: list[Column]
    decisions: list[Decision]
    problems: list[tuple[str, str]]  # columns that cannot be used, and why


def look_at(frame: pd.DataFrame, asked: Sequence[str], id_columns: Sequence[str], max_categories: int) -> Found:
    """Decide about every column; those that were asked for are not taken for identifiers."""
    found = Found([], [], [])
    for name in frame.columns:
        if name in id_columns:
            found.decisions.append(Decision(name, "id", "identifies the rows, kept beside the groups"))
        elif asked and name not in asked:
            found.decisions.append(unused(name, frame[name]))
        else:
            look_at_one(name, frame[name], bool(asked), max_categories, found)
    return found


def unused(name: str, values: pd.Series) -> Decision:
    """What to do with a column that nobody asked for: what identifies rows stays beside the groups."""
    found = Found([], [], [])
    look_at_one(name, values, False, 0, found)
    if found.decisions and found.decisions[0].role == "id":
        return found.decisions[0]
    return Decision(name, "left out", "left out, not asked for")


def look_at_one(name: str, values: pd.Series, asked: bool, max_categories: int, found: Found) -> None:
    """Decide about a column."""
    role = role_of(values)
    if role == "empty":
        found.decisions.append(Decision(name, "empty", "has no values, left out"))
    elif role == "other":
        kind = type(values.dropna().iloc[0]).__name__
        found.problems.append((name, f"holds values of type {kind}"))
    elif role == "date":
        if asked:
            found.problems.append((name, "holds dates: give a number instead, such as days since the first of them"))
        found.decisions.append(Decision(name, "date", "dates, left out"))
    elif role == "text":
        look_at_text(name, values, asked, max_categories, found)
    elif is_constant(as_numbers(values)):
        found.decisions.append(Decision(name, "constant", "the same in all rows, left out"))
    elif role == "number" and not asked and is_counter(name, as_numbers(values)):
        found.decisions.append(Decision(name, "id", "counts or identifies the rows: left out, kept beside the groups"))
    else:
        found.columns.append(Column(name, role))
        found.decisions.append(Decision(name, role, ""))


def look_at_text(name: str, values: pd.Series, asked: bool, max_categories: int, found: Found) -> None:
    """Encode it, leave it out, or say what is wrong with it."""
    counts = values.value_counts()
    counts = counts[counts > 0]  # categories of which no row is left
    n_values, n_rows = len(counts), int(counts.sum())
    if n_values == 1:
        found.decisions.append(Decision(name, "constant", "the same in all rows, left out"))
    elif n_values <= min(max_categories, max(2.0, MAX_SHARE * n_rows)):
        categories = tuple(sorted({text_of(value) for value in counts.index}))
        found.columns.append(Column(name, "category", categories))
        found.decisions.append(Decision(name, "category", ""))
    elif (n_numbers := count_numbers(counts.index)) >= 0.5 * min(n_values, LOOKED_AT):
        odd = [str(value) for value in counts.index[:LOOKED_AT] if not is_number(value)][:3]
        share = n_numbers / min(n_values, LOOKED_AT)
        words = f"is text, though {share:.0%} of its values are numbers; correct or empty {', '.join(map(repr, odd))}"
        found.problems.append((name, words))
    elif n_values > ID_SHARE * n_rows and not asked:
        found.decisions.append(Decision(name, "id", "text that tells rows apart: left out, kept beside the groups"))
    else:
        found.problems.append((name, f"is text with {n_values} different values in {n_rows} rows"))


def is_number(value: Any) -> bool:
    """Whether a text is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def count_numbers(values: pd.Index) -> int:
    """How many of the first texts are numbers."""
    return sum(map(is_number, values[:LOOKED_AT]))


def is_constant(numbers: pd.Series) -> bool:
    """Whether all values that there are are the same."""
    found = finite(numbers)
    found = found[~np.isnan(found)]
    return not len(found) or bool((found == found[0]).all())


def is_counter(name: str, numbers: pd.Series) -> bool:
    """Whole numbers without a repetition that leave none out, or whose name says what they are."""
    found = finite(numbers)
    if np.isnan(found).any() or (found != np.floor(found)).any() or len(np.unique(found)) < len(found):
        return False
    return bool(found.max() - found.min() == len(found) - 1) or ID_NAME.fullmatch(name) is not None
