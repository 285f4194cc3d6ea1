"""What values of a column are: numbers, texts, dates; and their numbers."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

DAY = r"(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4})"
DATE = re.compile(DAY + r"([ T].*)?")
# Different values looked at to tell dates, and numbers among text: the first ones.
LOOKED_AT = 1000


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
    """What some rows of a column hold: number, flag, text, categories, date, empty, or other."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "categories" if values.notna().any() else "empty"
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
    return role


def looks_like_dates(values: Sequence[Any]) -> bool:
    """Whether the first texts are dates."""
    return all(isinstance(value, str) and DATE.fullmatch(value.strip()) for value in values[:LOOKED_AT])


def is_number(value: Any) -> bool:
    """Whether a text is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
