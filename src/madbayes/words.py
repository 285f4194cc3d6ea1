"""Numbers, shares and lists as one reads them."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def number(value: float) -> str:
    """Three digits of a number, four where it has thousands.

    >>> number(0.012345), number(1987.4), number(52_013), number(19_512_345_678)
    ('0.0123', '1987', '52 010', '1.95e10')
    """
    if not 1000 <= abs(value) < 1e7:
        words, _, exponent = f"{value + 0.0:.3g}".partition("e")  # of zero without its sign
        return f"{words}e{int(exponent)}" if exponent else words
    digits = 3 - int(np.floor(np.log10(abs(value))))
    return spaced(round(value, digits))


def spaced(value: float) -> str:
    """A whole number, with room between its thousands from ten thousand on.

    >>> spaced(1987), spaced(52_013)
    ('1987', '52 013')
    """
    return f"{value:,.0f}".replace(",", " " if abs(value) >= 10000 else "")


def counted(count: int, word: str) -> str:
    """So many of a kind.

    >>> counted(1, "row"), counted(52_013, "row")
    ('1 row', '52 013 rows')
    """
    return f"{spaced(count)} {word}{'' if count == 1 else 's'}"


def percent(share: float) -> str:
    """A share of all; never 0 % or 100 % of what is not nothing or all, but for rounding.

    >>> percent(0.254), percent(0.001), percent(0.9999)
    ('25 %', 'less than 1 %', 'more than 99 %')
    """
    if 1e-9 < share < 0.005:
        return "less than 1 %"
    if 0.995 < share < 1 - 1e-9:
        return "more than 99 %"
    return f"{100 * share:.0f} %"


def exact_percent(share: float) -> str:
    """A share with three digits, for one that may be small and is wanted all the same.

    >>> exact_percent(0.00042), exact_percent(0.05)
    ('0.042 %', '5 %')
    """
    return f"{100 * share:.3g} %"


def deviations(distance: float) -> str:
    """A distance in standard deviations with its sign, which nothing has not.

    >>> deviations(1.83), deviations(-0.01)
    ('+1.8 sd', '0.0 sd')
    """
    if abs(distance) < 0.05:
        return "0.0 sd"
    return f"{distance:+.1f} sd" if abs(distance) < 100 else f"{distance:+,.0f} sd".replace(",", " ")


def listed(names: Iterable[Any], count: int) -> str:
    """Names of some, and how many more there are.

    >>> listed(["red", "blue"], 5)
    'red, blue and 3 more'
    """
    known = [str(name) for name in names]
    return ", ".join(known) + (f" and {count - len(known)} more" if count > len(known) else "")


def shown(value: Any) -> str:
    """A value as one reads it: four digits of a number, nothing for what is not there.

    >>> shown(0.123456), shown([True, None, "red"])
    ('0.1235', 'yes, , red')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return ", ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)
