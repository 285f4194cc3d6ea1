"""Parquet files, datasets and blocks: what is written down once."""

import shutil
import sqlite3
import subprocess
import sys
from collections import deque

import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from madbayes.sources import open_rows, parquet
from madbayes.sources.checks import extremes

NAMES = list("abcd")


@pytest.fixture
def X(seed):
    return np.random.default_rng(seed).normal(size=(600, 4))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "parts"
    path.mkdir()
    return path


def write(path, X, names=NAMES, rows=70):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(zip(names, np.asarray(X).T, strict=True))), path, row_group_size=rows)


def frame(X, names=NAMES):
    return pd.DataFrame(X, columns=names)


def is_equal(source, X, dtype="f8", names=NAMES):
    np.testing.assert_array_equal(source.rows[:], X)
    assert source.rows.dtype == dtype
    assert (source.n_rows, source.columns) == (len(X), names)
    return True


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_files_come_in_the_order_of_their_paths_as_in_pyarrow(folder, spill, X, dtype):
    X = X.astype(dtype)
    for n, name in enumerate(["part-10", "part-2", "part-1", "sub/part-0", "sub.parquet/x", "Part-3"]):
        write(folder / f"{name}.parquet", X[100 * n : 100 * n + 100])
    wanted = ds.dataset(folder).to_table().to_pandas()
    assert is_equal(open_rows(folder, spill_dir=spill), wanted.to_numpy(), dtype)
    assert is_equal(open_rows(str(folder) + "/", spill_dir=spill), wanted.to_numpy(), dtype)


def test_one_file(folder, spill, X):
    write(folder / "x.PQ", X)
    assert is_equal(open_rows(folder / "x.PQ", spill_dir=spill), X)


def test_files_that_are_not_meant_are_left_out(folder, spill, X):
    for name in ("a.parquet", ".hidden.parquet", "_metadata.parquet", "_temporary/b.parquet", ".git/c.parquet"):
        write(folder / name, X)
    (folder / "README.txt").write_text("all about it")
    assert is_equal(open_rows(folder, spill_dir=spill), X)


def test_batches_are_smaller_than_row_groups(folder, spill, monkeypatch, X):
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 320)
    write(folder / "x.parquet", X, rows=600)
    seen = []
    X[599, 0] = X[0, 0] = np.nan
    write(folder / "x.parquet", X, rows=600)
    source = open_rows(folder, spill_dir=spill, bad_rows=lambda *row: seen.append(row))
    assert is_equal(source, X[1:-1])
    assert [rows.tolist() for _, rows, _ in seen] == [[0], [599]]


