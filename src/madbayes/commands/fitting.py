"""``madbayes fit`` and ``madbayes path``: from a table to groups and their number."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import madbayes
from madbayes.commands import options, results
from madbayes.commands.console import Talk, data, log, talking
from madbayes.commands.errors import Code, Interrupts, interrupts, one_line
from madbayes.commands.finding import check_checkpoint, find, find_path, path_lines, path_values, refit
from madbayes.commands.intake import Intake, take_in
from madbayes.commands.options import Settings, settings_of
from madbayes.commands.results import Fitted
from madbayes.commands.sampling import Sample
from madbayes.commands.streaming import StreamIntake, check_outside, short_name
from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.explain import Explanation, explain
from madbayes.files import plain
from madbayes.report import write_report
from madbayes.versions import versions

NO_GROUPS = (
    "No number of groups stands out. Look at columns that matter (--columns), tame long tails (--scale robust), or ask "
    "for so many groups all the same (--groups 5)."
)
NO_PICTURES = "No number of groups stands out. Ask for so many groups all the same (--groups 5)."

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
    init: options.InitOption = None,
    out: OutOption = None,
    force: options.ForceOption = False,
    config: ConfigOption = None,
    seed: options.SeedOption = 0,
    refits: RefitsOption = 10,
    jobs: options.JobsOption = -1,
    memory_limit: options.MemoryOption = None,
    checkpoint: options.CheckpointOption = None,
    spill_dir: options.SpillOption = None,
    bad_rows: options.BadRowsOption = None,
    as_json: options.JsonOption = False,
    log_json: options.LogOption = False,
) -> None:
    """Find groups in a table; write a model, the groups of every row, and a report.

    Examples:

    - madbayes fit customers.csv

    - madbayes fit customers.csv --groups 8 --id-column customer_id --missing median

    - madbayes fit baskets.parquet --kind features --penalty 2% --out result

    - madbayes fit photos/ --kind features --pca 100

    - madbayes fit s3://bucket/sales --memory-limit 2GB --bad-rows quarantine --out sales

    - madbayes fit tuesday.csv --init monday-groups

    Ctrl-C keeps the best result so far.
    """
    with talking(log_json=log_json, quiet=as_json) as talk, interrupts() as stopped:
        settings = settings_of(context, config)
        place = out if out is not None else Path(f"{results.stem_of(str(settings.data))}-groups")
        outcome = fit_table(settings, place, talk, stopped, force=force)
    if as_json:
        typer.echo(json.dumps(plain(outcome.to_dict()), indent=1))
    else:
        typer.echo(f"{outcome.words}\n\nReport: {place / results.REPORT}")
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
    memory_limit: options.MemoryOption = None,
    spill_dir: options.SpillOption = None,
    bad_rows: options.BadRowsOption = None,
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
        intake = take_in(settings, talk, keep_rows=False)
        with talk.step("Looking at numbers of groups", "path"):
            found = find_path(intake.sample, settings, thorough=True)
        tell_sample(intake.sample, "The path")
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            results.write_json(out, path_values(found, settings))
    typer.echo(json.dumps(path_values(found, settings), indent=1) if as_json else path_lines(found, settings.kind))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a fit gave and where it is."""

    out: Path
    explanation: Explanation
    run: dict[str, Any]
    pictured: bool  # whether rows are pictures
    files: list[str]

    @property
    def words(self) -> str:
        """The summary; pictures are described better by the report than by their pixels."""
        return self.explanation.text(columns=not self.pictured)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        files = {Path(name).stem: str(self.out / name) for name in self.files}
        return {"out": str(self.out), "files": files, "summary": self.explanation.to_dict(), "run": self.run}


