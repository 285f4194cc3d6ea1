"""``madbayes fit`` and ``madbayes path``: from a table to groups and their number."""

import json
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

import madbayes
from madbayes import BPMeans, DPMeans, penalty_path, stability
from madbayes.commands import options, results
from madbayes.commands.console import Talk, data, log, talking
from madbayes.commands.errors import Code, Interrupts, interrupts, one_line
from madbayes.commands.intake import Intake, take_in
from madbayes.commands.options import Settings, penalty_of, settings_of
from madbayes.commands.results import Fitted
from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.base import PATH_LENGTH, GroupEstimator
from madbayes.experiments.parts import plain
from madbayes.explain import Explanation, explain
from madbayes.report import write_report

# Rows that refits look at, at most.
REFIT_ROWS = 2000
# A look at a few numbers of groups, for those who have no time.
QUICK = {"max_components": 8, "max_rows": 200, "n_null": 0}
NO_GROUPS = (
    "No number of groups stands out. Look at columns that matter (--columns), tame long tails (--scale robust), or ask "
    "for so many groups all the same (--groups 5)."
)
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow")

OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder for the results.  [default: DATA-groups]", show_default=False,
        rich_help_panel=options.RESULT,
    ),
]  # fmt: skip
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN.json", help="Settings of an earlier run; options given here come before them.",
        show_default=False, rich_help_panel=options.RESULT,
    ),
]  # fmt: skip
RefitsOption = Annotated[
    int,
    typer.Option(
        metavar="N", help="Fits to halves of the rows that tell how stable each group is; 0 for none.",
        rich_help_panel=options.HOW,
    ),
]  # fmt: skip


@one_line
def fit(
    context: typer.Context,
    data: options.DataFile = None,
    kind: options.KindOption = options.Kind.clusters,
    penalty: options.PenaltyOption = "auto",
    groups: options.GroupsOption = None,
    columns: options.ColumnsOption = None,
    leave_out: options.LeaveOutOption = None,
    id_column: options.IdOption = None,
    scale: options.ScaleOption = None,
    pca: options.PcaOption = None,
    missing: options.MissingOption = options.Missing.error,
    out: OutOption = None,
    force: options.ForceOption = False,
    config: ConfigOption = None,
    seed: options.SeedOption = 0,
    refits: RefitsOption = 10,
    jobs: options.JobsOption = -1,
    as_json: options.JsonOption = False,
    log_json: options.LogOption = False,
) -> None:
    """Find groups in a table; write a model, the groups of every row, and a report.

    Examples:

    - madbayes fit customers.csv

    - madbayes fit customers.csv --groups 8 --id-column customer_id --missing median

    - madbayes fit baskets.parquet --kind features --penalty 2% --out result

    - madbayes fit photos/ --kind features --pca 100

    Ctrl-C keeps the best result so far.
    """
    with talking(log_json=log_json, quiet=as_json) as talk, interrupts() as stopped:
        settings = settings_of(context, config)
        place = out if out is not None else Path(f"{stem_of(Path(str(settings.data)))}-groups")
        outcome = fit_table(settings, place, talk, stopped, force=force)
    if as_json:
        typer.echo(json.dumps(plain(outcome.to_dict()), indent=1))
    else:
        typer.echo(f"{outcome.explanation}\n\nReport: {place / results.REPORT}")
    if stopped.happened:
        raise typer.Exit(Code.INTERRUPTED)


