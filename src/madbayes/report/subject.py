"""What a report is about: a model, its rows, and the way back to the user's units."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.describing import Units
from madbayes.estimators.problem import means_of
from madbayes.explain import Explanation, Recipe, Rows, check_ids, explain, groups_in_units, in_units, units_of
from madbayes.report.images import Painter, check_shape

# Rows looked at for what needs not all of them.
SAMPLE = 5000
# Columns named for a group in the gallery.
COLUMNS = 8


class Subject(NamedTuple):
    """All that the sections of a report are made of."""

    model: GroupEstimator
    X: NDArray  # what the model saw
    Z: NDArray[np.uint8]  # which row has which group
    names: list[str]  # of the groups
    recipe: Recipe | None
    units: Units
    explanation: Explanation
    facts: Rows  # errors and ids
    painter: Painter | None
    path: PenaltyPath | None

    @property
    def one(self) -> str:
        """What a group is called."""
        return "feature" if self.units.adds else "cluster"

    @property
    def sample(self) -> NDArray[np.intp]:
        """Rows that stand for all, evenly spaced."""
        return np.unique(np.linspace(0, len(self.X) - 1, min(len(self.X), SAMPLE)).astype(np.intp))

    def rows(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Some rows in the units of the user's columns."""
        return in_units(self.X[np.asarray(rows)].astype(np.float64), self.recipe)

    def rebuilt(self, rows: ArrayLike) -> NDArray[np.float64]:
        """What their groups say about some rows, in the same units."""
        sums = self.Z[np.asarray(rows)] @ means_of(self.model._groups())
        return in_units(sums, self.recipe)

    def parameters(self, A: Any, shares: NDArray) -> NDArray[np.float64]:
        """Means of clusters, or what features add, in the units of the user's columns."""
        return groups_in_units(means_of(A), shares, self.units, self.recipe)

    def memberships(self, A: Any, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Which of some rows have which of other groups than the model's."""
        with Workers(self.model.n_jobs) as workers:
            assigned = self.model._assign(np.ascontiguousarray(self.X[rows]), A, workers)
        return self.model._codes(assigned, len(means_of(A)))

    def drawn(self, values: NDArray, share: float, size: int) -> str | None:
        """A group as a picture: a feature that not all rows have is what it adds."""
        if self.painter is None:
            return None
        if self.units.of(share).adds:
            return self.painter.part(values, size)
        return self.painter.picture(values, size)


def subject_of(
    model: GroupEstimator,
    X: ArrayLike,
    *,
    recipe: Recipe | None,
    ids: Sequence[Any] | None,
    image_shape: tuple[int, ...] | None,
    path: PenaltyPath | None,
    stability: Any,
    sampled_from: int | None = None,
) -> Subject:
    """Look at a model and its rows once, for all sections."""
    path = path or getattr(model, "path_", None)
    told = {"path": path, "stability": stability, "sampled_from": sampled_from}
    found = explain(model, X, recipe=recipe, ids=ids, n_columns=COLUMNS, **told)
    units, table = units_of(model, recipe), model._check_new(X)
    subject = Subject(
        model,
        table,
        model._memberships(X),
        list(model.group_names_),
        recipe,
        units,
        found,
        Rows(found.errors, check_ids(ids, len(table))),
        None,
        path,
    )
    if image_shape is None:
        return subject
    shape, rows = check_shape(image_shape, len(units.names)), subject.rows(subject.sample)
    return subject._replace(painter=Painter(shape, float(rows.min()), float(rows.max())))
