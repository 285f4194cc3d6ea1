"""How the objective fell."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from madbayes.display.figures import CHOSEN, PLAIN, Display, count_on, divide
from madbayes.paper import Run


class TraceDisplay(Display):
    """The objective along the best run, and where the other runs ended.

    Parameters
    ----------
    trace : array-like of float
        The objective along the best run.
    runs : sequence of Run
        All runs.
    unit : str
        What lies between two values of the trace.
    word : str
        What a run is called.

    Attributes
    ----------
    trace_ax_, runs_ax_ : axes
        For the best run, and for where all of them ended; the second is missing if there are no runs.
    ax_ : axis
        The frame around them.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from madbayes.display import TraceDisplay
    >>> TraceDisplay([5.0, 3.0, 2.5]).plot().trace_ax_.get_ylabel()
    'objective'
    """

    def __init__(
        self, trace: ArrayLike, runs: Sequence[Run] = (), *, unit: str = "iterations", word: str = "runs"
    ) -> None:
        self.trace: NDArray[np.float64] = np.asarray(trace, dtype=np.float64)
        self.runs, self.unit, self.word = list(runs), unit, word

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw how a model was fitted.

        Parameters
        ----------
        estimator : fitted estimator
            With ``objective_trace_`` and ``runs_``.
        ax : axis, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        TraceDisplay
        """
        check_is_fitted(estimator)
        is_paper = estimator.search_info_["search"] == "paper"
        rows = estimator.labels_ if hasattr(estimator, "labels_") else estimator.allocations_
        # What was found on a sample is improved on all rows by the paper's algorithm.
        unit = "iterations" if is_paper or len(rows) > estimator._search_rows else "improvements"
        word = "runs" if is_paper else "lineages"
        return cls(estimator.objective_trace_, estimator.runs_, unit=unit, word=word).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the trace, and beside it the values of all runs, best first.

        Parameters
        ----------
        ax : axis, optional
            Where to draw, an axis of a grid; a new figure if not given.

        Returns
        -------
        self
        """
        frame = self._at(ax, 2.5, 5.0)
        if self.runs:
            ((self.trace_ax_, self.runs_ax_),) = divide(frame, 1, 2, width_ratios=[3, 2])
            self._draw_runs(self.runs_ax_)
        else:
            ((self.trace_ax_,),) = divide(frame, 1, 1)
        axis, finite = self.trace_ax_, np.isfinite(self.trace)
        axis.plot(np.flatnonzero(finite), self.trace[finite], "o-", color=CHOSEN, markersize=3)
        axis.set(xlabel=self.unit, ylabel="objective")
        axis.set_title("the best of them" if self.runs else "", fontsize="medium")
        for axis in (self.trace_ax_, *([self.runs_ax_] if self.runs else [])):
            count_on(axis.xaxis)
            axis.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_runs(self, axis: Any) -> None:
        runs = sorted((run for run in self.runs if np.isfinite(run.value)), key=lambda run: run.value)
        best = runs[0].value if runs else 0.0
        colours = [CHOSEN if run.value <= best + 1e-9 * abs(best) else PLAIN for run in runs]
        axis.scatter(np.arange(len(runs)) + 1, [run.value for run in runs], s=14, c=colours)
        agreeing = sum(colour == CHOSEN for colour in colours)
        axis.set(xlabel=f"{self.word}, best first")
        axis.set_title(f"{agreeing} of {len(runs)} {self.word} agree", fontsize="medium")
