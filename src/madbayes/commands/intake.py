"""From a file to numbers, and saying what was done."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madbayes.commands.console import Talk, data, log
from madbayes.commands.errors import UsageError
from madbayes.commands.options import Settings, names_of
from madbayes.commands.results import Fitted, ids_of, open_model
from madbayes.estimators.base import GroupEstimator
from madbayes.estimators.problem import DOMINANT
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
        return ids_of(self.recipe, self.table.frame, self.table.ids, self.kept)


def take_in(settings: Settings, talk: Talk) -> Intake:
    """Read a table and look at its columns, or treat them as an earlier result did."""
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
        recipe = recipe_for(settings, table)
        X = recipe.fit_transform(table.frame)
    tell(recipe.decisions_)
    if recipe.n_dropped_:
        log.info("  %d of %d rows have missing values and are left out", recipe.n_dropped_, rows)
    if recipe.axes_ is not None:
        log.info("  %d principal components of %d columns of numbers", len(recipe.axes_), len(recipe.encoded_names_))
    warn_of_scales(recipe, table)
    return Intake(table, recipe, X, recipe.kept_)


def open_start(settings: Settings) -> Fitted:
    """The earlier result that is to be continued."""
    fitted = open_model(Path(str(settings.init)))
    if fitted.kind != settings.kind:
        raise UsageError(f"--init {settings.init} has {fitted.kind}: add --kind {fitted.kind}, or name another result")
    return fitted


def warn_of_scales(recipe: Recipe, table: Table) -> None:
    """Say so when one column has nearly all of the variance."""
    if recipe.scale != "none" or table.shape is not None or len(recipe.encoded_names_) < 2:
        return
    shares = (recipe.deviations_ / recipe.deviations_.max()) ** 2
    share = 1 / shares.sum()
    if share > DOMINANT:
        name = recipe.encoded_names_[int(shares.argmax())]
        words = "column %r has %.0f %% of the variance and decides the groups almost alone: add --scale standard"
        log.warning(words, name, 100 * share)


def recipe_for(settings: Settings, table: Table) -> Recipe:
    """What to do with this table."""
    known = list(table.frame.columns)
    return Recipe(
        kind=settings.kind,
        scale=settings.scale or ("standard" if table.units == "mixed" else "none"),
        pca=settings.pca,
        missing=settings.missing,
        columns=names_of(settings.columns, known),
        leave_out=names_of(settings.leave_out, known),
        id_column=settings.id_column,
        as_is=table.shape is not None,
    )


def take_again(fitted_recipe: Recipe, source: Path, talk: Talk) -> Intake:
    """Read a table for a model that exists; columns are found by their names."""
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
