"""Data whose groups are known, and folders of pictures.

Generated rows are sums of features, or belong to one cluster each. The same ``random_state`` gives the same data.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.pictures import load_faces, load_images, load_tabletop

__all__ = [
    "FeatureData",
    "MixtureData",
    "load_faces",
    "load_images",
    "load_tabletop",
    "make_bars",
    "make_cambridge",
    "make_dice",
    "make_linear_gaussian",
    "make_mixture",
]

RandomState = int | np.random.Generator | None


class FeatureData(NamedTuple):
    """Rows that are sums of features, up to noise: X = ZA + noise."""

    X: NDArray[np.float64]  # N x D
    Z: NDArray[np.uint8]  # N x K, which row has which feature
    A: NDArray[np.float64]  # K x D, the features


class MixtureData(NamedTuple):
    """Rows scattered about the centers of their clusters."""

    X: NDArray[np.float64]  # N x D
    labels: NDArray[np.intp]  # N, the cluster of each row
    centers: NDArray[np.float64]  # K x D


def draw_allocations(n_rows: int, K: int, probability: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Binary matrix of independent coin flips."""
    return (rng.random((n_rows, K)) < probability).astype(np.uint8)


def add_features(Z: NDArray[np.uint8], A: NDArray, noise: float, rng: np.random.Generator) -> FeatureData:
    """Sum the features of each row and add Gaussian noise."""
    return FeatureData(Z @ A + noise * rng.normal(size=(len(Z), A.shape[1])), Z, A)


def make_linear_gaussian(
    n_rows: int = 200,
    n_columns: int = 50,
    n_components: int = 8,
    *,
    noise: float = 0.5,
    probability: float = 0.5,
    random_state: RandomState = None,
) -> FeatureData:
    """Rows that are sums of Gaussian features.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        Sizes of X (n_rows x n_columns) and number of features.
    noise : float
        Standard deviation of the noise in every entry of X.
    probability : float
        Chance of a row to have a feature.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    FeatureData
        The named tuple (X, Z, A).

    Examples
    --------
    >>> from madbayes.datasets import make_linear_gaussian
    >>> X, Z, A = make_linear_gaussian(n_components=3, random_state=0)
    >>> X.shape, Z.shape, A.shape
    ((200, 50), (200, 3), (3, 50))
    """
    rng = np.random.default_rng(random_state)
    Z = draw_allocations(n_rows, n_components, probability, rng)
    A = rng.normal(size=(n_components, n_columns))
    return add_features(Z, A, noise, rng)


