"""The penalty path as a picture that can be moved along."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from madbayes.engine.path import PenaltyPath
from madbayes.estimators.describing import notable, top_columns
from madbayes.report.charts import Axis, axis_of
from madbayes.report.subject import Subject
from madbayes.words import number, percent

# Groups shown for one number of them, columns named for each, and pixels of a picture, at most.
GROUPS, COLUMNS, PIXELS = 12, 3, 32
# Numbers of groups shown, at most.
STOPS = 40
# Places of the slider from one end to the other.
PLACES = 400
# Penalties that far below the highest are as good as none.
LEAST = 1e-8


class PathGroup(NamedTuple):
    """A group of the solution for one number of them."""

    share: str
    words: list[str]
    picture: str | None


class Stop(NamedTuple):
    """A number of groups that is best at some penalty."""

    K: int
    sse: str
    remaining: str  # of the squared error with the smallest number
    low: str
    high: str
    ratio: str
    verdict: str
    groups: list[PathGroup]
    n_left_out: int
    x: tuple[float, float]  # where its interval begins and ends in the picture
    y: float
    is_candidate: bool


class Point(NamedTuple):
    """The squared error for one number of groups."""

    K: int
    x: float
    y: float
    on_hull: bool


class PathView(NamedTuple):
    """What the section shows."""

    stops: list[Stop]
    n_left_out: int
    points: list[Point]
    penalties: Axis
    numbers: Axis
    counts: Axis  # numbers of groups, across
    errors: Axis
    start: int  # the number shown first
    data: dict[str, Any]  # what the slider needs
    is_sampled: bool


def path_view(subject: Subject) -> PathView | None:
    """The section; None where there is no path, or only one number on it."""
    path = subject.path
    if path is None or len(path.intervals) < 2:
        return None
    kept = sorted(path.intervals)[:STOPS]
    low, high = _penalties([path.intervals[K] for K in kept])
    kept = [K for K in kept if path.intervals[K][1] > low]
    penalties = axis_of(float(np.log10(low)), float(np.log10(high)), 48, 708, logarithmic=True)
    start = float(np.clip(_start(subject, path), low, high))
    numbers = axis_of(min(kept), max(kept), 236, 20)
    counts = axis_of(float(path.n_components[0]), float(path.n_components[-1]), 60, 348)
    errors = axis_of(0.0, float(path.sse[0]), 236, 20)
    points = [
        Point(int(K), counts.at(K), errors.at(sse), int(K) in path.intervals)
        for K, sse in zip(path.n_components, path.sse, strict=True)
    ]
    return PathView(
        [_stop(subject, path, K, penalties, numbers) for K in kept],
        len(path.intervals) - len(kept),
        points,
        penalties,
        numbers,
        counts,
        errors,
        path.at(start).K,
        _slider(path, kept, low, high, start),
        len(subject.sample) < len(subject.X),
    )


def _slider(path: PenaltyPath, kept: Sequence[int], low: float, high: float, start: float) -> dict[str, Any]:
    """What the script needs to know: penalties are logarithms."""
    lowest, highest = float(np.log10(low)), float(np.log10(high))
    return {
        "numbers": path.n_components.tolist(),
        "sse": path.sse.tolist(),
        "low": lowest,
        "high": highest,
        "step": (highest - lowest) / PLACES,
        "start": float(np.log10(start)),
        "places": {K: float(np.log10(np.clip(path.suggest(K), low, high))) for K in kept},
    }


def _penalties(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The lowest and the highest penalty shown: a little more than where the number changes."""
    ends = [end for interval in intervals for end in interval if 0 < end < np.inf]
    lowest = intervals[-1][0] or min(ends) / 3  # beyond it are numbers that are not shown
    return max(lowest, LEAST * max(ends)), 3 * max(ends)


def _start(subject: Subject, path: PenaltyPath) -> float:
    """The penalty of the fit, or the one the path suggests where it has none."""
    return subject.model.penalty_ if subject.model.penalty_ > 0 else path.suggest()


def _stop(subject: Subject, path: PenaltyPath, K: int, penalties: Axis, numbers: Axis) -> Stop:
    low, high = path.intervals[K]
    sse = float(path.sse[K - int(path.n_components[0])])
    groups = _groups(subject, path.for_k(K))
    ratio = path.ratios.get(K)
    return Stop(
        K,
        number(sse),
        percent(sse / path.sse[0]) if path.sse[0] > 0 else "0 %",
        number(low),
        number(high) if np.isfinite(high) else "any higher one",
        "" if ratio is None else (f"{ratio:.3g}" if ratio < 1e6 else "without end"),
        _verdict(path, K),
        groups[:GROUPS],
        len(groups) - len(groups[:GROUPS]),
        (penalties.at(np.log10(max(low, 10**penalties.low))), penalties.at(min(np.log10(high), penalties.high))),
        numbers.at(K),
        K in path.candidates,
    )


def _verdict(path: PenaltyPath, K: int) -> str:
    """How plausible a number is."""
    if path.best == K:
        return "the most plausible number" if path.candidates else "the simplest answer: no number is plausible"
    if K in path.candidates:
        return "also plausible"
    return "no better founded than in tables without groups" if K in path.ratios else ""


def _groups(subject: Subject, solution: Any) -> list[PathGroup]:
    """The groups of one solution, the largest first."""
    shares = subject.memberships(solution.A, subject.sample).mean(axis=0)
    values = subject.parameters(solution.A, shares)
    return [
        PathGroup(
            percent(float(shares[k])),
            [] if subject.painter else notable(top_columns(values[k], subject.units.of(float(shares[k])), COLUMNS)),
            subject.drawn(values[k], float(shares[k]), PIXELS),
        )
        for k in np.argsort(-shares, kind="stable")
    ]


def staircase(view: PathView) -> str:
    """The way from the smallest penalty to the largest, for an SVG polyline."""
    stops = view.stops[::-1]  # more groups are to the left
    corners = [(stops[0].x[0], stops[0].y)]
    for left, right in pairwise(stops):
        corners += [(left.x[1], left.y), (left.x[1], right.y)]
    corners.append((stops[-1].x[1], stops[-1].y))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
