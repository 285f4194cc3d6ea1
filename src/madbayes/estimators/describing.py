"""What sets a group apart, in numbers and in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# A column is not worth a word below this distance, in standard deviations.
NOTABLE = 0.1


class ColumnFact(NamedTuple):
    """How far a group is from the whole table in one column."""

    name: str
    value: float  # of the group: its mean, or what the feature adds
    typical: float  # of all rows; zero for features
    distance: float  # between the two, in standard deviations of the column
    words: str
    is_share: bool  # whether value and typical are shares of rows


class Units(NamedTuple):
    """The columns in which groups are told, and what is usual in them."""

    names: Sequence[str]
    means: NDArray[np.float64]  # of the whole table
    scales: NDArray[np.float64]  # standard deviations
    adds: bool  # whether groups are features, which add to a row

    def of(self, share: float) -> "Units":
        """The same for a group of this share of the rows: a feature that all rows have is where they start, a mean."""
        return self._replace(adds=self.adds and share < 1 - 1e-12)

    @property
    def typical(self) -> NDArray[np.float64]:
        """What a group's values are compared with."""
        return np.zeros_like(self.means) if self.adds else self.means

    def distances(self, values: NDArray) -> NDArray[np.float64]:
        """From the typical value, in standard deviations; a constant column counts in its own units."""
        return (values - self.typical) / np.where(self.scales > 0, self.scales, 1.0)

    def is_share(self, d: int) -> bool:
        """Whether a column holds zeros and ones, so that its mean is a share of rows.

        Of columns between 0 and 1 no others have the standard deviation sqrt(m (1 - m)). An encoded one ("colour=red")
        need not be looked at so closely, for its deviation may be that of a sample.
        """
        mean, scale = self.means[d], self.scales[d]
        if not 0 < mean < 1:
            return False
        largest = np.sqrt(mean * (1 - mean))
        return bool(np.isclose(scale, largest, rtol=1e-6, atol=0) or ("=" in self.names[d] and scale < 1.5 * largest))


def top_columns(values: NDArray, units: Units, n_columns: int) -> list[ColumnFact]:
    """The columns in which a group is farthest from the table, the farthest first.

    Of the categories of one column ("colour=red", "colour=blue") only the farthest is told: it implies the others.
    """
    distances, facts, told = units.distances(values), list[ColumnFact](), set[str]()
    for d in np.argsort(-np.abs(distances), kind="stable"):
        if len(facts) == n_columns:
            break
        column = _category(units, d)[0]
        if not column or column not in told:
            facts.append(_fact(units, d, float(values[d]), float(distances[d])))
            told.add(column)
    return facts


def _fact(units: Units, d: int, value: float, distance: float) -> ColumnFact:
    words = column_words(units, d, value, distance)
    return ColumnFact(units.names[d], value, float(units.typical[d]), distance, words, units.is_share(d))


def _category(units: Units, d: int) -> tuple[str, str]:
    """Column and category of an encoded one; no column for others."""
    column, _, category = units.names[d].rpartition("=")
    return (column, category) if column and units.is_share(d) else ("", "")


def column_words(units: Units, d: int, value: float, distance: float) -> str:
    """One column of a group, such as "income +1.8 sd (52 000 against 31 000)"."""
    name = units.names[d]
    if units.is_share(d):
        column, category = _category(units, d)
        subject = f"{column} is {category}" if column else f"{name} is 1"
        if units.adds:
            return f"{subject}: {'adds' if value > 0 else 'takes'} {percent(abs(value))}"
        return f"{subject} in {percent(min(max(value, 0.0), 1.0))} (against {percent(units.means[d])})"
    # What is nothing beside the spread of the column is rounding error.
    value, mean = (x if abs(x) > 1e-9 * units.scales[d] else 0.0 for x in (value, float(units.means[d])))
    if units.adds:
        return f"{name} {deviations(distance)} ({'adds' if value > 0 else 'takes'} {number(abs(value))})"
    return f"{name} {deviations(distance)} ({number(value)} against {number(mean)})"


def notable(columns: Sequence[ColumnFact]) -> list[str]:
    """The columns worth a word, in words."""
    return [column.words for column in columns if abs(column.distance) >= NOTABLE] or ["nothing sets it apart"]


def group_words(columns: Sequence[ColumnFact]) -> str:
    """What sets a group apart, in one line."""
    return "; ".join(notable(columns))


def deviations(distance: float) -> str:
    """A distance with its sign, which nothing has not."""
    if abs(distance) < 0.05:
        return "0.0 sd"
    return f"{distance:+.1f} sd" if abs(distance) < 100 else f"{distance:+,.0f} sd".replace(",", " ")


def number(value: float) -> str:
    """Three digits of a number, four where it has thousands: 0.0123, 1987, 52 000, 1.95e10."""
    if not 1000 <= abs(value) < 1e7:
        words, _, exponent = f"{value + 0.0:.3g}".partition("e")  # of zero without its sign
        return f"{words}e{int(exponent)}" if exponent else words
    digits = 3 - int(np.floor(np.log10(abs(value))))
    return f"{round(value, digits):,.0f}".replace(",", " " if abs(value) >= 10000 else "")


def percent(share: float) -> str:
    """A share of all; never 0 % or 100 % of what is not nothing or all, but for rounding."""
    if 1e-9 < share < 0.005:
        return "less than 1 %"
    if 0.995 < share < 1 - 1e-9:
        return "more than 99 %"
    return f"{100 * share:.0f} %"


def extreme_rows(errors: NDArray, members: NDArray[np.intp], n_rows: int) -> tuple[list[int], list[int]]:
    """Of the rows of a group those that fit best, and those that fit worst; no row is both."""
    ranked = members[np.argsort(errors[members], kind="stable")]
    best = ranked[:n_rows]
    worst = ranked[len(best) :][::-1][:n_rows]
    return best.tolist(), worst.tolist()
