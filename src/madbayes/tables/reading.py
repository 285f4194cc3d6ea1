"""Files and folders as tables."""

import bz2
import csv
import gzip
import lzma
import re
import warnings
import zipfile
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from madbayes.pictures import load_images, picture_paths
from madbayes.tables.checks import TableError, as_frame, quoted

TEXT = {".csv": None, ".tsv": "\t", ".tab": "\t", ".txt": None}
OPENERS: dict[str, Callable] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ACCEPTED = "CSV, TSV, Parquet, Feather or Arrow, NPY or NPZ, or a folder of pictures"
# What readers raise when a file is not what its name says.
BROKEN = (ValueError, OSError, EOFError, KeyError, pa.ArrowException, zipfile.BadZipFile, csv.Error, lzma.LZMAError)
SEPARATORS = (",", ";", "\t", "|")
# Bytes of a text file that are looked at to find out how it is written.
LOOKED_AT = 65536


@dataclass(frozen=True, eq=False)
class Table:
    """A table that has been read.

    Attributes
    ----------
    frame : DataFrame
        All columns.
    ids : Index or None
        What identifies the rows, where the source says so: the names of pictures.
    shape : tuple of int or None
        Height and width of the pictures that are the rows, and 3 if they are coloured.
    fingerprint : str
        SHA-256 of the contents.
    units : str
        "mixed" if columns may be in different units, "same" for pictures and arrays.
    notes : list of str
        What had to be guessed.
    """

    frame: pd.DataFrame
    ids: pd.Index | None = None
    shape: tuple[int, ...] | None = None
    fingerprint: str = ""
    units: str = "mixed"
    notes: list[str] = field(default_factory=list)


def read_table(source: str | Path, *, text_columns: Sequence[str] = ()) -> Table:
    """Read a file, or a folder of pictures.

    Parameters
    ----------
    source : path
        Its ending says what it is: csv, tsv, txt (perhaps compressed, ``.csv.gz``), parquet, feather, arrow, npy, npz.
    text_columns : sequence of str
        Columns of a text file that are not numbers even if they look like it.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from madbayes.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "prices.csv").write_text("name,price\\nnut,1.5\\nbolt,2\\n")
    ...     table = read_table(Path(folder, "prices.csv"))
    >>> table.frame["price"].tolist()
    [1.5, 2.0]
    """
    path = Path(source)
    if not path.exists():
        raise TableError(f"{str(path)!r} is not there: check the name{near(path)}")
    if path.is_dir():
        return read_pictures(path)
    if path.stat().st_size == 0:
        raise TableError(f"{str(path)!r} is empty")
    try:
        table = reader_of(path)(path, text_columns)
    except TableError:
        raise
    except PermissionError:
        raise TableError(f"{str(path)!r} may not be read: ask for permission to") from None
    except pd.errors.ParserWarning:
        raise TableError(
            f"{str(path)!r} has more values in each line than names in the first: give every column a name"
        ) from None
    except BROKEN as error:
        words = " ".join(str(error).split())[:200]
        raise TableError(f"{str(path)!r} cannot be read, it may be broken: {words}") from error
    if not len(table.frame):
        raise TableError(f"{str(path)!r} has columns but no rows")
    frame = as_frame(table.frame).reset_index(drop=True)
    return Table(frame, table.ids, table.shape, fingerprint_of([path]), table.units, table.notes)


def near(path: Path) -> str:
    """Files of the same kind beside one that is missing."""
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    close = get_close_matches(path.name, names, n=1)
    return f"; did you mean {str(path.parent / close[0])!r}?" if close else ""


