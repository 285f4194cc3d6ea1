"""What the groups look like: a picture each where rows are images, else a bar for each column."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from madbayes.display.figures import CHOSEN, INCHES, PLAIN, Display, check_names, divide, group_names
from madbayes.display.images import Shape, count_lines, draw_images
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.problem import means_of

# A row of bars and its name, in inches.
BAR = 0.22


class FeatureDisplay(Display):
    """The components of a feature model, or the centres of a cluster model.

    Parameters
    ----------
    components : array-like of shape (K, n_columns)
        One group in each row.
    names : sequence of str, optional
        The names of the groups.
    columns : sequence of str, optional
        The names of the columns.
    shape : tuple of int, optional
        Height and width of an image, and 3 for colour, if rows are images.
    unit : str
        What bars measure.

    Attributes
    ----------
    axes_ : array of axes
        One for each group; those at the end of the last line are empty.
    ax_ : axis
        The frame around them.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import BPMeans
    >>> from madbayes.display import FeatureDisplay
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    >>> display = FeatureDisplay.from_estimator(BPMeans(penalty=1.0, random_state=0).fit(X))
    >>> [axis.get_title() for axis in display.axes_.ravel()]
    ['group 0', 'group 1']
    """

    def __init__(
        self,
        components: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        shape: Shape | None = None,
        unit: str = "value",
    ) -> None:
        self.components: NDArray = np.atleast_2d(np.asarray(components))
        K, D = self.components.shape
        self.names, self.columns = check_names(names, K, "feature"), check_names(columns, D, "column")
        self.shape, self.unit = shape, unit

    @classmethod
    def from_estimator(cls, estimator: Any, *, shape: Shape | None = None, ax: Any = None, **options: Any) -> Self:
        """Draw the groups of a fitted model.

        Bars show by how many standard deviations of its column a group differs, from the mean of the table for
        clusters and from zero for features; for a model of others, the components themselves.

        Parameters
        ----------
        estimator : fitted estimator
            Anything with ``components_`` or ``cluster_centers_``.
        shape : tuple of int, optional
            Height and width of an image, and 3 for colour, if rows are images.
        ax : axis, optional
            Where to draw; a new figure if not given.
        **options
            As in :meth:`plot`.

        Returns
        -------
        FeatureDisplay
        """
        check_is_fitted(estimator)
        has_clusters = hasattr(estimator, "cluster_centers_")
        A = np.asarray(estimator.cluster_centers_ if has_clusters else estimator.components_)
        columns = list(getattr(estimator, "feature_names_in_", [f"x{d}" for d in range(A.shape[1])]))
        unit = "value"
        if shape is None and isinstance(estimator, GroupEstimator):
            A, unit = distances(estimator), "standard deviations"
        names = group_names(estimator, "cluster" if has_clusters else "feature", len(A))
        display = cls(A, names=names, columns=columns, shape=shape, unit=unit)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, n_columns: int | None = None, max_bars: int = 20) -> Self:
        """Draw the groups side by side.

        Parameters
        ----------
        ax : axis, optional
            Where to draw, an axis of a grid; a new figure if not given.
        n_columns : int, optional
            How many stand side by side: 8 images, or 5 groups of bars, if not given.
        max_bars : int
            Of more columns than this, those are shown in which the groups differ most from zero.

        Returns
        -------
        self
        """
        side = n_columns or min(max(len(self.components), 1), 5 if self.shape is None else 8)
        n_lines = count_lines(len(self.components), side)
        bars = np.sort(np.argsort(-np.abs(self.components).max(axis=0, initial=0), kind="stable")[:max_bars])
        height = 1.0 if self.shape else (0.8 + BAR * len(bars)) / INCHES
        frame = self._at(ax, n_lines * height, side * (1.0 if self.shape else 1.3) + (0 if self.shape else 1))
        self.axes_ = divide(frame, n_lines, side)
        if self.shape is not None:
            draw_images(self.axes_, self.components, self.shape, self.names)
        else:
            self._draw_bars(bars)
        return self

    def _draw_bars(self, bars: NDArray) -> None:
        """A bar for each column, upwards and downwards on the same scale in all groups."""
        values = self.components[:, bars]
        limit = 1.05 * np.abs(values).max(initial=0) or 1.0
        for axis in self.axes_.ravel()[len(values) :]:
            axis.set_axis_off()
        for i, (axis, value, name) in enumerate(zip(self.axes_.ravel(), values, self.names, strict=False)):
            axis.barh(np.arange(len(bars)), value, color=np.where(value < 0, PLAIN, CHOSEN))
            axis.axvline(0, color="black", linewidth=0.6)
            is_first = i % self.axes_.shape[1] == 0
            labels = [self.columns[d] for d in bars] if is_first else []
            axis.set_yticks(np.arange(len(bars)) if is_first else [], labels, fontsize="small")
            axis.set(xlim=(-limit if (values < 0).any() else 0, limit), ylim=(len(bars) - 0.4, -0.6))
            axis.tick_params(axis="x", labelsize="small")
            axis.set_title(name, fontsize="small")
            axis.spines[["top", "right"]].set_visible(False)
            if i >= len(values) - self.axes_.shape[1]:
                axis.set_xlabel(self.unit, fontsize="small")


def distances(model: GroupEstimator) -> NDArray[np.float64]:
    """By how many standard deviations each group differs in each column."""
    units, shares = model._units(), model._sizes / model._total
    A = means_of(model._groups())
    rows = [units.of(share).distances(values) for values, share in zip(A, shares, strict=True)]
    return np.array(rows).reshape(A.shape)
