"""Images side by side, and rows beside what a model makes of them.

Images come flattened, one in each row, and ``shape`` is (height, width), or (height, width, 3) for colour.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.display.figures import group_names, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

Shape = tuple[int, ...]


class FeatureModel(Protocol):
    """What the pictures of a fitted model need from it."""

    components_: Any

    def transform(self, X: Any) -> Any:
        """Which row has which feature."""

    def inverse_transform(self, Z: Any) -> Any:
        """The rows with these features."""


def count_lines(n_images: int, n_columns: int) -> int:
    """How many lines the images fill; an empty one when there are none."""
    return max(1, -(-n_images // n_columns))


def draw_images(axes: NDArray[np.object_], images: NDArray, shape: Shape, titles: Sequence[str]) -> None:
    """Draw images on axes, all on one grey scale; the last axes may stay empty."""
    low, high = (images.min(), images.max()) if images.size else (0, 1)
    for axis in axes.ravel():
        axis.set_axis_off()
    for axis, image in zip(axes.ravel(), images, strict=False):
        axis.imshow(image.reshape(shape), cmap="gray_r", vmin=low, vmax=high)
    for axis, title in zip(axes.ravel(), titles, strict=False):
        axis.set_title(title, fontsize="small")


def grid(figure: "FigureBase", n_images: int, n_columns: int) -> NDArray[np.object_]:
    """Axes for so many images in lines of n_columns."""
    return figure.subplots(count_lines(n_images, n_columns), n_columns, squeeze=False)


def draw_reconstruction(figure: "FigureBase", rows: NDArray, model: FeatureModel, shape: Shape) -> None:
    """Draw the rows in one line, and below them what the model makes of them."""
    rebuilt = np.asarray(model.inverse_transform(model.transform(rows)))
    titles = [f"row {n}" for n in range(len(rows))] + ["rebuilt"] * len(rows)
    draw_images(grid(figure, 2 * len(rows), len(rows)), np.vstack([rows, rebuilt]), shape, titles)


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
    draw_images(grid(figure, len(images), n_columns), images, shape, titles)
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
    draw_images(grid(above, len(A), len(rows)), A, shape, group_names(model, "feature", len(A)))
    draw_reconstruction(below, rows, model, shape)
    return figure
