"""Files and folders by their names, here or elsewhere."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

PARQUET = (".parquet", ".pq")
ACCEPTED = "a Parquet file, a folder of them (.parquet, .pq), or an array of NumPy (.npy)"


class Place(NamedTuple):
    """A file: its name, and what opens it for a reader."""

    name: str
    open: Callable[[], AbstractContextManager[Any]]

    @property
    def is_array(self) -> bool:
        """Whether its name says that NumPy has written it."""
        return self.name.lower().endswith(".npy")


def is_url(name: str | os.PathLike[str]) -> bool:
    """Whether fsspec is to find it."""
    return isinstance(name, str) and "://" in name and not os.path.exists(name)


def places_of(name: str | os.PathLike[str]) -> list[Place]:
    """The file of this name, or all Parquet files below the folder, in the order of their paths.

    The order is that of text, as in pyarrow and pandas: "part-10" comes before "part-2". Files and folders whose names
    begin with a dot or an underscore are left out, as they are there.
    """
    if not str(name):  # which Path takes for the folder we are in
        raise ValueError(f"X='' is no name: give {ACCEPTED}")
    return places_elsewhere(str(name)) if is_url(name) else places_here(Path(name))


def places_here(path: Path) -> list[Place]:
    """On this machine."""
    if not path.exists():
        raise FileNotFoundError(f"X={str(path)!r} is not there: check the name, or give {ACCEPTED}")
    if not path.is_dir():
        return [place_here(check_ending(str(path)))]
    found = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    return [place_here(str(path / name)) for name in chosen(found, str(path))]


def place_here(name: str) -> Place:
    """A reader opens it by itself."""
    return Place(name, lambda: nullcontext(name))


def places_elsewhere(url: str) -> list[Place]:
    """In a file system that fsspec knows."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f'Reading {url!r} needs fsspec: pip install "madbayes[app]"') from error
    try:
        system, root = fsspec.core.url_to_fs(url)
    except ValueError as error:
        raise ValueError(f"X={url!r} cannot be opened: {error}") from error

    def place(path: str) -> Place:
        return Place(system.unstrip_protocol(path), lambda: system.open(path, "rb"))

    if not system.exists(root):
        raise FileNotFoundError(f"X={url!r} is not there: check the name, or give {ACCEPTED}")
    if system.isfile(root):
        return [place(check_ending(root))]
    base = root.rstrip("/") + "/"
    return [place(base + name) for name in chosen([path.removeprefix(base) for path in system.find(root)], url)]


def check_ending(name: str) -> str:
    """A kind of file that is known."""
    if not name.lower().endswith((*PARQUET, ".npy")):
        raise ValueError(f"X={name!r} is of an unknown kind: give {ACCEPTED}")
    return name


def chosen(names: list[str], folder: str) -> list[str]:
    """Those that are Parquet and not hidden, sorted."""
    found = [
        name
        for name in sorted(names)
        if name.lower().endswith(PARQUET) and not any(part.startswith((".", "_")) for part in name.split("/"))
    ]
    if not found:
        raise ValueError(f"X={folder!r} is a folder without Parquet files: give {ACCEPTED}")
    return found