@one_line
def path(
    context: typer.Context,
    data: options.DataFile = None,
    kind: options.KindOption = options.Kind.clusters,
    columns: options.ColumnsOption = None,
    leave_out: options.LeaveOutOption = None,
    id_column: options.IdOption = None,
    scale: options.ScaleOption = None,
    pca: options.PcaOption = None,
    missing: options.MissingOption = options.Missing.error,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as JSON too.", rich_help_panel=options.RESULT)
    ] = None,
    force: options.ForceOption = False,
    config: ConfigOption = None,
    seed: options.SeedOption = 0,
    jobs: options.JobsOption = -1,
    as_json: options.JsonOption = False,
    log_json: options.LogOption = False,
) -> None:
    """How many groups there are: the penalties at which each number of them is best.

    The number that is best over the widest range of penalties, on a logarithmic scale, is the natural one.

    Examples:

    - madbayes path customers.csv

    - madbayes path baskets.parquet --kind features --json
    """
    with talking(log_json=log_json, quiet=as_json) as talk:
        settings = settings_of(context, config)
        if out is not None:
            results.check_file(out, force=force)
        intake = take_in(settings, talk)
        with talk.step("Looking at numbers of groups", "path"):
            found = find_path(intake.X, settings)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            results.write_json(out, path_values(found, settings))
    typer.echo(json.dumps(path_values(found, settings), indent=1) if as_json else path_table(found))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit gave and where it is."""

    out: Path
    explanation: Explanation
    run: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        files = {Path(name).stem: str(self.out / name) for name in results.FILES}
        return {"out": str(self.out), "files": files, "summary": self.explanation.to_dict(), "run": self.run}


def stem_of(source: Path) -> str:
    """The name of a table without its endings."""
    return source.name.split(".")[0] or "table"


def fit_table(settings: Settings, out: Path, talk: Talk, stopped: Interrupts, *, force: bool) -> Outcome:
    """Read, fit, explain and write."""
    began = datetime.now(UTC)
    results.check_folder(out, force=force)
    intake = take_in(settings, talk)
    settings = replace(settings, scale=intake.recipe.scale)
    # From here on Ctrl-C ends with a result, and a module that was interrupted while it was imported cannot give one.
    import_module("madbayes.engine.kernels")
    with talk.step("Finding groups", "fit"):
        model, found = find(intake.X, settings, stopped)
    if found is None and not stopped.happened:
        with talk.step("Looking at numbers of groups", "path"), suppress(KeyboardInterrupt):
            found = find_path(intake.X, settings)
    refits = None
    if settings.refits and not stopped.happened and len(model.group_names_) > 1:
        with talk.step("Fitting again to halves of the rows", "refits"), suppress(KeyboardInterrupt):
            refits = refit(intake.X, model, settings)
    if stopped.happened:
        log.warning("stopped: what is written is the best result so far (press Ctrl-C again to write nothing)")
    fitted = Fitted(intake.recipe, model)
    ids = intake.ids
    chosen = found if settings.groups is None and settings.penalty == "auto" else None
    names = results.first_ids(ids)
    explanation = explain(model, intake.X, recipe=intake.recipe, ids=names, path=chosen, stability=refits)
    run = run_values(settings, intake, fitted, talk, began, interrupted=stopped.happened)
    with results.staged(out, force=force) as folder:
        write_result(folder, fitted, intake, ids, found, refits, run, talk)
    if chosen is not None and not chosen.candidates:
        log.info(NO_GROUPS)
    log.info("Written to %s: %s", out, ", ".join(results.FILES), extra=data(out=str(out)))
    return Outcome(out, explanation, run)


def write_result(
    folder: Path,
    fitted: Fitted,
    intake: Intake,
    ids: pd.DataFrame,
    found: PenaltyPath | None,
    refits: Stability | None,
    run: dict[str, Any],
    talk: Talk,
) -> None:
    """All files of a result."""
    with talk.step("Writing the result", "write"):
        fitted.save(folder / results.MODEL)
        table = results.assignments(fitted, intake.X, ids)
        results.write_table(table, folder / results.ASSIGNMENTS, results.about(fitted, table))
        results.write_table(results.components(fitted, table), folder / results.COMPONENTS)
        path_json = None if found is None else path_values(found, Settings(**run["settings"]))
        results.write_json(folder / results.PATH, path_json)
        write_report_of(folder / results.REPORT, fitted, intake, ids, found, refits, run)
    run["timings"] = dict(talk.timings)
    results.write_json(folder / results.RUN, run)


def write_report_of(
    file: Path,
    fitted: Fitted,
    intake: Intake,
    ids: pd.DataFrame,
    found: PenaltyPath | None,
    refits: Stability | None,
    run: dict[str, Any],
) -> None:
    """The report of a result."""
    write_report(
        file,
        fitted.model,
        intake.X,
        recipe=fitted.recipe,
        ids=results.first_ids(ids),
        frame=intake.frame,
        image_shape=intake.table.shape,
        path=found,
        stability=refits,
        run=told(run),
    )


def told(run: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the report wants to know about the run."""
    source = run.get("input", {}).get("path")
    title = {"title": f"Groups in {Path(source).name}"} if source else {}
    names = ("command", "versions", "input", "seed", "counts", "timings", "began")
    return title | {name: run[name] for name in names if name in run}


def find(X: NDArray, settings: Settings, stopped: Interrupts) -> tuple[GroupEstimator, PenaltyPath | None]:
    """The model, and the path if it was needed to find it."""
    try:
        if settings.groups is not None:
            found = find_path(X, settings)
            return near_groups(settings, found).fit(X), found
        model = estimator(settings, penalty_of(settings.penalty)).fit(X)
        return model, getattr(model, "path_", None)
    except KeyboardInterrupt:
        if not stopped.happened:
            raise
    # There was no result to keep: a quick look finds one, unless Ctrl-C is pressed once more.
    log.warning("stopped early: finishing with a quick look, Ctrl-C stops that too")
    found = penalty_path(X, settings.kind, random_state=settings.seed, n_jobs=settings.jobs, **QUICK)
    settings = replace(settings, groups=min(settings.groups, 8) if settings.groups else None)
    if settings.groups is not None:
        model = near_groups(settings, found)
    else:
        chosen = penalty_of(settings.penalty)
        model = estimator(settings, found.suggest() if chosen == "auto" else chosen)
    return model.set_params(time_limit=1.0, n_init=2).fit(X), found


