"""Tables that are read block by block: their numbers on the disk, a sample in memory, their groups file by file."""

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from madbayes.commands import results
from madbayes.commands.console import Talk, data, log
from madbayes.commands.errors import UsageError
from madbayes.commands.options import Settings
from madbayes.commands.results import Fitted
from madbayes.commands.sampling import Sample, Sampler, sample_size
from madbayes.estimators.base import GroupEstimator
from madbayes.sources import FileRows, RowWriter, ahead
from madbayes.sources.places import is_url
from madbayes.tables import Recipe, TableStream
from madbayes.tables.checks import TableError, check_names
from madbayes.tables.screening import Good, Screen, unknown_words
from madbayes.tables.streaming import Block, can_stream
from madbayes.words import counted

# Bytes of numbers that are read back from the disk at a time, and the part of a limit of memory that they may have.
BLOCK_BYTES, BLOCK_SHARE = 2**23, 1 / 100
# The column of rows that are put aside that says why.
REASON = "reason"


def is_streamed(source: str, memory_limit: str | None, bad_rows: str | None) -> bool:
    """Whether a table is read block by block: at a URL, in a folder of Parquet files, and where that is asked for."""
    if is_url(source) or (Path(source).is_dir() and can_stream(source)):
        return True
    if memory_limit is None and bad_rows is None:
        return False
    if not can_stream(source) and Path(source).exists():
        asked = "--memory-limit" if memory_limit is not None else "--bad-rows"
        raise UsageError(
            f"{asked}: {source!r} is not Parquet and is read as a whole; write it as Parquet, or leave the option out"
        )
    return True


def check_outside(out: Path, source: str) -> None:
    """Refuse results among the files of the table: the next time they would be taken for some of its rows."""
    if is_url(source) or not Path(source).is_dir() or not can_stream(source):
        return
    if out.resolve().is_relative_to(Path(source).resolve()):
        raise UsageError(f"--out {out}: is in {source!r}, whose Parquet files are the table; name a place elsewhere")


@dataclass(frozen=True, eq=False)
class StreamIntake:
    """A table whose numbers are on the disk.

    Attributes
    ----------
    stream : TableStream
        The table.
    recipe : Recipe
        What turns it into numbers.
    sample : Sample
        Rows that stand for all that are used.
    X : FileRows or array
        All rows that are used; those of the sample where it has all of them, or where nobody asks for more.
    puts_aside : bool
        Whether bad rows are put aside.
    n_bad : int
        How many there are.
    start : estimator, optional
        The model that is to be continued.
    """

    stream: TableStream
    recipe: Recipe
    sample: Sample
    X: FileRows | NDArray[np.float64]
    puts_aside: bool
    n_bad: int
    start: GroupEstimator | None = None

    shape = None  # they are no pictures

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        return self.stream.n_rows, len(self.stream.columns)

    @property
    def fingerprint(self) -> str:
        """What tells tables apart."""
        return self.stream.fingerprint

    def write(self, folder: Path, fitted: Fitted, talk: Talk) -> tuple[NDArray[np.int64], int]:
        """The groups of every row; how many rows each group has, and how many there are in all groups together."""
        written = write_dataset(self.stream, fitted, folder, talk, puts_aside=self.puts_aside, is_new=False)
        return written.sizes, written.n_kept


def open_stream(source: str, memory_limit: int | None, spill_dir: str | None, talk: Talk) -> TableStream:
    """Look at the files of a table."""
    with talk.step(f"Looking at the files of {short_name(source)}", "files"):
        stream = TableStream(source, memory_limit=memory_limit, spill_dir=spill_dir)
    rows, columns, files = stream.n_rows, len(stream.columns), len(stream.parts)
    sizes = f"{counted(rows, 'row')}, {counted(columns, 'column')} in {counted(files, 'file')}"
    log.info("%s: %s", short_name(source), sizes, extra=data(rows=rows, columns=columns, files=files))
    return stream


def short_name(source: str) -> str:
    """The last part of a name."""
    return source.rstrip("/").rpartition("/")[2] or source


