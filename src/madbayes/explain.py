"""What was found, in words first.

Groups are told by the columns that set them apart, in the units of the user's table where a recipe knows them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.comparison import STABLE, Stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators import validation
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.describing import (
    ColumnFact,
    Units,
    extreme_rows,
    group_words,
    notable,
    top_columns,
)
from madbayes.estimators.problem import means_of
from madbayes.evidence import SHOWN, evidence, kind_of, stability_words
from madbayes.words import counted, listed, percent, spaced

# Unusual rows that a printed answer names one by one, at most.
UNUSUAL_SHOWN = 5


class Recipe(Protocol):
    """What made the table of numbers out of the user's, as far as it is needed to tell of it."""

    encoded_names_: Any
    means_: Any
    deviations_: Any

    def inverse_transform(self, X: Any) -> Any:
        """Rows in the units of the encoded columns."""


class RowFact(NamedTuple):
    """A row by its number, its id and its squared error."""

    row: int
    id: Any
    error: float


@dataclass(frozen=True)
class GroupFacts:
    """One group: how large it is, what sets it apart, which rows show it best and worst.

    Attributes
    ----------
    group, name
        Its number and its name.
    size, share
        Rows that have it, and their share of all rows.
    columns : list of ColumnFact
        The farthest from the table first.
    typical_rows, worst_rows : list of RowFact
        Those that fit best, and those that fit worst.
    stability : float or None
        Its mean Jaccard coefficient in refits, where they were made.
    is_base : bool
        Whether it is a feature that all rows have, to which the others add.
    """

    group: int
    name: str
    size: int
    share: float
    columns: list[ColumnFact]
    typical_rows: list[RowFact]
    worst_rows: list[RowFact]
    stability: float | None = None
    is_base: bool = False

    @property
    def words(self) -> str:
        """What sets the group apart, in one line."""
        return group_words(self.columns)

    @property
    def title(self) -> str:
        """Name, size, and how far it can be trusted."""
        words = f"{self.name}: {counted(self.size, 'row')} ({percent(self.share)})"
        words += ", to which the others add" if self.is_base else ""
        if self.stability is None:
            return words
        return f"{words}, {'stable' if self.is_stable else 'not stable'} ({self.stability:.2f})"

    @property
    def is_stable(self) -> bool | None:
        """Whether it comes back, where refits were made."""
        return None if self.stability is None else self.stability >= STABLE


