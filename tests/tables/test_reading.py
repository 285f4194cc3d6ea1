import bz2
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from madbayes.tables import TableError, read_table

FRAME = pd.DataFrame({"name": ["nut", "bolt", "gear"], "price": [1.5, 2.0, 4.25], "count": [3, 1, 2]})


def write_arrow_stream(frame, path):
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def write_bz2(frame, path):
    path.write_bytes(bz2.compress(frame.to_csv(index=False).encode()))


WRITERS = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "a.CSV": lambda frame, path: frame.to_csv(path, index=False),
    "a.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "a.txt": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "a.csv.bz2": write_bz2,
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: frame.to_feather(path),
    "a.arrow": lambda frame, path: frame.to_feather(path),
    "stream.arrow": write_arrow_stream,
    "structured.npy": lambda frame, path: np.save(path, frame.astype({"name": "U9"}).to_records(index=False)
                                                  .astype([("name", "U9"), ("price", "f8"), ("count", "i8")])),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_the_same_in_every_kind_of_file(name, tmp_path):
    WRITERS[name](FRAME, tmp_path / name)
    table = read_table(tmp_path / name)
    pd.testing.assert_frame_equal(table.frame, FRAME, check_dtype=False, check_column_type=False)
    assert len(table.fingerprint) == 64
    assert table.shape is None
    assert table.units == "mixed"


def test_the_fingerprint_is_that_of_the_contents(tmp_path):
    for name, frame in (("a.csv", FRAME), ("b.csv", FRAME), ("c.csv", FRAME.assign(count=0))):
        frame.to_csv(tmp_path / name)
    prints = [read_table(tmp_path / name).fingerprint for name in ("a.csv", "b.csv", "c.csv")]
    assert prints[0] == prints[1] != prints[2]


