import errno
import json
import logging
import os
import signal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.commands.helpers import call, make_table, says

import madbayes
from madbayes.commands import finding, results
from madbayes.commands.options import Settings
from madbayes.engine.path import PenaltyPath

FILES = {"model.madbayes", "assignments.parquet", "components.parquet", "path.json", "run.json", "report.html"}


def test_all_files_are_there_and_no_others(result):
    assert {path.name for path in result.iterdir()} == FILES
    assert not [path for path in result.parent.iterdir() if path.name.endswith(".part")]


def test_assignments_keep_the_ids_and_find_the_groups(result, table):
    found = pd.read_parquet(result / "assignments.parquet")
    assert list(found.columns) == ["row", "customer", "label", "group", "group_id", "margin", "error", "unusual"]
    assert found["customer"].tolist() == make_table()["customer"].tolist()
    truth = np.arange(60) % 3
    assert len(set(zip(truth, found["label"], strict=True))) == 3
    assert (found["group"] == "group " + found["label"].astype(str)).all()
    assert found["unusual"].dtype == bool


def test_components_are_in_original_units(result, table):
    found = pd.read_parquet(result / "components.parquet")
    labels = pd.read_parquet(result / "assignments.parquet")["label"]
    means = pd.read_csv(table).groupby(labels)[["income", "age"]].mean()
    assert np.allclose(found[["income", "age"]], means)
    assert found["size"].tolist() == [20, 20, 20]
    assert found.columns.tolist() == ["group", "group_id", "name", "size", "share", "income", "age"] + [
        f"channel={value}" for value in ("app", "shop", "web")
    ]


def test_the_model_takes_raw_rows(result, table):
    model = madbayes.load(result / "model.madbayes")
    frame = pd.read_csv(table)
    expected = pd.read_parquet(result / "assignments.parquet")["label"]
    assert np.array_equal(model.predict(frame), expected)
    assert model.predict(frame.iloc[[7]])[0] == expected[7]


def test_the_run_tells_how_it_came_about(result, table):
    run = json.loads((result / "run.json").read_text())
    assert run["settings"]["data"] == str(table)
    assert run["settings"]["scale"] == "standard"
    assert run["counts"] == {"rows": 60, "rows_used": 60, "rows_dropped": 0, "columns": 4, "columns_used": 3,
                             "columns_of_numbers": 5, "groups": 3}  # fmt: skip
    assert len(run["input"]["sha256"]) == 64
    assert run["versions"]["madbayes"] == madbayes.__version__
    assert {"read", "intake", "fit", "refits"} <= set(run["timings"])
    assert run["interrupted"] is False
    assert {one["column"]: one["role"] for one in run["intake"]}["customer"] == "id"
    path = json.loads((result / "path.json").read_text())
    assert path["best"] == 3
    assert path["kind"] == "clusters"
    low, high = next((one["low"], one["high"]) for one in path["intervals"] if one["K"] == 3)
    assert low < path["suggested_penalty"] < high
    assert "<script>" in (result / "report.html").read_text()