@dataclass(frozen=True, eq=False)
class Explanation:
    """A fit in words and plain values; ``str`` of it is the summary.

    Attributes
    ----------
    kind : {"clusters", "features"}
    n_rows : int
    headline : str
        How many groups of how many rows.
    evidence : list of str
        Why so many, in sentences.
    groups : list of GroupFacts
    stability : list of str
        What came back in refits, in sentences; empty without them.
    errors, margins : array of shape (n_rows,)
        See ``score_samples``.
    unusual : array of bool of shape (n_rows,)
        Rows whose error is above ``unusual_error_``.
    worst : list of RowFact
        The unusual rows, largest error first; a few of them at most.
    """

    kind: str
    n_rows: int
    headline: str
    evidence: list[str]
    groups: list[GroupFacts]
    stability: list[str]
    errors: NDArray
    margins: NDArray
    unusual: NDArray[np.bool_]
    worst: list[RowFact]

    @property
    def oddities(self) -> str:
        """The unusual rows in a sentence."""
        count = int(self.unusual.sum())
        if not count:
            return "No row is unusual."
        names = listed([row.id for row in self.worst], count)
        return f"Unusual, because they fit worst: {counted(count, 'row')} ({percent(count / self.n_rows)}), {names}."

    def __str__(self) -> str:
        return self.text()

    def text(self, *, columns: bool = True) -> str:
        """The summary; without columns where their names say nothing, as those of pixels do."""
        lines = [self.headline, *(f"  {sentence}" for sentence in [*self.evidence, *self.stability])]
        for group in self.groups[:SHOWN]:
            told = [f"  {words}" for words in notable(group.columns)] if columns and group.columns else []
            lines += ["", group.title, *told, *_row_lines(group)]
        if len(self.groups) > SHOWN:
            lines += ["", f"... and {len(self.groups) - SHOWN} more groups"]
        return "\n".join([*lines, "", self.oddities])

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, fit for JSON. What is known of every row is left out."""
        return {
            "kind": self.kind,
            "n_rows": self.n_rows,
            "headline": self.headline,
            "evidence": self.evidence,
            "stability": self.stability,
            "groups": [
                {
                    "group": group.group,
                    "name": group.name,
                    "size": group.size,
                    "share": group.share,
                    "words": group.words,
                    "columns": [column._asdict() for column in group.columns],
                    "typical_rows": [row._asdict() for row in group.typical_rows],
                    "worst_rows": [row._asdict() for row in group.worst_rows],
                    "stability": group.stability,
                }
                for group in self.groups
            ],
            "n_unusual": int(self.unusual.sum()),
            "unusual_rows": [row._asdict() for row in self.worst],
        }


def explain(
    model: GroupEstimator,
    X: ArrayLike,
    *,
    recipe: Recipe | None = None,
    ids: Sequence[Any] | None = None,
    path: PenaltyPath | None = None,
    stability: Stability | None = None,
    n_columns: int = 5,
    n_rows: int = 3,
    sampled_from: int | None = None,
) -> Explanation:
    """Say in words what a model found in X.

    Parameters
    ----------
    model : fitted estimator of madbayes
    X : array-like of shape (n_rows, n_columns)
        What the model was fitted to, or other rows made the same way.
    recipe : transformer, optional
        What made X of the user's table: it gives the names of its columns and the way back to their units.
    ids : sequence of length n_rows, optional
        What to call the rows; by default their numbers, from 0.
    path : PenaltyPath, optional
        Where the number of groups comes from; by default that of the model, if it has one.
    stability : Stability, optional
        What :func:`madbayes.stability` returned for the model.
    n_columns, n_rows : int
        How many columns and rows to name for each group.
    sampled_from : int, optional
        Rows of the table of which X is a sample; said where it is given.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans
    >>> from madbayes.explain import explain
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0]])
    >>> print(explain(DPMeans(penalty=20.0).fit(X), X, ids=list("abcde"), n_rows=1))
    2 clusters of 5 rows.
      They explain 98 % of the variance of the table.
      The penalty was given: one more cluster costs 20, which is 16 % of the squared error about the mean.
      No other clusters can lower the objective by more than 1 %.
    <BLANKLINE>
    group 0: 3 rows (60 %)
      x0 +0.8 sd (10 against 6)
      x1 +0.3 sd (1 against 0.8)
      typical rows: d; worst-fitting: e
    <BLANKLINE>
    group 1: 2 rows (40 %)
      x0 -1.2 sd (0 against 6)
      x1 -0.4 sd (0.5 against 0.8)
      typical rows: a; worst-fitting: b
    <BLANKLINE>
    No row is unusual.
    """
    validation.check_count("n_columns", n_columns, minimum=0)
    validation.check_count("n_rows", n_rows, minimum=0)
    errors, margins = np.asarray(model.score_samples(X), dtype=np.float64).T
    Z, path = model._memberships(X), path or getattr(model, "path_", None)
    rows = Rows(errors, check_ids(ids, len(errors)))
    unusual = errors > model.unusual_error_
    return Explanation(
        kind_of(model),
        len(errors),
        headline(model, Z, sampled_from),
        [*sampled(len(errors), sampled_from), *explained(model, X, errors), *evidence(model, path)],
        list(_groups(model, Z, recipe, rows, stability, n_columns, n_rows)),
        stability_words(model, stability),
        errors,
        margins,
        unusual,
        rows.facts(rows.ranked(unusual)[:UNUSUAL_SHOWN]),
    )


class Rows(NamedTuple):
    """Errors and ids of all rows."""

    errors: NDArray
    ids: list[Any]

    def ranked(self, among: NDArray[np.bool_] | slice = slice(None)) -> NDArray[np.intp]:
        """Numbers of some rows, the largest error first."""
        rows = np.arange(len(self.errors))[among]
        return rows[np.argsort(-self.errors[rows], kind="stable")]

    def facts(self, rows: Sequence[int] | NDArray) -> list[RowFact]:
        """What is to be said of some of them."""
        return [RowFact(int(row), self.ids[row], float(self.errors[row])) for row in rows]


def check_ids(ids: Sequence[Any] | None, n_rows: int) -> list[Any]:
    """Ids as plain values; numbers of rows where there are none."""
    if ids is None:
        return list(range(n_rows))
    known = [one.item() if isinstance(one, np.generic) else one for one in ids]
    if len(known) != n_rows:
        raise ValueError(f"ids has {len(known)} entries for {n_rows} rows: give one for each row")
    return [one if isinstance(one, int | str) else str(one) for one in known]


def units_of(model: GroupEstimator, recipe: Recipe | None) -> Units:
    """The columns in which to tell of groups."""
    if recipe is None:
        return model._units()
    means, scales = (np.asarray(one, dtype=np.float64) for one in (recipe.means_, recipe.deviations_))
    return Units([str(name) for name in recipe.encoded_names_], means, scales, model._adds_up)


def in_units(values: NDArray, recipe: Recipe | None) -> NDArray[np.float64]:
    """Rows of the table that was fitted, in the units of the user's columns."""
    if recipe is None or not len(values):
        return values
    return np.asarray(recipe.inverse_transform(values), dtype=np.float64)


