"""Figures, and what all displays share."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES = 1.3  # the size of one image and its title
# Ink: what is chosen, what else is plausible, the rest, and what groupless data give.
CHOSEN, PLAUSIBLE, PLAIN, NULL = "#d95f02", "#e6ab02", "#4c72b0", "#999999"


def new_figure(n_lines: float, n_columns: float) -> "Figure":
    """Make an empty figure with room for lines of images, and no window behind it."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "madbayes[plot]"') from error
    return Figure(figsize=(INCHES * n_columns, INCHES * n_lines), layout="constrained")


def divide(ax: "Axes", n_lines: int, n_columns: int, **options: Any) -> NDArray[np.object_]:
    """Axes in lines and columns in the place of one, which stays as an empty frame around them."""
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError("ax has no place in a grid of axes: make it with subplots or add_subplot")
    ax.set_axis_off()
    spec = place.subgridspec(n_lines, n_columns, **options)
    figure = ax.figure
    axes = [[figure.add_subplot(spec[i, j]) for j in range(n_columns)] for i in range(n_lines)]
    return np.array(axes, dtype=object)


def count_on(axis: Any) -> None:
    """Whole numbers only along the x or y axis."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def png_of(figure: "Figure", dpi: int) -> bytes:
    """A figure as the bytes of a picture."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()


class Display:
    """A picture with data behind it: ``plot`` draws it, ``ax_`` and ``figure_`` are where it was drawn.

    A notebook shows the picture of a display that was drawn.
    """

    ax_: Any
    figure_: Any

    def _at(self, ax: Any, n_lines: float, n_columns: float) -> Any:
        """The axis to draw on: that of the user, or the only one of a new figure."""
        self.ax_ = new_figure(n_lines, n_columns).subplots() if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_

    def _repr_png_(self) -> bytes | None:
        if not hasattr(self, "figure_"):
            return None
        return png_of(self.figure_, dpi=100)


def group_names(estimator: Any, word: str, K: int) -> list[str]:
    """The names of the groups of our models, which the user may have given; numbers where a model has none."""
    return check_names(getattr(estimator, "group_names_", None), K, word)


def check_names(names: Sequence[str] | None, K: int, word: str) -> list[str]:
    """One name for each of K things."""
    names = [f"{word} {k}" for k in range(K)] if names is None else list(names)
    if len(names) != K:
        raise ValueError(f"{len(names)} names for {K} of them: give one each")
    return names
