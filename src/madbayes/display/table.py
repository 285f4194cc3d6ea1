"""A penalty path as a small table for notebooks; it needs no matplotlib."""

from html import escape

import numpy as np

from madbayes.display.figures import CHOSEN, PLAIN, PLAUSIBLE
from madbayes.engine.path import PenaltyPath

# Pixels of the bars.
WIDTH, HEIGHT = 240, 10


def path_table(path: PenaltyPath) -> str:
    """The path in words, and for each number of groups its squared error and the penalties at which it is best."""
    scale = Scale(path)
    lines = "".join(path_line(path, int(K), sse, scale) for K, sse in zip(path.n_components, path.sse, strict=True))
    heads = "".join(f"<th>{word}</th>" for word in ("groups", "squared error", "best for penalties", "", "ratio"))
    return f"<div><p>{escape(str(path))}</p><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"


def path_line(path: PenaltyPath, K: int, sse: float, scale: "Scale") -> str:
    """One number of groups."""
    number = f"<b>{K}</b>" if path.best == K else str(K)
    cells = [number, f"{sse:.4g}", "never", "", ""]
    if K in path.intervals:
        lo, hi = path.intervals[K]
        colour = CHOSEN if path.best == K else PLAUSIBLE if K in path.candidates else PLAIN
        cells[2:4] = [f"{lo:.4g} to {hi:.4g}" if np.isfinite(hi) else f"{lo:.4g} and more", scale.bar(lo, hi, colour)]
        cells[4] = f"{path.ratios[K]:.3g}" if K in path.ratios else ""
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


class Scale:
    """Penalties on a logarithmic scale as wide as a bar may be; ends that do not exist are at its ends."""

    def __init__(self, path: PenaltyPath) -> None:
        ends = [end for pair in path.intervals.values() for end in pair if 0 < end < np.inf]
        low, high = (np.log(min(ends)), np.log(max(ends))) if ends else (0.0, 0.0)
        room = 0.1 * (high - low) or 1.0
        self.low, self.high = low - room, high + room

    def at(self, penalty: float) -> float:
        """Where a penalty is, in pixels."""
        if penalty <= 0:
            return 0.0
        if not np.isfinite(penalty):
            return float(WIDTH)
        return float(WIDTH * (np.log(penalty) - self.low) / (self.high - self.low))

    def bar(self, lo: float, hi: float, colour: str) -> str:
        """An interval as a bar."""
        left, right = self.at(lo), self.at(hi)
        shape = f'<rect x="{left:.1f}" width="{right - left:.1f}" height="{HEIGHT}" fill="{colour}"/>'
        return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{lo:.4g} to {hi:.4g}">{shape}</svg>'
