"""Pictures that stand in for those of the paper, which cannot be shipped. What they are made of is known."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.datasets import RandomState, draw_allocations
from madbayes.pictures import Pictures

# Pictures of the faces that have neither, the first, the second, and both of the paper's features.
FACE_COUNTS = (139, 106, 80, 75)


class Scene(NamedTuple):
    """Pictures, and which picture has which of the things they are made of."""

    pictures: Pictures
    Z: NDArray[np.uint8]


def make_tabletop(
    n_rows: int = 100, *, shape: tuple[int, int] = (60, 80), noise: float = 0.02, random_state: RandomState = None
) -> Scene:
    """Coloured pictures of a table with four objects, each there or not. No object hides another.

    Parameters
    ----------
    n_rows : int
        Number of pictures.
    shape : (int, int)
        Height and width of a picture.
    noise : float
        Standard deviation of the noise in every pixel, and of the brightness of the light.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Scene
        ``pictures`` and ``Z``.

    Examples
    --------
    >>> from madbayes.experiments.scenes import make_tabletop
    >>> pictures, Z = make_tabletop(random_state=0)
    >>> pictures.shape, pictures.X.shape, Z.shape
    ((60, 80, 3), (100, 14400), (100, 4))
    """
    rng = np.random.default_rng(random_state)
    height, width = shape
    table = np.linspace(0.3, 0.4, width)[None, :, None] * np.array([1.0, 0.85, 0.6])
    empty = np.broadcast_to(table, (height, width, 3))
    objects = [draw_object(k, shape) - empty * inside[..., None] for k, inside in enumerate(places(shape))]
    Z = draw_allocations(n_rows, 4, 0.5, rng)
    scenes = empty + np.tensordot(Z.astype(float), np.stack(objects), 1)
    light = 1 + noise * rng.normal(size=(n_rows, 1, 1, 1))
    X = np.clip(scenes * light + noise * rng.normal(size=scenes.shape), 0, 1)
    names = [f"Picture_{n + 1}" for n in range(n_rows)]
    return Scene(Pictures(X.reshape(n_rows, -1), names, (height, width, 3)), Z)


def places(shape: tuple[int, int]) -> list[NDArray[np.bool_]]:
    """Which pixels each of the four objects takes: an oval in each quarter of the table."""
    height, width = shape
    down, across = np.arange(height)[:, None] / height, np.arange(width) / width
    centres = [(0.28, 0.25), (0.28, 0.75), (0.72, 0.25), (0.72, 0.75)]
    return [((down - y) / 0.2) ** 2 + ((across - x) / 0.2) ** 2 < 1 for y, x in centres]


def draw_object(k: int, shape: tuple[int, int]) -> NDArray:
    """Object k, with a pattern of its own, on black."""
    height, width = shape
    down, across = np.indices((height, width))
    patterns = (down // 3 + across // 3, across // 2, down // 2, (down + across) // 3)
    colours = np.array([[1.0, 1.0, 1.0], [0.3, 0.8, 1.0], [0.1, 0.9, 0.4], [1.0, 0.9, 0.2]])
    shade = np.where(patterns[k] % 2, 1.0, 0.6)
    return (shade * places(shape)[k])[..., None] * colours[k]


def make_faces(
    counts: tuple[int, int, int, int] = FACE_COUNTS,
    *,
    shape: tuple[int, int] = (40, 32),
    noise: float = 0.05,
    random_state: RandomState = None,
) -> Scene:
    """Grey pictures of aligned faces. Some have long hair and a short chin, some a darker skin, half of them smile.

    Parameters
    ----------
    counts : four int
        How many pictures have neither of the two, the first, the second, both.
    shape : (int, int)
        Height and width of a picture.
    noise : float
        Standard deviation of the noise in every pixel.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Scene
        ``pictures`` and ``Z``, whose columns are hair with chin, and skin.

    Examples
    --------
    >>> from madbayes.experiments.scenes import make_faces
    >>> pictures, Z = make_faces(random_state=0)
    >>> pictures.X.shape, Z.sum(axis=0).tolist()
    ((400, 1280), [181, 155])
    """
    rng = np.random.default_rng(random_state)
    Z = rng.permutation(np.repeat([[0, 0], [1, 0], [0, 1], [1, 1]], counts, axis=0))
    smiles = rng.random(len(Z)) < 0.5
    drawn = {code: draw_face(shape, *code) for code in np.ndindex(2, 2, 2)}
    X = np.stack([drawn[hair, skin, int(smile)].ravel() for (hair, skin), smile in zip(Z, smiles, strict=True)])
    X = np.clip(X + noise * rng.normal(size=X.shape), 0, 1)
    return Scene(Pictures(X, [f"face{n + 1}" for n in range(len(X))], shape), Z.astype(np.uint8))


def draw_face(shape: tuple[int, int], hair: int, skin: int, smile: int) -> NDArray:
    """A face on a light ground: an oval, hair, eyes, mouth."""
    height, width = shape
    down, across = np.arange(height)[:, None] / height, np.arange(width) / width - 0.5
    picture = np.full(shape, 0.9)
    long_hair = (np.abs(across) < 0.44) & (down > 0.1) & (down < 0.85)
    if hair:
        picture[long_hair] = 0.15
    chin = 0.38 if hair else 0.45
    half = np.where(down < 0.5, 0.4, chin)
    face = ((down - 0.5) / half) ** 2 + (across / 0.3) ** 2 < 1
    picture[face] = 0.5 if skin else 0.75
    picture[face & (down < 0.22)] = 0.15
    for side in (-0.12, 0.12):
        picture[((down - 0.42) / 0.03) ** 2 + ((across - side) / 0.06) ** 2 < 1] = 0.1
    mouth = 0.7 - smile * 2 * across**2
    picture[(np.abs(down - mouth) < 0.02) & (np.abs(across) < 0.12 + 0.03 * smile)] = 0.3
    return picture
