"""``madbayes apply`` and ``madbayes info``: a model that exists."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from madbayes.commands import options, results
from madbayes.commands.console import data, log, talking
from madbayes.commands.errors import one_line
from madbayes.commands.intake import take_again
from madbayes.commands.results import Fitted, open_model
from madbayes.estimators.describing import group_words, top_columns
from madbayes.evidence import path_words
from madbayes.explain import units_of
from madbayes.files import plain
from madbayes.io import metadata
from madbayes.words import counted, exact_percent, percent


@one_line
def apply(
    model: options.ModelArgument,
    data_file: Annotated[
        Path, typer.Argument(metavar="DATA", help="Rows like those the model was made of; any kind of table.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Parquet, CSV or TSV.  [default: DATA-assignments.parquet]", show_default=False,
            rich_help_panel=options.RESULT,
        ),
    ] = None,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
    log_json: options.LogOption = False,
) -> None:  # fmt: skip
    """Find the groups of new rows with a model that exists.

    Columns are found by their names, in any order; others are ignored. Rows are treated as in the fit.

    Example:

    - madbayes apply customers-groups new.csv --out new-groups.csv
    """
    with talking(log_json=log_json, quiet=as_json) as talk:
        place = out if out is not None else Path(f"{results.stem_of(data_file)}-{results.ASSIGNMENTS}")
        results.check_file(place, force=force)
        results.check_ending(place)
        fitted = open_model(model)
        intake = take_again(fitted.recipe, data_file, talk)
        with talk.step("Finding the groups of the rows", "apply"):
            table = results.assignments(fitted, intake.X, intake.ids)
        place.parent.mkdir(parents=True, exist_ok=True)
        results.write_assignments(table, place, fitted, intake.ids)
        log.debug("written", extra=data(out=str(place), rows=len(table)))
    sizes = dict(zip(fitted.model.group_names_, results.sizes_of(fitted, table).tolist(), strict=True))
    n_unusual = int(table["unusual"].sum())
    if as_json:
        typer.echo(json.dumps({"out": str(place), "rows": len(table), "groups": sizes, "unusual": n_unusual}, indent=1))
        return
    for name, size in sizes.items():
        typer.echo(f"{name}: {counted(size, 'row')} ({percent(size / max(1, len(table)))})")
    typer.echo(f"Unusual, worse than 99 % of the rows of the fit: {counted(n_unusual, 'row')}.\nWritten to {place}")


@one_line
def info(model: options.ModelArgument, as_json: options.JsonOption = False) -> None:
    """What a model is made of: its groups, the columns it needs, and what was done with them.

    Example:

    - madbayes info customers-groups
    """
    fitted = open_model(model)
    facts = {**about_model(fitted), "file": metadata(results.find_model(model))}
    if as_json:
        typer.echo(json.dumps(plain(facts), indent=1))
        return
    typer.echo(
        f"{counted(facts['groups_found'], facts['kind'][:-1])} of {counted(facts['rows'], 'row')}, "
        f"made by madbayes {facts['file']['madbayes']}"
    )
    typer.echo(
        f"penalty {facts['penalty']:.6g} ({exact_percent(facts['penalty_share'])} of the squared error of one group)"
    )
    if hasattr(fitted.model, "path_"):
        typer.echo(" ".join(path_words(fitted.model.path_, fitted.kind)))
    typer.echo("\nGroups:")
    for group in facts["groups"]:
        size = f"{counted(int(group['size']), 'row')} ({percent(group['share'])})"
        typer.echo(f"  {group['name']}: {size}; {group['words']}")
    typer.echo("\nColumns:")
    for one in facts["columns"]:
        typer.echo(f"  {one['column']}: {one['words']}")


def about_model(fitted: Fitted) -> dict[str, Any]:
    """A model in plain values."""
    model, recipe = fitted.model, fitted.recipe
    return {
        "kind": fitted.kind,
        "groups_found": fitted.K,
        "rows": recipe.n_rows_,
        "penalty": model.penalty_,
        "penalty_share": model.penalty_share_,
        "objective": model.objective_,
        "path": str(model.path_) if hasattr(model, "path_") else None,
        "groups": groups_of(fitted),
        "columns": [one._asdict() for one in recipe.decisions_],
        "needs": [column.name for column in recipe.columns_],
        "missing": recipe.missing,
        "scale": recipe.scale,
        "pca": recipe.pca,
    }


def groups_of(fitted: Fitted) -> list[dict[str, Any]]:
    """The groups in original units."""
    model = fitted.model
    units = units_of(model, fitted.recipe)
    values = fitted.recipe.inverse_transform(model._groups())
    groups = []
    for one, row in zip(model.describe(0), values, strict=True):
        columns = top_columns(row, units.of(one["share"]), 3)
        groups.append({**one, "columns": [column._asdict() for column in columns], "words": group_words(columns)})
    return groups
