"""Dice without noise and Cambridge bars with noise: what they are made of is known, and found."""

from functools import partial
from typing import Any

import numpy as np

from madbayes import BPMeans, KFeatures, match
from madbayes.datasets import FeatureData, make_cambridge, make_dice
from madbayes.display import plot_model
from madbayes.experiments.parts import Experiment, Findings, Part, Work, data_digest

# More than a feature fitted to the noise of the bars saves, less than one of the four shapes does.
BARS_PENALTY = 60.0


def experiment(*, seed: int = 0, n_jobs: int | None = -1, quick: bool = False) -> Experiment:
    """The parts of the experiment, ready to run.

    Parameters
    ----------
    seed : int
        Same seed, same answers.
    n_jobs : int, optional
        Threads.
    quick : bool
        Fewer pictures.

    Returns
    -------
    Experiment
    """
    dice = make_dice(60 if quick else 200, noise=0.0, random_state=seed)
    bars = make_cambridge(60 if quick else 100, random_state=seed)
    options = {"random_state": seed, "n_jobs": n_jobs}
    parts = [
        Part("dice", "Dice with four pips, without noise", partial(dice_findings, dice, options), {"seed": seed}),
        Part("bars", "Cambridge bars, with noise", partial(bars_findings, bars, options), {"seed": seed}),
    ]
    about = [
        f"{len(dice.X)} generated pictures of dice and {len(bars.X)} of the Cambridge bars; their features are known."
    ]
    return Experiment("dice", "Dice and bars", about, data_digest(dice.X, bars.X), parts)


def dice_findings(data: FeatureData, options: dict[str, Any], work: Work) -> Findings:
    """K-features with K = 4."""
    model = KFeatures(4, **options).fit(data.X)
    found = match(data.Z, model.allocations_)
    exact = bool((found.group_agreement == 1).all() and np.allclose(model.components_[found.order], data.A))
    rows = [row("dice", data, model, found)]
    words = "found exactly" if exact else "NOT found"
    verdict = f"Dice: the four pips are {words}, the objective is {model.objective_:.2g}."
    figures = {"The features found; pictures, and the same rebuilt": plot_model(data.X, model, shape=(8, 8))}
    return Findings([verdict], {"recovery": rows}, figures, {"exact": exact})


def bars_findings(data: FeatureData, options: dict[str, Any], work: Work) -> Findings:
    """BP-means, the number of features not given."""
    model = BPMeans(BARS_PENALTY, **options).fit(data.X)
    found = match(data.Z, model.allocations_)
    rows = [row("Cambridge bars", data, model, found)]
    off = float(np.abs(model.components_[found.order] - data.A).max()) if (found.order >= 0).all() else None
    verdict = (
        f"Cambridge bars: {model.n_components_} features at a penalty of {BARS_PENALTY:g}; {found.agreement:.1%} of "
        "the memberships are those that the pictures were made with"
    )
    verdict += f", and no pixel of the four shapes is off by more than {off:.2f}." if off is not None else "."
    figures = {"The features found; pictures, and the same rebuilt": plot_model(data.X, model, shape=(6, 6))}
    return Findings([verdict], {"recovery": rows}, figures, {"largest error of a pixel": off})


def row(name: str, data: FeatureData, model: Any, found: Any) -> dict[str, Any]:
    """What there was, and what was found."""
    return {
        "pictures of": name,
        "features": len(data.A),
        "found": model.n_components_,
        "squared error": model.sse_,
        "memberships that agree": found.agreement,
    }