def test_a_named_index_is_a_column(tmp_path):
    FRAME.set_index("name").to_parquet(tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet").frame.columns) == ["name", "price", "count"]


def test_arrays(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "one.npz", table=X)
    np.savez(tmp_path / "two.npz", y=X[0], X=X)
    for name in ("a.npy", "one.npz", "two.npz"):
        table = read_table(tmp_path / name)
        assert np.array_equal(table.frame, X)
        assert list(table.frame.columns) == ["x0", "x1", "x2"]
        assert table.units == "same"


def test_arrays_of_pictures(tmp_path):
    X = np.arange(24.0).reshape(2, 3, 4)
    np.save(tmp_path / "grey.npy", X)
    np.save(tmp_path / "colour.npy", np.stack([X, X, X], axis=-1))
    grey, colour = read_table(tmp_path / "grey.npy"), read_table(tmp_path / "colour.npy")
    assert grey.shape == (3, 4)
    assert np.array_equal(grey.frame.to_numpy().reshape(2, 3, 4), X)
    assert colour.shape == (3, 4, 3)


def test_a_folder_of_pictures(tmp_path):
    shades = np.array([[0, 51], [102, 255]], dtype=np.uint8)
    for name, shift in (("p10.png", 0), ("p9.png", 1)):
        Image.fromarray(shades + (shift * (shades < 255)).astype(np.uint8)).save(tmp_path / name)
    table = read_table(tmp_path)
    assert list(table.ids) == ["p9.png", "p10.png"]
    assert table.shape == (2, 2)
    assert np.allclose(table.frame.iloc[1] * 255, shades.ravel())
    Image.fromarray(np.dstack([shades, shades, 0 * shades])).save(tmp_path / "p11.png")
    assert read_table(tmp_path).shape == (2, 2, 3)


@pytest.mark.parametrize(
    ("text", "columns", "first", "note"),
    [
        ("a;b\n1,5;x\n2,5;y\n", ["a", "b"], [1.5, "x"], "numbers are written with decimal commas"),
        ("a;b\n1.5;x,y\n2.5;y\n", ["a", "b"], [1.5, "x,y"], "columns are separated by ';'"),
        ("1.5,2\n3,4\n", ["x0", "x1"], [1.5, 2], "the first line has numbers, no names"),
        ("0,1\n3.5,4\n", ["0", "1"], [3.5, 4], None),
        ("\ufeffa,b\n1,2\n", ["a", "b"], [1, 2], None),
        ('"a,b", c \n1,2\n', ["a,b", "c"], [1, 2], None),
        ("a\n1\n2\n", ["a"], [1], None),
        ("\n\na,b\n1,2\n", ["a", "b"], [1, 2], None),
    ],
)
def test_text_is_understood_as_it_is_written(text, columns, first, note, tmp_path):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    table = read_table(tmp_path / "a.csv")
    assert list(table.frame.columns) == columns
    assert table.frame.iloc[0].tolist() == first
    assert any(note in words for words in table.notes) if note else not table.notes


def test_text_that_is_not_utf8(tmp_path):
    lines = ["id,town"] + [f"{n},Nice" for n in range(20_000)] + ["20000,Köln"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("cp1252"))
    table = read_table(tmp_path / "a.csv")
    assert table.frame["town"].iloc[-1] == "Köln"
    assert "Windows-1252" in table.notes[0]
    (tmp_path / "b.csv").write_text("town\nKöln\nNice\n", encoding="utf-16")
    assert read_table(tmp_path / "b.csv").frame["town"].tolist() == ["Köln", "Nice"]


@pytest.mark.parametrize("text", ["a,b\nr,1,2\ns,3,4\n", "# made on Monday\na,b\n1,2\n3,4\n"])
def test_values_without_a_name_are_not_lost(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match="has more values in each line than names in the first"):
        read_table(tmp_path / "t.csv")


def test_separators_at_the_end_of_lines_are_no_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2,\n3,4,\n")
    assert read_table(tmp_path / "t.csv").frame.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_text_columns_are_known_without_the_blanks_around_their_names(tmp_path):
    (tmp_path / "t.csv").write_text("x, zip \n1,01067\n2,02826\n")
    assert read_table(tmp_path / "t.csv", text_columns=["zip"]).frame["zip"].tolist() == ["01067", "02826"]


def test_text_columns_stay_text(tmp_path):
    (tmp_path / "a.csv").write_text("code,a\n007,1\n")
    assert read_table(tmp_path / "a.csv", text_columns=["code", "other"]).frame["code"].tolist() == ["007"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n \n", "is empty"),
        ("a.csv", b"a,b\n", "has columns but no rows"),
        ("a.csv", b"a,b,a\n1,2,3\n", "columns of the same name: 'a'. Rename"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "cannot be read, it may be broken: .*line 3"),
        ("a.csv", b"PK\0\0\0", "is no text, though its name says so"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20], "cannot be read, it may be broken"),
        ("a.parquet", b"PAR1 no", "cannot be read, it may be broken"),
        ("a.feather", b"ARROW1 no", "cannot be read, it may be broken"),
        ("a.npy", b"\x93NUMPY no", "cannot be read, it may be broken"),
        ("a.npz", b"PK\3\4 no", "cannot be read, it may be broken"),
        ("a.xlsx", b"PK", "ends in '.xlsx', which is no table known here: give CSV, TSV, Parquet"),
        ("table", b"a", "ends in 'nothing'"),
    ],
)
def test_files_that_are_no_tables(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / name)


def test_arrays_that_are_no_tables(tmp_path):
    np.save(tmp_path / "flat.npy", np.arange(3))
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object))
    np.save(tmp_path / "words.npy", np.array([["a"], ["b"]]))
    np.savez(tmp_path / "two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    for name, message in (
        ("flat", r"has shape \(3,\): give rows and columns"),
        ("objects", "cannot be read, it may be broken: .*pickle"),
        ("words", "holds <U1 values: give numbers"),
    ):
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / f"{name}.npy")
    with pytest.raises(TableError, match="has 'a', 'b': call the one to use 'X'"):
        read_table(tmp_path / "two.npz")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(TableError, match="has no arrays in it"):
        read_table(tmp_path / "none.npz")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 4, 0)])
def test_arrays_of_nothing(shape, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(shape))
    with pytest.raises(TableError, match="which is nothing: give rows and columns"):
        read_table(tmp_path / "a.npy")


def test_an_array_whose_header_makes_no_sense(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"{'descr'", b"(((((((("))
    with pytest.raises(TableError, match="cannot be read, it may be broken: its header makes no sense"):
        read_table(tmp_path / "a.npy")


def test_what_is_not_there(tmp_path):
    FRAME.to_csv(tmp_path / "prices.csv")
    with pytest.raises(TableError, match=r"price.csv' is not there: check the name; did you mean .*prices.csv'\?"):
        read_table(tmp_path / "price.csv")
    with pytest.raises(TableError, match=r"is not there: check the name$"):
        read_table(tmp_path / "no" / "where.csv")
    with pytest.raises(TableError, match="has no pictures"):
        read_table(tmp_path)
