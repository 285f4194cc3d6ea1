"""What a fit leaves behind: the files of a result folder, written together or not at all."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

import madbayes
from madbayes.commands.errors import PlaceError, UsageError
from madbayes.estimators.base import GroupEstimator
from madbayes.evidence import kind_of
from madbayes.files import plain, write_whole
from madbayes.tables import Recipe

MODEL, ASSIGNMENTS, COMPONENTS = "model.madbayes", "assignments.parquet", "components.parquet"
PATH, RUN, REPORT = "path.json", "run.json", "report.html"
FILES = (MODEL, ASSIGNMENTS, COMPONENTS, PATH, RUN, REPORT)
# Of a table in several files: folders of files of the same names, with groups, and with rows that were put aside.
ASSIGNMENTS_FOLDER, QUARANTINE = "assignments", "quarantine"
NAMES = (*FILES, ASSIGNMENTS_FOLDER, QUARANTINE)
# Endings of tables that are written, and what separates columns of text.
PARQUET, TEXT = (".parquet", ".pq"), {".csv": ",", ".tsv": "\t"}
# Columns of assignments that are ours, whatever features are called.
OURS = ("row", "margin", "error", "unusual")
# Where a table of Parquet keeps what madbayes knows about it.
KEY = b"madbayes"


@dataclass(frozen=True)
class Fitted:
    """A model with the recipe for its tables."""

    recipe: Recipe
    model: GroupEstimator

    @property
    def kind(self) -> str:
        """Clusters or features."""
        return kind_of(self.model)

    @property
    def K(self) -> int:
        """Number of groups."""
        return len(self.model.group_names_)

    def save(self, path: Path) -> None:
        """As a pipeline, from raw rows to groups."""
        madbayes.save(Pipeline([("recipe", self.recipe), ("model", self.model)]), path)


def stem_of(source: str) -> str:
    """The name of a table without its endings."""
    return source.rstrip("/").rpartition("/")[2].split(".")[0] or "table"


def find_model(place: Path) -> Path:
    """The model in a folder, or the file itself."""
    return place / MODEL if place.is_dir() else place


def open_model(place: Path) -> Fitted:
    """The model that a fit has written."""
    path = find_model(place)
    if not path.exists():
        raise UsageError(
            f"there is no model {str(path)!r}: name a folder that madbayes fit has written, or its {MODEL}"
        )
    found = madbayes.load(path)
    steps = dict(found.steps) if isinstance(found, Pipeline) else {}
    if set(steps) != {"recipe", "model"} or not isinstance(steps["recipe"], Recipe):
        raise UsageError(f"{str(path)!r} was saved without its recipe for tables: use it in Python, with madbayes.load")
    if not isinstance(steps["model"], GroupEstimator) or steps["model"].n_features_in_ != len(
        steps["recipe"].get_feature_names_out()
    ):
        raise UsageError(f"{str(path)!r} is broken: its recipe does not fit its model")
    return Fitted(steps["recipe"], steps["model"])


def assignments(fitted: Fitted, X: NDArray, ids: pd.DataFrame) -> pd.DataFrame:
    """For each row what identifies it, its groups, how clearly it belongs to them and how well it fits."""
    values = group_values(fitted, X)
    named = ids.set_axis(free_names(ids.columns, values), axis=1).reset_index(drop=True)
    return pd.concat([named, pd.DataFrame(values)], axis=1)


def group_values(fitted: Fitted, X: NDArray) -> dict[str, NDArray]:
    """For each row its groups, how clearly it belongs to them and how well it fits."""
    model = fitted.model
    scores = np.asarray(model.score_samples(X))
    if fitted.kind == "clusters":
        labels = model.predict(X)
        names = np.asarray(model.group_names_, dtype=object)
        groups = {"label": labels, "group": names[labels], "group_id": model.group_ids_[labels]}
    else:
        Z = np.asarray(model.transform(X)).astype(np.uint8)
        groups = dict(zip(group_columns(model.group_names_), Z.T, strict=True))
    return {**groups, "margin": scores[:, 1], "error": scores[:, 0], "unusual": scores[:, 0] > model.unusual_error_}


def types_of(fitted: Fitted) -> dict[str, Any]:
    """Columns of these values and their types in a file, which are the same if no row has groups."""
    if fitted.kind == "clusters":
        groups = {"label": pa.int64(), "group": pa.string(), "group_id": pa.int64()}
    else:
        groups = dict.fromkeys(group_columns(fitted.model.group_names_), pa.uint8())
    return {**groups, "margin": pa.float64(), "error": pa.float64(), "unusual": pa.bool_()}


def group_columns(names: Sequence[str]) -> list[str]:
    """What the columns of features are called in assignments: as the features are, where that is free."""
    return free_names(names, OURS)


def free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The same names, those that are taken or came before with underscores behind them."""
    found, taken = list[str](), set(taken)
    for name in names:
        while name in taken:
            name += "_"
        found.append(name)
        taken.add(name)
    return found


def sizes_of(fitted: Fitted, table: Mapping[str, Any] | pd.DataFrame) -> NDArray[np.int64]:
    """Rows of each group, by assignments."""
    if fitted.kind == "clusters":
        return np.bincount(table["label"], minlength=fitted.K)
    names = group_columns(fitted.model.group_names_)
    return np.array([np.asarray(table[name]).sum(dtype=np.int64) for name in names], dtype=np.int64)


