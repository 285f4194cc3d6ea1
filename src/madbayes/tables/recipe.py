"""From the columns of a table to numbers that can be compared, and back."""

import warnings
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from madbayes.tables.axes import principal_axes, project
from madbayes.tables.checks import SHOWN, TableError, as_frame, check_length, check_names, quoted, refuse
from madbayes.tables.columns import MAX_CATEGORIES, Column, Decision, look_at
from madbayes.tables.moments import Moments, no_moments
from madbayes.tables.scaling import Scaling, extent_of, learn_scaling
from madbayes.tables.screening import Passed, Screen, unknown_words
from madbayes.tables.streaming import TableStream
from madbayes.tables.summaries import summarise
from madbayes.words import listed

KINDS, SCALES, MISSING = ("clusters", "features"), ("none", "standard", "robust"), ("error", "drop", "median")


class Rows(NamedTuple):
    """Numbers of some rows, and which rows of the table they are."""

    X: NDArray[np.float64]
    kept: NDArray[np.bool_]


class Encoded(NamedTuple):
    """The same before numbers are scaled, NaN where a value is missing, and values of no known category by column."""

    X: NDArray[np.float64]
    kept: NDArray[np.bool_]
    unknown: dict[str, int]


class Recipe(TransformerMixin, BaseEstimator):
    """Turns the columns of a table into numbers on comparable scales, and remembers how.

    Numbers are scaled; true and false become 1 and 0; text of few values becomes a column of zeros and ones for each
    value. Columns that are constant, empty, dates, or identify the rows are left out. ``decisions_`` tells what was
    done with each column. New rows are treated one by one in the same way: a row has the same numbers alone as in the
    training table.

    Parameters
    ----------
    kind : {"clusters", "features"}, default="clusters"
        What the numbers are for. Features are sums of parts, so zero stays zero: nothing is centred.
    scale : {"standard", "robust", "none"}, default="standard"
        Divide numbers by their standard deviation, or by what it would be judging by the quartiles. Zeros and ones
        are left as they are.
    pca : int, optional
        Keep so many principal components.
    missing : {"error", "drop", "median"}, default="error"
        What to do about missing and infinite values: refuse them, leave their rows out, or put the median there, for
        text the most frequent value.
    columns : list of str, optional
        Columns to use; all that can be if not given.
    leave_out : list of str, optional
        Columns not to use.
    id_column : str, optional
        The column that identifies rows. Without it, columns that look like it are found.
    max_categories : int, default=50
        Text with more values than this is refused.
    as_is : bool, default=False
        All columns are numbers of one kind, as in pictures: none is left out, not even a constant one.

    Attributes
    ----------
    decisions_ : list of Decision
        For each column of the table its ``column``, ``role`` and what was done with it in ``words``.
    encoded_names_ : list of str
        Columns of numbers before principal components, such as ``"income"`` or ``"colour=red"``.
    means_, deviations_ : arrays
        Mean and standard deviation of the encoded columns of the training rows, in original units.
    id_columns_ : list of str
        Columns that identify rows, the one that was named first.
    kept_ : array of bool
        Which of the training rows were used; not stored in a model file.

    Examples
    --------
    >>> import pandas as pd
    >>> from madbayes.tables import Recipe
    >>> frame = pd.DataFrame({"price": [1.0, 2.0, 3.0, 6.0], "colour": ["red", "red", "blue", "blue"]})
    >>> recipe = Recipe().fit(frame)
    >>> recipe.encoded_names_
    ['price', 'colour=blue', 'colour=red']
    >>> recipe.transform(frame)[0].round(2).tolist()
    [-1.07, 0.0, 1.0]
    >>> recipe.inverse_transform(recipe.transform(frame))[0].round(2).tolist()
    [1.0, 0.0, 1.0]
    """

    def __init__(
        self,
        kind: str = "clusters",
        scale: str = "standard",
        pca: int | None = None,
        missing: str = "error",
        columns: Sequence[str] | None = None,
        leave_out: Sequence[str] | None = None,
        id_column: str | None = None,
        max_categories: int = MAX_CATEGORIES,
        as_is: bool = False,
    ) -> None:
        self.kind = kind
        self.scale = scale
        self.pca = pca
        self.missing = missing
        self.columns = columns
        self.leave_out = leave_out
        self.id_column = id_column
        self.max_categories = max_categories
        self.as_is = as_is

    def fit(self, X: Any, y: None = None) -> Self:
        """Look at a table.

        Parameters
        ----------
        X : DataFrame, array of numbers, or TableStream
            A stream is gone through a few times and is never in memory as a whole; what is learned is the same, up to
            rounding.
        y : ignored

        Returns
        -------
        self
        """
        if not isinstance(X, TableStream):
            self.fit_transform(X)
            return self
        self.look(X.frames, lenient=True, capacity=X.capacity, folder=X.spill_dir)
        screen = Screen(self, X)
        n_dropped = sum(int((~screen.passed(block).kept).sum()) for block in X.blocks())
        screen.finish()
        return self.learn(Passed(screen), n_dropped=n_dropped)

    def fit_transform(self, X: Any, y: None = None) -> NDArray[np.float64]:
        """Look at a table and give its numbers.

        Parameters
        ----------
        X : DataFrame, or array of numbers
        y : ignored

        Returns
        -------
        array of shape (n_rows kept, n_columns)
        """
        frame = as_frame(X)
        self.look([frame])
        encoded, self.kept_, _ = self.encode(frame)
        self.learn([encoded], n_dropped=int((~self.kept_).sum()))
        return self.finish(encoded)

    def look(
        self,
        frames: Iterable[pd.DataFrame],
        *,
        lenient: bool = False,
        capacity: int | None = None,
        folder: Path | str | None = None,
    ) -> Self:
        """Decide about the columns: the first half of a fit to a table in blocks, which :meth:`learn` completes.

        Parameters
        ----------
        frames : iterable of DataFrame
            All rows of the table; gone through once, or twice if a column is text in some of them only.
        lenient : bool, default=False
            Text most of which is numbers is numbers, and :meth:`encode` will say what is not; an error otherwise.
        capacity : int, optional
            Values that may stay in memory while different ones are counted.
        folder : path, optional
            Where the others go for the time being.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._decide(frames, lenient, capacity, folder)
        return self

    def encode(self, frame: pd.DataFrame, *, is_new: bool = False) -> Encoded:
        """Numbers of rows before they are scaled.

        Parameters
        ----------
        frame : DataFrame
        is_new : bool, default=False
            Whether these are not rows of the fit.

        Returns
        -------
        Encoded
        """
        encoded, unknown = self._encode(frame)
        return Encoded(*self._without_gaps(encoded, is_new=is_new), unknown)

    def learn(self, blocks: Iterable[NDArray[np.float64]], *, n_dropped: int = 0) -> Self:
        """Learn scales and principal components: the second half of a fit to a table in blocks.

        Parameters
        ----------
        blocks : iterable of arrays
            What :meth:`encode` gives for all rows; gone through a few times.
        n_dropped : int
            Rows that were left out.

        Returns
        -------
        self
        """
        extent = extent_of(blocks)
        self.n_rows_, self.n_dropped_ = extent.n_rows, n_dropped
        check_length(self.n_rows_, n_dropped)
        if empty := [name for name, count in zip(self.encoded_names_, extent.counts, strict=True) if not count]:
            raise TableError(f"columns without any value: {quoted(empty)}. Leave them out with --leave-out")
        options = {"kind": self.kind, "scale": self.scale, "missing": self.missing}
        self._scaling = learn_scaling(blocks, extent, self.columns_, **options)
        self._say()
        self._learn_pca(blocks)
        return self

    def finish(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale rows that :meth:`encode` gave, and find their principal components.

        Parameters
        ----------
        encoded : array of shape (n_rows, len(encoded_names_))

        Returns
        -------
        array of shape (n_rows, n_columns)
        """
        scaled = self._scaled(encoded)
        return scaled if self.axes_ is None else project(scaled, self.axes_, self.axes_origin_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The numbers of a table; columns are found by their names, others are ignored.

        Parameters
        ----------
        X : DataFrame, or array of numbers

        Returns
        -------
        array of shape (n_rows, n_columns)
            With ``missing="drop"`` of the complete rows only, see :meth:`rows`.
        """
        return self.rows(X).X

    def rows(self, X: Any) -> Rows:
        """The numbers of a table, and which of its rows they are.

        Parameters
        ----------
        X : DataFrame, or array of numbers

        Returns
        -------
        Rows
            ``X``, and ``kept``: False for rows that were left out because a value is missing.
        """
        encoded, kept = self._encode_again(X)
        return Rows(self.finish(encoded), kept)

    def carry_on(self, X: Any) -> tuple[Self, Rows]:
        """For a fit that continues an earlier one: numbers as before, and a recipe that knows this table.

        Parameters
        ----------
        X : DataFrame, or array of numbers

        Returns
        -------
        Recipe
            It treats rows as this one does, to the last bit. Counts, means and deviations are those of ``X``.
        Rows
            As :meth:`rows` gives them.
        """
        encoded, kept = self._encode_again(X)
        recipe = self.continued([encoded], n_dropped=int((~kept).sum()))
        recipe.kept_ = kept
        return recipe, Rows(self.finish(encoded), kept)

    def continued(self, blocks: Iterable[NDArray[np.float64]], *, n_dropped: int = 0) -> Self:
        """The same recipe with the counts, means and deviations of another table in blocks.

        Parameters
        ----------
        blocks : iterable of arrays
            What :meth:`encode` gives for all rows.
        n_dropped : int
            Rows that were left out.

        Returns
        -------
        Recipe
        """
        factors, n_rows = self._scaling.factors, 0
        moments = no_moments(len(factors))
        for block in blocks:
            moments, n_rows = moments + Moments.of(self._scaling.filled(block) * factors), n_rows + len(block)
        recipe = copy(self)
        recipe.n_rows_, recipe.n_dropped_ = n_rows, n_dropped
        check_length(n_rows, n_dropped)
        means, deviations = moments.means / factors, moments.deviations / factors
        recipe._scaling = self._scaling._replace(means=means, deviations=deviations)
        return recipe

    def _encode_again(self, X: Any) -> Rows:
        """Encoded columns of a table for a model that exists, and which of its rows they are."""
        check_is_fitted(self)
        frame = as_frame(X)
        check_names([column.name for column in self.columns_], list(frame.columns), "the model needs more columns")
        encoded, unknown = self._encode(frame)
        for name, count in unknown.items():
            warnings.warn(unknown_words(name, count), UserWarning, stacklevel=4)
        encoded, kept = self._without_gaps(encoded, is_new=True)
        if not kept.all():
            warnings.warn(
                f"{(~kept).sum()} of {len(kept)} rows have missing values and are left out", UserWarning, stacklevel=4
            )
        return Rows(encoded, kept)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Numbers in original units, one column for each of ``encoded_names_``.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            As :meth:`transform` gives it.

        Returns
        -------
        array of shape (n_rows, len(encoded_names_))
        """
        check_is_fitted(self)
        scaled = np.asarray(X, dtype=np.float64)
        if self.axes_ is not None:
            scaled = scaled @ self.axes_ + self.axes_origin_
        return self._scaling.original(scaled)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the numbers that :meth:`transform` gives.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        names = self.encoded_names_ if self.axes_ is None else [f"pca{d}" for d in range(len(self.axes_))]
        return np.asarray(names, dtype=object)

    def _check_parameters(self) -> None:
        for name, accepted in (("kind", KINDS), ("scale", SCALES), ("missing", MISSING)):
            if getattr(self, name) not in accepted:
                raise TableError(f"{name}={getattr(self, name)!r} is not accepted: give one of {', '.join(accepted)}")
        if self.pca is not None and self.pca < 1:
            raise TableError(f"pca={self.pca} is not accepted: give a number of components from 1 on")

    def _decide(
        self, frames: Iterable[pd.DataFrame], lenient: bool, capacity: int | None, folder: Path | str | None
    ) -> None:
        """What to do with each column."""
        names = list(next(iter(frames)).columns)
        check_names(self.columns or [], names, "--columns")
        check_names(self.leave_out or [], names, "--leave-out")
        check_names([self.id_column] if self.id_column is not None else [], names, "--id-column")
        left = set(self.leave_out or [])
        asked = [name for name in self.columns or [] if name not in left]
        ids = [self.id_column] if self.id_column is not None else []
        if self.columns and not asked:
            raise TableError("--columns and --leave-out name the same columns, so that none is left: give others")
        seen = [name for name in names if name not in left]
        if self.as_is:
            used = [name for name in seen if name not in ids and (not asked or name in asked)]
            self.columns_ = [Column(name, "number") for name in used]
            self.decisions_ = [Decision(f"{used[0]} to {used[-1]}", "number", "")] if used else []
        else:
            summaries = summarise(frames, seen, self.max_categories, capacity=capacity, folder=folder)
            check_length(next(iter(summaries.values())).n_rows if summaries else 0)
            found = look_at(summaries, asked, ids, self.max_categories, lenient=lenient)
            if found.problems:
                names_missing = [column.name for column in found.columns if summaries[column.name].n_missing]
                refuse(found.problems, names_missing if self.missing == "error" else [])
            self.columns_, self.decisions_ = found.columns, found.decisions
        self.decisions_ += [Decision(name, "left out", "left out, as asked") for name in names if name in left]
        if not self.columns_:
            why = "; ".join(f"{one.column!r} {one.words}" for one in self.decisions_[:SHOWN])
            raise TableError(f"no column is left to find groups in: {why}")
        self.id_columns_ = ids + [one.column for one in self.decisions_ if one.role == "id" and one.column not in ids]
        self.encoded_names_ = [name for column in self.columns_ for name in column.encoded_names]
        self.n_features_in_ = len(names)

    def _encode(self, frame: pd.DataFrame) -> tuple[NDArray[np.float64], dict[str, int]]:
        """Numbers of all columns that are used, and values of no known category in each column."""
        names = [column.name for column in self.columns_]
        if self.as_is:
            whole = frame if list(frame.columns) == names else frame[names]
            try:
                found = whole.to_numpy(dtype=np.float64)
            except (TypeError, ValueError):
                raise TableError(f"columns {names[0]!r} to {names[-1]!r} are not all numbers: give numbers") from None
            return np.where(np.isfinite(found), found, np.nan), {}
        unknown, place = {}, 0
        encoded = np.empty((len(frame), len(self.encoded_names_)), order="F")
        for column in self.columns_:
            part, strange = column.encode(frame[column.name])
            encoded[:, place : place + part.shape[1]] = part
            place += part.shape[1]
            if strange:
                unknown[column.name] = strange
        return encoded, unknown

    def _without_gaps(self, encoded: NDArray[np.float64], *, is_new: bool) -> Rows:
        """Encoded rows without those that are left out because a value is missing."""
        everything = np.ones(len(encoded), dtype=bool)
        if not np.isnan(encoded).any():
            return Rows(encoded, everything)
        complete = np.asarray(np.isfinite(encoded).all(axis=1))
        self._refuse_missing(encoded, complete, is_new=is_new)
        return (
            Rows(encoded, everything)
            if self.missing != "drop"
            else Rows(np.asfortranarray(encoded[complete]), complete)
        )

    def _refuse_missing(self, encoded: NDArray, complete: NDArray[np.bool_], *, is_new: bool = False) -> None:
        if self.missing != "error" or complete.all():
            return
        counts, place = {}, 0
        for column in self.columns_:
            counts[column.name] = int(np.isnan(encoded[:, place]).sum())
            place += len(column.encoded_names)
        found = [f"{name!r}: {count}" for name, count in counts.items() if count]
        lost = f"{int((~complete).sum())} of {len(complete)} rows"
        if is_new:
            advice = f"The model knows no way with them: correct {lost}, or fit it with --missing median or drop"
        else:
            advice = f"Fill them in with --missing median, or leave out {lost} with --missing drop"
        raise TableError(f"missing or infinite values, by column {listed(found[:SHOWN], len(found))}. {advice}")

    @property
    def means_(self) -> NDArray[np.float64]:
        """Mean of each encoded column of the training rows."""
        return self._scaling.means

    @property
    def deviations_(self) -> NDArray[np.float64]:
        """Standard deviation of each encoded column of the training rows."""
        return self._scaling.deviations

    def _scaled(self, encoded: NDArray) -> NDArray:
        return self._scaling.scaled(self._scaling.filled(encoded))

    def _learn_pca(self, blocks: Iterable[NDArray[np.float64]]) -> None:
        """Principal axes; about the origin for features, which are not centred."""
        D = len(self.encoded_names_)
        self.axes_: NDArray | None = None
        self.axes_origin_ = np.zeros(D)
        if self.pca is None:
            return
        if self.pca > min(D, self.n_rows_):
            raise TableError(
                f"--pca {self.pca}: there are {D} columns of numbers in {self.n_rows_} rows, "
                f"give {min(D, self.n_rows_)} at most"
            )
        scaled = (self._scaled(block) for block in blocks)
        centred = self.kind == "clusters"
        self.axes_, self.axes_origin_ = principal_axes(scaled, self.n_rows_, self.pca, centred=centred)

    def _say(self) -> None:
        """Put what is done with the columns that are used in words."""
        used = {column.name: column for column in self.columns_}
        self.decisions_ = [
            one._replace(words=self._words(used.get(one.column, self.columns_[0]))) if one.is_used else one
            for one in self.decisions_
        ]

    def _words(self, column: Column) -> str:
        if column.role == "category":
            words = f"text with {len(column.categories)} values, a column of zeros and ones for each"
            return words + (", empty ones as the most frequent" if self.missing == "median" else "")
        if column.role == "flag":
            return "true or false, as one and zero"
        filled = ", the median where empty" if self.missing == "median" else ""
        centred = "centred and " if self.kind == "clusters" else ""
        how = {
            "none": "number, as it is",
            "standard": f"number, {centred}divided by its standard deviation",
            "robust": f"number, {centred}divided by its spread between the quartiles",
        }
        return how[self.scale] + filled

    def _to_state(self) -> dict[str, Any]:
        """All that is needed to treat new rows: plain values and arrays."""
        return {
            "parameters": {
                name: list(value) if isinstance(value, tuple) else value for name, value in self.get_params().items()
            },
            "columns": [asdict(column) | {"categories": list(column.categories)} for column in self.columns_],
            "decisions": [list(one) for one in self.decisions_],
            "id_columns": list(self.id_columns_),
            "n_rows": self.n_rows_,
            "n_dropped": self.n_dropped_,
            "n_features_in": self.n_features_in_,
            **self._scaling._asdict(),
            "axes": self.axes_,
            "axes_origin": self.axes_origin_,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        """The recipe that :meth:`_to_state` described."""
        recipe = cls(**state["parameters"])
        recipe.columns_ = [Column(one["name"], one["role"], tuple(one["categories"])) for one in state["columns"]]
        recipe.encoded_names_ = [name for column in recipe.columns_ for name in column.encoded_names]
        recipe.decisions_ = [Decision(*one) for one in state["decisions"]]
        recipe.id_columns_ = list(state["id_columns"])
        recipe.n_rows_, recipe.n_dropped_ = state["n_rows"], state["n_dropped"]
        recipe.n_features_in_ = state["n_features_in"]
        recipe._scaling = Scaling(*(np.asarray(state[name], dtype=np.float64) for name in Scaling._fields))
        recipe.axes_ = None if state["axes"] is None else np.asarray(state["axes"], dtype=np.float64)
        recipe.axes_origin_ = np.asarray(state["axes_origin"], dtype=np.float64)
        recipe._check_state()
        return recipe

    def _check_state(self) -> None:
        """Whether what a file says fits together."""
        self._check_parameters()
        words = [*self.id_columns_, *(word for one in self.decisions_ for word in one)]
        words += [word for column in self.columns_ for word in (column.name, *column.categories)]
        if not all(isinstance(word, str) for word in words):
            raise ValueError("the recipe has names that are no text")
        if not {column.role for column in self.columns_} <= {"number", "flag", "category"}:
            raise ValueError("the recipe has columns of an unknown role")
        D = len(self.encoded_names_)
        shapes = [array.shape for array in (*self._scaling, self.axes_origin_)]
        if any(shape != (D,) for shape in shapes):
            raise ValueError(f"the recipe has {D} columns and arrays of shapes {shapes}")
        if (self.axes_ is None) != (self.pca is None) or (self.axes_ is not None and self.axes_.shape != (self.pca, D)):
            raise ValueError("the principal components of the recipe do not fit its columns")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "axes_origin_")
