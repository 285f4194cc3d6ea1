"""Files and arrays: what is read where it lies, and what is copied."""

import errno
import os
import shutil
from collections import deque
from tempfile import TemporaryFile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from madbayes.estimators.validation import check_range
from madbayes.sources import FileRows, open_rows, resident_memory


@pytest.fixture
def X(seed):
    return np.random.default_rng(seed).normal(size=(200, 4))


def mapped(path, X, mode="r"):
    np.save(path, X)
    return np.load(path, mmap_mode=mode)


def is_equal(source, X, dtype=None):
    np.testing.assert_array_equal(source.rows[:], X)
    assert source.rows.dtype == (dtype or X.dtype)
    assert (source.n_rows, source.rows.shape) == (len(X), X.shape)
    return True


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "view", [slice(None), slice(30, 90), slice(199, None), slice(0, 1)], ids=["all", "some", "last", "first"]
)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_map_is_read_where_it_lies(tmp_path, spill, X, dtype, view, mode):
    X = X.astype(dtype)
    source = open_rows(mapped(tmp_path / "a.npy", X, mode)[view], spill_dir=spill)
    assert is_equal(source, X[view])
    assert source.columns is None
    assert source.rows.path == str(tmp_path / "a.npy")


def test_a_view_of_a_view_with_an_offset(tmp_path, spill, X):
    (tmp_path / "raw").write_bytes(bytes(4104) + X.tobytes())
    found = np.memmap(tmp_path / "raw", float, "r", offset=4104, shape=(200, 4))[10:][5:50]
    source = open_rows(found, spill_dir=spill)
    assert is_equal(source, X[15:60])
    assert source.rows.offset == 4104 + 15 * 4 * 8


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        (np.asfortranarray, "f8"),
        (lambda X: (100 * X).astype("i4"), "f8"),
        (lambda X: X > 0, "f8"),
        (lambda X: X.astype(">f4"), "f4"),
        (lambda X: X.astype(">f8"), "f8"),
        (lambda X: X.astype("f2"), "f8"),
    ],
    ids=["columns first", "integers", "booleans", "big-endian 4", "big-endian 8", "half"],
)
@pytest.mark.parametrize("by", ["map", "path", "text"])
def test_other_arrays_in_files_are_copied(tmp_path, spill, X, change, dtype, by):
    X, path = change(X), tmp_path / "a.npy"
    found = mapped(path, X)
    source = open_rows({"map": found, "path": path, "text": str(path)}[by], spill_dir=spill)
    assert is_equal(source, X, dtype)
    assert source.rows.path.startswith(str(spill))


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, 1:3], np.s_[::-1]])
def test_views_with_gaps_are_copied(tmp_path, spill, X, view):
    assert is_equal(open_rows(mapped(tmp_path / "a.npy", X)[view], spill_dir=spill), X[view])


def test_what_is_written_to_a_private_map_counts(tmp_path, spill, X):
    found = mapped(tmp_path / "a.npy", X, "c")
    found[7, 2] = 99
    source = open_rows(found, spill_dir=spill)
    assert source.rows[7][2] == 99
    assert found[7, 2] == 99


def test_what_is_written_to_a_shared_map_counts(tmp_path, spill, X):
    found = mapped(tmp_path / "a.npy", X, "r+")
    found[7, 2] = 99
    assert open_rows(found, spill_dir=spill).rows[7][2] == 99


@pytest.mark.parametrize("how", ["removed", "replaced", "shorter"])
def test_a_map_of_a_file_that_has_another_content_by_now(tmp_path, spill, X, how):
    found = mapped(tmp_path / "a.npy", X)
    os.unlink(tmp_path / "a.npy")
    if how != "removed":
        np.save(tmp_path / "a.npy", X + 1 if how == "replaced" else X[:5])
    assert is_equal(open_rows(found, spill_dir=spill), X)