def ids_of(recipe: Recipe, frame: pd.DataFrame, names: pd.Index | None, kept: NDArray[np.bool_]) -> pd.DataFrame:
    """What identifies the rows that are kept: their number in the table, names of pictures, columns of identifiers."""
    columns: list[tuple[str, Any]] = [("row", np.flatnonzero(kept))]
    if names is not None:
        columns.append((str(names.name), names[kept]))
    columns += [(name, frame[name].to_numpy()[kept]) for name in recipe.id_columns_ if name in frame.columns]
    called = free_names([name for name, _ in columns], ())
    return pd.DataFrame(dict(zip(called, (values for _, values in columns), strict=True)))


def first_ids(ids: pd.DataFrame) -> list[Any]:
    """What to call the rows: the first of what identifies them, their number if there is nothing else."""
    return ids.iloc[:, min(1, ids.shape[1] - 1)].tolist()


def components(fitted: Fitted, sizes: NDArray[np.int64], n_rows: int) -> pd.DataFrame:
    """For each group its name and size, and its numbers in original units."""
    facts = pd.DataFrame(
        {
            "group": np.arange(fitted.K),
            "group_id": fitted.model.group_ids_,
            "name": fitted.model.group_names_,
            "size": sizes,
            "share": sizes / max(1, n_rows),
        }
    )
    values = fitted.recipe.inverse_transform(fitted.model._groups())
    columns = pd.DataFrame(values, columns=free_names(fitted.recipe.encoded_names_, facts.columns))
    return pd.concat([facts, columns], axis=1)


def write_assignments(table: pd.DataFrame, path: Path, fitted: Fitted, ids: pd.DataFrame) -> None:
    """With what a program must know to read them: identifiers come first, the number of the row before all."""
    write_table(table, path, about_groups(fitted, table.columns[1 : ids.shape[1]].tolist()))


def about_groups(fitted: Fitted, ids: Sequence[str]) -> dict[str, Any]:
    """What a program must know to read assignments."""
    return {
        "kind": fitted.kind,
        "groups": list(fitted.model.group_names_),
        "group_ids": fitted.model.group_ids_.tolist(),
        "origins": list(fitted.model._group_origins),
        "ids": list(ids),
    }


def metadata_of(about: dict[str, Any]) -> dict[bytes, bytes]:
    """The same as a file of Parquet has it."""
    return {KEY: json.dumps(about).encode()}


def write_table(frame: pd.DataFrame, path: Path, about: dict[str, Any] | None = None) -> None:
    """As Parquet, or as text if the name ends so; whole or not at all."""
    if separator := TEXT.get(path.suffix.lower()):
        write_whole(path, frame.to_csv(index=False, sep=separator).encode())
        return
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if about is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata_of(about)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    write_whole(path, sink.getvalue().to_pybytes())


def write_json(path: Path, value: Any) -> None:
    """Plain values."""
    write_whole(path, (json.dumps(plain(value), indent=1) + "\n").encode())


def check_here(out: Path) -> None:
    """Refuse a URL; as a path it has lost one of its slashes."""
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(out)) and not out.exists():
        raise UsageError(f"--out {out}: results are written to this machine; name a place here, and copy them")


def check_folder(out: Path, *, force: bool, stage: Path | None = None) -> None:
    """Refuse a place that has something in it, unless that may be replaced."""
    check_here(out)
    if out.exists() and not out.is_dir():
        raise PlaceError(f"{str(out)!r} is a file: name a folder with --out")
    if out.is_dir() and not force and any(path != stage for path in out.iterdir()):
        raise PlaceError(f"{str(out)!r} is not empty: replace what a fit writes with --force, or name another --out")
    check_place(out)


def check_file(out: Path, *, force: bool) -> None:
    """The same for a file."""
    check_here(out)
    if out.is_dir():
        raise PlaceError(f"{str(out)!r} is a folder: name a file with --out")
    if out.exists() and not force:
        raise PlaceError(f"{str(out)!r} is there already: replace it with --force, or name another --out")
    check_place(out.parent)


def check_ending(out: Path) -> None:
    """Refuse a file whose name says that it is something that is not written here."""
    if out.suffix.lower() not in (*TEXT, *PARQUET):
        raise UsageError(f"--out {out}: give a name that ends in {', '.join((*PARQUET, *TEXT))}")


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be written to, or made, before there is work that could be lost."""
    whole = folder.absolute()
    there = next(one for one in (whole, *whole.parents) if one.exists())
    if not there.is_dir():
        raise PlaceError(f"{str(there)!r} is a file: name another place with --out")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        words = f"{str(there)!r} may not be written to ({error.strerror}): name another place with --out"
        raise PlaceError(words) from None


@contextmanager
def staged(out: Path, *, force: bool) -> Iterator[Path]:
    """A folder to write to, whose files go to their place when all are complete, and away if anything fails."""
    # In the folder itself if there is one: that beside it may be on another disk, or of somebody else.
    home = out if out.is_dir() else out.parent
    home.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{out.name}-", suffix=".part", dir=home))
    try:
        yield stage
        os.chmod(stage, 0o777 & ~current_umask())
        # Once more, for another fit may have been faster.
        check_folder(out, force=force, stage=stage)
        if out.is_dir():
            replace_all(stage, out)
        else:
            os.replace(stage, out)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def replace_all(stage: Path, out: Path) -> None:
    """Put what is in one folder in the place of what a fit has written to another."""
    new = sorted(stage.iterdir())
    old = Path(tempfile.mkdtemp(dir=stage))
    for name in sorted({ASSIGNMENTS, ASSIGNMENTS_FOLDER, QUARANTINE, *(file.name for file in new)}):
        is_outdated = (out / name).exists() and not (stage / name).exists()
        # A folder cannot be replaced in one step.
        if is_outdated or (out / name).is_dir():
            os.replace(out / name, old / name)
    for file in new:
        os.replace(file, out / file.name)


def current_umask() -> int:
    """The permissions that new folders do not have; reading it is only possible by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
