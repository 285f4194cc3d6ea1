"""``madbayes compare``: two results side by side, of the same rows or one of which continues the other."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from madbayes import match
from madbayes.commands import options, results
from madbayes.commands.errors import Code, UsageError, one_line
from madbayes.commands.results import Fitted
from madbayes.estimators.describing import NOTABLE
from madbayes.estimators.problem import means_of
from madbayes.explain import groups_in_units, units_of
from madbayes.tables import TableError
from madbayes.words import counted, deviations, exact_percent, number, percent

# Hennig (2007): with a Jaccard coefficient below this, a group has dissolved.
SAME_GROUP = 0.5
NO_ROWS = "the two results have no row in common: compare results of the same rows"
RESULT = "A folder that fit has written, or a file of assignments that fit or apply has."


@dataclass(frozen=True, eq=False)
class Assigned:
    """Groups of rows, from a file."""

    kind: str
    names: list[str]
    ids: list[str]
    table: pd.DataFrame
    marks: list[tuple[str, int]]  # for each group where it was born and its id; none in files that have no ids

    def codes(self, rows: NDArray) -> NDArray[np.uint8]:
        """Which row has which group."""
        if self.kind == "clusters":
            return (self.table["label"].to_numpy()[rows, None] == np.arange(len(self.names))).astype(np.uint8)
        return self.table[self.columns].to_numpy()[rows].astype(np.uint8)

    @property
    def columns(self) -> list[str]:
        """Those that have the groups."""
        return ["label"] if self.kind == "clusters" else results.group_columns(self.names)

    def texts(self, key: list[str]) -> pd.DataFrame:
        """What these columns have in each row; they are called by number, whatever their names are."""
        # As text, for a table may have come as CSV one time and as Parquet the next.
        return self.table[key].astype(str).set_axis(range(len(key)), axis=1)

    def distinct(self, key: list[str]) -> "Assigned":
        """The same without rows that are there already."""
        return replace(self, table=self.table[~self.texts(key).duplicated()])

    def tells_apart(self, key: list[str]) -> bool:
        """Whether rows that are alike in these columns have the same groups."""
        texts = self.texts(key)
        return texts.duplicated().sum() == pd.concat([texts, self.table[self.columns]], axis=1).duplicated().sum()


@dataclass(frozen=True)
class Pair:
    """A group that is in both results."""

    old: str
    new: str
    old_size: int
    new_size: int
    agreement: float | None  # Jaccard coefficient of the rows that are in both results
    complement: bool = False  # the rows that do not have the old feature have the new one
    id: int | None = None  # where the new result continues the old one
    shift: float | None = None  # in standard deviations of the column that has changed most, where that is known
    words: str = ""  # the same in the units of that column


@dataclass(frozen=True)
class Comparison:
    """What has become of the groups."""

    kind: str
    matched_by: list[str]
    rows: int
    only_old: int
    only_new: int
    moved: float | None
    kept: list[Pair]
    dead: list[str]
    born: list[str]
    continues: bool  # whether groups are those of the same ids

    def __str__(self) -> str:
        lines = []
        if self.continues:
            groups = f"{len(self.kept)} of its {counted(len(self.kept) + len(self.dead), 'group')}"
            lines.append(f"The new result continues {groups}; {len(self.dead)} gone, {len(self.born)} new.")
        if self.moved is not None:
            by = "their numbers" if self.matched_by == ["row"] else ", ".join(self.matched_by)
            moved = f"{exact_percent(self.moved)} of them have moved"
            lines.append(f"In both results, matched by {by}: {counted(self.rows, 'row')}; {moved}.")
        if self.only_old or self.only_new:
            lines.append(
                f"In the old one only: {counted(self.only_old, 'row')}; in the new one only: "
                f"{counted(self.only_new, 'row')}."
            )
        lines += [f"  {self._line(pair)}" for pair in self.kept]
        lines += [f"  {name}: gone" for name in self.dead]
        lines += [f"  {name}: new" for name in self.born]
        return "\n".join(lines)

    def _line(self, pair: Pair) -> str:
        """What has become of a group."""
        sizes = [counted(size, "row") for size in (pair.old_size, pair.new_size)]
        if self.continues:  # in tables of other sizes
            totals = (self.rows + self.only_old, self.rows + self.only_new)
            shares = (size / total for size, total in zip((pair.old_size, pair.new_size), totals, strict=True))
            sizes = [f"{size} ({percent(share)})" for size, share in zip(sizes, shares, strict=True)]
        name = pair.old if pair.old == pair.new else f"{pair.old} -> {'not ' * pair.complement}{pair.new}"
        common = "" if pair.agreement is None else f", {percent(pair.agreement)} in common"
        return f"{name}: {' -> '.join(sizes)}{common}{pair.words and '; '}{pair.words}"


@one_line
def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD", help=RESULT)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help=RESULT)],
    max_moved: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="End with exit code 3 if more of the rows have moved, 0.05 or 5% for example.",
            show_default=False,
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:  # fmt: skip
    """Which groups are kept, gone and new, and how many rows have moved.

    Where one result continues the other (fit --init), groups are the same if their ids are; otherwise if they share at
    least half of their rows. Rows are matched by their identifiers, or by their numbers where there are none.
    Duplicates count once.

    Are the groups of last month those of this month, in other rows? Continue the old result, or apply the old model to
    the new table and compare that with a new fit.

    Examples:

    - madbayes compare monday tuesday --max-moved 5%

    - madbayes fit tuesday.csv --init monday-groups

    - madbayes compare monday-groups tuesday-groups

    - madbayes apply january february.csv --out old.parquet

    - madbayes compare old.parquet february
    """
    limit = share_of(max_moved)
    found = comparison(read_assigned(old), read_assigned(new))
    if found.continues:
        found = with_shifts(found, old, new)
    if limit is not None and found.moved is None:
        raise UsageError(f"--max-moved {max_moved}: {NO_ROWS}")
    typer.echo(json.dumps(asdict(found), indent=1) if as_json else str(found))
    if limit is not None and found.moved is not None and found.moved > limit:
        typer.echo(
            f"madbayes: {exact_percent(found.moved)} of the rows have moved, more than {exact_percent(limit)}", err=True
        )
        raise typer.Exit(Code.MOVED)


def share_of(text: str | None) -> float | None:
    """A share as a number or in percent."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"--max-moved {text}: give a share from 0 to 1, or 0% to 100%")
    return value