def test_an_array_in_a_file_is_read_where_it_lies(tmp_path, spill, X):
    np.save(tmp_path / "a.npy", X)
    source = open_rows(tmp_path / "a.npy", spill_dir=spill)
    assert is_equal(source, X)
    assert source.rows.path == str(tmp_path / "a.npy")


def test_a_map_of_a_file_without_a_name(spill, X):
    with TemporaryFile() as file:
        file.write(X.tobytes())
        assert is_equal(open_rows(np.memmap(file, float, "r", shape=X.shape), spill_dir=spill), X)


def test_rows_are_accepted_as_they_are(tmp_path, X):
    X.tofile(tmp_path / "rows")
    rows = FileRows(tmp_path / "rows", X.shape, float)
    source = open_rows(rows)
    assert source.rows is rows
    assert open_rows(source) is source


def test_rows_of_integers_are_copied(tmp_path, spill):
    counts = np.arange(12).reshape(4, 3)
    counts.tofile(tmp_path / "rows")
    assert is_equal(open_rows(FileRows(tmp_path / "rows", (4, 3), counts.dtype), spill_dir=spill), counts, "f8")


class Mock:
    """A table of a library nobody knows."""

    def __iter__(self):
        return iter([np.eye(2)])

    def __array__(self, dtype=None, copy=None):
        return np.eye(2)


@pytest.mark.parametrize(
    "table",
    [
        np.eye(2),
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        [np.ones(3), np.ones(3)],
        deque([[1, 2], [3, 4]]),
        [],
        range(3),
        {"a": [1]},
        {1, 2},
        b"ab",
        None,
        5,
        list,
        Mock(),
        pd.DataFrame({"a": [1]}),
        pl.DataFrame({"a": [1]}),
        csr_array(np.eye(2)),
    ],
    ids=lambda table: type(table).__name__,
)
def test_what_is_in_memory_stays_there(table):
    assert open_rows(table) is None


def test_what_is_computed_from_a_map_is_in_memory(tmp_path, X):
    found = mapped(tmp_path / "a.npy", X)
    assert open_rows(np.asarray(found)) is None
    assert open_rows(found + 1) is None
    assert open_rows(found[[1, 2]]) is None
    assert open_rows(found[:, 0]) is None
    assert open_rows(found[:0]) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("change", [np.asarray, np.asfortranarray])
def test_a_value_that_is_not_finite_is_named(tmp_path, spill, X, value, change):
    X[150, 2] = value
    with pytest.raises(ValueError, match=rf"X: '.*a.npy', row 150, column 2 is {value}: finite numbers are accepted"):
        open_rows(mapped(tmp_path / "a.npy", change(X)), spill_dir=spill)


@pytest.mark.parametrize("change", [np.asarray, np.asfortranarray])
def test_bad_rows_are_left_out_where_that_is_wanted(tmp_path, spill, X, change):
    X[[0, 77, 150], [1, 2, 3]] = np.nan
    seen = []
    found = mapped(tmp_path / "a.npy", change(X))
    source = open_rows(found, spill_dir=spill, bad_rows=lambda *row: seen.append(row))
    assert is_equal(source, np.delete(X, [0, 77, 150], axis=0))
    assert source.n_left_out == 3
    ((name, rows, values),) = seen
    assert name == str(tmp_path / "a.npy")
    assert rows.tolist() == [0, 77, 150]
    np.testing.assert_array_equal(values, X[[0, 77, 150]])


def test_a_file_without_bad_rows_is_not_copied(tmp_path, spill, X):
    source = open_rows(mapped(tmp_path / "a.npy", X), spill_dir=spill, bad_rows=print)
    assert source.rows.path == str(tmp_path / "a.npy")


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_values_out_of_range_get_the_words_of_arrays(tmp_path, spill, X, scale):
    with pytest.raises(ValueError, match="leave the range") as wanted:
        check_range(scale * X)
    for found in (mapped(tmp_path / "a.npy", scale * X), [scale * X[:90], scale * X[90:]]):
        with pytest.raises(ValueError, match="leave the range") as caught:
            open_rows(found, spill_dir=spill)
        assert str(caught.value) == str(wanted.value)


