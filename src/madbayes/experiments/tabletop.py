"""The tabletop experiment: four objects on a table, in any combination."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from madbayes.experiments import tabletop_clusters, tabletop_errors, tabletop_figure, tabletop_gibbs, tabletop_times
from madbayes.experiments.parts import Experiment, Findings, Part, data_digest
from madbayes.experiments.tabletop_setup import PENALTY, Effort, tabletop


def experiment(
    data: str | Path | None = None,
    *,
    penalty: float = PENALTY,
    seed: int = 0,
    n_jobs: int | None = -1,
    quick: bool = False,
) -> Experiment:
    """The parts of the experiment, ready to run.

    Parameters
    ----------
    data : path, optional
        Folder with the paper's pictures; generated ones without it.
    penalty : float
        The price of one more feature.
    seed : int
        Same seed, same answers; times differ.
    n_jobs : int, optional
        Threads.
    quick : bool
        Few restarts and short chains.

    Returns
    -------
    Experiment
    """
    table = tabletop(data, seed)
    effort = Effort.quick(penalty, seed, n_jobs) if quick else Effort(penalty, seed, n_jobs)
    # Threads change the times only.
    settings = {key: value for key, value in effort._asdict().items() if key != "n_jobs"}
    parts: list[tuple[str, str, Callable[..., Findings], dict[str, Any]]] = [
        ("errors", "Squared errors and the number of features", tabletop_errors.findings, {}),
        ("figure", "Features as pictures", tabletop_figure.findings, {}),
        ("clusters", "Clustering the same pictures", tabletop_clusters.findings, {}),
        ("times", "Running times", tabletop_times.findings, {"n_jobs": n_jobs}),
        ("gibbs", "Numbers of features in Gibbs samplers", tabletop_gibbs.findings, {}),
    ]
    return Experiment(
        "tabletop",
        "Tabletop pictures: the paper's experiment and ours",
        [table.about],
        data_digest(table.X),
        [Part(name, title, partial(run, table, effort), settings | more) for name, title, run, more in parts],
    )
