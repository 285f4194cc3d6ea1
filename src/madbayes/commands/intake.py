"""From a file to numbers, and saying what was done."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madbayes.commands import results
from madbayes.commands.console import Talk, data, log
from madbayes.commands.errors import UsageError
from madbayes.commands.options import Settings, names_of
from madbayes.commands.results import Fitted, open_model
from madbayes.commands.sampling import Sample
from madbayes.commands.streaming import (
    StreamIntake,
    is_streamed,
    look_again_at_stream,
    look_at_stream,
    open_stream,
    take_on_stream,
)
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.problem import dominant_share
from madbayes.tables import Decision, Recipe, Table, read_table
from madbayes.words import counted, listed

SHOWN = 8


@dataclass(frozen=True, eq=False)
class Intake:
    """A table that is ready to be looked at."""

    table: Table
    recipe: Recipe
    X: NDArray[np.float64]
    kept: NDArray[np.bool_]
    start: GroupEstimator | None = None  # the model that is to be continued

    @property
    def frame(self) -> pd.DataFrame:
        """The rows that are used, as they came."""
        return self.table.frame if self.kept.all() else self.table.frame[self.kept].reset_index(drop=True)

    @property
    def ids(self) -> pd.DataFrame:
        """What identifies them."""
        return results.ids_of(self.recipe, self.table.frame, self.table.ids, self.kept)

    @property
    def sample(self) -> Sample:
        """Rows that stand for all: all of them."""
        return Sample(self.X, self.frame, self.ids, len(self.X))

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        return self.table.frame.shape

    @property
    def fingerprint(self) -> str:
        """What tells tables apart."""
        return self.table.fingerprint

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the pictures that are the rows."""
        return self.table.shape

    def write(self, folder: Path, fitted: Fitted, talk: Talk) -> tuple[NDArray[np.int64], int]:
        """The groups of every row; how many rows each group has, and how many there are in all groups together."""
        ids = self.ids
        table = results.assignments(fitted, self.X, ids)
        results.write_assignments(table, folder / results.ASSIGNMENTS, fitted, ids)
        return results.sizes_of(fitted, table), len(table)


def take_in(settings: Settings, talk: Talk, *, keep_rows: bool = True) -> Intake | StreamIntake:
    """Read a table and look at its columns, or treat them as an earlier result did.

    Where it may be too long for memory that is done block by block, and all its numbers are kept on the disk, or only
    those of a sample.
    """
    name = str(settings.data)
    if not is_streamed(name, settings.memory_limit, settings.bad_rows):
        return take_in_whole(settings, talk)
    start = None if settings.init is None else open_start(settings)
    stream = open_stream(name, settings.memory_bytes, settings.spill_dir, talk)
    if start is not None:
        return take_on_stream(start, stream, settings, talk)
    recipe = recipe_for(settings, stream.columns)
    found = look_at_stream(recipe, stream, settings, talk, keep_rows=keep_rows)
    tell_of(recipe, stream.n_rows)
    warn_of_scales(recipe, None)
    return found


def take_in_whole(settings: Settings, talk: Talk) -> Intake:
    """The same in memory."""
    source = Path(str(settings.data))
    if settings.init is not None:
        return take_on(open_start(settings), source, talk)
    with talk.step(f"Reading {source.name}", "read"):
        table = read_table(source)
    rows, columns = table.frame.shape
    sizes = f"{counted(rows, 'row')}, {counted(columns, 'column')}"
    log.info("%s: %s", source.name, sizes, extra=data(rows=rows, columns=columns))
    for note in table.notes:
        log.info("  %s", note)
    with talk.step("Looking at the columns", "intake"):
        recipe = recipe_for(settings, list(table.frame.columns), table)
        X = recipe.fit_transform(table.frame)
    tell_of(recipe, rows)
    warn_of_scales(recipe, table.shape)
    return Intake(table, recipe, X, recipe.kept_)


