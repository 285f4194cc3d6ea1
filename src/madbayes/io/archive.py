"""The container of a model file: a ZIP archive without compression, of JSON and arrays, with a digest of each.

Nothing is compressed, so that a file cannot claim more bytes than it has.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EINVAL
from hashlib import sha256
from io import BytesIO
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from madbayes.files import whole_file
from madbayes.io.values import PLAIN

METADATA = "metadata.json"
FORMAT, VERSION = "madbayes model", 1
# What the description of a model may take, arrays aside; a megabyte is usual for a hundred thousand names.
MAX_METADATA = 256 * 2**20


class ModelFileError(ValueError):
    """A file that is not a model, or not any more, or not yet."""


@contextmanager
def clear_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong with the bytes of a file means that it is broken; say so, and which."""
    try:
        yield
    except ModelFileError:
        raise
    except OSError as error:
        if error.errno not in (None, EINVAL):  # the disk, not what is on it
            raise
        raise _broken(path, error) from error
    except Exception as error:  # bytes that anybody may have written
        raise _broken(path, error) from error


def _broken(path: str | os.PathLike[str], error: Exception) -> ModelFileError:
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return ModelFileError(
        f"{os.fspath(path)!r} is broken or not a model of madbayes ({words}): "
        "copy it again from where it came, or fit and save the model again"
    )


def write_archive(path: str | os.PathLike[str], head: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Write metadata and arrays as one file, whole or not at all.

    Parameters
    ----------
    path : path
    head : dict
        Metadata in terms of JSON; the format and the digests of the arrays are added.
    arrays : dict of str to array
        By the names of the members.
    """
    digests = {name: _digest(array) for name, array in arrays.items()}
    metadata = json.dumps({"format": FORMAT, "version": VERSION, **head, "members": digests}, indent=1, allow_nan=False)
    if len(metadata) > MAX_METADATA:
        raise ValueError(f"the names and categories of this model take {len(metadata) >> 20} MB: too many for a file")
    with whole_file(path) as file, ZipFile(file, "w", ZIP_STORED) as archive:
        archive.writestr(_member(METADATA), metadata)
        for name, array in arrays.items():
            with archive.open(_member(name), "w", force_zip64=array.nbytes >= 2**31) as member:
                for part in _parts(array):
                    member.write(part)


def _member(name: str) -> ZipInfo:
    """A date that is always the same: equal models make equal files."""
    return ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _parts(array: NDArray) -> Iterator[bytes]:
    """An array in NumPy's own format, in parts: large ones are not copied whole."""
    header, order = BytesIO(), "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    npy.write_array_header_1_0(header, {**npy.header_data_from_array_1_0(array), "fortran_order": order == "F"})
    yield header.getvalue()
    flat = array.ravel(order=order)  # type: ignore[arg-type]
    step = max(1, 2**24 // max(1, array.itemsize))
    for i in range(0, flat.size, step):
        yield flat[i : i + step].tobytes()


def _digest(array: NDArray) -> dict[str, Any]:
    digest, size = sha256(), 0
    for part in _parts(array):
        digest.update(part)
        size += len(part)
    return {"bytes": size, "sha256": digest.hexdigest()}


@contextmanager
def open_archive(path: str | os.PathLike[str]) -> Iterator[tuple[ZipFile, dict[str, Any]]]:
    """The archive, and its metadata once it is clear that this version can read it."""
    place = os.fspath(path)
    if os.path.isdir(place):
        raise IsADirectoryError(f"{place!r} is a folder: name the file of a model")
    if not os.path.exists(place):
        raise FileNotFoundError(f"there is no file {place!r}: name the file of a model")
    if not os.path.isfile(place):
        raise ModelFileError(f"{place!r} is not an ordinary file: name the file of a model")
    with open(place, "rb") as file, clear_errors(path):
        _check_beginning(file, place)
        with ZipFile(file) as archive:
            _check_sizes(archive, os.fstat(file.fileno()).st_size)
            yield archive, _read_metadata(archive, place)


def _check_beginning(file: BinaryIO, place: str) -> None:
    beginning = file.read(4)
    if not beginning:
        raise ModelFileError(f"{place!r} is empty: copy it again from where it came, or save the model again")
    if beginning != b"PK\x03\x04":
        raise ModelFileError(f"{place!r} is not a model of madbayes: name a file that save has written")
    if not is_zipfile(file):
        raise ModelFileError(f"{place!r} has no end, it was cut off: copy it again, or save the model again")


def _check_sizes(archive: ZipFile, size: int) -> None:
    """Members are as long as they say, and all together no longer than the file: before anything is read."""
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two parts have one name")
    if any(member.compress_type == ZIP_STORED and member.compress_size != member.file_size for member in members):
        raise ValueError("a part is not as long as it says")
    if sum(member.compress_size for member in members) > size:
        raise ValueError("it claims to be larger than it is")


def _read_metadata(archive: ZipFile, place: str) -> dict[str, Any]:
    foreign = f"{place!r} is a ZIP archive, but not a model of madbayes: name a file that save has written"
    if METADATA not in archive.namelist():
        raise ModelFileError(foreign)
    metadata = json.loads(_read(archive, METADATA, MAX_METADATA))
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError(foreign)
    version = metadata["version"]
    if type(version) is not int or version < 1:
        raise ValueError("it has no version")
    if version > VERSION:
        raise ModelFileError(
            f"{place!r} was written by madbayes {str(metadata.get('madbayes'))[:20]} in version {version} of the "
            f"format, and this one reads versions up to {VERSION}: install a newer madbayes"
        )
    return metadata


def _read(archive: ZipFile, name: str, limit: int) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type != ZIP_STORED:
        raise ValueError("it is compressed, which models are not")
    if member.file_size > limit:
        raise ValueError(f"{name} takes {member.file_size} bytes, and {limit} are allowed")
    return archive.read(member)


def read_arrays(archive: ZipFile, members: Mapping[str, Mapping[str, Any]]) -> dict[str, NDArray]:
    """The arrays of an archive, each compared with its digest.

    Parameters
    ----------
    archive : ZipFile
    members : dict
        Bytes and SHA-256 of each, from the metadata: these and no others must be there.
    """
    if {METADATA, *members} != set(archive.namelist()):
        raise ValueError("its parts are not those it lists")
    arrays = {}
    for name, said in members.items():
        content = _read(archive, name, said["bytes"])
        if len(content) != said["bytes"] or sha256(content).hexdigest() != said["sha256"]:
            raise ValueError(f"{name} is not what was written")
        arrays[name] = _as_array(content)
    return arrays


def _as_array(content: bytes) -> NDArray:
    """An array without pickled objects, whose header says no more than there is."""
    file = BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise ValueError("an array of another format")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    if dtype.kind not in PLAIN or dtype.itemsize == 0 or dtype.subdtype is not None:
        raise ValueError("an array of something else than numbers and words")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError("an array is not as long as it says")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if is_fortran else "C")
