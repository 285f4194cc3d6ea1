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
