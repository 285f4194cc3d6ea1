"""Figures of the experiments: pictures as they are, and bars."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from madbayes.display.figures import new_figure
from madbayes.display.images import count_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, TITLE = 2.4, 0.3  # of a picture and of the line above it, in inches


def plot_pictures(pictures: Sequence[NDArray], titles: Sequence[str], *, n_columns: int) -> "Figure":
    """Pictures from 0 (black) to 1 (white), grey or coloured, with a title above each."""
    n_lines = count_lines(len(pictures), n_columns)
    figure = new_figure(n_lines, n_columns)
    height, width = pictures[0].shape[:2]
    figure.set_size_inches(WIDTH * n_columns, (WIDTH * height / width + TITLE) * n_lines)
    axes = figure.subplots(n_lines, n_columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, picture, title in zip(axes, pictures, titles, strict=False):  # the last line may have room to spare
        axis.imshow(np.clip(picture, 0, 1), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title, fontsize="small")
    return figure


def around_grey(parts: NDArray, signs: NDArray | None = None) -> NDArray:
    """Parts of pictures, which add to them or take from them, as pictures: grey is no change."""
    signs = np.ones(len(parts)) if signs is None else signs
    largest = np.abs(parts).max(initial=1e-12)
    return 0.5 + 0.5 * parts * signs.reshape(-1, *(1,) * (parts.ndim - 1)) / largest


def plot_counts(counts: Mapping[int, int], words: str) -> "Figure":
    """Bars, one for each number."""
    figure = new_figure(3, 5)
    axis = figure.subplots()
    axis.bar(list(counts), list(counts.values()), color="0.35", width=0.9)
    axis.set_xlabel(words)
    axis.set_ylabel("draws")
    axis.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    return figure
