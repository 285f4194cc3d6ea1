"""Which row has which groups."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from madbayes.display.figures import NULL, PLAIN, Display, check_names, divide, group_names


class AllocationDisplay(Display):
    """The rows of a table and the groups they are in.

    Features are drawn as an image of Z, rows with the same code beside each other. Clusters are drawn as bands as
    high as they have rows, in which each row is as long as its margin: how much nearer its cluster is than the
    second nearest, as a share of the squared distance to that one.

    Parameters
    ----------
    groups : array-like of shape (n_rows, K) or (n_rows,)
        Z, or labels.
    names : sequence of str, optional
        The names of the groups.
    margins : array-like of shape (n_rows,), optional
        For clusters, a share between 0 and 1 for each row.

    Attributes
    ----------
    sizes : array of int
        Rows of each group.
    order : array of int
        The rows as they are drawn, from top to bottom.
    ax_ : axis
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from madbayes.display import AllocationDisplay
    >>> display = AllocationDisplay([[1, 0], [0, 1], [1, 1], [1, 0]])
    >>> display.sizes, display.order
    (array([3, 2]), array([2, 0, 3, 1]))
    """

    def __init__(
        self, groups: ArrayLike, *, names: Sequence[str] | None = None, margins: ArrayLike | None = None
    ) -> None:
        self.groups: NDArray = np.asarray(groups).astype(np.int64)
        self.margins = None if margins is None else np.asarray(margins, dtype=np.float64)
        if self.groups.ndim == 2:
            self.sizes = self.groups.sum(axis=0)
            self.order = np.lexsort(-self.groups.T[::-1]) if self.groups.size else np.arange(len(self.groups))
        else:
            self.sizes = np.bincount(self.groups, minlength=0 if names is None else len(names))
            within = np.zeros(len(self.groups)) if self.margins is None else -self.margins
            self.order = np.lexsort((within, self.groups))
        self.names = check_names(names, len(self.sizes), "feature" if self.groups.ndim == 2 else "cluster")

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike | None = None, *, ax: Any = None) -> Self:
        """Draw the groups of the training rows, or of others.

        Parameters
        ----------
        estimator : fitted estimator
            Clusters or features.
        X : array-like of shape (n_rows, n_columns), optional
            Rows to draw; those the model was fitted to if not given, clusters then without margins.
        ax : axis, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        AllocationDisplay
        """
        check_is_fitted(estimator)
        if hasattr(estimator, "cluster_centers_"):
            labels = estimator.labels_ if X is None else estimator.predict(X)
            names = group_names(estimator, "cluster", len(estimator.cluster_centers_))
            margins = None if X is None else relative_margins(estimator.score_samples(X))
            return cls(labels, names=names, margins=margins).plot(ax=ax)
        Z = estimator.allocations_ if X is None else np.asarray(estimator.transform(X))
        return cls(Z, names=group_names(estimator, "feature", Z.shape[1])).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the groups.

        Parameters
        ----------
        ax : axis, optional
            Where to draw, for features an axis of a grid; a new figure if not given.

        Returns
        -------
        self
        """
        if self.groups.ndim == 2:
            self._draw_codes(self._at(ax, 3.5, 1.2 + max(2.0, 0.5 * len(self.sizes))))
        else:
            self._draw_bands(self._at(ax, 3.0, 4.0))
        return self

    def _draw_codes(self, frame: Any) -> None:
        """Z as an image, and above it how many rows have each feature."""
        (above,), (image,) = divide(frame, 2, 1, height_ratios=[1, 4])
        numbers = np.arange(len(self.sizes))
        bars = above.bar(numbers, self.sizes, color=PLAIN, width=0.8)
        above.bar_label(bars, fontsize="small")
        above.set(xlim=(-0.5, max(len(numbers), 1) - 0.5), xticks=[], yticks=[])
        above.margins(y=0.3)
        above.spines[["top", "right", "left"]].set_visible(False)
        if self.groups.size:
            image.imshow(self.groups[self.order], aspect="auto", cmap="gray_r", vmin=0, vmax=1, interpolation="none")
            for k in numbers[1:]:
                image.axvline(k - 0.5, color="white", linewidth=2)
        is_long = max(map(len, self.names), default=0) > 3
        image.set_xticks(numbers, self.names, rotation=90 if is_long else 0, fontsize="small")
        image.set_ylabel("rows, sorted by code")
        self.image_ax_, self.sizes_ax_ = image, above

    def _draw_bands(self, ax: Any) -> None:
        """Clusters one above the other, the rows of each as long as their margin."""
        top = 0
        N = len(self.groups)
        lengths = np.ones(N) if self.margins is None else self.margins
        for k, size in enumerate(self.sizes):
            rows = self.order[top : top + size]
            ax.fill_betweenx(np.arange(top, top + size + 1), np.append(lengths[rows], lengths[rows[-1:]]),
                             step="post", color=PLAIN if k % 2 == 0 else NULL, linewidth=0)  # fmt: skip
            top += size
        middles = np.cumsum(self.sizes) - self.sizes / 2
        labels = [f"{name} ({size})" for name, size in zip(self.names, self.sizes, strict=True)]
        ax.set_yticks(middles, labels, fontsize="small")
        ax.set(ylim=(N, 0), xlim=(0, 1), ylabel="rows, sorted by cluster")
        if self.margins is None:
            ax.set_xticks([])
        else:
            ax.set_xlabel("margin / squared distance to the second nearest")
        ax.spines[["top", "right"]].set_visible(False)


def relative_margins(scores: NDArray) -> NDArray[np.float64]:
    """Margins as shares of the squared distance to the second nearest; 1 where there is none."""
    error, margin = np.asarray(scores, dtype=np.float64).T
    total = error + margin
    return np.divide(margin, total, out=np.ones(len(total)), where=np.isfinite(total) & (total > 0))
