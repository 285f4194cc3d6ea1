"""What arguments may be."""

from numbers import Real
from typing import Any

import numpy as np


def is_number(value: Any, kind: type = Real) -> bool:
    """Real (or integral) numbers, but not booleans.

    Examples
    --------
    >>> from madbayes.engine.checks import is_number
    >>> is_number(2.5), is_number(True), is_number("2")
    (True, False, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def as_float(value: Any) -> float:
    """The value as a float; infinity for an integer that is too large.

    Examples
    --------
    >>> from madbayes.engine.checks import as_float
    >>> as_float(2), as_float(10**400)
    (2.0, inf)
    """
    try:
        return float(value)
    except OverflowError:
        return np.inf