def test_a_run_can_be_repeated_from_its_file_with_changes(result, tmp_path):
    again = call("fit", "--config", result / "run.json", "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    for name in ("assignments.parquet", "components.parquet", "path.json"):
        assert (tmp_path / "again" / name).read_bytes() == (result / name).read_bytes()
    other = call("fit", "--config", result / "run.json", "--out", tmp_path / "other", "--penalty", "80%", "--refits", 0)
    assert other.exit_code == 0, other.output
    run = json.loads((tmp_path / "other" / "run.json").read_text())
    assert run["settings"]["penalty"] == "80%"
    assert run["settings"]["seed"] == 0
    assert run["counts"]["groups"] == 1
    assert run["result"]["penalty_share"] == pytest.approx(0.8)


def test_the_summary_and_the_intake_are_said(table, tmp_path):
    frame = make_table()
    frame["since"], frame["currency"] = "2020-01-01", "EUR"
    frame.loc[:2, "since"] = "2021-01-01"
    frame.loc[3, "age"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = call("fit", tmp_path / "t.csv", "--missing", "drop", "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    for words in (
        "t.csv: 60 rows, 6 columns",
        "income, age: number, centred and divided by its standard deviation",
        "channel: text with 3 values, a column of zeros and ones for each",
        "customer: text that tells rows apart: left out, kept beside the groups",
        "since: dates, left out",
        "currency: the same in all rows, left out",
        "1 of 60 rows have missing values and are left out",
    ):
        assert words in found.stderr
    assert "3 clusters of 59 rows." in found.stdout
    assert f"Report: {tmp_path / 'out' / 'report.html'}" in found.stdout
    assert pd.read_parquet(tmp_path / "out" / "assignments.parquet")["row"].tolist() == [*range(3), *range(4, 60)]


def test_json_is_all_there_is_on_standard_output(table, tmp_path):
    found = call("fit", table, "--json", "--out", tmp_path / "out", "--refits", 0)
    answer = json.loads(found.stdout)
    assert answer["summary"]["headline"] == "3 clusters of 60 rows."
    assert answer["run"]["counts"]["groups"] == 3
    assert answer["files"]["report"] == str(tmp_path / "out" / "report.html")
    assert found.stderr == ""


def test_the_log_can_be_read_by_programs(table, tmp_path):
    found = call("fit", table, "--log-json", "--out", tmp_path / "out", "--refits", 0)
    lines = [json.loads(line) for line in found.stderr.splitlines()]
    assert {"time", "level", "message"} <= set(lines[0])
    assert any(line.get("step") == "fit" and line.get("seconds", 0) > 0 for line in lines)
    assert any(line.get("rows") == 60 for line in lines)
    assert not logging.getLogger("madbayes").handlers


@pytest.mark.parametrize("groups", [2, 5])
def test_so_many_groups_as_asked_for(groups, table, tmp_path):
    found = call("fit", table, "--groups", groups, "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert len(pd.read_parquet(tmp_path / "out" / "components.parquet")) == groups


def test_a_number_that_is_best_at_no_penalty_is_found_all_the_same(tmp_path):
    """Four corners of a square: three groups are never best."""
    rng = np.random.default_rng(0)
    corners = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    X = corners[np.arange(40) % 4] + 0.3 * rng.normal(size=(40, 2))
    np.save(tmp_path / "a.npy", X)
    found = call("fit", tmp_path / "a.npy", "--groups", 3, "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    sizes = pd.read_parquet(tmp_path / "out" / "components.parquet")["size"].tolist()
    assert sorted(sizes) == [10, 10, 20]


def test_more_groups_than_rows_tell_apart(tmp_path):
    np.save(tmp_path / "a.npy", np.repeat([[0.0, 1.0], [5.0, 2.0], [9.0, 9.0]], 5, axis=0))
    found = call("fit", tmp_path / "a.npy", "--groups", 7, "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert "more than the rows tell apart" in found.stderr
    assert len(pd.read_parquet(tmp_path / "out" / "components.parquet")) == 3


def test_features_of_pictures(features):
    found = pd.read_parquet(features / "result" / "assignments.parquet")
    Z = np.load(features / "truth.npy")
    names = [f"group {k}" for k in range(4)]
    assert list(found.columns) == ["row", *names, "margin", "error", "unusual"]
    agreement = madbayes.match(found[names].to_numpy(), Z)
    assert agreement.agreement > 0.99
    components = pd.read_parquet(features / "result" / "components.parquet")
    assert components.shape == (4, 5 + 64)  # every pixel, constant or not
    about = json.loads(pq.read_schema(features / "result" / "assignments.parquet").metadata[results.KEY])
    (origin,) = set(about.pop("origins"))
    assert len(origin) == 16
    assert about == {"kind": "features", "groups": names, "group_ids": [0, 1, 2, 3], "ids": []}


def test_names_of_columns_may_be_ours_or_have_commas(tmp_path):
    frame = make_table().rename(columns={"customer": "label", "age": "size", "income": "a,b"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = call("fit", tmp_path / "t.csv", "--columns", "a,b", "--columns", "size,channel", "--id-column", "label",
                 "--penalty", "5%", "--out", tmp_path / "out", "--refits", 0)  # fmt: skip
    assert found.exit_code == 0, found.output
    assert list(pd.read_parquet(tmp_path / "out" / "assignments.parquet").columns[:3]) == ["row", "label_", "label"]
    assert list(pd.read_parquet(tmp_path / "out" / "components.parquet").columns[5:7]) == ["a,b", "size_"]
    about = json.loads(pq.read_schema(tmp_path / "out" / "assignments.parquet").metadata[results.KEY])
    assert about["ids"] == ["label_"]  # which compare finds rows by
    assert call("compare", tmp_path / "out", tmp_path / "out").exit_code == 0


def test_names_are_made_free_one_after_the_other():
    assert results.free_names(["label", "label_", "x"], ["label"]) == ["label_", "label__", "x"]


def test_names_of_columns_may_be_what_ours_would_become(tmp_path):
    frame = make_table().rename(columns={"customer": "label", "income": "group", "age": "group_"})
    frame["label_"] = frame["label"] + "x"
    frame["channel=app"] = np.arange(len(frame)) % 2
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = call("fit", tmp_path / "t.csv", "--penalty", "5%", "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    assignments = pd.read_parquet(tmp_path / "out" / "assignments.parquet")
    assert list(assignments.columns[:4]) == ["row", "label_", "label__", "label"]
    assert assignments["label_"].tolist() == frame["label"].tolist()
    components = pd.read_parquet(tmp_path / "out" / "components.parquet")
    assert {"group", "group_", "group__", "channel=app", "channel=app_"} <= set(components.columns)
    assert components["group"].tolist() == list(range(len(components)))
    assert components["group_"].max() == pytest.approx(9e4, rel=0.05)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{}/nowhere.csv"], "is not there: check the name"),
        (["{}/broken.parquet"], "cannot be read, it may be broken"),
        (["{}/empty.csv"], "is empty"),
        (["{}/one.csv"], "has 1 row: groups need at least 2"),
        (["{}/holes.csv"], "missing or infinite values, by column 'a': 1, 'b': 2. Fill them in with --missing median"),
        (["{}/text.csv"], "is text with 60 different values in 90 rows. To go on without: --leave-out town"),
        (["{}/t.csv", "--columns", "incme"], "--columns: there is no column 'incme'; did you mean 'income'?"),
        (["{}/t.csv", "--id-column", "custmer"], "did you mean 'customer'?"),
        (["{}/t.csv", "--penalty", "cheap"], "--penalty cheap: give a positive number, a share such as 2%, or auto"),
        (["{}/t.csv", "--penalty", "0"], "--penalty 0: give a positive number"),
        (["{}/t.csv", "--penalty", "0%"], "--penalty 0%: give a positive number"),
        (["{}/t.csv", "--penalty", "nan"], "--penalty nan: give a positive number"),
        (["{}/t.csv", "--penalty", "3", "--groups", "2"], "--penalty and --groups: give one of them"),
        (["{}/t.csv", "--pca", "9"], "--pca 9: there are 5 columns of numbers in 60 rows, give 5 at most"),
        (["{}/t.csv", "--groups", "0"], "--groups 0: give a whole number from 1 on"),
        (["{}/t.csv", "--groups", "x"], "Invalid value for '--groups'"),
        (["{}/t.csv", "--pca", "0"], "--pca 0: give a whole number from 1 on"),
        (["{}/t.csv", "--seed", "-1"], "--seed -1: give a whole number from 0 to 4294967295"),
        (["{}/t.csv", "--refits", "-1"], "--refits -1: give a whole number from 0 on"),
        (["{}/t.csv", "--colour"], "No such option: --colour"),
        (["{}/t.csv", "--columns", "age", "--leave-out", "age"], "name the same columns, so that none is left"),
        (["{}/t.csv", "--jobs", "0"], "--jobs 0: it must be a number of threads"),
        ([], "name a table: madbayes fit DATA"),
        (["--config", "{}/nowhere.json"], "cannot be read (No such file or directory)"),
        (["--config", "{}/t.csv"], "is no run.json"),
        (["--config", "{}/new.json"], "unknown settings ['colour']"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(words, message, tmp_path):
    make_table().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n,3\n4,\n5,inf\n6,7.5\n")
    pd.DataFrame({"town": [f"t{n % 60}" for n in range(90)], "a": np.arange(90) % 7}).to_csv(tmp_path / "text.csv")
    (tmp_path / "new.json").write_text('{"settings": {"colour": 1}}')
    before = set(tmp_path.iterdir())
    says(call("fit", *(word.format(tmp_path) for word in words), "--out", tmp_path / "out"), 2, message)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[]", "is no run.json"),
        ("{", "is no run.json"),
        ("[" * 100_000, "is no run.json"),
        ('{"data": 5}', "--data 5: give a name"),
        ('{"groups": "x"}', "--groups x: give a whole number from 1 on"),
        ('{"groups": 1.5}', "--groups 1.5: give a whole number from 1 on"),
        ('{"penalty": null}', "--penalty None: give a positive number"),
        ('{"penalty": true}', "--penalty True: give a positive number"),
        ('{"kind": "chairs"}', "--kind chairs: give one of clusters, features"),
        ('{"scale": 3}', "--scale 3: give one of none, standard, robust"),
        ('{"missing": null}', "--missing None: give one of error, drop, median"),
        ('{"pca": "a"}', "--pca a: give a whole number from 1 on"),
        ('{"columns": [5]}', "--columns [5]: give names of columns"),
        ('{"id_column": 5}', "--id-column 5: give a name"),
        ('{"seed": null}', "--seed None: give a whole number"),
        ('{"refits": -1}', "--refits -1: give a whole number from 0 on"),
        ('{"jobs": "x"}', "--jobs x: it must be a number of threads"),
    ],
)
def test_settings_of_a_file_are_checked_like_options(settings, message, table, tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{"settings": ' + settings + "}")
    words = [] if "data" in settings else [table]
    says(call("fit", *words, "--config", file, "--out", tmp_path / "out"), 2, message)
    assert list(tmp_path.iterdir()) == [file]


def test_failures_are_json_too_if_that_is_asked_for(table, tmp_path):
    for words in (["--penalty", "cheap"], ["--groups", "x"], ["--columns", "incme"]):
        found = call("fit", table, *words, "--out", tmp_path / "out", "--json")
        told = json.loads(found.stdout)
        assert told["exit_code"] == found.exit_code == 2
        assert f"madbayes: {told['error']}" in found.stderr
    found = call("fit", table, "--out", table / "sub", "--json")
    assert json.loads(found.stdout)["exit_code"] == found.exit_code == 4


def test_places_that_cannot_be_written_are_found_before_the_work(table, result, tmp_path, monkeypatch):
    monkeypatch.setattr("madbayes.commands.fitting.take_in", lambda *_: pytest.fail("there was work"))
    monkeypatch.setattr("madbayes.commands.applying.take_again_whole", lambda *_: pytest.fail("there was work"))
    for place in (table / "sub", table / "sub" / "deeper"):
        says(call("fit", table, "--out", place), 4, "is a file: name another place with --out")
        says(call("path", table, "--out", place), 4, "is a file: name another place with --out")
        says(call("apply", result, table, "--out", f"{place}.csv"), 4, "is a file: name another place with --out")

    def refuse(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    says(call("fit", table, "--out", tmp_path / "a" / "b"), 4, "may not be written to (Permission denied)")
    assert not list(tmp_path.iterdir())


def fill_together(out):
    """A fit ends while another one is about to."""
    with results.staged(out, force=False) as stage:
        (stage / results.RUN).write_text("mine")
        out.mkdir(exist_ok=True)
        (out / results.RUN).write_text("theirs")


def test_a_folder_that_another_fit_has_filled_meanwhile_is_left_alone(tmp_path):
    for out in (tmp_path / "there", tmp_path / "not yet"):
        if out.name == "there":
            out.mkdir()
        with pytest.raises(OSError, match="is not empty"):
            fill_together(out)
        assert {path.name: path.read_text() for path in out.iterdir()} == {results.RUN: "theirs"}
    assert {path.name for path in tmp_path.iterdir()} == {"there", "not yet"}


def test_nothing_is_replaced_without_force(table, result, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "report.html").write_text("old")
    says(call("fit", table, "--out", tmp_path), 4, "is not empty: replace what a fit writes with --force")
    assert (tmp_path / "report.html").read_text() == "old"
    says(call("fit", table, "--out", tmp_path / "mine.txt", "--force"), 4, "is a file: name a folder with --out")
    found = call("fit", table, "--out", tmp_path, "--force", "--penalty", "5%", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"mine.txt"}
    assert (tmp_path / "report.html").read_text() != "old"


def test_a_full_disk_leaves_nothing_and_is_said(table, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    found = call("fit", table, "--penalty", "5%", "--out", tmp_path / "out", "--refits", 0)
    says(found, 4, "the disk is full, nothing was written: free some space, or name another place with --out")
    assert not list(tmp_path.iterdir())


def test_absurd_scales_make_no_difference(tmp_path):
    frame = make_table()
    frame["income"] *= 1e295
    frame["age"] *= 1e-250
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = call("fit", tmp_path / "t.csv", "--out", tmp_path / "out", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert "3 clusters of 60 rows." in found.stdout


def test_so_many_groups_where_the_path_knows_too_high_a_penalty():
    """Pairs of rows 10 apart: joining two of the three costs 100, less than the penalty of 290 for three groups."""
    X = np.repeat([0.0, 10.0, 20.0], 2)[:, None]
    path = PenaltyPath(np.arange(1, 6), np.array([9000.0, 6000.0, 3100.0, 3090.0, 3085.0]), [None] * 5)
    settings = Settings(data="table.csv", groups=3)
    assert finding.near_groups(settings, path, 3).fit(X).n_clusters_ == 2
    assert finding.fit_near_groups(X, settings, path).n_clusters_ == 3


def test_the_path_alone(table, tmp_path):
    found = call("path", table, "--out", tmp_path / "path.json")
    assert found.exit_code == 0, found.output
    assert "The evidence is clear: 3 clusters are best for penalties" in found.stdout
    (line,) = [line for line in found.stdout.splitlines() if line.endswith("<- best")]
    assert line.split()[0] == "3"
    printed = json.loads(call("path", table, "--json").stdout)
    assert printed == json.loads((tmp_path / "path.json").read_text())
    says(call("path", table, "--out", tmp_path / "path.json"), 4, "is there already: replace it with --force")


def test_help_has_examples_and_the_glossary():
    found = call("--help")
    for word in ("clusters", "features", "penalty", "margin", "unusual", "Exit codes", "--install-completion"):
        assert word in found.output
    for command in ("fit", "apply", "path", "report", "compare", "info", "demo", "reproduce"):
        assert f" {command} " in found.output
    assert "madbayes fit customers.csv" in call("fit", "--help").output


def test_a_column_that_decides_alone_is_named(tmp_path):
    make_table().to_csv(tmp_path / "t.csv", index=False)
    found = call("path", tmp_path / "t.csv", "--scale", "none")
    assert "Note: column 'income' has 100 % of the variance and decides the groups almost alone" in found.stderr
    assert "--scale standard" in found.stderr


def test_where_nothing_stands_out_it_says_what_to_do(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(200, 12)))
    found = call("fit", tmp_path / "a.npy", "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "1 cluster of 200 rows." in found.stdout
    assert "ask for so many groups all the same (--groups 5)" in found.stderr


@pytest.mark.parametrize("options", [[], ["--groups", "2"], ["--penalty", "5%"]])
def test_ctrl_c_before_the_search_has_anything_ends_with_a_quick_look(options, table, tmp_path, monkeypatch):
    """The signal comes while the first model is made; the second one is fitted in a hurry."""
    make, seen = finding.estimator, []

    def interrupted(*words, **more):
        seen.append(words)
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return make(*words, **more)

    monkeypatch.setattr(finding, "estimator", interrupted)
    found = call("fit", table, *options, "--out", tmp_path / "out")
    assert found.exit_code == 130, found.output
    assert "finishing with a quick look" in found.stderr
    assert "the best result so far" in found.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_text())["interrupted"] is True
    assert len(pd.read_parquet(tmp_path / "out" / "components.parquet")) == (2 if "--groups" in options else 3)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_only_the_command_path_looks_for_it_thoroughly(table, tmp_path, monkeypatch):
    asked, whole = [], finding.penalty_path

    def penalty_path(*args, **options):
        asked.append(options["thorough"])
        return whole(*args, **options)

    monkeypatch.setattr(finding, "penalty_path", penalty_path)
    assert call("path", table).exit_code == 0
    assert call("fit", table, "--groups", 3, "--out", tmp_path / "three").exit_code == 0
    assert asked == [True, False]
