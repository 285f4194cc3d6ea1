"""Folders of pictures as tables, a row for each; principal components of them, and the way back to pictures.

Pictures are never shipped with madbayes: whoever has them names the folder.
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff")
# Of all tabletop pictures, in the order of their numbers.
TABLETOP_SHA256 = "f3b7679e4762eafe631f16a5f80a91f2fa1c901886e5ce0b196b68b146249878"


class Pictures(NamedTuple):
    """Pictures of one size, a row for each, from 0 (black) to 1 (white)."""

    X: NDArray[np.float64]  # N x pixels (times 3 if coloured)
    names: list[str]  # of the files
    shape: tuple[int, ...]  # of a picture: height and width, and 3 if it is coloured


class Projection(NamedTuple):
    """Pictures as their principal components."""

    X: NDArray[np.float64]  # N x D, what is fitted
    axes: NDArray[np.float64]  # D x pixels, orthonormal
    mean: NDArray[np.float64]  # of the pictures
    scale: float  # what the pictures were multiplied by
    names: list[str]
    shape: tuple[int, ...]

    def parts(self, rows: ArrayLike) -> NDArray[np.float64]:
        """What rows in the space of X, features for example, add to a picture or take from it."""
        return (np.asarray(rows) @ self.axes / self.scale).reshape(-1, *self.shape)

    def pictures(self, rows: ArrayLike) -> NDArray[np.float64]:
        """The pictures that rows in the space of X stand for."""
        return self.parts(rows) + self.mean.reshape(self.shape)


def load_images(folder: str | Path, *, grey: bool = False) -> Pictures:
    """All pictures in a folder, in the order of their names, numbers in them by value.

    Parameters
    ----------
    folder : path
        Its files that end like pictures (jpg, png, tif, bmp, gif); others are left out.
    grey : bool, default=False
        Brightness only.

    Returns
    -------
    Pictures
        ``X``, ``names`` and ``shape``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> from madbayes.datasets import load_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, shade in (("b10.png", 255), ("b9.png", 51)):
    ...         Image.fromarray(np.full((2, 3), shade, dtype=np.uint8)).save(f"{folder}/{name}")
    ...     found = load_images(folder, grey=True)
    >>> found.names, found.shape, found.X[:, 0]
    (['b9.png', 'b10.png'], (2, 3), array([0.2, 1. ]))
    """
    paths = picture_paths(folder)
    arrays = [read_picture(path, "L" if grey else "RGB") for path in paths]
    sizes = {array.shape for array in arrays}
    if len(sizes) > 1:
        odd = next(path for path, array in zip(paths, arrays, strict=True) if array.shape != arrays[0].shape)
        raise ValueError(f"the pictures in {str(folder)!r} differ in size: {paths[0].name} and {odd.name}, for example")
    X = np.stack([array.ravel() for array in arrays]) / 255.0
    return Pictures(X, [path.name for path in paths], arrays[0].shape)


def picture_paths(folder: str | Path) -> list[Path]:
    """The pictures in a folder, at least one, in order."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"folder={str(folder)!r} is not a folder: give one with pictures in it")
    paths = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file()]
    if not paths:
        raise FileNotFoundError(f"folder={str(folder)!r} has no pictures: none of its files ends in {SUFFIXES}")
    return sorted(paths, key=lambda path: natural_key(path.name))


def natural_key(name: str) -> list[tuple[int, str]]:
    """Sorts names so that 9 comes before 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name.lower())]


def read_picture(path: Path, mode: str) -> NDArray[np.uint8]:
    """The numbers of a picture."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError('Reading pictures needs Pillow: pip install "madbayes[app]"') from error
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert(mode))
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read as a picture: {error}") from error


def project(pictures: Pictures, n_components: int = 100, *, scale: float = 1.0) -> Projection:
    """Principal components of pictures, not whitened: distances are those of the pictures, times the scale.

    Parameters
    ----------
    pictures : Pictures
    n_components : int, default=100
        As many at most; there are no more than pictures.
    scale : float, default=1.0
        What the pictures are multiplied by first.

    Returns
    -------
    Projection

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.pictures import Pictures, project
    >>> pictures = Pictures(np.array([[0.0, 0.5, 1.0], [1.0, 0.5, 0.0], [0.5, 0.5, 0.5]]), list("abc"), (1, 3))
    >>> projection = project(pictures, 1)
    >>> np.allclose(projection.pictures(projection.X)[:, 0], pictures.X)
    True
    """
    mean = pictures.X.mean(axis=0)
    U, s, Vt = np.linalg.svd(scale * (pictures.X - mean), full_matrices=False)
    # The sign of an axis is free: its longest number is positive.
    signs = np.sign(Vt[np.arange(len(Vt)), np.abs(Vt).argmax(axis=1)])
    kept = slice(0, n_components)
    return Projection(
        (U * s * signs)[:, kept], (Vt * signs[:, None])[kept], mean, scale, pictures.names, pictures.shape
    )


def load_tabletop(folder: str | Path, n_components: int = 100) -> Projection:
    """The paper's tabletop pictures, prepared as its figures were.

    Four objects on a table, in any combination. The pictures were taken by Griffiths and Ghahramani; whoever uses them
    cites *The Indian Buffet Process: An Introduction and Review*, JMLR 12 (2011) 1185-1224. They came with the code
    of Broderick, Kulis and Jordan (2013).

    Parameters
    ----------
    folder : path
        With Picture_1.jpg to Picture_100.jpg, which are checked to be the ones.
    n_components : int, default=100
        Principal components to keep.

    Returns
    -------
    Projection
        Of the pictures times 1 / sqrt(N - 1), which is the scale of the published squared errors.
    """
    digest = sha256_of(picture_paths(folder))
    if digest != TABLETOP_SHA256:
        raise ValueError(
            f"the pictures in {str(folder)!r} are not the 100 tabletop pictures: their SHA-256 is {digest[:12]}..., "
            f"not {TABLETOP_SHA256[:12]}..."
        )
    pictures = load_images(folder)
    return project(pictures, n_components, scale=1 / np.sqrt(len(pictures.X) - 1))


def sha256_of(paths: list[Path]) -> str:
    """Of the contents of some files, one after the other."""
    digest = sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def load_faces(folder: str | Path, n_components: int = 100) -> Projection:
    """Aligned grey pictures of faces, as principal components.

    The paper used the FEI face database: 200 people, each once neutral (1a.jpg) and once smiling (1b.jpg). Its terms
    forbid to pass it on; bring your own copy, or any folder of aligned pictures of one size.

    Parameters
    ----------
    folder : path
    n_components : int, default=100
        Principal components to keep.

    Returns
    -------
    Projection
        Of the pictures times 1 / sqrt(N - 1), as for :func:`load_tabletop`.
    """
    pictures = load_images(folder, grey=True)
    if len(pictures.X) < 2:
        raise ValueError(f"folder={str(folder)!r} has a single picture: give one with at least two")
    return project(pictures, n_components, scale=1 / np.sqrt(len(pictures.X) - 1))
