"""Squared errors for each number of features, and the penalties at which five are best."""

from typing import Any

import numpy as np

from madbayes import BPMeans, KFeatures, StepwiseKFeatures, match, penalty_path
from madbayes.experiments.codes import on_a_base
from madbayes.experiments.parts import Findings, Rows, Work
from madbayes.experiments.tabletop_setup import Effort, Tabletop

# Of the code that came with the paper.
PUBLISHED = {1: 615.9, 2: 423.2, 3: 295.3, 4: 205.8, 5: 161.2, 6: 156.1, 7: 150.9, 8: 143.5}


def findings(table: Tabletop, effort: Effort, work: Work) -> Findings:
    """K-features for K = 1 to 8, the path, and what three ways of choosing K choose."""
    errors = squared_errors(table, effort, work)
    work.progress("The path of penalties", 0, 0)
    options: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.n_jobs, "n_null": effort.n_null}
    path = penalty_path(table.X, "features", max_components=effort.largest, **options)
    chosen = choices(table, effort, path)
    verdict = error_words(errors) + choice_words(chosen, path, effort.penalty) + truth_words(table, effort)
    tables = {
        "squared errors": errors,
        f"chosen at penalty {effort.penalty:g}": chosen,
        "best for": interval_rows(path),
    }
    return Findings(verdict, tables, {}, {"best": path.best, "interval": path.intervals[path.best]})


def squared_errors(table: Tabletop, effort: Effort, work: Work) -> Rows:
    """The best squared error for each number of features, beside the published one if the pictures are those."""
    rows: Rows = []
    for K in range(1, effort.largest + 1):
        work.progress("K-features", K - 1, effort.largest)
        model = KFeatures(K, random_state=effort.seed, n_jobs=effort.n_jobs).fit(table.X)
        rows.append({"features": K, "squared error": model.sse_})
        if table.Z is None:
            rows[-1] |= {"published": PUBLISHED[K], "difference": model.sse_ - PUBLISHED[K]}
    return rows


def interval_rows(path: Any) -> Rows:
    """Where each number of features is best."""
    return [{"features": K, "from penalty": lo, "to penalty": hi} for K, (lo, hi) in sorted(path.intervals.items())]


def choices(table: Tabletop, effort: Effort, path: Any) -> Rows:
    """How many features three searches choose at the same penalty."""
    options: dict[str, Any] = {"random_state": effort.seed, "n_jobs": effort.n_jobs}
    models = {
        "stepwise K-features": StepwiseKFeatures(effort.penalty, **options),
        "BP-means": BPMeans(effort.penalty, **options),
    }
    rows: Rows = []
    for name, model in models.items():
        model.fit(table.X)
        rows.append({"search": name, "features": model.n_components_, "objective": model.objective_})
    values = path.sse + effort.penalty * path.n_components
    at = int(values.argmin())
    return [*rows, {"search": "path", "features": int(path.n_components[at]), "objective": values[at]}]


def error_words(errors: Rows) -> list[str]:
    """Whether the published errors are reached."""
    if "published" not in errors[0]:
        return []
    first, rest = errors[:5], errors[5:]
    off = max(abs(row["difference"]) for row in first)
    words = [f"Squared errors for 1 to 5 features are the published ones {'' if off <= 0.1 else 'only '}to {off:.2g}."]
    others = [f"{row['squared error']:.1f} for {row['features']} (published: {row['published']:g})" for row in rest]
    return words + ([f"For more features they are {', '.join(others)}."] if others else [])


def choice_words(chosen: Rows, path: Any, penalty: float) -> list[str]:
    """What is chosen, and over which penalties that holds."""
    numbers = {row["features"] for row in chosen}
    K = chosen[-1]["features"]
    lo, hi = path.intervals[K]
    found = f"all give {K} features" if len(numbers) == 1 else f"differ: {sorted(numbers)} features"
    return [
        f"At a penalty of {penalty:g} stepwise K-features, BP-means and the path {found}; "
        f"{K} are best for all penalties from {lo:.3g} to {hi:.3g}.",
        "The paper's penalty of 1 is on a scale of the data that it does not state; ours is that of pictures from 0 to "
        "1 divided by the root of one less than their number.",
    ]


def truth_words(table: Tabletop, effort: Effort) -> list[str]:
    """How far the features are the objects, where these are known."""
    if table.Z is None:
        return []
    model = BPMeans(effort.penalty, random_state=effort.seed, n_jobs=effort.n_jobs).fit(table.X)
    truth = np.column_stack([np.ones(len(table.Z), dtype=np.uint8), table.Z])
    share = match(truth, on_a_base(table.X, model.allocations_)[0]).agreement
    return [f"The features agree with the objects that the generated pictures show in {share:.1%} of the memberships."]
