"""Why there are so many groups, and how far to trust them, in sentences."""

from math import ceil

import numpy as np

from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.base import GroupEstimator
from madbayes.words import counted, exact_percent, number, percent

# Groups that a sentence names one by one, at most.
SHOWN = 20
# A range this wide is as good as without end.
ENDLESS = 1e6


def kind_of(model: GroupEstimator) -> str:
    """Clusters or features."""
    return "features" if model._adds_up else "clusters"


def evidence(model: GroupEstimator, path: PenaltyPath | None) -> list[str]:
    """Why there are so many groups."""
    if path is not None and hasattr(model, "path_"):
        sentences = [*path_words(path, kind_of(model)), *_chosen(model, path)]
    else:
        sentences = [_given(model), *_not_asked(model, path)]
    if not model.converged_:
        sentences.append("The search was stopped before its end: what is told is the best so far.")
    gap, kind = model.optimality_gap_, kind_of(model)
    if gap is not None and gap < 0.5:
        sentences.append(f"No other {kind} can lower the objective by more than {max(1, ceil(100 * gap))} %.")
    return sentences


def _given(model: GroupEstimator) -> str:
    """Of a fit whose penalty or number was given."""
    one, many = kind_of(model)[:-1], kind_of(model)
    if hasattr(model, "n_components"):
        return f"The number of {many} was given."
    if model.penalty_ == 0 and model._cap() is not None:
        return f"The number of {many} was given: {model._cap()}."
    if _is_full(model):
        K = model._n_features_out
        return f"At most {counted(K, one)} {'was' if K == 1 else 'were'} asked for."
    words, share = f"The penalty was given: one more {one} costs {number(model.penalty_)}", model.penalty_share_
    if np.isfinite(share) and not hasattr(model, "covariances_"):
        part = percent(share) if share >= 0.01 else exact_percent(share)
        words += f", which is {part} of the squared error about the mean"
    return f"{words}."


def _is_full(model: GroupEstimator) -> bool:
    """Whether there are as many groups as there may be, at a penalty that might allow more."""
    return not hasattr(model, "n_components") and model.penalty_ > 0 and model._cap() == model._n_features_out


def _not_asked(model: GroupEstimator, path: PenaltyPath | None) -> list[str]:
    """What speaks for another number than the one that was given."""
    kind = kind_of(model)
    if path is None or not path.ratios:
        return ["There may be more."] if _is_full(model) else []
    if not path.candidates:
        return [f"The rows themselves speak for no number of {kind}: none stands out against tables without groups."]
    return [f"The rows themselves speak for {counted(path.best, kind[:-1])}{' (weakly)' if path.is_weak else ''}."]


def _chosen(model: GroupEstimator, path: PenaltyPath) -> list[str]:
    """Of a fit whose penalty comes from the path."""
    K, (one, many) = model._n_features_out, (kind_of(model)[:-1], kind_of(model))
    if path.best != K:
        return [f"The fit to all rows at the penalty chosen, {number(model.penalty_)}, has {K}."]
    return [] if path.candidates else [f"{counted(K, one) if K else f'No {many}'} is the simplest answer."]


def path_words(path: PenaltyPath, kind: str) -> list[str]:
    """What a path says about the number of groups, in sentences."""
    if not path.ratios:
        sentences = ["There was no number of groups to choose: the table is too small or too simple."]
    elif not path.candidates:
        words = f"No groups found: no number of {kind} is best over a wider range of penalties"
        sentences = [f"{words} than in tables without groups."]
    else:
        sentences = [_interval_words(path, kind), *_alternatives(path)]
    if path.n_outliers:
        words = "1 row was" if path.n_outliers == 1 else f"{path.n_outliers} rows were"
        sentences.append(f"{words} set aside when the number was chosen, as outliers: their groups are too small.")
    return sentences


def _interval_words(path: PenaltyPath, kind: str) -> str:
    """How wide the range of penalties is at which the chosen number is best."""
    K = path.best
    lo, hi = path.intervals[K]
    verdict = "The evidence is weak" if path.is_weak else "The evidence is clear"
    groups = f"{counted(K, kind[:-1])} {'is' if K == 1 else 'are'}"
    words = f"{verdict}: {groups} best for penalties from {number(lo)} to {number(hi)}, {_times(path.ratios[K])}"
    if path.null_ratio is None:
        return f"{words}; no tables without groups were looked at."
    if path.ratios[K] < path.null_ratio and K in path.outer_ratios:
        words += f", and {_times(path.outer_ratios[K])} without the numbers next to it"
    if path.null_ratio >= ENDLESS:
        return f"{words}; in tables without groups it may be as wide as can be."
    return f"{words}; tables without groups hardly ever exceed {_times(path.null_ratio)}."


def _alternatives(path: PenaltyPath) -> list[str]:
    others = [f"{K} ({_times(path.ratios[K])})" for K in path.candidates[1:]]
    return [f"Also plausible: {', '.join(others)}."] if others else []


def _times(ratio: float) -> str:
    """How wide a range is."""
    return f"a factor of {ratio:.3g}" if ratio < ENDLESS else "a range without end"


def stability_words(model: GroupEstimator, stability: Stability | None) -> list[str]:
    """What came back in refits."""
    if stability is None:
        return []
    refits, K = len(stability.matches), len(stability.group_agreement)
    sentences = [
        f"In {counted(refits, 'refit')} to {percent(stability.share)} of the rows, {percent(stability.agreement)} of "
        "the memberships came back."
    ]
    same = int((stability.n_groups == K).sum())
    if same < refits:
        low, high = stability.n_groups.min(), stability.n_groups.max()
        found = f"{low} to {high}" if high > low else f"{low}"
        sentences.append(f"{same} of the refits found {K} groups; the numbers found are {found}.")
    return [*sentences, stability.verdict(model.group_names_)]
