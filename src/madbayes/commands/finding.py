"""From numbers to a model, its path and its stability, as the settings of a command ask for them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes import BPMeans, DPMeans, penalty_path, stability
from madbayes.commands.console import log
from madbayes.commands.errors import Interrupts, UsageError
from madbayes.commands.options import SAME, Settings, penalty_of
from madbayes.commands.sampling import Sample, drawn_rows
from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.base import PATH_LENGTH, GroupEstimator
from madbayes.estimators.checkpoints import check_folder
from madbayes.evidence import path_words
from madbayes.files import plain
from madbayes.sources import FileRows
from madbayes.words import number

# Numbers of groups that a printed path shows, unless the best one is higher.
PATH_SHOWN = 20
# Rows that refits look at, at most.
REFIT_ROWS = 2000
# A look at a few numbers of groups, for those who have no time.
QUICK = {"max_components": 8, "max_rows": 200, "n_null": 0}


def find(
    X: NDArray | FileRows,
    sample: Sample,
    settings: Settings,
    stopped: Interrupts,
    start: GroupEstimator | None = None,
) -> tuple[GroupEstimator, PenaltyPath | None]:
    """The model, and the path if it was needed to find it; with the ids of an earlier one where it is continued."""
    if start is not None and settings.groups is None and settings.penalty == SAME:
        settings = replace(settings, penalty=str(start.penalty_ * X.shape[0] / start._total))
    model, found = find_groups(X, sample, settings, stopped, start)
    if start is not None:
        # Once more, for a start of too many groups was none; the file of a result has no other result in it.
        model.set_params(init=None)._name_groups(start)
    return model, found


def find_groups(
    X: NDArray | FileRows, sample: Sample, settings: Settings, stopped: Interrupts, start: GroupEstimator | None
) -> tuple[GroupEstimator, PenaltyPath | None]:
    """The same before it has ids; the path is that of the sample."""
    try:
        if settings.groups is not None:
            found = find_path(sample, settings)
            return fit_near_groups(X, settings, found, start), found
        model = fitted_to(estimator(settings, penalty_of(settings.penalty), start=start), X)
        return model, getattr(model, "path_", None)
    except KeyboardInterrupt:
        if not stopped.happened:
            raise
    # There was no result to keep: a quick look finds one, unless Ctrl-C is pressed once more.
    log.warning("stopped early: finishing with a quick look, Ctrl-C stops that too")
    found = find_path(sample, settings, **QUICK)
    settings = replace(settings, groups=min(settings.groups, 8) if settings.groups else None)
    if settings.groups is not None:
        model = near_groups(settings, found, int(settings.groups), start)
    else:
        chosen = penalty_of(settings.penalty)
        model = estimator(settings, found.suggest() if chosen == "auto" else chosen, start=start)
    return fitted_to(model.set_params(time_limit=1.0, n_init=2, checkpoint=None), X), found


def estimator(
    settings: Settings, penalty: float | str, most: int | None = None, start: GroupEstimator | None = None
) -> GroupEstimator:
    """The model to fit; a start of more groups than there may be is none."""
    too_many = start is not None and most is not None and len(start.group_ids_) > most
    common: dict[str, Any] = {
        "random_state": settings.seed,
        "n_jobs": settings.jobs,
        "init": None if too_many else start,
        "memory_limit": settings.memory_limit,
        "spill_dir": settings.spill_dir,
        "checkpoint": settings.checkpoint,
    }
    if settings.kind == "clusters":
        return DPMeans(penalty, max_clusters=most, **common)
    return BPMeans(penalty, max_components=most, **common)


def fitted_to(model: GroupEstimator, X: NDArray | FileRows) -> GroupEstimator:
    """The model of these rows."""
    try:
        return model.fit(X)
    except ValueError as error:
        raise in_options(error) from error


def in_options(error: ValueError) -> ValueError:
    """What a user can put right, told in terms of options."""
    found = re.match(r"(memory_limit|checkpoint)(=?)", str(error))
    if found is None:
        return error
    option = f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}"
    return UsageError(f"{option}{str(error)[found.end() :]}")


def check_checkpoint(folder: str | None) -> None:
    """Refuse a place for the state of the fit before there is work that could be lost."""
    try:
        if folder is not None:
            check_folder(folder)
    except ValueError as error:
        raise in_options(error) from error


def fit_near_groups(
    X: NDArray | FileRows, settings: Settings, found: PenaltyPath, start: GroupEstimator | None = None
) -> GroupEstimator:
    """A model of so many groups, or nearly."""
    wanted = int(settings.groups or 1)
    model = fitted_to(near_groups(settings, found, wanted, start), X)
    if len(model.group_names_) < wanted < max(found.intervals):
        # Fewer are best where the path, which looks less far, has so many: a lower penalty gives them.
        # It is another fit, with a state of its own.
        place = settings.checkpoint and str(Path(settings.checkpoint, "next"))
        model = fitted_to(near_groups(settings, found, wanted + 1, start).set_params(checkpoint=place), X)
    return model


def near_groups(
    settings: Settings, found: PenaltyPath, least: int, start: GroupEstimator | None = None
) -> GroupEstimator:
    """A model of at most the groups wanted, at a penalty where so many are best, or else the next higher number."""
    wanted, most = int(settings.groups or 1), max(found.intervals)
    if least > most:
        log.warning("%d groups are more than the rows tell apart: %d at most", wanted, most)
    K = min((K for K in found.intervals if least <= K), default=most)
    return estimator(settings, found.suggest(K), wanted, start)


def find_path(sample: Sample, settings: Settings, **options: Any) -> PenaltyPath:
    """Which penalties each number of groups is best for; with no more care than an estimator takes, unless said."""
    wanted = settings.groups or 0
    given: dict[str, Any] = {
        "max_components": wanted + 2 if wanted >= PATH_LENGTH else None,
        "thorough": False,
        **options,
    }
    common: dict[str, Any] = {"random_state": settings.seed, "n_jobs": settings.jobs}
    return penalty_path(sample.X, settings.kind, sample_weight=sample.weights, **common, **given)


def refit(sample: Sample, model: GroupEstimator, settings: Settings) -> Stability:
    """How stable the groups are, judged by some of the rows where there are many."""
    X, weights = sample.X, sample.weights
    if len(X) > REFIT_ROWS:
        X = X[drawn_rows(X, REFIT_ROWS, settings.seed)]
        weights = np.full(REFIT_ROWS, sample.n_rows / REFIT_ROWS)
    return stability(
        X,
        model,
        n_refits=settings.refits,
        sample_weight=weights,
        random_state=settings.seed,
        n_jobs=settings.jobs,
    )


def path_values(found: PenaltyPath, settings: Settings) -> dict[str, Any]:
    """A path in plain values, with what it is a path of."""
    return {"kind": settings.kind, **found.to_dict(), "suggested_penalty": plain(found.suggest())}


def path_lines(found: PenaltyPath, kind: str) -> str:
    """A path as lines of text."""
    lines = [*path_words(found, kind), "", f"{'groups':>6}  {'squared error':>13}  best for penalties"]
    shown = max(PATH_SHOWN, len(found.n_components[found.n_components <= found.best]) + 5)
    for K, sse in list(zip(found.n_components.tolist(), found.sse.tolist(), strict=True))[:shown]:
        if K in found.intervals:
            low, high = found.intervals[K]
            ends = f"from {number(low)} to {number(high)}" if np.isfinite(high) else f"from {number(low)} on"
        else:
            ends = "-"
        mark = "  <- best" if found.best == K else ""
        lines.append(f"{K:>6}  {number(sse):>13}  {ends}{mark}")
    if len(found.n_components) > shown:
        lines.append(f"... and {len(found.n_components) - shown} more: --json has all of them")
    return "\n".join(lines)
