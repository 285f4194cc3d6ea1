import errno
import gc
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from madbayes.sources import FileRows, RowWriter
from madbayes.sources import rows as module

ENDS = st.one_of(st.none(), st.integers(-60, 60))
STEPS = st.one_of(st.none(), st.integers(-7, 7).filter(bool))


def written(path, X, offset=0):
    path.write_bytes(b"\xff" * offset + np.ascontiguousarray(X).tobytes())
    return FileRows(path, X.shape, X.dtype, offset)


@pytest.fixture(scope="module", params=["float64", "float32", "int16"])
def pair(request, tmp_path_factory):
    """An array, and the same in a file."""
    X = np.random.default_rng(0).normal(size=(50, 3), scale=1000).astype(request.param)
    return X, written(tmp_path_factory.mktemp("rows") / "rows", X, offset=13)


def same(found, wanted):
    """Equal, and an array of one's own."""
    np.testing.assert_array_equal(found, wanted, strict=True)
    assert found.flags.c_contiguous
    assert found.flags.writeable
    assert found.flags.owndata or found.base.flags.owndata


@given(ENDS, ENDS, STEPS)
def test_slices_are_those_of_numpy(pair, start, stop, step):
    X, rows = pair
    same(rows[start:stop:step], np.ascontiguousarray(X[start:stop:step]))


@given(
    st.lists(st.integers(-50, 49), max_size=80), st.sampled_from([1, 8, 100, 2**20]), st.sampled_from([0, 24, 2**16])
)
def test_taking_rows_is_that_of_numpy(pair, rows, buffer, gap):
    X, source = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUFFER_BYTES", buffer)
        patch.setattr(module, "GAP_BYTES", gap)
        same(source.take(rows), X[np.array(rows, int)])
        same(source[np.array(rows, int)], X[np.array(rows, int)])


def test_numbers_and_masks(pair):
    X, rows = pair
    same(rows[-3], X[-3])
    same(rows[np.int64(4)], X[4])
    same(rows[X[:, 0] > 0], X[X[:, 0] > 0])
    same(rows[[]], X[:0])
    same(np.stack(list(rows)), X)


def test_it_looks_like_an_array(pair):
    X, rows = pair
    assert eval(repr(rows)).shape == X.shape
    assert (rows.shape, rows.dtype, rows.ndim, rows.nbytes, len(rows)) == (X.shape, X.dtype, X.ndim, X.nbytes, len(X))


@pytest.mark.parametrize("index", [50, -51, [0, 50], "a", 1.5, [1.5], np.zeros((2, 2), int), (1, 2, 3.0), [True]])
def test_an_index_that_selects_no_rows(pair, index):
    with pytest.raises(IndexError, match=r"there is no row|selects no rows"):
        pair[1][index]


def test_only_rows_can_be_taken(pair):
    with pytest.raises(ValueError, match="axis=1 is not accepted"):
        pair[1].take([0], axis=1)


def test_all_rows_do_not_come_into_memory_unasked(pair):
    with pytest.raises(TypeError, match=r"take rows\[:\] to"):
        np.asarray(pair[1])


def test_neighbours_are_read_together(tmp_path, monkeypatch):
    X = np.arange(4000.0).reshape(1000, 4)
    rows, reads = written(tmp_path / "rows", X), []
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *call: reads.append(len(call[1][0])) or preadv(*call))
    same(rows.take([7, 5, 6, 900, 3]), X[[7, 5, 6, 900, 3]])
    assert reads == [900 * 32 - 2 * 32]  # the gap is small: from row 3 to row 900
    reads.clear()
    monkeypatch.setattr(module, "GAP_BYTES", 64)
    rows.take([7, 5, 6, 900, 3])
    assert reads == [5 * 32, 32]


def test_taking_needs_a_buffer_only(tmp_path, monkeypatch):
    X = np.arange(400_000.0).reshape(-1, 4)
    rows, reads = written(tmp_path / "rows", X), []
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda *call: reads.append(len(call[1][0])) or preadv(*call))
    monkeypatch.setattr(module, "TAKEN_AT_ONCE", 1000)
    same(rows[::3], np.ascontiguousarray(X[::3]))
    assert max(reads) <= module.BUFFER_BYTES
    assert sum(reads) <= X.nbytes
    assert len(reads) > 30


def test_short_reads_are_continued(tmp_path, monkeypatch):
    X = np.arange(30.0).reshape(10, 3)
    rows, preadv = written(tmp_path / "rows", X, 5), os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, place: preadv(file, [buffers[0][:7]], place))
    same(rows[2:9], X[2:9])


