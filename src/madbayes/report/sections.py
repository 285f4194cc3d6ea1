"""The sections of a report in plain values, capped so that the page stays small."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.comparison import STABLE, Stability
from madbayes.estimators.describing import ColumnFact, notable
from madbayes.explain import GroupFacts, RowFact
from madbayes.report.charts import Histogram, histogram_of
from madbayes.report.subject import Subject
from madbayes.words import deviations, number, percent, spaced

# Shown at most: groups in the gallery, in a table of pairs; rows as examples, as unusual; columns in words, of a row,
# of the table, and of its unusual rows.
GALLERY, PAIRS = 24, 20
EXAMPLES, ODD_ROWS = 8, 20
FEW_COLUMNS, ROW_COLUMNS, ALL_COLUMNS, RAW_COLUMNS = 3, 6, 40, 8
# Pixels of a group's picture, of a row's, and of a group's in a list, at most: 5 MB hold the noisiest in colour.
LARGE, SMALL, THUMB = 112, 64, 40


class Bar(NamedTuple):
    """A column of a group, as a bar to the left or to the right."""

    fact: ColumnFact
    width: float  # in hundredths of the longest there is
    value: str
    typical: str


class Card(NamedTuple):
    """A group in the gallery."""

    facts: GroupFacts
    size: str
    share: str
    picture: str | None
    thumb: str | None
    words: list[str]  # of a few columns
    bars: list[Bar]
    rows: list[tuple[RowFact, str]]  # typical rows and their pictures


def gallery(subject: Subject) -> list[Card]:
    """A card for each group."""
    groups = subject.explanation.groups[:GALLERY]
    # Distances below a standard deviation are short bars, even where there are no longer ones.
    longest = max(1.0, *(abs(fact.distance) for group in groups for fact in group.columns), 0.0)
    values = subject.parameters(subject.model._groups(), subject.Z.mean(axis=0))
    return [
        Card(
            group,
            spaced(group.size),
            percent(group.share),
            subject.drawn(values[group.group], group.share, LARGE),
            subject.drawn(values[group.group], group.share, THUMB),
            notable(group.columns[:FEW_COLUMNS]),
            [] if subject.painter else [_bar(fact, longest) for fact in group.columns],
            _pictures(subject, group.typical_rows),
        )
        for group in groups
    ]


def _bar(fact: ColumnFact, longest: float) -> Bar:
    width = round(100 * abs(fact.distance) / longest, 1)
    return Bar(fact, width, _amount(fact.value, fact.is_share), _amount(fact.typical, fact.is_share))


def _amount(value: float, is_share: bool) -> str:
    """A number, or a share of rows, which may be taken too."""
    if not is_share:
        return number(value)
    return f"-{percent(-value)}" if value < -1e-9 else percent(abs(value))


def _pictures(subject: Subject, rows: Sequence[RowFact]) -> list[tuple[RowFact, str]]:
    if subject.painter is None or not rows:
        return []
    drawn = [subject.painter.picture(row, SMALL) for row in subject.rows([fact.row for fact in rows])]
    return list(zip(rows, drawn, strict=True))


class Pairs(NamedTuple):
    """A table of how groups go together, as shares of the rows of each."""

    names: list[str]
    shares: list[list[float | None]]
    n_left_out: int


def pairs(subject: Subject) -> Pairs | None:
    """Features that rows have together; the second choice of the rows of clusters."""
    K = len(subject.names)
    if K < 2:
        return None
    shown = min(K, PAIRS)
    counts = _together(subject) if subject.units.adds else _second_choices(subject)
    sizes = np.maximum(subject.Z.sum(axis=0, dtype=np.int64), 1)
    shares = [[None if i == j else float(counts[i, j] / sizes[i]) for j in range(shown)] for i in range(shown)]
    return Pairs(subject.names[:shown], shares, K - shown)


def _together(subject: Subject) -> NDArray[np.float64]:
    """Rows that have both of two features."""
    Z = subject.Z.astype(np.float64)
    return Z.T @ Z


def _second_choices(subject: Subject) -> NDArray[np.float64]:
    """Rows of one cluster whose second nearest is another."""
    distances, labels = np.asarray(subject.model.transform(subject.X)), subject.Z.argmax(axis=1)
    distances[np.arange(len(labels)), labels] = np.inf
    K = distances.shape[1]
    return np.bincount(labels * K + distances.argmin(axis=1), minlength=K * K).reshape(K, K).astype(np.float64)


class Cell(NamedTuple):
    """A column of an example: what the row has, what its groups say."""

    column: str
    value: str
    rebuilt: str
    distance: str  # between the two, in standard deviations


class Example(NamedTuple):
    """A row beside its reconstruction."""

    row: RowFact
    groups: list[str]
    margin: str
    cells: list[Cell]
    picture: str | None
    rebuilt: str | None
    is_unusual: bool


def examples(subject: Subject) -> list[Example]:
    """A typical row of each of the first groups, then the worst rows."""
    typical = [group.typical_rows[0].row for group in subject.explanation.groups if group.typical_rows]
    best = list(dict.fromkeys(typical))[:EXAMPLES]
    worst = [row for row in subject.facts.ranked()[: EXAMPLES // 2].tolist() if row not in best]
    rows = best + worst
    values, rebuilt = subject.rows(rows), subject.rebuilt(rows)
    is_worst = [False] * len(best) + [True] * len(worst)
    return [_example(subject, *one) for one in zip(rows, values, rebuilt, is_worst, strict=True)]


def _example(subject: Subject, row: int, values: NDArray, rebuilt: NDArray, is_worst: bool) -> Example:
    found, painter = subject.explanation, subject.painter
    margin = float(found.margins[row])
    return Example(
        subject.facts.facts([row])[0],
        [subject.names[k] for k in np.flatnonzero(subject.Z[row])],
        number(margin) if np.isfinite(margin) else "none",
        [] if painter else _cells(subject, values, rebuilt, is_worst),
        painter and painter.picture(values, SMALL),
        painter and painter.picture(rebuilt, SMALL),
        bool(found.unusual[row]),
    )


def _cells(subject: Subject, values: NDArray, rebuilt: NDArray, is_worst: bool) -> list[Cell]:
    """The columns that set a row apart; of one that fits badly those that are told worst."""
    units = subject.units
    scales = np.where(units.scales > 0, units.scales, 1.0)
    misses = (values - rebuilt) / scales
    told = misses if is_worst else (values - units.means) / scales
    order = np.argsort(-np.abs(told), kind="stable")[:ROW_COLUMNS]
    return [
        Cell(
            units.names[d],
            _value(float(values[d]), units.is_share(d)),
            _amount(float(rebuilt[d]), units.is_share(d)),
            deviations(float(misses[d])),
        )
        for d in order
    ]


def _value(value: float, is_share: bool) -> str:
    """A number of a row; zeros and ones are answers, but for rounding."""
    if is_share and min(abs(value), abs(value - 1)) < 1e-9:
        return "yes" if value > 0.5 else "no"
    return number(value)


class ColumnFit(NamedTuple):
    """How much of a column the groups account for."""

    name: str
    share: float  # between 0 and 1
    words: str


class Residuals(NamedTuple):
    """What the groups leave unexplained."""

    histogram: Histogram
    columns: list[ColumnFit]
    n_left_out: int
    picture: str | None  # of the mean squared residual of each pixel
    is_sampled: bool


def residuals(subject: Subject) -> Residuals:
    """By row and by column."""
    rows, units = subject.sample, subject.units
    values, scales = subject.rows(rows), np.where(units.scales > 0, units.scales, 1.0)
    misses = values - subject.rebuilt(rows)
    # In standard deviations, for squares in the user's units may leave the range of floating point.
    spreads = ((values - units.means) / scales).var(axis=0)
    shares = 1 - ((misses / scales) ** 2).mean(axis=0) / np.where(spreads > 0, spreads, np.inf)
    order = np.argsort(-shares, kind="stable") if subject.painter is None else np.empty(0, dtype=np.intp)
    columns = [_column_fit(subject, d, float(shares[d])) for d in order[:ALL_COLUMNS]]
    return Residuals(
        histogram_of(np.sqrt(subject.explanation.errors), float(np.sqrt(subject.model.unusual_error_))),
        columns,
        len(order) - len(columns),
        subject.painter and subject.painter.heat((misses**2).mean(axis=0), LARGE),
        len(rows) < len(subject.X),
    )


def _column_fit(subject: Subject, d: int, share: float) -> ColumnFit:
    words = percent(share) if share >= 0 else "none"
    return ColumnFit(str(subject.units.names[d]), min(max(share, 0.0), 1.0), words)


class Returns(NamedTuple):
    """How much of a group came back in refits."""

    name: str
    agreement: float
    spread: float
    is_stable: bool


class StabilityView(NamedTuple):
    """What the section shows."""

    sentences: list[str]
    groups: list[Returns]
    counts: list[tuple[int, int]]  # numbers of groups, and how many refits found them
    threshold: float


def stability_view(subject: Subject, stability: Stability | None) -> StabilityView | None:
    """The section; None where there were no refits."""
    if stability is None:
        return None
    each = zip(subject.names, stability.group_agreement, stability.group_spread, strict=True)
    groups = [Returns(name, float(mean), float(spread), bool(mean >= STABLE)) for name, mean, spread in each]
    counts = sorted(Counter(stability.n_groups.tolist()).items())
    return StabilityView(subject.explanation.stability, groups[:GALLERY], counts, STABLE)


class OddRow(NamedTuple):
    """An unusual row."""

    row: RowFact
    times: str  # how many times the limit its error is
    groups: list[str]
    values: list[str]  # as they came
    picture: str | None


class OddRows(NamedTuple):
    """What the section shows."""

    words: str
    columns: list[str]
    rows: list[OddRow]
    n_left_out: int


def odd_rows(subject: Subject, frame: Any) -> OddRows:
    """Unusual rows, the worst first, with what stands in the first columns of the user's table."""
    found, limit = subject.explanation, subject.model.unusual_error_
    unusual = subject.facts.ranked(found.unusual)
    known = getattr(subject.recipe, "id_columns_", [])  # they stand in front already
    columns = [] if frame is None else [name for name in frame.columns if name not in known][:RAW_COLUMNS]
    facts = subject.facts.facts(unusual[:ODD_ROWS])
    drawn = dict(_pictures(subject, facts))
    rows = [
        OddRow(
            fact,
            f"{fact.error / limit:.3g}" if limit > 0 else "",
            [subject.names[k] for k in np.flatnonzero(subject.Z[fact.row])],
            [_cell(value) for value in values],
            drawn.get(fact),
        )
        for fact, values in zip(facts, _values(frame, columns, unusual[:ODD_ROWS]), strict=True)
    ]
    return OddRows(found.oddities, [str(name) for name in columns], rows, len(unusual) - len(rows))


def _values(frame: Any, columns: Sequence[Any], rows: NDArray[np.intp]) -> list[list[Any]]:
    """What stands in some rows of the user's table, None where it is missing."""
    if not columns:
        return [[] for _ in rows]
    there = frame[columns].iloc[rows].astype(object)
    return there.where(there.notna(), None).to_numpy().tolist()


def _cell(value: Any) -> str:
    """A value of the user's table, shortened; nothing where it is missing."""
    if value is None:
        return ""
    words = number(float(value)) if isinstance(value, float | np.floating) else str(value)
    return words if len(words) <= 60 else words[:59] + "…"