def reader_of(path: Path) -> Callable[[Path, Sequence[str]], Table]:
    """What reads a file of this ending."""
    endings = [ending.lower() for ending in path.suffixes[-2:]] or [""]
    ending = endings[0] if len(endings) == 2 and endings[1] in OPENERS else endings[-1]
    if ending in TEXT:
        return read_text
    if ending in (".parquet", ".pq"):
        return lambda path, _: Table(with_index(pd.read_parquet(path)))
    if ending in (".feather", ".arrow", ".ipc"):
        return lambda path, _: Table(read_arrow(path))
    if ending in (".npy", ".npz"):
        return lambda path, _: table_of_array(read_array(path), path)
    raise TableError(f"{str(path)!r} ends in {ending or 'nothing'!r}, which is no table known here: give {ACCEPTED}")


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The index of a frame is a column too, if it has a name."""
    named = any(name is not None for name in frame.index.names)
    return frame.reset_index() if named else frame


def read_arrow(path: Path) -> pd.DataFrame:
    """A file of Arrow, or a stream of it."""
    try:
        return with_index(pd.read_feather(path))
    except pa.ArrowInvalid:
        with pa.ipc.open_stream(path) as stream:
            return with_index(stream.read_all().to_pandas())


def read_array(path: Path) -> NDArray:
    """The array in a file; of several, X."""
    with path.open("rb") as file:
        try:
            found: Any = np.load(file, allow_pickle=False)
        except TokenError as error:  # of what says which array this is
            raise ValueError("its header makes no sense") from error
        if isinstance(found, np.ndarray):
            return found
        names = found.files
        if not names:
            raise TableError(f"{str(path)!r} has no arrays in it")
        if len(names) != 1 and "X" not in names:
            raise TableError(f"{str(path)!r} has {quoted(names)}: call the one to use 'X', or keep only that")
        return found["X" if "X" in names else names[0]]


def table_of_array(array: NDArray, path: Path) -> Table:
    """Rows and columns; arrays of more dimensions are pictures."""
    if array.dtype.names:
        return Table(pd.DataFrame(array))
    if array.dtype.kind not in "biuf":
        raise TableError(f"{str(path)!r} holds {array.dtype} values: give numbers")
    is_coloured = array.ndim == 4 and array.shape[-1] in (3, 4)
    if array.ndim not in (2, 3) and not is_coloured:
        raise TableError(f"{str(path)!r} has shape {array.shape}: give rows and columns, or pictures of one size")
    if not array.size:
        raise TableError(f"{str(path)!r} has shape {array.shape}, which is nothing: give rows and columns")
    shape = array.shape[1:] if array.ndim > 2 else None
    flat = array.reshape(len(array), -1)
    frame = pd.DataFrame(flat, columns=[f"x{d}" for d in range(flat.shape[1])])
    return Table(frame, shape=shape, units="same")


def read_pictures(folder: Path) -> Table:
    """A picture in each row, grey if all of them are."""
    try:
        found = load_images(folder)
        X = found.X.reshape(len(found.X), -1, 3)
        is_grey = bool((X[:, :, :1] == X).all())
        if is_grey:
            found = load_images(folder, grey=True)
    except (ValueError, FileNotFoundError) as error:
        raise TableError(str(error)) from error
    frame = pd.DataFrame(found.X, columns=[f"pixel{d}" for d in range(found.X.shape[1])])
    ids = pd.Index(found.names, name="picture")
    return Table(frame, ids, found.shape, fingerprint_of(picture_paths(folder)), "same")


def fingerprint_of(paths: Sequence[Path]) -> str:
    """SHA-256 of the contents of files, one after the other."""
    digest = sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def read_text(path: Path, text_columns: Sequence[str] = ()) -> Table:
    """Text with a line for each row."""
    lines, encoding, notes = first_lines(path)
    ending = next(suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() in TEXT)
    separator = TEXT[ending] or separator_of(lines[0])
    if separator not in (",", TEXT[ending]):
        notes.append(f"columns are separated by {'a tab' if separator == chr(9) else repr(separator)}")
    header = next(csv.reader(lines[:1], delimiter=separator))
    names = None
    if all(is_plain_number(cell) for cell in header) and not is_count(header):
        names = [f"x{d}" for d in range(len(header))]
        notes.append("the first line has numbers, no names: columns are called x0, x1, ...")
    else:
        check_header(header, path)
    decimal = "," if separator == ";" and uses_decimal_commas(lines[1:]) else "."
    if decimal == ",":
        notes.append("numbers are written with decimal commas")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(
            path,
            sep=separator,
            encoding=encoding,
            decimal=decimal,
            names=names,
            header="infer" if names is None else None,
            dtype={name: str for name in header if names is None and name.strip() in text_columns},
            index_col=False,
            low_memory=False,
            on_bad_lines="error",
        )
    return Table(frame.rename(columns=str.strip if names is None else {}), notes=notes)


def first_lines(path: Path) -> tuple[list[str], str, list[str]]:
    """Lines that show how a file is written, its encoding, and what had to be guessed about that."""
    with open_bytes(path) as file:
        start: bytes = file.read(LOOKED_AT)
    if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{str(path)!r} is no text, though its name says so: give {ACCEPTED}")
    encoding, notes = "utf-8-sig", []
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif not is_utf8(path):
        encoding = "cp1252"
        notes.append("the text is not UTF-8 and is read as Windows-1252")
    lines = [line for line in start.decode(encoding, errors="ignore").splitlines() if line.strip()]
    if not lines:
        raise TableError(f"{str(path)!r} is empty")
    return lines, encoding, notes


def open_bytes(path: Path) -> IO[bytes]:
    """The contents, decompressed where the name says so."""
    return OPENERS.get(path.suffix.lower(), open)(path, "rb")


def is_utf8(path: Path) -> bool:
    """Whether all of a file is UTF-8."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        with open_bytes(path) as file:
            while chunk := file.read(1 << 22):
                decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
    return True


def separator_of(header: str) -> str:
    """The separator that gives the most columns."""
    counts = {one: len(next(csv.reader([header], delimiter=one))) for one in SEPARATORS}
    return max(SEPARATORS, key=lambda one: counts[one])


def is_plain_number(cell: str) -> bool:
    """Whether a cell of the first line is a number."""
    return re.fullmatch(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*", cell) is not None


def is_count(header: Sequence[str]) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ...: the names that columns without names are given."""
    return any([str(i) for i in range(first, first + len(header))] == list(header) for first in (0, 1))


def check_header(header: Sequence[str], path: Path) -> None:
    """Every name once."""
    names = [name.strip() for name in header if name.strip()]
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise TableError(
            f"{str(path)!r} has columns of the same name: {quoted(twice)}. Rename them, so that each name is there once"
        )


def uses_decimal_commas(lines: Sequence[str]) -> bool:
    """Whether numbers are written 1,5 and none 1.5."""
    text = "\n".join(lines[:200])
    return bool(re.search(r"(^|;)\s*-?\d+,\d+\s*(;|$)", text, re.MULTILINE)) and not re.search(
        r"(^|;)\s*-?\d+\.\d+\s*(;|$)", text, re.MULTILINE
    )
