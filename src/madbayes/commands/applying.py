"""``madbayes apply`` and ``madbayes info``: a model that exists."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from madbayes.commands import options, results
from madbayes.commands.console import Talk, data, log, talking
from madbayes.commands.errors import one_line
from madbayes.commands.intake import take_again_whole
from madbayes.commands.options import Settings
from madbayes.commands.results import Fitted, open_model
from madbayes.commands.streaming import check_needed, check_outside, is_streamed, open_stream, write_dataset
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
        str, typer.Argument(metavar="DATA", help="Rows like those the model was made of; any kind of table.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="Parquet, CSV or TSV; a folder for a table that is read in blocks."
            "  [default: DATA-assignments.parquet, or DATA-assignments]", show_default=False,
            rich_help_panel=options.RESULT,
        ),
    ] = None,
    force: options.ForceOption = False,
    memory_limit: options.MemoryOption = None,
    bad_rows: options.BadRowsOption = None,
    as_json: options.JsonOption = False,
    log_json: options.LogOption = False,
) -> None:  # fmt: skip
    """Find the groups of new rows with a model that exists.

    Columns are found by their names, in any order; others are ignored. Rows are treated as in the fit.

    Examples:

    - madbayes apply customers-groups new.csv --out new-groups.csv

    - madbayes apply sales s3://bucket/new-sales --out new-sales
    """
    settings = options.checked(Settings(memory_limit=memory_limit, bad_rows=options.plain_option(bad_rows)))
    with talking(log_json=log_json, quiet=as_json) as talk:
        if is_streamed(data_file, settings.memory_limit, settings.bad_rows):
            applied = apply_in_blocks(model, data_file, out, settings, talk, force=force)
        else:
            applied = apply_to_whole(model, data_file, out, talk, force=force)
        log.debug("written", extra=data(out=str(applied.place), rows=applied.n_rows))
    typer.echo(json.dumps(applied.to_dict(), indent=1) if as_json else applied.words)


@dataclass(frozen=True)
class Applied:
    """The groups of new rows, in short."""

    place: Path
    n_rows: int
    groups: dict[str, int]
    n_unusual: int
    n_put_aside: int | None = None  # of a table that is read in blocks

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = {"out": str(self.place), "rows": self.n_rows, "groups": self.groups, "unusual": self.n_unusual}
        return found if self.n_put_aside is None else {**found, "put_aside": self.n_put_aside}

    @property
    def words(self) -> str:
        """The same to be read."""
        lines = [
            f"{name}: {counted(size, 'row')} ({percent(size / max(1, self.n_rows))})"
            for name, size in self.groups.items()
        ]
        lines.append(f"Unusual, worse than 99 % of the rows of the fit: {counted(self.n_unusual, 'row')}.")
        if self.n_put_aside:
            lines.append(f"Put aside, because they cannot be used: {counted(self.n_put_aside, 'row')}.")
        return "\n".join([*lines, f"Written to {self.place}"])


def apply_to_whole(model: Path, source: str, out: Path | None, talk: Talk, *, force: bool) -> Applied:
    """The groups of a table in memory, in a file."""
    place = out if out is not None else Path(f"{results.stem_of(source)}-{results.ASSIGNMENTS}")
    results.check_file(place, force=force)
    results.check_ending(place)
    fitted = open_model(model)
    intake = take_again_whole(fitted.recipe, Path(source), talk)
    with talk.step("Finding the groups of the rows", "apply"):
        table = results.assignments(fitted, intake.X, intake.ids)
    place.parent.mkdir(parents=True, exist_ok=True)
    results.write_assignments(table, place, fitted, intake.ids)
    sizes = dict(zip(fitted.model.group_names_, results.sizes_of(fitted, table).tolist(), strict=True))
    return Applied(place, len(table), sizes, int(table["unusual"].sum()))


def apply_in_blocks(
    model: Path, source: str, out: Path | None, settings: Settings, talk: Talk, *, force: bool
) -> Applied:
    """The groups of a table that need not fit in memory, in a folder."""
    place = out if out is not None else Path(f"{results.stem_of(source)}-{results.ASSIGNMENTS_FOLDER}")
    results.check_folder(place, force=force)
    check_outside(place, source)
    fitted = open_model(model)
    stream = open_stream(source, settings.memory_bytes, None, talk)
    check_needed(fitted.recipe, stream)
    with talk.step("Finding the groups of the rows", "apply"), results.staged(place, force=force) as folder:
        written = write_dataset(stream, fitted, folder, talk, puts_aside=settings.puts_aside, is_new=True)
    sizes = dict(zip(fitted.model.group_names_, written.sizes.tolist(), strict=True))
    return Applied(place, written.n_rows, sizes, written.n_unusual, written.n_bad)


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