def groups_in_units(means: NDArray, shares: NDArray, units: Units, recipe: Recipe | None) -> NDArray[np.float64]:
    """Means of clusters, or what features add, in the units of the user's columns."""
    original = in_units(means, recipe)
    if recipe is None or not len(means):
        return original
    # Where the way back has an offset, it is no part of what a feature adds.
    offset = in_units(np.zeros_like(means[:1]), recipe)
    return original - np.array([[units.of(share).adds] for share in shares]) * offset


def _groups(
    model: GroupEstimator,
    Z: NDArray,
    recipe: Recipe | None,
    rows: Rows,
    stability: Stability | None,
    n_columns: int,
    n_rows: int,
) -> Iterator[GroupFacts]:
    """What is to be said of each."""
    units, shares = units_of(model, recipe), Z.mean(axis=0)
    for k, values in enumerate(groups_in_units(means_of(model._groups()), shares, units, recipe)):
        members = np.flatnonzero(Z[:, k])
        best, worst = extreme_rows(rows.errors, members, n_rows)
        yield GroupFacts(
            k,
            model.group_names_[k],
            len(members),
            float(shares[k]),
            top_columns(values, units.of(shares[k]), n_columns),
            rows.facts(best),
            rows.facts(worst),
            None if stability is None else float(stability.group_agreement[k]),
            units.adds and shares[k] == 1,
        )


def headline(model: GroupEstimator, Z: NDArray, sampled_from: int | None = None) -> str:
    """How many groups of how many rows."""
    N, K, n_rated = sampled_from or len(Z), Z.shape[1], len(Z)
    if not K:
        return f"No features in {counted(N, 'row')}."
    if not model._adds_up:
        return f"{counted(K, 'cluster')} of {counted(N, 'row')}."
    return f"{counted(K, 'feature')} in {counted(N, 'row')}; a row has {Z.sum() / n_rated:.1f} of them on average."


def sampled(n_rows: int, sampled_from: int | None) -> list[str]:
    """Which rows are told of, if not all."""
    if sampled_from is None:
        return []
    whole = f"{spaced(n_rows)} of {counted(sampled_from, 'row')}"
    return [f"Groups, their sizes and the rows named below are those of a sample of {whole}."]


def explained(model: GroupEstimator, X: ArrayLike, errors: NDArray) -> list[str]:
    """How much of the variation of the table the groups account for; Mahalanobis distances are no part of it."""
    total = float(((np.asarray(X, dtype=np.float64) - model._column_means) ** 2).sum())
    alone = model._n_features_out <= (0 if model._adds_up else 1)
    if alone or total <= 0 or hasattr(model, "covariances_"):
        return []
    share = 1 - float(errors.sum()) / total
    if share < 0:
        return ["They explain less of the table than its mean does."]
    return [f"They explain {percent(share)} of the variance of the table."]


def _row_lines(group: GroupFacts) -> list[str]:
    """Rows that show what it is, if there are any."""
    typical, worst = (", ".join(str(row.id) for row in rows) for rows in (group.typical_rows, group.worst_rows))
    return [f"  typical rows: {typical}" + (f"; worst-fitting: {worst}" if worst else "")] if typical else []