def make_bars(
    n_rows: int = 300,
    *,
    size: int = 5,
    noise: float = 0.3,
    probability: float = 0.3,
    random_state: RandomState = None,
) -> FeatureData:
    """Pictures of horizontal and vertical bars; where bars cross they add up.

    Parameters
    ----------
    n_rows : int
        Number of pictures.
    size : int
        Pictures are size x size, and there are size horizontal bars, top first, and then size vertical ones.
    noise : float
        Standard deviation of the noise in every pixel.
    probability : float
        Chance of a picture to show a bar.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    FeatureData
        The named tuple (X, Z, A), one flattened picture in each row of X and A.

    Examples
    --------
    >>> from madbayes.datasets import make_bars
    >>> X, Z, A = make_bars(size=3, random_state=0)
    >>> A[0].reshape(3, 3)
    array([[1., 1., 1.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    rng = np.random.default_rng(random_state)
    horizontal = np.repeat(np.eye(size), size, axis=1)
    vertical = np.tile(np.eye(size), size)
    Z = draw_allocations(n_rows, 2 * size, probability, rng)
    return add_features(Z, np.vstack([horizontal, vertical]), noise, rng)


CAMBRIDGE_SHAPES = (  # top left, top right, bottom left, bottom right
    ("010", "111", "010"),
    ("111", "101", "111"),
    ("100", "110", "111"),
    ("111", "010", "010"),
)


def cambridge_features() -> NDArray[np.float64]:
    """The four shapes, each in its corner of a 6 x 6 picture."""
    pictures = np.zeros((4, 6, 6))
    for k, shape in enumerate(CAMBRIDGE_SHAPES):
        top, left = 3 * (k // 2), 3 * (k % 2)
        pictures[k, top : top + 3, left : left + 3] = [[int(pixel) for pixel in line] for line in shape]
    return pictures.reshape(4, 36)


def make_cambridge(
    n_rows: int = 100,
    *,
    noise: float = 0.5,
    probability: float = 0.5,
    random_state: RandomState = None,
) -> FeatureData:
    """The Cambridge bars: 6 x 6 pictures of four shapes, one in each corner.

    After the pictures that Griffiths and Ghahramani use with the Indian buffet process.

    Parameters
    ----------
    n_rows : int
        Number of pictures.
    noise : float
        Standard deviation of the noise in every pixel.
    probability : float
        Chance of a picture to show a shape.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    FeatureData
        The named tuple (X, Z, A), one flattened picture in each row of X and A.

    Examples
    --------
    >>> from madbayes.datasets import make_cambridge
    >>> X, Z, A = make_cambridge(random_state=0)
    >>> A[2].reshape(6, 6)[3:, :3]
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    """
    rng = np.random.default_rng(random_state)
    Z = draw_allocations(n_rows, len(CAMBRIDGE_SHAPES), probability, rng)
    return add_features(Z, cambridge_features(), noise, rng)


def draw_pip(pixels: int) -> NDArray[np.float64]:
    """A disc in a pixels x pixels cell, its edge softened over one pixel."""
    offsets = np.arange(pixels) - (pixels - 1) / 2
    distances = np.hypot(offsets[:, None], offsets)
    return np.clip(0.35 * pixels + 0.5 - distances, 0, 1)


def make_dice(
    n_rows: int = 200,
    *,
    side: int = 2,
    pixels: int = 4,
    noise: float = 0.1,
    probability: float = 0.5,
    random_state: RandomState = None,
) -> FeatureData:
    """Pictures of a die whose pips are each on or off.

    Parameters
    ----------
    n_rows : int
        Number of pictures.
    side : int
        The die has side x side pips, counted along its rows.
    pixels : int
        Every pip is drawn in a cell of pixels x pixels.
    noise : float
        Standard deviation of the noise in every pixel. Without noise X is ZA exactly.
    probability : float
        Chance of a pip to be on.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    FeatureData
        The named tuple (X, Z, A), one flattened picture in each row of X and A.

    Examples
    --------
    >>> from madbayes.datasets import make_dice
    >>> X, Z, A = make_dice(side=3, noise=0, random_state=0)
    >>> X.shape, A.shape
    ((200, 144), (9, 144))
    >>> bool((X == Z @ A).all())
    True
    """
    rng = np.random.default_rng(random_state)
    cells = np.eye(side**2).reshape(side**2, side, side)
    A = np.kron(cells, draw_pip(pixels)).reshape(side**2, -1)
    return add_features(draw_allocations(n_rows, side**2, probability, rng), A, noise, rng)


def make_mixture(
    n_rows: int = 2000,
    n_columns: int = 10,
    n_clusters: int = 20,
    *,
    separation: float = 4.0,
    random_state: RandomState = None,
) -> MixtureData:
    """Gaussian clusters of unit variance about random centers; the columns of X have mean zero.

    Parameters
    ----------
    n_rows, n_columns, n_clusters : int
        Sizes of X (n_rows x n_columns) and number of clusters.
    separation : float
        Root mean square distance of two centers in one column, in standard deviations of a cluster.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    MixtureData
        The named tuple (X, labels, centers).

    Examples
    --------
    >>> from madbayes.datasets import make_mixture
    >>> X, labels, centers = make_mixture(n_rows=100, n_columns=2, n_clusters=3, random_state=0)
    >>> X.shape, labels.shape, centers.shape
    ((100, 2), (100,), (3, 2))
    """
    rng = np.random.default_rng(random_state)
    centers = rng.normal(size=(n_clusters, n_columns)) * separation / np.sqrt(2)
    labels = rng.integers(n_clusters, size=n_rows)
    X = centers[labels] + rng.normal(size=(n_rows, n_columns))
    offset = X.mean(0)
    return MixtureData(X - offset, labels, centers - offset)