def test_threads_read_at_the_same_time(tmp_path, seed):
    X = np.random.default_rng(seed).normal(size=(20_000, 5))
    rows = written(tmp_path / "rows", X)

    def is_right(begin):
        part = np.arange(begin, begin + 3000, 7)
        return (rows[begin : begin + 2000] == X[begin : begin + 2000]).all() and (rows.take(part) == X[part]).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, range(0, 17_000, 100)))


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 0)])
def test_few_rows_or_no_columns(tmp_path, shape):
    X = np.ones(shape)
    rows = written(tmp_path / "rows", X)
    same(rows[:], X)
    same(rows[::-1], X[::-1].copy())
    same(rows.take(np.arange(len(X))), X)
    rows.prefetch(slice(None))


def test_a_prefetch_changes_nothing(pair):
    X, rows = pair
    rows.prefetch(slice(10, 20))
    same(rows[10:20], X[10:20])


def test_pickles_open_the_file_again(pair):
    X, rows = pair
    other = pickle.loads(pickle.dumps(rows))
    assert other._descriptor != rows._descriptor
    same(other[:], X)


def test_files_are_closed(tmp_path):
    rows = written(tmp_path / "rows", np.ones((2, 2)))
    descriptor = rows._descriptor
    del rows
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_is_too_short(tmp_path):
    (tmp_path / "rows").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"rows' has 100 bytes, but 4 rows of 3 float64 .* byte 8 on end at 104"):
        FileRows(tmp_path / "rows", (4, 3), float, 8)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        FileRows(tmp_path / "none", (4, 3), float)


@pytest.mark.parametrize(("shape", "dtype", "offset"), [((-1, 2), "f8", 0), ((1, 2), "U5", 0), ((1, 2), "f8", -8)])
def test_what_is_no_matrix_of_numbers(tmp_path, shape, dtype, offset):
    with pytest.raises(ValueError, match="are no rows of numbers"):
        FileRows(tmp_path, shape, dtype, offset)


def test_a_file_that_shrinks(tmp_path):
    X = np.ones((100, 2))
    rows = written(tmp_path / "rows", X)
    os.truncate(tmp_path / "rows", 500)
    same(rows[:31], X[:31])
    with pytest.raises(OSError, match="ends at byte 500, it was longer when it was opened"):
        rows[:]


def test_a_temporary_file_goes_with_its_rows(tmp_path):
    with RowWriter(tmp_path, 2, float) as writer:
        writer.append(np.ones((3, 2)))
        rows = writer.close()
    (file,) = tmp_path.iterdir()
    other = pickle.loads(pickle.dumps(rows))
    del rows
    gc.collect()
    assert not file.exists()
    same(other[:], np.ones((3, 2)))  # who has it open can read on


def test_a_fork_does_not_remove_the_file(tmp_path):
    with RowWriter(tmp_path, 2, float) as writer:
        rows = writer.close()
    module._remove(rows.path, os.getpid() + 1)
    assert os.path.exists(rows.path)


def test_blocks_of_any_kind_are_written(tmp_path):
    X = np.arange(24).reshape(8, 3)
    with RowWriter(tmp_path, 3, "float32") as writer:
        writer.append(X[:2])
        writer.append(X[2:2])
        writer.append(np.asfortranarray(X[2:5]))
        writer.append(X[::-1][:3].astype(">f8"))
        rows = writer.close()
    same(rows[:], np.concatenate([X[:5], X[:4:-1]]).astype("float32"))


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:5]))
    with RowWriter(tmp_path, 3, float) as writer:
        writer.append(np.eye(3))
        rows = writer.close()
    same(rows[:], np.eye(3))


@pytest.mark.parametrize("how", ["abort", "error", "forget"])
def test_what_is_not_finished_is_removed(tmp_path, how):
    writer = RowWriter(tmp_path, 3, float)
    writer.append(np.eye(3))
    if how == "abort":
        writer.abort()
        writer.abort()
    elif how == "error":
        with pytest.raises(OSError, match="full"), writer:
            raise OSError(errno.ENOSPC, "full")
    del writer
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_closed_writer_writes_no_more(tmp_path):
    writer = RowWriter(tmp_path, 3, float)
    rows = writer.close()
    for more in (lambda: writer.append(np.eye(3)), writer.close):
        with pytest.raises(ValueError, match="nothing can be written any more"):
            more()
    assert rows.shape == (0, 3)


def test_a_block_of_other_columns_is_refused(tmp_path):
    with RowWriter(tmp_path, 3, float) as writer, pytest.raises(ValueError, match=r"shape \(2, 2\) .* 3 columns"):
        writer.append(np.eye(2))