def test_rows_in_several_blocks_of_a_file(tmp_path, spill, monkeypatch, X):
    monkeypatch.setattr("madbayes.sources.mapped.BLOCK_BYTES", 1000)
    for change in (np.asarray, np.asfortranarray):
        assert is_equal(open_rows(mapped(tmp_path / "a.npy", change(X)), spill_dir=spill), X)
    X[150, 2] = np.nan
    with pytest.raises(ValueError, match="row 150, column 2"):
        open_rows(mapped(tmp_path / "a.npy", X), spill_dir=spill)


def test_names_of_files_that_cannot_be_used(tmp_path, X):
    with pytest.raises(FileNotFoundError, match=r"X='.*none.npy' is not there: check the name"):
        open_rows(tmp_path / "none.npy")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"a.csv' is of an unknown kind: give a Parquet file"):
        open_rows(tmp_path / "a.csv")
    np.save(tmp_path / "a.npy", X)
    os.truncate(tmp_path / "a.npy", 1000)
    with pytest.raises(ValueError, match=r"a.npy' cannot be read, it may be broken"):
        open_rows(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"b.npy' cannot be read, it may be broken"):
        open_rows(tmp_path / "b.npy")


@pytest.mark.parametrize(
    "array",
    [np.ones(3), np.ones((2, 2, 2)), np.array([["a"]]), np.ones((2, 2), complex), np.ones((0, 3)), np.ones((3, 0))],
)
def test_arrays_that_are_no_rows_of_numbers(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a.npy' (holds .* values in shape|cannot be read)"):
        open_rows(tmp_path / "a.npy")


def test_one_row(tmp_path, spill):
    np.save(tmp_path / "a.npy", np.ones((1, 3)))
    assert is_equal(open_rows(tmp_path / "a.npy", spill_dir=spill), np.ones((1, 3)))


def test_columns_of_arrays_have_no_names(tmp_path, X):
    for found in (mapped(tmp_path / "a.npy", X), mapped(tmp_path / "b.npy", np.asfortranarray(X)), [X]):
        with pytest.raises(ValueError, match=r"columns=\['a'\] is not accepted here, where columns have no names"):
            open_rows(found, columns=["a"])


def test_arguments_that_are_not_accepted(tmp_path, X):
    with pytest.raises(ValueError, match="bad_rows='drop' is not accepted: give"):
        open_rows([X], bad_rows="drop")
    for columns in ("ab", []):
        with pytest.raises(ValueError, match=r"columns=.* is not accepted: give a list of names"):
            open_rows([X], columns=columns)
    with pytest.raises(FileNotFoundError, match=r"spill_dir='.*none' is no folder: make it first"):
        open_rows([X], spill_dir=tmp_path / "none")


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, spill, monkeypatch, X):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2**40, 2**40, 1000))
    with pytest.raises(
        OSError, match=r"200 rows need 6.4e-06 GB in '.*spill', where 1e-06 GB are free: name"
    ) as caught:
        open_rows(mapped(tmp_path / "a.npy", np.asfortranarray(X)), spill_dir=spill)
    assert caught.value.errno == errno.ENOSPC
    assert "spill_dir" in str(caught.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fills_up(spill, monkeypatch, X, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", fail)
    words = "No space left on device in '.*spill': name another folder by spill_dir"
    with pytest.raises(OSError, match=words if number == errno.ENOSPC else "Input/output error") as caught:
        open_rows([X], spill_dir=spill)
    assert caught.value.errno == number


def test_a_map_that_is_copied_does_not_stay_in_memory(tmp_path, spill):
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.random.default_rng(0).random((2_000_000, 8))))
    found = np.load(path, mmap_mode="r")
    open_rows(found[:1000], spill_dir=spill)
    before = resident_memory()
    source = open_rows(found, spill_dir=spill)
    assert resident_memory() - before < found.nbytes / 2
    assert source.n_rows == 2_000_000
