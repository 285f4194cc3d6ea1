"""Tables in Parquet files, block by block."""

import io

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.test_blocks import table

from madbayes.tables import Recipe, TableError, TableStream
from madbayes.tables.streaming import LEAST_ROWS, can_stream

NAMES = ["2024/01.parquet", "2024/02.parquet", "2025/01.parquet", "last.pq"]


def write_parts(frame, folder, rows_in_group=60):
    """A nested folder of files of different lengths."""
    for name, part in zip(NAMES, np.array_split(np.arange(len(frame)), [100, 101, 400]), strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.iloc[part].to_parquet(path, row_group_size=rows_in_group, index=False)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_parts(table(), tmp_path / "table")


@pytest.fixture
def bucket(folder):
    """The same table elsewhere."""
    memory = fsspec.filesystem("memory")
    for name in NAMES:
        memory.pipe(f"/bucket/table/{name}", (folder / name).read_bytes())
    yield "memory://bucket/table"
    memory.rm("/bucket", recursive=True)


def test_files_come_in_the_order_of_their_paths_with_their_places(folder):
    stream = TableStream(folder)
    assert [part.name for part in stream.parts] == NAMES
    assert stream.n_rows == 700
    blocks = list(stream.blocks())
    assert pd.concat([block.frame for block in blocks], ignore_index=True)["name"].tolist() == table()["name"].tolist()
    assert [(block.part, block.group, block.first, block.start) for block in blocks[:4]] == [
        (0, 0, 0, 0), (0, 1, 60, 60), (1, 0, 0, 100), (2, 0, 0, 101)]  # fmt: skip
    assert stream.where(blocks[1], 5) == "'2024/01.parquet', row group 1, row 65"
    assert sum(map(len, stream.frames)) == sum(map(len, stream.frames)) == 700


def test_a_stream_from_elsewhere_is_the_same(folder, bucket):
    here, there = TableStream(folder), TableStream(bucket)
    assert [part.name for part in there.parts] == NAMES
    assert there.fingerprint == here.fingerprint
    for one, other in zip(here.frames, there.frames, strict=True):
        pd.testing.assert_frame_equal(one, other)
    (alone,) = TableStream(f"{bucket}/last.pq").parts
    assert alone.name == "last.pq"
    (alone,) = TableStream(folder / "last.pq").parts
    assert alone.name == "last.pq"
    assert all(map(can_stream, (folder, bucket, folder / "last.pq")))
    assert not can_stream(folder.parent / "other.csv")


@pytest.mark.parametrize("kind", ["clusters", "features"])
@pytest.mark.parametrize("missing", ["median", "drop"])
def test_a_recipe_of_a_stream_is_that_of_the_table(folder, kind, missing):
    options = {"kind": kind, "missing": missing, "scale": "robust", "pca": 3}
    streamed, whole = Recipe(**options).fit(TableStream(folder)), Recipe(**options).fit(table())
    assert streamed.decisions_ == whole.decisions_
    assert (streamed.n_rows_, streamed.n_dropped_) == (whole.n_rows_, whole.n_dropped_)
    for one, other in zip(streamed._scaling, whole._scaling, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=0)
    assert np.allclose(streamed.transform(table().head(9)), whole.transform(table().head(9)), rtol=1e-6, atol=1e-8)


def test_a_limit_of_memory_makes_blocks_small(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 10))).add_prefix("c")
    frame.to_parquet(tmp_path / "t.parquet")
    stream = TableStream(tmp_path / "t.parquet", memory_limit=20_000_000)
    assert max(map(len, stream.frames)) == stream.block_rows <= 20_000_000 // 100 // 80
    assert stream.block_rows > 1000
    assert TableStream(tmp_path / "t.parquet", memory_limit=1000).block_rows == LEAST_ROWS
    assert TableStream(tmp_path / "t.parquet").block_rows == 2**16


def test_bad_values_are_told_with_file_row_group_row_and_column(folder):
    with pytest.raises(TableError) as error:
        Recipe().fit(TableStream(folder))
    gap = int(table()[["income", "shifted", "colour"]].isin([np.nan, np.inf, None]).any(axis=1).to_numpy().argmax())
    assert f"the first is in '2024/01.parquet', row group 0, row {gap}, column" in str(error.value)
    for words in ("'income': 60", "'shifted': 9", "'colour': 30", "--missing median", "--bad-rows quarantine"):
        assert words in str(error.value)


def test_text_among_numbers_of_one_file_is_told_where_it_is(tmp_path):
    rng = np.random.default_rng(0)
    for n, prices in enumerate([rng.normal(size=90), [*map(str, rng.normal(size=70)), "n/a", "?"]]):
        frame = pd.DataFrame({"price": prices, "x": rng.normal(size=len(prices))})
        frame.to_parquet(tmp_path / f"{n}.parquet", row_group_size=40)
    with pytest.raises(TableError) as error:
        Recipe().fit(TableStream(tmp_path))
    assert (
        "values that are no numbers, by column 'price': 2; the first is in '1.parquet', row group 1, row 70, "
        in str(error.value)
    )
    assert "column 'price', 'n/a'. Correct them" in str(error.value)


def test_files_must_have_the_same_columns(tmp_path):
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(TableError, match=r"'1.parquet' has no column 'b', which '0.parquet' has"):
        TableStream(tmp_path)
    pd.DataFrame({"b": [1.0], "a": [1.0], "c": [0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(TableError, match=r"'1.parquet' has a column 'c', which '0.parquet' has not"):
        TableStream(tmp_path)


def test_columns_in_another_order_and_files_without_rows(tmp_path):
    pd.DataFrame({"a": [1.5, 2.0], "b": [5.0, 6.5]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"b": [7.0], "a": [3.0]}).to_parquet(tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([], pa.float64()), "b": pa.array([], pa.float64())}), tmp_path / "2.parquet")
    stream = TableStream(tmp_path)
    assert pd.concat(stream.frames)["b"].tolist() == [5, 6.5, 7]
    assert [len(block.frame) for block in stream.blocks()] == [2, 1, 0]
    assert Recipe().fit(stream).means_ == pytest.approx([6.5 / 3, 18.5 / 3])


def test_labels_of_rows_with_a_name_are_a_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 5.0]}, index=pd.Index(["x", "y", "z"], name="who"))
    frame.to_parquet(tmp_path / "named.parquet")
    assert TableStream(tmp_path / "named.parquet").columns == ["who", "a"]
    frame.rename_axis(None).to_parquet(tmp_path / "unnamed.parquet")
    assert TableStream(tmp_path / "unnamed.parquet").columns == ["a"]


def test_what_is_not_there_or_broken(tmp_path):
    for source in (tmp_path / "none", "memory://nobody/here"):
        with pytest.raises(TableError, match="is not there"):
            TableStream(source)
    with pytest.raises(TableError, match="folder without Parquet files"):
        TableStream(tmp_path)
    with pytest.raises(TableError, match="nowhere://a"):
        TableStream("nowhere://a")
    buffer = io.BytesIO()
    pd.DataFrame({"a": np.arange(5000.0)}).to_parquet(buffer)
    (tmp_path / "cut.parquet").write_bytes(buffer.getvalue()[:-20])
    with pytest.raises(TableError, match=r"'cut.parquet' cannot be read, it may be broken"):
        TableStream(tmp_path)
