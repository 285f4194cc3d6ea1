"""Pictures of what was found, drawn with matplotlib.

Every ``plot_`` function returns a :class:`matplotlib.figure.Figure` with no window behind it: save it with
``savefig``, or let a notebook show it. Images come flattened, one in each row, and ``shape`` is (height, width), or
(height, width, 3) for colour.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

    from madbayes.engine.path import PenaltyPath

Shape = tuple[int, ...]
INCHES = 1.3  # the size of one image and its title


class FeatureModel(Protocol):
    """What the pictures of a fitted model need from it."""

    components_: Any

    def transform(self, X: Any) -> Any:
        """Which row has which feature."""

    def inverse_transform(self, Z: Any) -> Any:
        """The rows with these features."""


def new_figure(n_lines: int, n_columns: int) -> "Figure":
    """Make an empty figure with room for lines of images."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "madbayes[plot]"') from error
    return Figure(figsize=(INCHES * n_columns, INCHES * n_lines), layout="constrained")


def count_lines(n_images: int, n_columns: int) -> int:
    """How many lines the images fill; an empty one when there are none."""
    return max(1, -(-n_images // n_columns))


def draw_images(figure: "FigureBase", images: NDArray, shape: Shape, titles: Sequence[str], n_columns: int) -> None:
    """Draw images in lines of n_columns, all on one grey scale."""
    low, high = (images.min(), images.max()) if images.size else (0, 1)
    axes = figure.subplots(count_lines(len(images), n_columns), n_columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, image in zip(axes, images, strict=False):  # the last line may have room to spare
        axis.imshow(image.reshape(shape), cmap="gray_r", vmin=low, vmax=high)
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title, fontsize="small")


def draw_reconstruction(figure: "FigureBase", rows: NDArray, model: FeatureModel, shape: Shape) -> None:
    """Draw the rows in one line, and below them what the model makes of them."""
    rebuilt = np.asarray(model.inverse_transform(model.transform(rows)))
    titles = [f"row {n}" for n in range(len(rows))] + ["rebuilt"] * len(rows)
    draw_images(figure, np.vstack([rows, rebuilt]), shape, titles, len(rows))


def plot_images(images: ArrayLike, shape: Shape, titles: Sequence[str] = (), *, n_columns: int = 8) -> "Figure":
    """Images side by side, all on one grey scale.

    Parameters
    ----------
    images : array-like of shape (n_images, n_pixels)
        One flattened image in each row.
    shape : tuple of int
        Height and width of an image, and 3 for colour.
    titles : sequence of str
        One for each image, or none.
    n_columns : int
        How many images stand side by side.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from madbayes.datasets import make_bars
    >>> from madbayes.display import plot_images
    >>> figure = plot_images(make_bars(random_state=0).A, shape=(5, 5), n_columns=5)
    >>> len(figure.axes)
    10
    """
    images = np.asarray(images)
    figure = new_figure(count_lines(len(images), n_columns), n_columns)
    draw_images(figure, images, shape, titles, n_columns)
    return figure


def plot_reconstruction(X: ArrayLike, model: FeatureModel, shape: Shape, n_rows: int = 8) -> "Figure":
    """The first rows of X, and below each the sum of the features that the model finds in it.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_pixels)
        One flattened image in each row.
    model : fitted estimator
        Anything with ``components_``, ``transform`` and ``inverse_transform``.
    shape : tuple of int
        Height and width of an image, and 3 for colour.
    n_rows : int
        How many rows of X to draw.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from madbayes.datasets import make_bars
    >>> from madbayes.display import plot_reconstruction
    >>> X = make_bars(random_state=0).X
    >>> figure = plot_reconstruction(X, PCA(3).fit(X), shape=(5, 5), n_rows=4)
    >>> len(figure.axes)
    8
    """
    rows = np.asarray(X)[:n_rows]
    figure = new_figure(2, len(rows))
    draw_reconstruction(figure, rows, model, shape)
    return figure


def plot_model(X: ArrayLike, model: FeatureModel, shape: Shape, n_rows: int = 8) -> "Figure":
    """The features a model found, above the first rows of X and their reconstruction.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_pixels)
        One flattened image in each row.
    model : fitted estimator
        Anything with ``components_``, ``transform`` and ``inverse_transform``.
    shape : tuple of int
        Height and width of an image, and 3 for colour.
    n_rows : int
        How many rows of X to draw.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from madbayes.datasets import make_bars
    >>> from madbayes.display import plot_model
    >>> X = make_bars(random_state=0).X
    >>> figure = plot_model(X, PCA(4).fit(X), shape=(5, 5), n_rows=4)
    >>> len(figure.axes)
    12
    """
    rows, A = np.asarray(X)[:n_rows], np.asarray(model.components_)
    n_lines = count_lines(len(A), len(rows))
    figure = new_figure(n_lines + 2, len(rows))
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=[n_lines, 2])
    draw_images(above, A, shape, [f"feature {k}" for k in range(len(A))], len(rows))
    draw_reconstruction(below, rows, model, shape)
    return figure


def draw_path(path: "PenaltyPath", axes: Any = None) -> "Figure":
    """Draw the number of groups over the penalty, and the squared error over the number of groups.

    Parameters
    ----------
    path : PenaltyPath
        What to draw.
    axes : pair of matplotlib axes, optional
        Where to; side by side in a new figure if not given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if axes is None:
        axes = new_figure(3, 7).subplots(1, 2)
    numbers, errors = axes
    for K, (lo, hi) in path.intervals.items():
        left = lo or (hi / 10 if np.isfinite(hi) else 1.0)  # ends that do not exist are drawn a decade away
        numbers.plot(
            [left, hi if np.isfinite(hi) else 10 * left], [K, K], color="C1" if path.best == K else "C0", linewidth=3
        )
    numbers.set(xscale="log", xlabel="penalty", ylabel="groups")
    errors.plot(path.n_components, path.sse, "o-")
    errors.plot([path.best], [path.sse[path.best - path.n_components[0]]], "o", color="C1")
    errors.set(xlabel="groups", ylabel="squared error")
    return numbers.figure