def tell_of(recipe: Recipe, n_rows: int) -> None:
    """What was done with rows and columns."""
    tell(recipe.decisions_)
    if recipe.n_dropped_:
        log.info("  %d of %d rows have missing values and are left out", recipe.n_dropped_, n_rows)
    if recipe.axes_ is not None:
        log.info("  %d principal components of %d columns of numbers", len(recipe.axes_), len(recipe.encoded_names_))


def open_start(settings: Settings) -> Fitted:
    """The earlier result that is to be continued."""
    fitted = open_model(Path(str(settings.init)))
    if fitted.kind != settings.kind:
        raise UsageError(f"--init {settings.init} has {fitted.kind}: add --kind {fitted.kind}, or name another result")
    return fitted


def warn_of_scales(recipe: Recipe, shape: tuple[int, ...] | None) -> None:
    """Say so when one column decides the groups alone."""
    if recipe.scale != "none" or shape is not None or len(recipe.encoded_names_) < 2:
        return
    deviations = recipe.deviations_ / recipe.deviations_.max()  # squares of which are finite
    if (share := dominant_share(deviations**2)) is not None:
        name = recipe.encoded_names_[int(deviations.argmax())]
        words = "column %r has %.0f %% of the variance and decides the groups almost alone: add --scale standard"
        log.warning(words, name, 100 * share)


def recipe_for(settings: Settings, known: list[str], table: Table | None = None) -> Recipe:
    """What to do with a table of these columns."""
    return Recipe(
        kind=settings.kind,
        scale=settings.scale or ("standard" if table is None or table.units == "mixed" else "none"),
        pca=settings.pca,
        missing=settings.missing,
        columns=names_of(settings.columns, known),
        leave_out=names_of(settings.leave_out, known),
        id_column=settings.id_column,
        as_is=table is not None and table.shape is not None,
    )


def take_again(fitted_recipe: Recipe, source: str, settings: Settings, talk: Talk) -> Intake | StreamIntake:
    """Read a table for a model that exists; columns are found by their names."""
    if is_streamed(source, settings.memory_limit, settings.bad_rows):
        stream = open_stream(source, settings.memory_bytes, settings.spill_dir, talk)
        return look_again_at_stream(fitted_recipe, stream, settings, talk)
    return take_again_whole(fitted_recipe, Path(source), talk)


def take_again_whole(fitted_recipe: Recipe, source: Path, talk: Talk) -> Intake:
    """The same in memory."""
    table = read_again(fitted_recipe, source, talk)
    X, kept = fitted_recipe.rows(table.frame)
    return Intake(table, fitted_recipe, X, kept)


def take_on(fitted: Fitted, source: Path, talk: Talk) -> Intake:
    """The same for a fit that continues the model."""
    table = read_again(fitted.recipe, source, talk)
    recipe, (X, kept) = fitted.recipe.carry_on(table.frame)
    return Intake(table, recipe, X, kept, fitted.model)


def read_again(fitted_recipe: Recipe, source: Path, talk: Talk) -> Table:
    """A table whose columns are of the kinds that a recipe knows."""
    texts = [column.name for column in fitted_recipe.columns_ if column.role == "category"]
    with talk.step(f"Reading {source.name}", "read"):
        table = read_table(source, text_columns=texts)
    rows, columns = table.frame.shape
    sizes = f"{counted(rows, 'row')}, {counted(columns, 'column')}"
    log.info("%s: %s", source.name, sizes, extra=data(rows=rows, columns=columns))
    return table


def tell(decisions: Sequence[Decision]) -> None:
    """What was done with each column; those that were treated alike in one line."""
    ordered = sorted(decisions, key=lambda one: (not one.is_used, one.words))
    for words, alike in groupby(ordered, key=lambda one: one.words):
        names = [one.column for one in alike]
        log.info("  %s: %s", listed(names[:SHOWN], len(names)), words, extra=data(columns=names, done=words))
