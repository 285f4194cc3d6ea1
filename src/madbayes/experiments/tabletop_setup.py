"""The pictures of the tabletop experiment, and how much is done with them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.experiments.scenes import make_tabletop
from madbayes.pictures import Projection, load_tabletop, project

# Squared error of one more feature. Five features are best from about 11 to 44.6 on the scale of the loader.
PENALTY = 20.0
SOURCE = (
    "The paper uses 100 pictures of four objects on a table, taken by Griffiths and Ghahramani (cite: The Indian "
    "Buffet Process: An Introduction and Review, JMLR 12, 2011, 1185-1224). They come with the code of the paper, "
    "Picture_1.jpg to Picture_100.jpg, and cannot be shipped with madbayes: put them in a folder and name it with "
    "--data."
)


class Effort(NamedTuple):
    """How much is run."""

    penalty: float = PENALTY
    seed: int = 0
    n_jobs: int | None = -1
    n_restarts: int = 1000  # of BP-means and collapsed BP-means
    n_stepwise: int = 300  # of K-features for each K
    n_sweeps: int = 1000  # of a Gibbs sampler
    n_draws: int = 100  # that count, at the end of a chain
    n_grid: int = 5  # values of each parameter
    largest: int = 8  # number of features to look at
    n_repeats: int = 3  # of all that is timed; the shortest time counts
    n_null: int = 5  # tables without groups that the path is compared with

    @classmethod
    def quick(cls, penalty: float, seed: int, n_jobs: int | None) -> "Effort":
        """Enough to see that everything works, not enough for figures."""
        return cls(penalty, seed, n_jobs, 20, 20, n_sweeps=80, n_draws=20, n_grid=2, largest=6, n_repeats=1, n_null=1)


class Tabletop(NamedTuple):
    """The pictures as a table."""

    projection: Projection
    Z: NDArray[np.uint8] | None  # which picture has which object, where that is known
    about: str  # what they are, in words

    @property
    def X(self) -> NDArray:
        """What is fitted."""
        return self.projection.X


def tabletop(data: str | Path | None, seed: int = 0) -> Tabletop:
    """The pictures in a folder, checked to be those of the paper, or generated ones without a folder."""
    if data is not None:
        return Tabletop(load_tabletop(data), None, "The 100 tabletop pictures of the paper, checked by SHA-256.")
    pictures, Z = make_tabletop(random_state=seed)
    projection = project(pictures, 100, scale=1 / np.sqrt(len(Z) - 1))
    return Tabletop(projection, Z, f"Generated pictures of a table with four objects. {SOURCE}")
