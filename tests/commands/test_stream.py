"""Tables of more rows than memory, from Parquet files here and elsewhere to groups file by file."""

import errno
import json

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.commands.helpers import call, make_table, says

import madbayes
from madbayes.commands import sampling
from madbayes.commands.sampling import Sampler
from madbayes.tables import TableStream

NAMES = ["2024/part-0.parquet", "2024/part-1.parquet", "2025/part-0.parquet"]
CUTS = [70, 95]
N = 180
COLUMNS = ["row", "customer", "label", "group", "group_id", "margin", "error", "unusual"]


def write_parts(frame, folder, names=NAMES, cuts=CUTS):
    for name, rows in zip(names, np.split(np.arange(len(frame)), cuts), strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.iloc[rows].to_parquet(path, row_group_size=30, index=False)
    return folder


def read_parts(folder, names=NAMES):
    """The files of a dataset one after the other; exactly these are there."""
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")) == sorted(names)
    return pd.concat([pq.ParquetFile(folder / name).read().to_pandas() for name in names], ignore_index=True)


def done(found):
    assert found.exit_code == 0, found.output + repr(found.exception)
    return found


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    return write_parts(make_table(N), tmp_path_factory.mktemp("parts") / "customers")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same table in one file, and what a fit in memory gives."""
    folder = tmp_path_factory.mktemp("whole")
    make_table(N).to_parquet(folder / "customers.parquet", index=False)
    done(call("fit", folder / "customers.parquet", "--out", folder / "result", "--refits", 3))
    return folder


@pytest.fixture(scope="module")
def streamed(parts, tmp_path_factory):
    """What a fit in blocks leaves behind; not to be changed."""
    out = tmp_path_factory.mktemp("streamed") / "result"
    done(call("fit", parts, "--memory-limit", "600MB", "--out", out, "--refits", 3))
    return out


@pytest.fixture
def bucket(parts):
    memory = fsspec.filesystem("memory")
    for name in NAMES:
        memory.pipe(f"/bucket/customers/{name}", (parts / name).read_bytes())
    yield "memory://bucket/customers"
    memory.rm("/bucket", recursive=True)


def test_the_groups_are_those_of_a_fit_in_memory(streamed, whole):
    assert {path.name for path in streamed.iterdir()} == {
        "model.madbayes", "assignments", "components.parquet", "path.json", "run.json", "report.html"}  # fmt: skip
    found, expected = read_parts(streamed / "assignments"), pd.read_parquet(whole / "result" / "assignments.parquet")
    assert list(found.columns) == COLUMNS
    assert found["customer"].tolist() == make_table(N)["customer"].tolist()
    assert found["row"].tolist() == list(range(N))
    assert found["group"].tolist() == expected["group"].tolist()
    assert np.allclose(found[["margin", "error"]], expected[["margin", "error"]])
    components = [pd.read_parquet(place / "components.parquet") for place in (streamed, whole / "result")]
    pd.testing.assert_frame_equal(*components, rtol=1e-9)
    assert json.loads((streamed / "path.json").read_text())["best"] == 3


def test_the_model_is_the_same(streamed, whole):
    one, other = (madbayes.load(place / "model.madbayes") for place in (streamed, whole / "result"))
    frame = make_table(50, seed=3)
    assert np.array_equal(one.predict(frame), other.predict(frame))
    assert one[0].decisions_ == other[0].decisions_


def test_the_run_counts_files_and_rows(streamed, parts):
    run = json.loads((streamed / "run.json").read_text())
    assert run["settings"]["data"] == str(parts)
    assert run["settings"]["memory_limit"] == "600MB"
    assert run["counts"] == {"rows": N, "rows_used": N, "rows_dropped": 0, "columns": 4, "columns_used": 3,
                             "columns_of_numbers": 5, "groups": 3, "rows_put_aside": 0,
                             "rows_of_the_sample": N}  # fmt: skip
    assert {"files", "intake", "encode", "scale", "fit", "write"} <= set(run["timings"])


def test_a_bucket_gives_the_same_files(bucket, streamed, tmp_path):
    found = done(call("fit", bucket, "--out", tmp_path / "out", "--refits", 3))
    assert "customers: 180 rows, 4 columns in 3 files" in found.stderr
    for name in NAMES:
        assert (tmp_path / "out" / "assignments" / name).read_bytes() == (streamed / "assignments" / name).read_bytes()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["input"]["path"] == bucket
    again = done(call("fit", "--config", tmp_path / "out" / "run.json", "--out", tmp_path / "again"))
    assert "3 clusters of 180 rows." in again.stdout


@pytest.mark.parametrize("options", [["--scale", "robust", "--pca", 3], ["--groups", 2], ["--penalty", "30%"]])
def test_scales_principal_components_and_penalties(parts, whole, options, tmp_path):
    for source, place in ((parts, "blocks"), (whole / "customers.parquet", "memory")):
        done(call("fit", source, *options, "--refits", 0, "--out", tmp_path / place))
    found = read_parts(tmp_path / "blocks" / "assignments")
    expected = pd.read_parquet(tmp_path / "memory" / "assignments.parquet")
    assert found["label"].tolist() == expected["label"].tolist()
    assert np.allclose(found["error"], expected["error"], rtol=1e-6)


def test_features_in_blocks(tmp_path):
    X, _, _ = madbayes.datasets.make_dice(n_rows=80, noise=0.2, random_state=0)
    frame = pd.DataFrame(X).add_prefix("pixel").assign(id=[f"die {n}" for n in range(80)])
    write_parts(frame, tmp_path / "dice", NAMES[:2], [30])
    frame.to_parquet(tmp_path / "dice.parquet", index=False)
    options = ["--kind", "features", "--scale", "none", "--refits", 0]
    done(call("fit", tmp_path / "dice", *options, "--out", tmp_path / "blocks"))
    done(call("fit", tmp_path / "dice.parquet", *options, "--out", tmp_path / "memory"))
    found = read_parts(tmp_path / "blocks" / "assignments", NAMES[:2])
    expected = pd.read_parquet(tmp_path / "memory" / "assignments.parquet")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert found.filter(like="group").sum().gt(20).all()


def with_bad_rows():
    """Rows that cannot be used in two of the three files."""
    frame = make_table(N)
    frame.loc[[3, 40], "income"] = np.nan
    frame.loc[3, "channel"] = None
    frame.loc[100, "age"] = np.inf
    return frame


def test_bad_rows_are_an_error_that_says_where(tmp_path):
    folder = write_parts(with_bad_rows(), tmp_path / "t")
    found = call("fit", folder, "--out", tmp_path / "out")
    says(found, 2, "'income': 2, 'channel': 1, 'age': 1; the first is in '2024/part-0.parquet', row group 0, row 3, ")
    assert "--bad-rows quarantine" in found.stderr
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*"))


def test_bad_rows_are_put_aside_with_the_reason(tmp_path):
    folder = write_parts(with_bad_rows(), tmp_path / "t")
    options = ["--bad-rows", "quarantine", "--out", tmp_path / "out", "--refits", 0]
    found = done(call("fit", folder, *options))
    assert "3 of 180 rows cannot be used and are put aside" in found.stderr
    assert "3 clusters of 177 rows." in found.stdout
    aside = read_parts(tmp_path / "out" / "quarantine", [NAMES[0], NAMES[2]])
    assert aside["row"].tolist() == [3, 40, 100]
    assert aside["customer"].tolist() == ["C3", "C40", "C100"]
    assert aside["reason"].tolist() == [
        "column 'income' has no finite value; column 'channel' has no finite value",
        "column 'income' has no finite value",
        "column 'age' has no finite value",
    ]
    groups = read_parts(tmp_path / "out" / "assignments")
    assert len(groups) == N
    assert groups.index[groups["group"].isna()].tolist() == [3, 40, 100]
    assert groups.loc[[3, 40, 100], "customer"].tolist() == ["C3", "C40", "C100"]
    # The groups are those of the rows that are left.
    with_bad_rows().drop(index=[3, 40, 100]).to_parquet(tmp_path / "good.parquet", index=False)
    done(call("fit", tmp_path / "good.parquet", "--out", tmp_path / "good", "--refits", 0))
    expected = pd.read_parquet(tmp_path / "good" / "assignments.parquet")
    assert groups.dropna()["group"].tolist() == expected["group"].tolist()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["counts"]["rows_put_aside"] == 3


def test_text_among_numbers_is_put_aside_too(tmp_path):
    frame = make_table(N)
    frame["income"] = frame["income"].astype(str)
    frame.loc[[8, 99], "income"] = ["n/a", "?"]
    folder = write_parts(frame, tmp_path / "t")
    says(call("fit", folder, "--out", tmp_path / "out"), 2, "row group 0, row 8, column 'income', 'n/a'. Correct them")
    done(call("fit", folder, "--bad-rows", "quarantine", "--out", tmp_path / "out", "--refits", 0))
    aside = read_parts(tmp_path / "out" / "quarantine", [NAMES[0], NAMES[2]])
    assert aside["income"].tolist() == ["n/a", "?"]
    assert set(aside["reason"]) == {"column 'income' is no number"}
    assert madbayes.load(tmp_path / "out" / "model.madbayes")[0].encoded_names_[0] == "income"


def test_a_table_without_a_usable_row_has_no_report(streamed, tmp_path):
    folder = write_parts(make_table(N).assign(income=np.nan), tmp_path / "t")
    found = call("report", streamed, folder, "--bad-rows", "quarantine", "--out", tmp_path / "report.html")
    says(found, 2, "none of the 180 rows of the table can be used")
    assert not (tmp_path / "report.html").exists()


def test_rows_that_are_dropped_have_no_group(tmp_path):
    folder = write_parts(with_bad_rows(), tmp_path / "t")
    done(call("fit", folder, "--missing", "drop", "--out", tmp_path / "out", "--refits", 0))
    groups = read_parts(tmp_path / "out" / "assignments")
    assert groups.index[groups["label"].isna()].tolist() == [3, 40, 100]
    assert not (tmp_path / "out" / "quarantine").exists()
    done(call("fit", folder, "--missing", "median", "--out", tmp_path / "filled", "--refits", 0))
    assert read_parts(tmp_path / "filled" / "assignments")["label"].notna().all()


def test_a_report_is_about_a_stated_sample(parts, streamed, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE", 60)
    found = done(call("fit", parts, "--out", tmp_path / "out", "--refits", 2, "--groups", 3))
    words = "Groups, their sizes and the rows named below are those of a sample of 60 of 180 rows."
    assert "3 clusters of 180 rows." in found.stdout
    assert words in found.stdout
    assert "The report is about a sample of 60 of 180 rows" in found.stderr
    assert words in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert pd.read_parquet(tmp_path / "out" / "components.parquet")["size"].tolist() == [60, 60, 60]
    assert read_parts(tmp_path / "out" / "assignments")["group"].tolist() == read_parts(streamed / "assignments")[
        "group"].tolist()  # fmt: skip
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["counts"]["rows_of_the_sample"] == 60
    # The path is that of all rows: each row of the sample stands for three.
    low, high = next((one["low"], one["high"]) for one in json.loads((tmp_path / "out" / "path.json").read_text())[
        "intervals"] if one["K"] == 3)  # fmt: skip
    assert low < run["result"]["penalty"] < high


def test_a_path_is_that_of_a_sample(parts, tmp_path, monkeypatch):
    whole = json.loads(done(call("path", parts, "--json")).stdout)
    monkeypatch.setattr(sampling, "SAMPLE", 60)
    found = done(call("path", parts, "--memory-limit", "500MB", "--out", tmp_path / "path.json"))
    assert "The path is about a sample of 60 of 180 rows" in found.stderr
    some = json.loads((tmp_path / "path.json").read_text())
    assert some["best"] == whole["best"] == 3
    assert some["suggested_penalty"] == pytest.approx(whole["suggested_penalty"], rel=0.5)


def test_a_report_of_a_stream_again_with_names(parts, tmp_path):
    out = tmp_path / "out"
    done(call("fit", parts, "--out", out, "--refits", 0))
    done(call("report", out, "--name", "0=cheap"))
    assert "cheap" in set(read_parts(out / "assignments")["group"])
    assert "cheap" in (out / "report.html").read_text(encoding="utf-8")
    assert "cheap" in pd.read_parquet(out / "components.parquet")["name"].tolist()
    other = write_parts(make_table(N, seed=5), tmp_path / "other")
    found = done(call("report", out, other, "--out", tmp_path / "other.html"))
    assert "Report: " in found.stdout
    assert "3 clusters of 180 rows." in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_apply_mirrors_its_input(streamed, parts, bucket, tmp_path):
    found = done(call("apply", streamed, bucket, "--out", tmp_path / "new", "--json"))
    answer = json.loads(found.stdout)
    assert answer["rows"] == N
    assert sum(answer["groups"].values()) == N
    for name in NAMES:
        expected = pq.read_table(streamed / "assignments" / name)
        assert pq.read_table(tmp_path / "new" / "assignments" / name).equals(expected)


def test_apply_puts_bad_rows_aside(streamed, tmp_path):
    frame = (
        with_bad_rows().drop(columns="customer").assign(channel=lambda frame: frame["channel"].replace("shop", "fax"))
    )
    folder = write_parts(frame, tmp_path / "t")
    says(call("apply", streamed, folder, "--out", tmp_path / "new"), 2, "'2024/part-0.parquet', row group 0, row 3, ")
    assert not (tmp_path / "new").exists()
    found = done(call("apply", streamed, folder, "--bad-rows", "quarantine", "--out", tmp_path / "new"))
    assert "Put aside, because they cannot be used: 3 rows." in found.stdout
    assert "column 'channel' has 60 values that the model has never seen" in found.stderr
    assert read_parts(tmp_path / "new" / "quarantine", [NAMES[0], NAMES[2]])["row"].tolist() == [3, 40, 100]
    groups = read_parts(tmp_path / "new" / "assignments")
    assert list(groups.columns) == [name for name in COLUMNS if name != "customer"]
    assert groups["label"].isna().sum() == 3


def test_results_in_folders_can_be_compared(streamed, whole, tmp_path):
    found = done(call("compare", streamed, whole / "result", "--json"))
    answer = json.loads(found.stdout)
    assert (answer["rows"], answer["moved"]) == (N, 0)
    folder = write_parts(with_bad_rows(), tmp_path / "t")
    done(call("fit", folder, "--bad-rows", "quarantine", "--out", tmp_path / "out", "--refits", 0))
    answer = json.loads(done(call("compare", tmp_path / "out", streamed, "--json")).stdout)
    assert (answer["rows"], answer["only_new"], answer["moved"]) == (N - 3, 3, 0)


def test_force_replaces_folders_and_what_is_out_of_date(parts, whole, tmp_path):
    out = tmp_path / "out"
    done(call("fit", whole / "customers.parquet", "--out", out, "--refits", 0))
    (out / "notes.txt").write_text("mine")
    says(call("fit", parts, "--out", out, "--refits", 0), 4, "is not empty")
    for _ in range(2):
        done(call("fit", parts, "--out", out, "--refits", 0, "--force"))
        assert {path.name for path in out.iterdir()} == {
            "model.madbayes", "assignments", "components.parquet", "path.json", "run.json", "report.html",
            "notes.txt"}  # fmt: skip
        assert len(read_parts(out / "assignments")) == N


def test_a_file_without_rows_is_mirrored(parts, tmp_path):
    write_parts(make_table(N), tmp_path / "t")
    empty = pq.read_schema(parts / NAMES[0]).empty_table()
    pq.write_table(empty, tmp_path / "t" / "2025" / "z.parquet")
    done(call("fit", tmp_path / "t", "--out", tmp_path / "out", "--refits", 0))
    groups = read_parts(tmp_path / "out" / "assignments", [*NAMES, "2025/z.parquet"])
    assert len(groups) == N
    assert pq.read_schema(tmp_path / "out" / "assignments" / "2025" / "z.parquet").field("label").type == pa.int64()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory-limit", "much"], "--memory-limit much: give an amount such as 600MB"),
        (["--spill-dir", "nowhere"], "nowhere: is no folder"),
        (["--bad-rows", "burn"], "'burn' is not one of"),
        (["--out", "s3://bucket/result"], "results are written to this machine"),
        (["--columns", "Income"], "did you mean 'income'?"),
    ],
)
def test_wrong_wishes_are_refused_in_one_line(parts, options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    says(call("fit", parts, *options), 2, words)
    assert not list(tmp_path.iterdir())


def test_results_are_not_put_among_the_files_of_the_table(streamed, tmp_path):
    """They are Parquet too, and the next fit would take them for rows."""
    table = write_parts(make_table(N), tmp_path / "t")
    before = sorted(table.rglob("*"))
    for out in (table, table / "below"):
        says(call("fit", table, "--out", out, "--force"), 2, "whose Parquet files are the table")
        says(call("apply", streamed, table, "--out", out, "--force"), 2, "whose Parquet files are the table")
    assert sorted(table.rglob("*")) == before


def test_a_place_for_checkpoints_is_looked_at_before_the_rows(parts, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(TableStream, "blocks", None)  # nobody gets there
    says(
        call("fit", parts, "--checkpoint", tmp_path / "file", "--out", tmp_path / "out"), 2, "is a file: name a folder"
    )
    found = call("fit", parts, "--checkpoint", tmp_path / "file" / "below", "--out", tmp_path / "out")
    says(found, 4, "below' cannot be written to (Not a directory): name another folder")


def test_a_full_disk_for_temporary_files_is_named(parts, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "spill").mkdir()
    monkeypatch.setattr("madbayes.sources.rows.os.write", full)
    found = call("fit", parts, "--spill-dir", tmp_path / "spill", "--out", tmp_path / "out")
    monkeypatch.undo()
    says(found, 4, "spill': name another folder with --spill-dir")
    assert [path.name for path in tmp_path.rglob("*")] == ["spill"]


def test_no_name_is_not_the_folder_we_are_in(parts, monkeypatch):
    monkeypatch.chdir(parts)
    says(call("fit", ""), 2, "name a table")


def test_what_is_no_parquet_is_read_as_a_whole(table, tmp_path):
    for option in (["--memory-limit", "1GB"], ["--bad-rows", "quarantine"]):
        says(call("fit", table, *option, "--out", tmp_path / "out"), 2, "is not Parquet and is read as a whole")
    says(call("fit", "memory://nobody/here", "--out", tmp_path / "out"), 2, "is not there: check the name")


def test_a_file_that_is_broken_in_the_middle_is_named(parts, tmp_path):
    for name in NAMES:
        content = bytearray((parts / name).read_bytes())
        if name == NAMES[1]:
            content[4:400] = bytes(396)
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_bytes(content)
    says(call("fit", tmp_path / "t", "--out", tmp_path / "out"), 2, f"{NAMES[1]!r} cannot be read, it may be broken")
    assert not (tmp_path / "out").exists()


def test_nothing_stays_in_the_folder_for_temporary_files(parts, tmp_path):
    (tmp_path / "spill").mkdir()
    done(call("fit", parts, "--spill-dir", tmp_path / "spill", "--out", tmp_path / "out", "--refits", 0))
    assert not list((tmp_path / "spill").iterdir())


def test_a_result_is_continued_in_blocks_as_in_memory(streamed, tmp_path):
    tomorrow = make_table(N, seed=8).assign(income=lambda frame: frame["income"] * 1.05)
    tomorrow.to_parquet(tmp_path / "tomorrow.parquet", index=False)
    folder = write_parts(tomorrow, tmp_path / "tomorrow")
    for source, place in ((tmp_path / "tomorrow.parquet", "memory"), (folder, "blocks")):
        done(call("fit", source, "--init", streamed, "--refits", 0, "--out", tmp_path / place))
    found = read_parts(tmp_path / "blocks" / "assignments")
    expected = pd.read_parquet(tmp_path / "memory" / "assignments.parquet")
    assert found["group_id"].tolist() == expected["group_id"].tolist()
    assert np.allclose(found["error"], expected["error"])
    models = [madbayes.load(tmp_path / place / "model.madbayes") for place in ("blocks", "memory")]
    assert np.allclose(models[0][0].means_, models[1][0].means_, rtol=1e-12)
    assert np.allclose(models[0][0].means_[:2], tomorrow[["income", "age"]].mean())


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    """More rows than a sample has, so that a fit goes over rows on the disk."""
    rng = np.random.default_rng(0)
    k = rng.integers(4, size=26_000)
    X = rng.normal(size=(4, 6))[k] * 6 + rng.normal(size=(26_000, 6))
    frame = pd.DataFrame(X).add_prefix("x").assign(key=[f"k{n}" for n in range(26_000)])
    return write_parts(frame, tmp_path_factory.mktemp("long") / "long", cuts=[9000, 15_000])


def test_a_fit_of_rows_on_the_disk_is_that_in_memory(long_table, tmp_path):
    pd.concat([pd.read_parquet(long_table / name) for name in NAMES]).to_parquet(tmp_path / "t.parquet", index=False)
    options = ["--refits", 2, "--penalty", "3%"]
    done(call("fit", tmp_path / "t.parquet", *options, "--out", tmp_path / "memory"))
    found = done(call("fit", long_table, *options, "--memory-limit", "2GB", "--out", tmp_path / "blocks"))
    assert "4 clusters of 26 000 rows." in found.stdout
    assert "a sample of 20 000 of 26 000 rows" in (tmp_path / "blocks" / "report.html").read_text(encoding="utf-8")
    labels = read_parts(tmp_path / "blocks" / "assignments")["label"]
    assert labels.tolist() == pd.read_parquet(tmp_path / "memory" / "assignments.parquet")["label"].tolist()
    runs = [json.loads((tmp_path / place / "run.json").read_text()) for place in ("blocks", "memory")]
    assert runs[0]["result"]["objective"] == pytest.approx(runs[1]["result"]["objective"], rel=1e-9)


def test_a_checkpoint_is_gone_on_from_and_that_of_another_fit_refused(long_table, tmp_path):
    options = ["--checkpoint", tmp_path / "state", "--refits", 2]
    for place in ("first", "second"):
        done(call("fit", long_table, *options, "--penalty", "3%", "--out", tmp_path / place))
    assert list((tmp_path / "state").iterdir())
    one, other = (read_parts(tmp_path / place / "assignments") for place in ("first", "second"))
    pd.testing.assert_frame_equal(one, other)
    found = call("fit", long_table, *options, "--penalty", "9%", "--out", tmp_path / "other")
    says(found, 2, "--checkpoint: ")
    assert "is the state of another fit" in found.stderr


def test_too_little_memory_is_said_in_one_line(long_table, tmp_path):
    found = call("fit", long_table, "--memory-limit", "20MB", "--out", tmp_path / "out")
    says(found, 2, "--memory-limit '20MB' is too little")
    assert not (tmp_path / "out").exists()


def test_draws_do_not_depend_on_blocks_and_are_fair():
    frame = pd.DataFrame({"a": np.arange(1000)})
    drawn = []
    for step in (1000, 7, 64):
        sampler = Sampler(50, seed=3)
        for start in range(0, 1000, step):
            block = frame.iloc[start : start + step]
            sampler.add(block, block.index.to_numpy())
        found, rows = sampler.drawn()
        assert found["a"].tolist() == rows.tolist() == sorted(rows)
        assert len(rows) == 50
        drawn.append(rows.tolist())
    assert drawn[0] == drawn[1] == drawn[2]
    counts = np.zeros(40)
    for seed in range(400):
        sampler = Sampler(10, seed)
        for start in range(0, 40, 5):
            sampler.add(frame.iloc[start : start + 5], np.arange(start, start + 5))
        counts[sampler.drawn()[1]] += 1
    # Each row is in a quarter of the draws: 100 of 400, with a standard deviation of 8.7.
    assert np.abs(counts - 100).max() < 4.5 * 8.7