def give_back_memory() -> None:
    """Return memory that is free to the system, for all that the process has counts against its limit."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # where there is no GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def told(blocks: Iterator[Block], stream: TableStream, talk: Talk) -> Iterator[Block]:
    """The same blocks; when a file begins, it is said."""
    part = -1
    for block in blocks:
        if block.part != part:
            part = block.part
            give_back_memory()
            talk.progress(f"file {part + 1} of {len(stream.parts)}, {stream.parts[part].name}", rows=block.start)
        yield block
    give_back_memory()


@dataclass(frozen=True)
class Spooled:
    """Encoded rows of a table, on the disk."""

    stream: TableStream
    encoded: "Reread"
    screen: Screen
    sampler: Sampler

    @property
    def n_dropped(self) -> int:
        """Rows that were left out because a value is missing."""
        return self.stream.n_rows - self.screen.n_bad - len(self.encoded.rows)

    def finished(self, recipe: Recipe, settings: Settings, *, keep_rows: bool = True) -> StreamIntake:
        """With a recipe that has learned its scales, what a model needs."""
        if self.screen.n_bad:
            lost = f"{self.screen.n_bad} of {counted(self.stream.n_rows, 'row')}"
            log.info("  %s cannot be used and are put aside", lost)
        sample = sample_of(recipe, self.sampler)
        X = sample.X if sample.is_all or not keep_rows else finished(recipe, self.encoded, settings.spill_dir)
        give_back_memory()
        return StreamIntake(self.stream, recipe, sample, X, settings.puts_aside, self.screen.n_bad)


def spool(recipe: Recipe, stream: TableStream, settings: Settings, talk: Talk, *, is_new: bool = False) -> Spooled:
    """Put the encoded rows on the disk, and draw the sample."""
    screen = Screen(recipe, stream, quarantine=settings.puts_aside, is_new=is_new)
    sampler = new_sampler(stream, settings.seed)
    with (
        talk.step("Encoding the rows", "encode"),
        RowWriter(settings.spill_dir, len(recipe.encoded_names_), np.float64) as writer,
    ):
        for block in told(stream.blocks(), stream, talk):
            good = screen.passed(block)
            writer.append(good.X)
            draw(sampler, block, good)
        screen.finish()
        return Spooled(stream, Reread(writer.close(), stream.memory_limit), screen, sampler)


def draw(sampler: Sampler, block: Block, good: Good) -> None:
    """Let the good rows of a block take part in the draw."""
    rows = np.flatnonzero(good.kept)
    sampler.add(block.frame.iloc[rows], block.start + rows)


class Reread:
    """Rows on the disk, block by block, as often as one likes."""

    def __init__(self, rows: FileRows, memory_limit: int | None) -> None:
        room = BLOCK_BYTES if memory_limit is None else min(BLOCK_BYTES, int(memory_limit * BLOCK_SHARE))
        self.rows, self.size = rows, max(1, room // (8 * rows.shape[1]))

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        starts = range(0, len(self.rows), self.size)
        return ahead(self.rows[start : start + self.size] for start in starts)


def finished(recipe: Recipe, encoded: Reread, folder: str | None) -> FileRows:
    """The rows that a model sees, on the disk."""
    with RowWriter(folder, len(recipe.get_feature_names_out()), np.float64) as writer:
        for block in encoded:
            writer.append(recipe.finish(block))
        return writer.close()


def new_sampler(stream: TableStream, seed: int) -> Sampler:
    """For as many rows as the limit of memory allows."""
    return Sampler(sample_size(stream.memory_limit, 16 * len(stream.columns)), seed)


def sample_of(recipe: Recipe, sampler: Sampler) -> Sample:
    """The rows that were drawn."""
    frame, rows = sampler.drawn()
    X = recipe.finish(recipe.encode(frame).X)
    ids = results.ids_of(recipe, frame, None, np.ones(len(frame), dtype=bool)).assign(row=rows)
    return Sample(X, frame, ids, sampler.n_rows)


def look_at_stream(
    recipe: Recipe, stream: TableStream, settings: Settings, talk: Talk, *, keep_rows: bool = True
) -> StreamIntake:
    """Learn the recipe of a table; its rows stay on the disk, or only a sample of them is kept."""
    with talk.step("Looking at the columns", "intake"):
        recipe.look(stream.frames, lenient=True, capacity=stream.capacity, folder=settings.spill_dir)
        give_back_memory()
    spooled = spool(recipe, stream, settings, talk)
    with talk.step("Scaling the rows", "scale"):
        recipe.learn(spooled.encoded, n_dropped=spooled.n_dropped)
        return spooled.finished(recipe, settings, keep_rows=keep_rows)


def take_on_stream(start: Fitted, stream: TableStream, settings: Settings, talk: Talk) -> StreamIntake:
    """The same for a fit that continues a model: columns are treated as they were."""
    check_needed(start.recipe, stream)
    spooled = spool(start.recipe, stream, settings, talk, is_new=True)
    warn_of_unknown(spooled.screen)
    with talk.step("Scaling the rows", "scale"):
        recipe = start.recipe.continued(spooled.encoded, n_dropped=spooled.n_dropped)
        return replace(spooled.finished(recipe, settings), start=start.model)


def look_again_at_stream(recipe: Recipe, stream: TableStream, settings: Settings, talk: Talk) -> StreamIntake:
    """Draw a sample of a table for a model that exists."""
    check_needed(recipe, stream)
    screen = Screen(recipe, stream, quarantine=settings.puts_aside, is_new=True)
    sampler = new_sampler(stream, settings.seed)
    with talk.step("Drawing a sample", "sample"):
        for block in told(stream.blocks(), stream, talk):
            draw(sampler, block, screen.passed(block))
        screen.finish()
    warn_of_unknown(screen)
    if not sampler.n_rows:
        raise TableError(f"none of the {counted(stream.n_rows, 'row')} of the table can be used: give another one")
    sample = sample_of(recipe, sampler)
    return StreamIntake(stream, recipe, sample, sample.X, settings.puts_aside, screen.n_bad)


def check_needed(recipe: Recipe, stream: TableStream) -> None:
    """Refuse a table that lacks columns of the model."""
    check_names([column.name for column in recipe.columns_], stream.columns, "the model needs more columns")


def warn_of_unknown(screen: Screen) -> None:
    """Say which values the model has never seen."""
    for name, count in screen.unknown.items():
        log.warning("%s", unknown_words(name, count))


@dataclass
class Written:
    """What a dataset of assignments has."""

    sizes: NDArray[np.int64]  # rows of each group
    n_rows: int = 0
    n_kept: int = 0  # rows that have groups
    n_bad: int = 0  # rows that were put aside
    n_unusual: int = 0


def write_dataset(
    stream: TableStream, fitted: Fitted, folder: Path, talk: Talk, *, puts_aside: bool, is_new: bool
) -> Written:
    """The groups of every row, in files of the names that the table has; rows that are put aside beside them.

    Rows without groups, because they are put aside or left out, are there too: a row of the table is a row here.
    """
    screen = Screen(fitted.recipe, stream, quarantine=puts_aside, is_new=is_new)
    written = Written(np.zeros(fitted.K, dtype=np.int64))
    with Files(folder / results.ASSIGNMENTS_FOLDER) as groups, Files(folder / results.QUARANTINE) as aside:
        for block in told(stream.blocks(), stream, talk):
            good = screen.passed(block)
            name = stream.parts[block.part].name
            groups.write(name, assigned(stream, fitted, block, good, written))
            if good.reasons is not None and puts_aside:
                aside.write(name, put_aside(stream, block, good))
        screen.finish()
    written.n_bad = screen.n_bad
    if is_new:
        warn_of_unknown(screen)
    return written


def assigned(stream: TableStream, fitted: Fitted, block: Block, good: Good, written: Written) -> Any:
    """A block of assignments; counted, too."""
    recipe, kept = fitted.recipe, good.kept
    types = results.types_of(fitted)
    ids = results.ids_of(recipe, block.frame, None, np.ones(len(kept), dtype=bool))
    ids = ids.assign(row=ids["row"] + block.start).set_axis(results.free_names(ids.columns, types), axis=1)
    columns = dict(zip(ids.columns, arrow_ids(stream, recipe, block, ids), strict=True))
    values = results.group_values(fitted, recipe.finish(good.X)) if kept.any() else {}
    for name, kind in types.items():
        whole = np.zeros(len(kept), dtype=values[name].dtype if name in values else object)
        whole[kept] = values.get(name, [])
        columns[name] = pa.array(whole, type=kind, mask=~kept)
    written.n_rows += len(kept)
    if values:
        written.n_kept += int(kept.sum())
        written.sizes += results.sizes_of(fitted, values)
        written.n_unusual += int(values["unusual"].sum())
    return pa.table(columns).replace_schema_metadata(
        results.metadata_of(results.about_groups(fitted, list(ids.columns)[1:]))
    )


def arrow_ids(stream: TableStream, recipe: Recipe, block: Block, ids: pd.DataFrame) -> list[Any]:
    """Identifiers, of the types that they have in their file."""
    schema = stream.parts[block.part].schema
    names = [name for name in recipe.id_columns_ if name in block.frame.columns]
    kinds = [pa.int64(), *(schema.field(name).type for name in names)]
    return [pa.Array.from_pandas(ids.iloc[:, i], type=kind) for i, kind in enumerate(kinds)]


def put_aside(stream: TableStream, block: Block, good: Good) -> Any:
    """Bad rows of a block as they came, with their number and the reason."""
    assert good.reasons is not None
    bad = np.flatnonzero(good.reasons != "")
    schema = stream.parts[block.part].schema
    ours = {"row": pa.array(block.start + bad, pa.int64()), REASON: pa.array(good.reasons[bad], pa.string())}
    names = results.free_names(stream.columns, ours)
    frame = block.frame.iloc[bad]
    theirs = {
        name: pa.Array.from_pandas(frame[column], type=schema.field(column).type)
        for name, column in zip(names, stream.columns, strict=True)
    }
    return pa.table({**ours, **theirs})


class Files:
    """Parquet files below a folder, written one after the other, block by block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name: str | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, name: str, table: Any) -> None:
        """Append to a file."""
        if name != self._name:
            self.close()
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._name, self._writer = name, pq.ParquetWriter(path, table.schema)
        assert self._writer is not None
        self._writer.write_table(table)

    def close(self) -> None:
        """Complete the file that is being written."""
        if self._writer is not None:
            self._writer.close()
        self._name = self._writer = None

    def __enter__(self) -> "Files":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
