"""Files that are written whole or not at all, and values that can stand in them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np


class FolderError(OSError):
    """A folder of the user's that cannot be written to; the words say which argument names another."""

    def __str__(self) -> str:
        return str(self.strerror)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Put a file in its place in one step; whatever goes wrong, a file that is there already is left as it is.

    Parameters
    ----------
    path : path
        In a folder that exists.
    content : bytes

    Examples
    --------
    >>> from madbayes.files import write_whole
    >>> folder = getfixture("tmp_path")
    >>> write_whole(folder / "notes.txt", b"all of it")
    >>> [file.name for file in folder.iterdir()]
    ['notes.txt']
    """
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place when the block ends, and goes away if it fails.

    Its bytes are on the disk before it takes the name, so that after a loss of power there is either the old file or
    the new one.

    Parameters
    ----------
    path : path
        In a folder that exists. Of a link, what it points to is replaced.

    Yields
    ------
    binary file
        A temporary one in the same folder.
    """
    target = Path(os.path.realpath(path))
    _check_place(Path(path), target)
    beside = target.with_name(f".{token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            if target.exists():
                os.chmod(beside, target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        # Name the file that was asked for, not the temporary one.
        if isinstance(error, OSError) and error.filename in (None, str(beside), beside):
            raise OSError(error.errno, f"{error.strerror or error}, nothing was written", str(path)) from error
        raise
    _sync_folder(target.parent)


def _check_place(path: Path, target: Path) -> None:
    """Refuse what cannot be replaced by a file."""
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: name a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r}: make it first, or name another file")
    if target.exists() and not target.is_file():
        raise OSError(f"{str(path)!r} is not an ordinary file and is left alone: name another one")


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk too, where the system can do that."""
    with suppress(OSError):  # the file is in its place already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def plain(value: Any) -> Any:
    """Values that JSON can hold; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
