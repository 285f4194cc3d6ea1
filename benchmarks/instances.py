"""Tables whose best objective is known well: the search is measured on these."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.datasets import make_bars, make_cambridge, make_dice, make_linear_gaussian, make_mixture
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape

HERE = Path(__file__).parent
BEST_KNOWN: dict[str, dict[str, Any]] = json.loads((HERE / "best_known.json").read_text())


class Instance(NamedTuple):
    """A table with an objective: features at a price or of a given number, or clusters at a price."""

    X: NDArray[np.float64]
    penalty: float = 0.0
    K: int | None = None
    kind: str = "features"
    planted: NDArray | None = None  # what the table was made with: Z, or labels

    def landscape(self) -> Any:
        """Where to search."""
        of = FeatureLandscape.of if self.kind == "features" else ClusterLandscape.of
        return of(self.X, self.penalty, K=self.K)

    @property
    def moves(self) -> dict:
        """What to search with."""
        return feature_moves if self.kind == "features" else cluster_moves


def of_features(data: Any) -> Instance:
    """With the number of features that was planted."""
    return Instance(data.X, K=data.Z.shape[1], planted=data.Z)


def linear_gaussian(*shape: int, **options: float) -> Callable[[], Instance]:
    """Rows, columns and features; noise .5 and probability .5 unless said."""
    return lambda: of_features(make_linear_gaussian(*shape, **options, random_state=0))  # type: ignore[arg-type]


def mixture(shape: tuple[int, int, int], separation: float, penalty: float) -> Callable[[], Instance]:
    """Gaussian clusters at a price."""

    def make() -> Instance:
        data = make_mixture(*shape, separation=separation, random_state=1)
        return Instance(data.X, penalty, kind="clusters", planted=data.labels)

    return make


def tabletop_folder() -> Path:
    """Where the pictures should be."""
    return Path(os.environ.get("MADBAYES_DATA", HERE.parent.parent / "shared" / "data")) / "tabletop"


def load_tabletop() -> NDArray[np.float64]:
    """The 100 pictures divided by the root of 99, as principal components: 100 rows, 100 columns."""
    from PIL import Image

    files = sorted(tabletop_folder().glob("Picture_*.jpg"), key=lambda file: int(file.stem.split("_")[1]))
    pictures = np.array([np.asarray(Image.open(file), dtype=np.float64).ravel() / 255 for file in files])
    pictures /= np.sqrt(len(pictures) - 1)
    U, s, _ = np.linalg.svd(pictures - pictures.mean(axis=0), full_matrices=False)
    return U * s


def tabletop(K: int | None = None, penalty: float = 0.0) -> Callable[[], Instance]:
    """The pictures in K features, or at a price."""
    return lambda: Instance(load_tabletop(), penalty, K)


INSTANCES: dict[str, Callable[[], Instance]] = {
    "LG6": linear_gaussian(200, 50, 6),
    "LG8": linear_gaussian(200, 50, 8),
    "LG10": linear_gaussian(200, 50, 10),
    "LG8-noise1.5": linear_gaussian(200, 50, 8, noise=1.5),
    "LG16": linear_gaussian(500, 64, 16),
    "LG16-sparse": linear_gaussian(500, 64, 16, probability=0.15),
    "LG24": linear_gaussian(1000, 64, 24, noise=1.0, probability=0.3),
    "cambridge": lambda: of_features(make_cambridge(random_state=0)),
    "bars5": lambda: of_features(make_bars(random_state=0)),
    "bars8": lambda: of_features(make_bars(500, size=8, random_state=0)),
    "dice": lambda: of_features(make_dice(random_state=0)),
    **{f"tabletop-K{K}": tabletop(K) for K in (5, 6, 7, 8)},
    "tabletop-20": tabletop(penalty=20.0),
    "mixture20": mixture((2000, 10, 20), 4.0, 400.0),
    "mixture20-60": mixture((2000, 10, 20), 4.0, 60.0),
    "mixture40": mixture((5000, 16, 40), 3.0, 600.0),
    "mixture15": mixture((2000, 2, 15), 5.0, 60.0),
}
