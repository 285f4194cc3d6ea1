"""``madbayes report``: the report of a result again, with names for its groups."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from madbayes.commands import options, results
from madbayes.commands.console import Talk, log, talking
from madbayes.commands.errors import UsageError, one_line
from madbayes.commands.finding import find_path, refit
from madbayes.commands.fitting import tell_sample, write_groups, write_report_of
from madbayes.commands.intake import Intake, take_again
from madbayes.commands.options import Settings, checked, known_settings
from madbayes.commands.results import Fitted, open_model
from madbayes.commands.sampling import Sample
from madbayes.commands.streaming import StreamIntake
from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.sources.places import is_url
from madbayes.words import listed

# Parts of a run that are dictionaries, if they are there.
DICTIONARIES = ("settings", "input", "versions")


@one_line
def report(
    model: options.ModelArgument,
    data_file: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="The table.  [default: that of the fit]", show_default=False),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="0=cheap",
            help="Call a group so, in the model and all files of the result; can be given several times.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="[default: report.html beside the model]", show_default=False,
            rich_help_panel=options.RESULT,
        ),
    ] = None,
    refits: Annotated[
        int | None,
        typer.Option(metavar="N", help="Refits for stability.  [default: as in the fit]", show_default=False),
    ] = None,
    force: options.ForceOption = False,
    memory_limit: options.MemoryOption = None,
    bad_rows: options.BadRowsOption = None,
    log_json: options.LogOption = False,
) -> None:  # fmt: skip
    """Write the report of a result, as one HTML page that needs no network.

    Examples:

    - madbayes report customers-groups --name 0=cheap --name 1=dear

    - madbayes report customers-groups new.csv --out new.html
    """
    with talking(log_json=log_json) as talk:
        fitted = open_model(model)
        folder = results.find_model(model).parent
        place = folder / results.REPORT if out is None else out
        is_same = place.exists() and place.resolve() == (folder / results.REPORT).resolve()
        results.check_file(place, force=force or bool(name and is_same))
        run = read_run(folder)
        settings = Settings(**known_settings(run.get("settings", {}), str(folder / results.RUN)))
        given = {"refits": refits, "memory_limit": memory_limit, "bad_rows": options.plain_option(bad_rows)}
        settings = checked(replace(settings, **{name: one for name, one in given.items() if one is not None}))
        source = source_of(data_file, run)
        if name:
            rename(fitted, name)
        intake = take_again(fitted.recipe, source, settings, talk)
        if data_file is None and run.get("input", {}).get("sha256") != intake.fingerprint:
            log.warning("%s has changed since the fit; the report is of the table as it is now", source)
        sample = intake.sample
        tell_sample(sample, "The report")
        found, stable = look_again(fitted, sample, settings, talk)
        place.parent.mkdir(parents=True, exist_ok=True)
        if name:
            write_names(folder, fitted, intake, talk, of_the_fit=data_file is None)
        write_report_of(place, fitted, intake, sample, found, stable, run)
    typer.echo(f"Report: {place}")


def write_names(folder: Path, fitted: Fitted, intake: Intake | StreamIntake, talk: Talk, *, of_the_fit: bool) -> None:
    """The names of groups, in the model and, if this is the table of the fit, in all that it has written."""
    if not of_the_fit:
        fitted.save(folder / results.MODEL)
    elif isinstance(intake, StreamIntake):
        with talk.step("Writing the groups", "write"), results.staged(folder, force=True) as stage:
            write_groups(stage, fitted, intake, talk)
    else:
        write_groups(folder, fitted, intake, talk)


def look_again(fitted: Fitted, sample: Sample, settings: Settings, talk: Talk) -> tuple[PenaltyPath, Stability | None]:
    """The path, where the model has none, and how stable its groups are, as in the fit."""
    found, stable = getattr(fitted.model, "path_", None), None
    if found is None:
        with talk.step("Looking at numbers of groups", "path"):
            found = find_path(sample, settings)
    if settings.refits and fitted.K > 1:
        with talk.step("Fitting again to halves of the rows", "refits"):
            stable = refit(sample, fitted.model, settings)
    return found, stable


def read_run(folder: Path) -> dict[str, Any]:
    """How the result came about, if that is still there."""
    try:
        found = json.loads((folder / results.RUN).read_text(encoding="utf-8"))
        parts = found.items() if isinstance(found, dict) else []
        return {name: part for name, part in parts if name not in DICTIONARIES or isinstance(part, dict)}
    except (OSError, ValueError, RecursionError):
        return {}


def source_of(given: str | None, run: dict[str, Any]) -> str:
    """The table to report on."""
    if given is not None:
        return given
    name = run.get("input", {}).get("path")
    if not isinstance(name, str):
        raise UsageError(f"there is no {results.RUN} beside the model that says which table it was made of: name it")
    if not is_url(name) and not Path(name).exists():
        raise UsageError(f"the table {name!r} is not there any more: name it, madbayes report MODEL DATA")
    return name


def rename(fitted: Fitted, given: list[str]) -> None:
    """Give groups their names; they are numbered by their ids, as they are called."""
    names, places = {}, {group_id: k for k, group_id in enumerate(fitted.model.group_ids_.tolist())}
    for one in given:
        group, sign, name = one.partition("=")
        if not sign or not group.strip().isdecimal():
            raise UsageError(f"--name {one}: give the number of a group and its name, such as 0=cheap")
        if int(group) not in places:
            raise UsageError(f"--name {one}: there is no group {int(group)}, but {listed(places, len(places))}")
        names[places[int(group)]] = name.strip()
    try:
        fitted.model.rename(names)
    except ValueError as error:
        raise UsageError(f"--name: {error}") from None