def test_numbers_of_all_kinds(folder, spill):
    table = pa.table(
        {
            "byte": pa.array([1, 2], pa.uint8()),
            "long": pa.array([2**40, -1], pa.int64()),
            "flag": pa.array([True, False]),
            "half": pa.array(np.array([0.5, 2], np.float16)),
            "single": pa.array([0.1, 2], pa.float32()),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    wanted = [[1, 2**40, 1, 0.5, np.float32(0.1)], [2, -1, 0, 2, 2]]
    assert is_equal(open_rows(folder, spill_dir=spill), np.array(wanted, float), names=table.column_names)


def test_files_of_single_and_double_numbers_become_double(folder, spill, X):
    write(folder / "a.parquet", X[:100].astype("f4"))
    write(folder / "b.parquet", X[100:])
    assert is_equal(open_rows(folder, spill_dir=spill), np.concatenate([X[:100].astype("f4"), X[100:]]))


def test_columns_go_by_their_names(folder, spill, X):
    write(folder / "a.parquet", X[:100])
    write(folder / "b.parquet", X[100:, ::-1], NAMES[::-1])
    assert is_equal(open_rows(folder, spill_dir=spill), X)


def test_some_columns(folder, spill, X):
    table = pa.table({**dict(zip(NAMES, X.T, strict=True)), "name": ["x"] * len(X)})
    pq.write_table(table, folder / "a.parquet")
    for found in (folder, ds.dataset(folder), [table, table.slice(0, 0)], [table.to_pandas()]):
        source = open_rows(found, columns=["c", "a"], spill_dir=spill)
        assert is_equal(source, X[:, [2, 0]], names=["c", "a"])
    with pytest.raises(ValueError, match=r"a.parquet' has no column 'z': give"):
        open_rows(folder, columns=["z"], spill_dir=spill)


def test_labels_of_rows_without_a_name_are_no_column(folder, spill, X):
    frame(X).iloc[::-1].set_axis(np.arange(600) ** 2).to_parquet(folder / "a.parquet")
    assert "__index_level_0__" in pq.read_schema(folder / "a.parquet").names
    for found in (folder, ds.dataset(folder), [pq.read_table(folder / "a.parquet")]):
        assert is_equal(open_rows(found, spill_dir=spill), X[::-1])


@pytest.mark.parametrize("value", [np.nan, None, np.inf])
def test_a_value_that_is_not_finite_in_the_third_file(folder, spill, X, value):
    values = X[:200, 1].tolist()
    values[150] = value
    for name in ("a", "b", "d"):
        write(folder / f"{name}.parquet", X[:200])
    table = pa.table({"a": X[:200, 0], "b": pa.array(values), "c": X[:200, 2], "d": X[:200, 3]})
    pq.write_table(table, folder / "c.parquet", row_group_size=70)
    words = rf"X: '.*c.parquet', row group 2, row 150, column 'b' is {value or np.nan}: finite numbers are accepted"
    with pytest.raises(ValueError, match=words):
        open_rows(folder, spill_dir=spill)


@pytest.mark.parametrize("column", [[2**60 + 1, None], [True, None], np.ma.array([1, 2], mask=[0, 1], dtype="f2")])
def test_missing_values_of_all_kinds(spill, column):
    table = pa.table({"a": pa.array(column)})
    with pytest.raises(ValueError, match="X: block 0, row 1, column 'a' is nan"):
        open_rows([table], spill_dir=spill)
    source = open_rows([table], spill_dir=spill, bad_rows=lambda *_: None)
    assert is_equal(source, np.array([[float(column[0])]]), names=["a"])


def test_bad_rows_of_files_come_as_a_frame(folder, spill, X):
    write(folder / "a.parquet", X[:100])
    Y = X[100:].copy()
    Y[[75, 90], 0] = np.nan
    write(folder / "b.parquet", Y)
    seen = []
    source = open_rows(folder, spill_dir=spill, bad_rows=lambda *row: seen.append(row))
    assert is_equal(source, np.delete(X, [175, 190], axis=0))
    assert source.n_left_out == 2
    ((name, rows, values),) = seen
    assert name == str(folder / "b.parquet")
    assert rows.tolist() == [75, 90]
    pd.testing.assert_frame_equal(values, frame(Y[[75, 90]]))


def test_all_rows_are_bad(folder, spill, X):
    write(folder / "a.parquet", X * np.nan)
    with pytest.raises(ValueError, match=r"parts' has no rows, 600 bad ones being left out: give at least 1"):
        open_rows(folder, spill_dir=spill, bad_rows=lambda *_: None)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["x", "y"], "holds string values"),
        ([[1.0], [2.0]], "holds list<.*> values"),
        (pd.to_datetime(["2020", "2021"]), r"holds timestamp\[.*\] values"),
        ([None, None], "holds null values"),
    ],
)
def test_columns_that_are_no_numbers(folder, spill, column, words):
    write(folder / "a.parquet", np.ones((2, 1)), ["b"])
    pq.write_table(pa.table({"b": column}), folder / "b.parquet")
    with pytest.raises(ValueError, match=rf"X: '.*b.parquet', column 'b' {words}: floats, integers and booleans are"):
        open_rows(folder, spill_dir=spill)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "c"], "has no column 'd': give the same columns everywhere, here 'a', 'b', 'c', 'd'"),
        (["a", "b", "c", "x"], "has no column 'd' and has column 'x' besides"),
        (["a", "b", "c", "d", "e"], "has column 'e' besides"),
        (["a", "b", "c", "c"], "has columns of the same name, 'c'"),
    ],
)
def test_files_of_other_columns(folder, spill, names, words):
    write(folder / "a.parquet", np.ones((2, 4)))
    table = pa.Table.from_arrays([pa.array([1.0])] * len(names), names)
    pq.write_table(table, folder / "b.parquet")
    with pytest.raises(ValueError, match=f"X: '.*b.parquet' {words}"):
        open_rows(folder, spill_dir=spill)


