"""Rows as pictures inside the page."""

from base64 import b64encode
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.checks import is_number

# Colours of what a feature takes, leaves and adds.
TAKES, NOTHING, ADDS = np.array([[178, 84, 38], [250, 250, 248], [32, 90, 150]], dtype=np.float64)
# What counts as missing is drawn in this colour.
ERRORS = np.array([150, 40, 60], dtype=np.float64)


def check_shape(shape: tuple[int, ...], n_columns: int) -> tuple[int, ...]:
    """The shape of a picture, which must have as many numbers as a row."""
    shape = tuple(shape)
    whole = all(is_number(side, int) and side > 0 for side in shape)
    if not whole or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)) or np.prod(shape) != n_columns:
        raise ValueError(
            f"image_shape={shape} is not accepted for rows of {n_columns} numbers: give (height, width), or "
            "(height, width, 3) for colour"
        )
    return shape


class Painter(NamedTuple):
    """Draws rows that are pictures of one shape."""

    shape: tuple[int, ...]
    low: float  # what is drawn black
    high: float  # what is drawn white

    def picture(self, row: NDArray, size: int) -> str:
        """A row, as the address of a picture with no side longer than ``size`` pixels."""
        span = self.high - self.low or 1.0
        return _address(255 * (row.reshape(self.shape) - self.low) / span, size)

    def part(self, row: NDArray, size: int) -> str:
        """What a feature adds to a picture and takes from it."""
        strength = row.reshape(self.shape) / (np.abs(row).max(initial=0.0) or 1.0)
        if len(self.shape) == 3:
            return _address(127.5 * (1 + strength), size)
        return _address(_mixed(NOTHING, np.where(strength[..., None] > 0, ADDS, TAKES), np.abs(strength)), size)

    def heat(self, row: NDArray, size: int) -> str:
        """Amounts, none of them negative."""
        amounts = row.reshape(self.shape)
        amounts = amounts.mean(axis=2) if len(self.shape) == 3 else amounts
        return _address(_mixed(NOTHING, ERRORS, amounts / (amounts.max() or 1.0)), size)


def _mixed(ground: NDArray, colour: NDArray, amount: NDArray) -> NDArray:
    """A colour laid over the ground."""
    return ground + amount[..., None] * (colour - ground)


def _address(values: NDArray, size: int) -> str:
    """A picture as part of the page: a data URI."""
    from PIL import Image

    image = Image.fromarray(np.clip(np.round(values), 0, 255).astype(np.uint8))
    if max(image.size) > size:
        image.thumbnail((size, size), Image.Resampling.BOX)
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(file.getvalue()).decode()
