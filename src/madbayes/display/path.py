"""How many groups: the penalty path as a picture."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes.display.figures import CHOSEN, NULL, PLAIN, PLAUSIBLE, Display, count_on
from madbayes.engine.path import WIDEST, PenaltyPath

Kind = Literal["intervals", "sse"]
# Numbers of groups drawn at least, if there are so many.
SHOWN = 16


class PathDisplay(Display):
    """A penalty path.

    Parameters
    ----------
    path : PenaltyPath
        What to draw.

    Attributes
    ----------
    ax_ : axis
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.display import PathDisplay
    >>> from madbayes.engine.path import PenaltyPath
    >>> path = PenaltyPath(np.array([1, 2, 3, 4]), np.array([100.0, 60.0, 10.0, 9.0]), [None] * 4)
    >>> PathDisplay(path).plot().ax_.get_xlabel()
    'penalty'
    """

    def __init__(self, path: PenaltyPath) -> None:
        self.path = path

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw the path that a model fitted with ``penalty="auto"`` has taken.

        Parameters
        ----------
        estimator : fitted estimator
            With ``path_``.
        ax : axis, optional
            Where to draw; a new figure if not given.
        **options
            As in :meth:`plot`.

        Returns
        -------
        PathDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "path_"):
            raise ValueError(
                f'this {type(estimator).__name__} has no path_: fit it with penalty="auto", or draw penalty_path(X)'
            )
        return cls(estimator.path_).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, kind: Kind = "intervals", max_groups: int | None = None) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : axis, optional
            Where to draw; a new figure if not given.
        kind : {"intervals", "sse"}
            For each number of groups the penalties at which it is best, and in grey how wide a range groupless
            data would give, though what it is without its neighbours counts as well; or the squared error for each
            number of groups.
        max_groups : int, optional
            Numbers of groups up to this one are drawn; 16, or twice the largest plausible, if not given.

        Returns
        -------
        self
        """
        draw = {"intervals": self._draw_intervals, "sse": self._draw_sse}
        if kind not in draw:
            raise ValueError(f"kind={kind!r} is not accepted: give 'intervals' or 'sse'")
        self.max_groups = max_groups or max(SHOWN, *(2 * K for K in (self.path.best, *self.path.candidates)))
        draw[kind](self._at(ax, 2.7, 3.7))
        return self

    def _draw_intervals(self, ax: Any) -> None:
        path, labelled = self.path, set[str]()

        def label(words: str) -> str | None:
            is_new = words not in labelled
            labelled.add(words)
            return words if is_new else None

        for K, (lo, hi) in path.intervals.items():
            if self.max_groups < K:
                continue
            left, right = drawn_ends(lo, hi)
            words, colour = self._role(K)
            ax.plot([left, right], [K, K], color=colour, linewidth=5, solid_capstyle="butt", label=label(words))
            if path.null_ratios and K in path.contenders:
                middle, half = np.sqrt(left * right), np.sqrt(min(path.null_reach(K), WIDEST))
                ax.plot(
                    [middle / half, middle * half], [K, K], color=NULL, linewidth=1.5, marker="|", markersize=9,
                    label=label("at most this wide in groupless data"),
                )  # fmt: skip
        ax.set(xscale="log", xlabel="penalty", ylabel="groups")
        self._finish(ax, ax.yaxis)

    def _draw_sse(self, ax: Any) -> None:
        path, drawn = self.path, self.path.n_components <= self.max_groups
        numbers, sse = path.n_components[drawn], path.sse[drawn]
        ax.plot(numbers, sse, "-", color=PLAIN, linewidth=1)
        for K, error in zip(numbers, sse, strict=True):
            ax.plot([K], [error], "o", color=self._role(int(K))[1])
        for K in dict.fromkeys([path.best, *path.candidates]):
            words, colour = self._role(K)
            ax.plot([], [], "o", color=colour, label=f"{words}: {K}")
        ax.set(xlabel="groups", ylabel="squared error", ylim=(0, None))
        self._finish(ax, ax.xaxis)

    def _role(self, K: int) -> tuple[str, str]:
        """What a number of groups is, in words and colour."""
        if self.path.best == K:
            return "best", CHOSEN
        return ("also plausible", PLAUSIBLE) if K in self.path.candidates else ("other numbers", PLAIN)

    def _finish(self, ax: Any, counts: Any) -> None:
        count_on(counts)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize="small", frameon=False)


def drawn_ends(lo: float, hi: float) -> tuple[float, float]:
    """The ends of an interval as they are drawn: those that do not exist a decade away."""
    left = lo or (hi / 10 if np.isfinite(hi) else 1.0)
    return left, hi if np.isfinite(hi) else 10 * left