def test_folders_without_parquet(folder, spill):
    with pytest.raises(ValueError, match=r"parts' is a folder without Parquet files: give a Parquet file"):
        open_rows(folder, spill_dir=spill)
    (folder / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"parts' is a folder without Parquet files"):
        open_rows(folder, spill_dir=spill)


@pytest.mark.parametrize("length", [0, 3, 2000, -1])
def test_a_file_that_is_cut_short(folder, spill, X, length):
    write(folder / "a.parquet", X)
    write(folder / "b.parquet", X)
    content = (folder / "b.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(content[:length])
    with pytest.raises(ValueError, match=r"X: '.*b.parquet' cannot be read, it may be broken"):
        open_rows(folder, spill_dir=spill)


def test_a_file_with_broken_pages(folder, spill, X):
    write(folder / "a.parquet", X)
    write(folder / "b.parquet", X)
    content = bytearray((folder / "b.parquet").read_bytes())
    content[4:4000] = bytes(3996)
    (folder / "b.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"X: '.*b.parquet' cannot be read, it may be broken"):
        open_rows(folder, spill_dir=spill)


def test_a_file_that_disappears_after_it_was_looked_at(folder, spill, X, monkeypatch):
    write(folder / "a.parquet", X)
    plan_files = parquet.plan_files

    def plan(*words):
        found = plan_files(*words)
        (folder / "a.parquet").unlink()
        return found

    monkeypatch.setattr("madbayes.sources.opening.plan_files", plan)
    with pytest.raises(ValueError, match=r"X: '.*a.parquet' cannot be read"):
        open_rows(folder, spill_dir=spill)


def test_no_rows(folder, spill):
    write(folder / "a.parquet", np.ones((0, 4)))
    for found in (folder, ds.dataset(folder), [np.ones((0, 4))], iter([])):
        with pytest.raises(ValueError, match=r"has no rows: give at least 1"):
            open_rows(found, spill_dir=spill)


def test_files_without_rows_between_others(folder, spill, X):
    write(folder / "a.parquet", X[:0])
    write(folder / "b.parquet", X[:1])
    write(folder / "c.parquet", X[:0])
    assert is_equal(open_rows(folder, spill_dir=spill), X[:1])


def test_files_elsewhere(folder, spill, X):
    system = fsspec.filesystem("memory")
    for n, name in enumerate(["b/part-10", "b/part-2", "a"]):
        write(folder / f"{name}.parquet", X[200 * n : 200 * n + 200])
        system.pipe(f"/bucket/{name}.parquet", (folder / f"{name}.parquet").read_bytes())
    np.save(folder / "x.npy", X)
    system.pipe("/bucket/x.npy", (folder / "x.npy").read_bytes())
    np.save(folder / "y.npy", np.asfortranarray(X))
    system.pipe("/bucket/y.npy", (folder / "y.npy").read_bytes())
    try:
        wanted = np.concatenate([X[400:], X[:400]])
        assert is_equal(open_rows("memory://bucket", spill_dir=spill), wanted)
        assert is_equal(open_rows("memory://bucket/a.parquet", spill_dir=spill), X[400:])
        assert is_equal(open_rows("memory://bucket/x.npy", spill_dir=spill), X, names=None)
        assert is_equal(open_rows("memory://bucket/y.npy", spill_dir=spill), X, names=None)
        assert is_equal(open_rows(f"file://{folder}", spill_dir=spill), wanted)
        X[3, 1] = np.nan
        np.save(folder / "x.npy", X)
        system.pipe("/bucket/x.npy", (folder / "x.npy").read_bytes())
        with pytest.raises(ValueError, match=r"X: 'memory:///?bucket/x.npy', row 3, column 1 is nan"):
            open_rows("memory://bucket/x.npy", spill_dir=spill)
        with pytest.raises(FileNotFoundError, match="X='memory://nowhere' is not there"):
            open_rows("memory://nowhere", spill_dir=spill)
    finally:
        system.rm("/bucket", recursive=True)
    with pytest.raises(ValueError, match=r"X='nothing://a' cannot be opened: .*nothing"):
        open_rows("nothing://a")


def test_a_file_elsewhere_that_cannot_be_fetched(spill, monkeypatch):
    def fail(*_):
        raise OSError("connection lost")

    system = fsspec.filesystem("memory")
    system.pipe("/lost/x.npy", b"0")
    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(OSError, match="connection lost"):
        open_rows("memory://lost/x.npy", spill_dir=spill)
    system.rm("/lost", recursive=True)


def test_datasets(folder, spill, X):
    write(folder / "k=1" / "a.parquet", X[:300])
    write(folder / "k=2" / "b.parquet", X[300:])
    assert is_equal(open_rows(ds.dataset(folder), spill_dir=spill), X)
    parts = ds.dataset(folder, partitioning="hive")
    k = np.repeat([1.0, 2.0], 300)[:, None]
    assert is_equal(open_rows(parts, spill_dir=spill), np.hstack([X, k]), names=[*NAMES, "k"])
    chosen = ds.dataset(folder).filter(ds.field("a") > 0)
    assert is_equal(open_rows(chosen, spill_dir=spill), X[X[:, 0] > 0])
    memory = ds.dataset(pa.Table.from_pandas(frame(X)))
    assert is_equal(open_rows(memory, spill_dir=spill), X)


def test_datasets_of_other_files(folder, spill):
    (folder / "a.csv").write_text("a,b\n1,2.5\n3,4\n")
    source = open_rows(ds.dataset(folder, format="csv"), spill_dir=spill)
    assert is_equal(source, np.array([[1, 2.5], [3, 4]]), names=["a", "b"])


def test_errors_of_datasets_name_the_file(folder, spill, X):
    write(folder / "a.parquet", X)
    X[500, 3] = np.inf
    write(folder / "b.parquet", X)
    with pytest.raises(ValueError, match=r"X: '.*b.parquet', row 500, column 'd' is inf"):
        open_rows(ds.dataset(folder), spill_dir=spill)
    pq.write_table(pa.table({"a": ["x"]}), folder / "a.parquet")
    with pytest.raises(ValueError, match="X: the dataset, column 'a' holds string values"):
        open_rows(ds.dataset(folder / "a.parquet"), spill_dir=spill)


KINDS = {
    "arrays": lambda X: X,
    "pandas": frame,
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "tables": lambda X: pa.Table.from_pandas(frame(X)),
    "batches": lambda X: pa.RecordBatch.from_pandas(frame(X)),
}


class Blocks:
    """Blocks again and again."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outer", [list, tuple, deque, iter, Blocks, lambda blocks: (block for block in blocks)])
def test_blocks(spill, X, kind, outer):
    blocks = [KINDS[kind](part) for part in (X[:250], X[250:251], X[251:251], X[251:])]
    assert is_equal(open_rows(outer(blocks), spill_dir=spill), X, names=None if kind == "arrays" else NAMES)


def test_blocks_may_be_lists_of_rows_where_the_whole_is_none(spill, X):
    assert is_equal(open_rows(iter([X[:9].tolist(), X[9:].tolist()]), spill_dir=spill), X, names=None)


def test_readers_of_other_libraries_are_iterables(tmp_path, spill, X):
    frame(X).to_csv(tmp_path / "a.csv", index=False)
    with pd.read_csv(tmp_path / "a.csv", chunksize=77) as chunks:
        assert is_equal(open_rows(chunks, spill_dir=spill), pd.read_csv(tmp_path / "a.csv").to_numpy())
    table = pa.Table.from_pandas(frame(X))
    assert is_equal(open_rows(table.to_reader(max_chunksize=50), spill_dir=spill), X)


def test_a_generator_runs_where_the_caller_is(spill, X):
    # A connection of sqlite3 refuses other threads than its own.
    connection = sqlite3.connect(":memory:")
    frame(X).to_sql("t", connection, index=False)
    chunks = pd.read_sql("select * from t", connection, chunksize=100)
    assert is_equal(open_rows(chunks, spill_dir=spill), X)
    connection.close()


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (np.ones((2, 3)), "block 1 has 3 columns, those before have 4"),
        (np.ones(4), r"block 1 is an array of shape \(4,\): give arrays or data frames"),
        (csr_array(np.ones((2, 4))), "block 1 is of type csr_array"),
        (7, "block 1 is of type int"),
        ([[1, 2], [3]], "block 1 has no rows of one length"),
        (np.ones((2, 0)), "block 1 has no columns: give at least 1"),
        (np.full((2, 4), "a"), "block 1 holds <U1 values"),
        (np.full((2, 4), 1j), "block 1 holds complex128 values"),
        (np.full((2, 4), None), "block 1 holds object values"),
        (pd.DataFrame(np.ones((2, 4))), "block 1 has names of columns, others not: give arrays only"),
        (np.array([[0, 0, 0, 0], [0, 0, np.nan, 0]]), "block 1, row 1, column 2 is nan"),
    ],
)
def test_a_block_that_does_not_fit(spill, block, words):
    with pytest.raises(ValueError, match=f"X: {words}"):
        open_rows([np.ones((2, 4)), block], spill_dir=spill)


def test_types_of_blocks(spill, X):
    single = X.astype("f4")
    assert is_equal(open_rows([single, single], spill_dir=spill), np.concatenate([single] * 2), "f4", None)
    assert is_equal(open_rows([X, single], spill_dir=spill), np.concatenate([X, single]), "f8", None)
    assert is_equal(open_rows([X > 0, X], spill_dir=spill), np.concatenate([X > 0, X]), "f8", None)
    with pytest.raises(
        ValueError, match="X: block 2 has float64 numbers, those before are float32: give the same type"
    ):
        open_rows([single, single, X], spill_dir=spill)
    with pytest.raises(ValueError, match="X: block 1 has no names of columns, those before have: give arrays only"):
        open_rows([frame(X), X], spill_dir=spill)


FRAMES = {
    "nullable integers": (pd.array([1, 2], "Int64"), [1, 2], "f8"),
    "nullable floats": (pd.array([0.1, 2], "Float32"), np.float32([0.1, 2]), "f4"),
    "nullable flags": (pd.array([True, False], "boolean"), [1, 0], "f8"),
    "Arrow in pandas": (pd.array([0.5, 2], pd.ArrowDtype(pa.float32())), [0.5, 2], "f4"),
    "objects": (np.array([1, 2.5], object), [1, 2.5], "f8"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_of_pandas(spill, kind):
    column, wanted, dtype = FRAMES[kind]
    source = open_rows([pd.DataFrame({"a": column})], spill_dir=spill)
    assert is_equal(source, np.array(wanted, float)[:, None], dtype, ["a"])


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None], "Int64"),
        pd.array([True, None], "boolean"),
        np.array([1.0, None], object),
        pl.Series([1, None]),
    ],
)
def test_missing_values_of_data_frames(spill, column):
    kind = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    with pytest.raises(ValueError, match="X: block 0, row 1, column 'a' is nan"):
        open_rows([kind({"a": column})], spill_dir=spill)
    seen = []
    source = open_rows([kind({"a": column})], spill_dir=spill, bad_rows=lambda *row: seen.append(row))
    assert is_equal(source, np.ones((1, 1)), names=["a"])
    assert (seen[0][0], seen[0][1].tolist(), seen[0][2].shape) == (0, [1], (1, 1))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["x", "y"], "(holds str values|has 'x' in row 0)"),
        (pd.Categorical(["x", "y"]), "(holds category values|has 'x' in row 0)"),
        (np.array([1, "y"], object), "has 'y' in row 1 of it"),
        (pd.to_datetime(["2020", "2021"]), r"holds datetime64\[.*\] values"),
        (pd.to_datetime(["2020", "2021"], utc=True), r"holds datetime64\[.*UTC\] values"),
        (pl.Series(["x", "y"]), "(holds String values|has 'x' in row 0)"),
    ],
)
def test_columns_of_data_frames_that_are_no_numbers(spill, column, words):
    kind = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    with pytest.raises(
        ValueError, match=f"X: block 0, column 'a' {words}.*: floats, integers and booleans are accepted"
    ):
        open_rows([kind({"a": column})], spill_dir=spill)


def test_names_that_are_no_text_are_no_names(spill, X):
    assert is_equal(open_rows([pd.DataFrame(X)], spill_dir=spill), X, names=None)


def test_an_error_in_an_iterable_comes_through(spill, X):
    def blocks():
        yield X
        raise ZeroDivisionError("half way")

    with pytest.raises(ZeroDivisionError, match="half way"):
        open_rows(blocks(), spill_dir=spill)


def test_an_error_about_a_bad_row_comes_through(spill):
    def refuse(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_rows([np.full((2, 2), np.nan)], spill_dir=spill, bad_rows=refuse)


@pytest.mark.parametrize(("module", "name"), [("pyarrow.parquet", "a.parquet"), ("fsspec", "memory://a")])
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, module, name):
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"Reading '{name}' needs {module[:7]}.*: pip install .madbayes\[app\]."):
        open_rows(name)


def test_arrays_need_nothing_more(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    code = (
        "import sys; sys.modules.update(pyarrow=None, fsspec=None)\n"
        "import numpy; from madbayes.sources import open_rows\n"
        f"print(open_rows({str(tmp_path / 'a.npy')!r}).n_rows, open_rows([numpy.eye(2)]).n_rows)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "3 2\n"


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "1 / 0"])
def test_temporary_files_go_when_python_ends(spill, end):
    code = f"""
import numpy, os, sys
from madbayes.sources import open_rows
source = open_rows([numpy.eye(3)], spill_dir=sys.argv[1])
print(len(os.listdir(sys.argv[1])), flush=True)
{end}
"""
    found = subprocess.run([sys.executable, "-c", code, str(spill)], capture_output=True, text=True)
    assert found.stdout == "1\n"
    assert not list(spill.iterdir())


@pytest.mark.parametrize("n_columns", [1, 3, 1500])
@pytest.mark.parametrize("n_rows", [0, 1, 340, 341, 342, 3000])
def test_the_range_of_columns_is_that_of_numpy(seed, n_rows, n_columns):
    X = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    wanted = np.stack([X.min(axis=0), X.max(axis=0)]) if n_rows else X
    np.testing.assert_array_equal(extremes(X), wanted)


def test_every_bad_value_is_seen(spill):
    for n in range(0, 700, 3):
        X = np.ones((700, 3))
        X[n, n % 3] = np.nan
        with pytest.raises(ValueError, match=f"row {n}, column {n % 3} is nan"):
            open_rows([X], spill_dir=spill)


PEAK = """
import resource, sys, pyarrow.dataset, pyarrow.parquet
from madbayes.sources import open_rows
open_rows(sys.argv[2])  # what is loaded with the first file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = open_rows(sys.argv[1])
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), source.rows.nbytes)
"""


def test_a_table_is_never_in_memory_as_a_whole(folder, tmp_path, seed):
    rng = np.random.default_rng(seed)
    names = [f"x{d}" for d in range(10)]
    for n in range(2):
        write(folder / f"{n}.parquet", rng.random((750_000, 10)), names, rows=375_000)
    write(tmp_path / "small.parquet", rng.random((100, 10)), names)
    command = [sys.executable, "-c", PEAK, str(folder), str(tmp_path / "small.parquet")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout
    peak, whole = map(int, found.split())
    assert whole == 1_500_000 * 10 * 8
    assert peak < whole / 2