def read_assigned(place: Path) -> Assigned:
    """The groups of a result."""
    path = place
    if place.is_dir():
        in_files = place / results.ASSIGNMENTS_FOLDER
        path = in_files if in_files.is_dir() else place / results.ASSIGNMENTS
    if not path.exists():
        raise UsageError(f"there is no {str(path)!r}: name a folder that madbayes fit has written")
    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[results.KEY])
        kind, names, ids = (about[name] for name in ("kind", "groups", "ids"))
        marks = list(zip(about.get("origins", []), about.get("group_ids", []), strict=True))
        return checked(with_groups(Assigned(kind, names, ids, table.to_pandas(), marks)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{str(path)!r} has no assignments that madbayes has written, or is broken") from error


def with_groups(found: Assigned) -> Assigned:
    """The same without rows that have no groups, because they were put aside or left out."""
    is_there = found.table[found.columns].notna().all(axis=1)
    if is_there.all():
        return found
    table = found.table[is_there].reset_index(drop=True)
    return replace(found, table=table.astype(dict.fromkeys(found.columns, np.int64)))


def checked(found: Assigned) -> Assigned:
    """The same, if the file has the columns that it says it has, with groups that there are."""
    if found.kind not in ("clusters", "features"):
        raise ValueError("groups of an unknown kind")
    values = found.table[["row", *found.ids, *found.columns]][found.columns]
    most = len(found.names) - 1 if found.kind == "clusters" else 1
    if not ((values >= 0) & (values <= most)).all(axis=None):
        raise ValueError("rows of groups that there are not")
    if len(found.marks) not in (0, len(found.names)) or len(set(found.marks)) < len(found.marks):
        raise ValueError("ids of groups that there are not")
    return found


def comparison(old: Assigned, new: Assigned) -> Comparison:
    """Put two results side by side."""
    if old.kind != new.kind:
        raise UsageError(f"the old result has {old.kind} and the new one {new.kind}: compare two of the same kind")
    key = matched_by(old, new)
    old, new = old.distinct(key), new.distinct(key)
    rows_old, rows_new = common_rows(old, new, key)
    same = {k: new.marks.index(mark) for k, mark in enumerate(old.marks) if mark in new.marks}
    if not len(rows_old) and not same:
        raise UsageError(NO_ROWS)
    Z, other = old.codes(rows_old), new.codes(rows_new)
    if same:
        kept, pairs = by_ids(old, new, Z, other, same)
    else:
        kept, pairs = by_rows(old, new, Z, other)
    taken = {j for j, _ in kept.values()}
    return Comparison(
        old.kind,
        key,
        len(Z),
        len(old.table) - len(Z),
        len(new.table) - len(Z),
        float(moved_rows(Z, other, kept).mean()) if len(Z) else None,
        pairs,
        [name for k, name in enumerate(old.names) if k not in kept],
        [name for j, name in enumerate(new.names) if j not in taken],
        bool(same),
    )


Kept = dict[int, tuple[int, bool]]  # for each old group that lives on the new one, and whether that is its complement


def by_rows(old: Assigned, new: Assigned, Z: NDArray, other: NDArray) -> tuple[Kept, list[Pair]]:
    """Groups that have half of their rows in common."""
    found = partners(old.kind, Z, other)
    kept = {k: (partner, flip) for k, (partner, share, flip) in found.items() if share >= SAME_GROUP}
    sizes, others = Z.sum(axis=0, dtype=int), other.sum(axis=0, dtype=int)
    return kept, [
        Pair(old.names[k], new.names[j], int(sizes[k]), int(others[j]), found[k][1], flip)
        for k, (j, flip) in kept.items()
    ]


def by_ids(old: Assigned, new: Assigned, Z: NDArray, other: NDArray, same: dict[int, int]) -> tuple[Kept, list[Pair]]:
    """Groups that have the same id, with their sizes in the whole tables."""
    sizes, others = (one.codes(np.arange(len(one.table))).sum(axis=0, dtype=int) for one in (old, new))
    kept, found = {}, []
    for k, j in same.items():
        flip = old.kind == "features" and len(Z) > 0 and bool((Z[:, k] != other[:, j]).mean() > 0.5)
        theirs, ours = Z[:, k] > 0, (other[:, j] > 0) ^ flip
        either = int((theirs | ours).sum())
        agreement = float((theirs & ours).sum() / either) if either else None
        kept[k] = (j, flip)
        found.append(Pair(old.names[k], new.names[j], int(sizes[k]), int(others[j]), agreement, flip, old.marks[k][1]))
    return kept, found


def with_shifts(found: Comparison, old: Path, new: Path) -> Comparison:
    """The same with how far groups have moved, if both results have their models."""
    if not all((place / results.MODEL).exists() for place in (old, new)):
        return found
    before, after = placed_groups(results.open_model(old)), placed_groups(results.open_model(new))
    return replace(found, kept=[with_shift(pair, before, after) for pair in found.kept])


class Placed(NamedTuple):
    """Where the groups of a result are."""

    names: Sequence[str]  # of the columns
    scales: NDArray[np.float64]
    values: dict[int, NDArray[np.float64]]  # of each group, by its id
    pictured: bool


def placed_groups(fitted: Fitted) -> Placed:
    """The groups of a model in the units of the table."""
    model, units = fitted.model, units_of(fitted.model, fitted.recipe)
    values = groups_in_units(means_of(model._groups()), model._sizes / model._total, units, fitted.recipe)
    by_id = dict(zip(model.group_ids_.tolist(), values, strict=True))
    return Placed(units.names, units.scales, by_id, fitted.recipe.as_is)


def with_shift(pair: Pair, before: Placed, after: Placed) -> Pair:
    """The column in which a group has moved most."""
    if pair.id is None or pair.complement:  # what takes now what it gave before has not moved
        return pair
    old, new = before.values[pair.id], after.values[pair.id]
    distances = (new - old) / np.where(after.scales > 0, after.scales, 1.0)
    d = int(np.abs(distances).argmax())
    shift = float(distances[d])
    words = f"{after.names[d]} {deviations(shift)} ({number(old[d])} -> {number(new[d])})"
    if after.pictured:
        words = ""
    elif abs(shift) < NOTABLE:
        words = "where it was"
    return replace(pair, shift=shift, words=words)


def matched_by(old: Assigned, new: Assigned) -> list[str]:
    """The columns that tell rows apart; of several identifiers the one by which the results have most in common."""
    shared = [name for name in old.ids if name in new.ids]
    if not shared:
        return ["row"]
    keys = [key for key in [*([name] for name in shared), shared] if old.tells_apart(key) and new.tells_apart(key)]
    if not keys:
        raise UsageError(
            f"rows that have the same {', '.join(shared)} are in different groups: name the column that tells them "
            "apart when fitting, --id-column NAME"
        )
    return max(keys, key=lambda key: len(common_rows(old.distinct(key), new.distinct(key), key)[0]))


def common_rows(old: Assigned, new: Assigned, key: list[str]) -> tuple[NDArray, NDArray]:
    """Places of the rows that both have."""
    parts = [one.texts(key).assign(place=np.arange(len(one.table))) for one in (old, new)]
    both = parts[0].merge(parts[1], on=list(range(len(key))), suffixes=("_old", "_new"))
    return both["place_old"].to_numpy(), both["place_new"].to_numpy()


def partners(kind: str, Z: NDArray, other: NDArray) -> dict[int, tuple[int, float, bool]]:
    """For each old group its new one, how much they have in common, and whether it is its complement."""
    if kind == "features":
        found = match(Z, other)
        old, new = np.arange(Z.shape[1]), np.arange(other.shape[1])
    else:
        labels, others = Z.argmax(axis=1), other.argmax(axis=1)
        found, old, new = match(labels, others), np.unique(labels), np.unique(others)
    triples = zip(found.order, found.group_agreement, found.complemented, strict=True)
    return {
        int(old[k]): (int(new[j]), float(share), bool(flip)) for k, (j, share, flip) in enumerate(triples) if j >= 0
    }


def moved_rows(Z: NDArray, other: NDArray, kept: dict[int, tuple[int, bool]]) -> NDArray[np.bool_]:
    """Rows whose groups are not what they were; a group that is gone or new moves all its rows."""
    moved = np.zeros(len(Z), dtype=bool)
    for k, (j, flip) in kept.items():
        moved |= Z[:, k] != (other[:, j] ^ flip)
    for k in set(range(Z.shape[1])) - set(kept):
        moved |= Z[:, k] > 0
    for j in set(range(other.shape[1])) - {j for j, _ in kept.values()}:
        moved |= other[:, j] > 0
    return moved