def fit_table(settings: Settings, out: Path, talk: Talk, stopped: Interrupts, *, force: bool) -> Outcome:
    """Read, fit, explain and write."""
    began = datetime.now(UTC)
    results.check_folder(out, force=force)
    check_outside(out, str(settings.data))
    check_checkpoint(settings.checkpoint)
    intake = take_in(settings, talk)
    settings = replace(settings, scale=intake.recipe.scale, pca=intake.recipe.pca, missing=intake.recipe.missing)
    # From here on Ctrl-C ends with a result, and a module that was interrupted while it was imported cannot give one.
    import_module("madbayes.engine.kernels")
    sample = intake.sample
    with talk.step("Finding groups", "fit"):
        model, found = find(intake.X, sample, settings, stopped, intake.start)
    if found is None and not stopped.happened:
        with talk.step("Looking at numbers of groups", "path"), suppress(KeyboardInterrupt):
            found = find_path(sample, settings)
    refits = None
    if settings.refits and not stopped.happened and len(model.group_names_) > 1:
        with talk.step("Fitting again to halves of the rows", "refits"), suppress(KeyboardInterrupt):
            refits = refit(sample, model, settings)
    if stopped.happened:
        log.warning("stopped: what is written is the best result so far (press Ctrl-C again to write nothing)")
    tell_sample(sample, "The report")
    fitted = Fitted(intake.recipe, model)
    explanation = explain(
        model,
        sample.X,
        recipe=intake.recipe,
        ids=results.first_ids(sample.ids),
        path=found,
        stability=refits,
        sampled_from=sampled_from(sample),
    )
    run = run_values(settings, intake, fitted, talk, began, interrupted=stopped.happened)
    with results.staged(out, force=force) as folder:
        write_result(folder, fitted, intake, sample, found, refits, run, talk)
        written = [name for name in results.NAMES if (folder / name).exists()]
    if settings.groups is None and settings.penalty == "auto" and found is not None and not found.candidates:
        log.info(NO_PICTURES if intake.shape is not None else NO_GROUPS)
    log.info("Written to %s: %s", out, ", ".join(written), extra=data(out=str(out)))
    return Outcome(out, explanation, run, intake.shape is not None, written)


def sampled_from(sample: Sample) -> int | None:
    """Rows that a sample stands for; None if it has all."""
    return None if sample.is_all else sample.n_rows


def tell_sample(sample: Sample, what: str) -> None:
    """Which rows something is about, if not all."""
    if not sample.is_all:
        log.info("%s is about %s", what, sample.words, extra=data(sample=len(sample.X), rows=sample.n_rows))


def write_result(
    folder: Path,
    fitted: Fitted,
    intake: Intake | StreamIntake,
    sample: Sample,
    found: PenaltyPath | None,
    refits: Stability | None,
    run: dict[str, Any],
    talk: Talk,
) -> None:
    """All files of a result."""
    with talk.step("Writing the result", "write"):
        write_groups(folder, fitted, intake, talk)
        path_json = None if found is None else path_values(found, Settings(**run["settings"]))
        results.write_json(folder / results.PATH, path_json)
        write_report_of(folder / results.REPORT, fitted, intake, sample, found, refits, run)
    run["timings"] = dict(talk.timings)
    results.write_json(folder / results.RUN, run)


def write_groups(folder: Path, fitted: Fitted, intake: Intake | StreamIntake, talk: Talk) -> None:
    """The model, the groups of every row, and the groups themselves."""
    fitted.save(folder / results.MODEL)
    sizes, n_rows = intake.write(folder, fitted, talk)
    results.write_table(results.components(fitted, sizes, n_rows), folder / results.COMPONENTS)


def write_report_of(
    file: Path,
    fitted: Fitted,
    intake: Intake | StreamIntake,
    sample: Sample,
    found: PenaltyPath | None,
    refits: Stability | None,
    run: dict[str, Any],
) -> None:
    """The report of a result."""
    write_report(
        file,
        fitted.model,
        sample.X,
        recipe=fitted.recipe,
        ids=results.first_ids(sample.ids),
        frame=sample.frame,
        image_shape=intake.shape,
        path=found,
        stability=refits,
        run=told(run),
        sampled_from=sampled_from(sample),
    )


def told(run: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the report wants to know about the run."""
    source = run.get("input", {}).get("path")
    title = {"title": f"Groups in {short_name(source)}"} if source else {}
    names = ("command", "versions", "input", "seed", "counts", "timings", "began")
    return title | {name: run[name] for name in names if name in run}


def run_values(
    settings: Settings,
    intake: Intake | StreamIntake,
    fitted: Fitted,
    talk: Talk,
    began: datetime,
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """How a result came about, in plain values."""
    recipe, model, (rows, columns) = intake.recipe, fitted.model, intake.size
    counts = {
        "rows": rows,
        "rows_used": intake.X.shape[0],
        "rows_dropped": recipe.n_dropped_,
        "columns": columns,
        "columns_used": len(recipe.columns_),
        "columns_of_numbers": intake.X.shape[1],
        "groups": fitted.K,
    }
    if isinstance(intake, StreamIntake):
        counts |= {"rows_put_aside": intake.n_bad, "rows_of_the_sample": len(intake.sample.X)}
    names = ("penalty_", "penalty_share_", "objective_", "sse_", "optimality_gap_", "n_iter_", "converged_")
    return {
        "madbayes": madbayes.__version__,
        "command": options.current_command(),
        "settings": settings.to_dict(),
        "input": {"path": settings.data, "sha256": intake.fingerprint, "rows": rows, "columns": columns},
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