def estimator(settings: Settings, penalty: float | str, most: int | None = None) -> GroupEstimator:
    """The model to fit."""
    common: dict[str, Any] = {"random_state": settings.seed, "n_jobs": settings.jobs}
    if settings.kind == "clusters":
        return DPMeans(penalty, max_clusters=most, **common)
    return BPMeans(penalty, max_components=most, **common)


def near_groups(settings: Settings, found: PenaltyPath) -> GroupEstimator:
    """A model of so many groups: at the penalty where they are best, or where more would be if they may."""
    wanted = int(settings.groups or 1)
    if wanted in found.intervals:
        return estimator(settings, found.suggest(wanted), wanted)
    more = [K for K in found.intervals if wanted < K]
    if not more:
        log.warning("%d groups are more than the rows tell apart: %d at most", wanted, max(found.intervals))
        return estimator(settings, found.suggest(max(found.intervals)), wanted)
    words = "%d groups are best at no penalty: these are the best %d at the penalty of %d"
    log.warning(words, wanted, wanted, min(more))
    return estimator(settings, found.suggest(min(more)), wanted)


def find_path(X: NDArray, settings: Settings) -> PenaltyPath:
    """Which penalties each number of groups is best for."""
    wanted = settings.groups or 0
    most = wanted + 2 if wanted >= PATH_LENGTH else None
    return penalty_path(X, settings.kind, max_components=most, random_state=settings.seed, n_jobs=settings.jobs)


def refit(X: NDArray, model: GroupEstimator, settings: Settings) -> Stability:
    """How stable the groups are, judged by some of the rows where there are many."""
    rows: NDArray | slice = slice(None)
    weights = None
    if len(X) > REFIT_ROWS:
        rows = np.sort(np.random.default_rng(settings.seed).choice(len(X), REFIT_ROWS, replace=False))
        weights = np.full(REFIT_ROWS, len(X) / REFIT_ROWS)
    return stability(
        X[rows],
        model,
        n_refits=settings.refits,
        sample_weight=weights,
        random_state=settings.seed,
        n_jobs=settings.jobs,
    )


def run_values(
    settings: Settings, intake: Intake, fitted: Fitted, talk: Talk, began: datetime, *, interrupted: bool
) -> dict[str, Any]:
    """How a result came about, in plain values."""
    recipe, model, (rows, columns) = intake.recipe, fitted.model, intake.table.frame.shape
    counts = {
        "rows": rows,
        "rows_used": len(intake.X),
        "rows_dropped": recipe.n_dropped_,
        "columns": columns,
        "columns_used": len(recipe.columns_),
        "columns_of_numbers": intake.X.shape[1],
        "groups": fitted.K,
    }
    names = ("penalty_", "penalty_share_", "objective_", "sse_", "optimality_gap_", "n_iter_", "converged_")
    return {
        "madbayes": madbayes.__version__,
        "command": options.current_command(),
        "settings": settings.to_dict(),
        "input": {"path": settings.data, "sha256": intake.table.fingerprint, "rows": rows, "columns": columns},
        "intake": [one._asdict() for one in recipe.decisions_],
        "seed": settings.seed,
        "versions": versions(),
        "counts": counts,
        "result": {name.rstrip("_"): plain(getattr(model, name)) for name in names},
        "search": plain(model.search_info_),
        "interrupted": interrupted,
        "began": began.isoformat(timespec="seconds"),
        "timings": dict(talk.timings),
    }


def versions() -> dict[str, str]:
    """Of what computed the result."""
    found = {"python": platform.python_version(), "madbayes": madbayes.__version__, "platform": sys.platform}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def path_values(found: PenaltyPath, settings: Settings) -> dict[str, Any]:
    """A path in plain values, with what it is a path of."""
    return {"kind": settings.kind, **found.to_dict(), "suggested_penalty": plain(found.suggest())}


def path_table(found: PenaltyPath) -> str:
    """A path as lines of text."""
    lines = [str(found), "", f"{'groups':>6}  {'squared error':>13}  best for penalties"]
    for K, sse in zip(found.n_components.tolist(), found.sse.tolist(), strict=True):
        if K in found.intervals:
            low, high = found.intervals[K]
            ends = f"from {low:.4g} to {high:.4g}" if np.isfinite(high) else f"from {low:.4g} on"
        else:
            ends = "-"
        mark = "  <- best" if found.best == K else ""
        lines.append(f"{K:>6}  {sse:>13.5g}  {ends}{mark}")
    return "\n".join(lines)
