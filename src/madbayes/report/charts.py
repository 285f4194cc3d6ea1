"""Where things are in a picture: axes with round numbers, and histograms."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.words import number

# Where the columns of a histogram stand, and how tall they are at most; above them is room for a line of text.
FLOOR, TALLEST = 160, 124


class Tick(NamedTuple):
    """A place on an axis and what is written there."""

    at: float
    words: str


class Axis(NamedTuple):
    """From values to places in a picture."""

    low: float
    high: float
    start: float  # the place of low
    end: float
    ticks: list[Tick]

    def at(self, value: float) -> float:
        """The place of a value."""
        return place(value, self.low, self.high, self.start, self.end)


def place(value: float, low: float, high: float, start: float, end: float) -> float:
    """A value of a range as a place between two others; in the middle where the range is empty."""
    part = (float(value) - low) / (high - low) if high > low else 0.5
    return start + part * (end - start)


def axis_of(low: float, high: float, start: float, end: float, *, logarithmic: bool = False) -> Axis:
    """An axis with about five round numbers; values of a logarithmic one are powers of ten."""
    values = _decades(low, high) if logarithmic else _round_numbers(low, high)
    ticks = [Tick(place(value, low, high, start, end), short(10**value if logarithmic else value)) for value in values]
    return Axis(low, high, start, end, ticks)


def short(value: float) -> str:
    """A number with room for few letters: 20k, 1.5M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit or (abs(value) >= unit and unit > 1e3):
            return f"{value / unit:.3g}{letter}" if abs(value) < 1e13 else f"{value:.3g}"
    return number(value)


def _decades(low: float, high: float) -> list[float]:
    """Logarithms of 1, 2, 5 times powers of ten, or of powers of ten alone over a wide range."""
    steps = (1,) if high - low > 4 else (1, 2, 5) if high - low < 1.7 else (1, 3)
    values = [e + np.log10(step) for e in range(int(np.floor(low)), int(np.ceil(high)) + 1) for step in steps]
    inside = [float(value) for value in values if low <= value <= high]
    return inside[:: max(1, len(inside) // 6)]


def _round_numbers(low: float, high: float) -> list[float]:
    """A few multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = float(next(one for one in (power, 2 * power, 5 * power, 10 * power) if one >= rough))
    step = max(step, 1.0) if low == int(low) and high == int(high) and high - low < 50 else step
    first = np.ceil(low / step - 1e-9)
    return [float(step * n) for n in np.arange(first, np.floor(high / step + 1e-9) + 1)]


class Column(NamedTuple):
    """One column of a histogram."""

    x: float
    y: float
    width: float
    height: float
    words: str
    is_unusual: bool


class Histogram(NamedTuple):
    """How many rows have which distance."""

    columns: list[Column]
    distances: Axis
    limit: float  # the place from which on rows are unusual
    limit_words: str


def histogram_of(distances: NDArray, limit: float) -> Histogram:
    """Of distances, none of them negative."""
    counts, edges = np.histogram(
        distances, bins=min(40, max(5, len(distances) // 5)), range=(0, _end(distances, limit))
    )
    axis = axis_of(0.0, float(edges[-1]), 24, 708)
    tallest = max(1, int(counts.max()))
    columns = [
        Column(
            axis.at(left),
            FLOOR - TALLEST * count / tallest,
            max(axis.at(right) - axis.at(left) - 1, 0.5),
            TALLEST * count / tallest,
            f"{count} rows from {number(float(left))} to {number(float(right))}",
            bool(left >= limit),
        )
        for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True)
        if count
    ]
    return Histogram(columns, axis, axis.at(min(limit, float(edges[-1]))), number(limit))


def _end(distances: NDArray, limit: float) -> float:
    """Where the picture ends: a little after the largest that is finite."""
    shown = distances[np.isfinite(distances)]
    return 1.02 * max(float(shown.max(initial=0.0)), limit if np.isfinite(limit) else 0.0) or 1.0
