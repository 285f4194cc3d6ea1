import json
import shutil

import pandas as pd
import pytest
from tests.commands.helpers import call, make_table, says

import madbayes


@pytest.fixture
def copy(result, tmp_path):
    """A result that may be changed."""
    shutil.copytree(result, tmp_path / "result")
    return tmp_path / "result"


def test_names_are_kept_in_every_file(copy):
    found = call("report", copy, "--name", "0=cheap & cheerful", "--name", "2=dear")
    assert found.exit_code == 0, found.output
    names = ["cheap & cheerful", "group 1", "dear"]
    assert madbayes.load(copy / "model.madbayes")[-1].group_names_ == names
    assigned = pd.read_parquet(copy / "assignments.parquet")
    assert (assigned["group"] == pd.Series(names)[assigned["label"]].to_numpy()).all()
    assert pd.read_parquet(copy / "components.parquet")["name"].tolist() == names
    assert "cheap &amp; cheerful" in (copy / "report.html").read_text()
    assert "dear" in call("info", copy).stdout


def test_names_of_features_are_their_columns(features, tmp_path):
    shutil.copytree(features / "result", tmp_path / "result")
    found = call("report", tmp_path / "result", "--name", "1=top left", "--refits", 0)
    assert found.exit_code == 0, found.output
    before = pd.read_parquet(features / "result" / "assignments.parquet")
    after = pd.read_parquet(tmp_path / "result" / "assignments.parquet")
    pd.testing.assert_frame_equal(after, before.rename(columns={"group 1": "top left"}))


def test_features_may_be_named_like_columns_of_ours(features, tmp_path):
    shutil.copytree(features / "result", tmp_path / "result")
    found = call("report", tmp_path / "result", "--name", "0=margin", "--name", "1=row", "--refits", 0)
    assert found.exit_code == 0, found.output
    before = pd.read_parquet(features / "result" / "assignments.parquet")
    after = pd.read_parquet(tmp_path / "result" / "assignments.parquet")
    pd.testing.assert_frame_equal(after, before.rename(columns={"group 0": "margin_", "group 1": "row_"}))
    same = json.loads(call("compare", features / "result", tmp_path / "result", "--json").stdout)
    assert same["moved"] == 0
    assert [pair["new"] for pair in same["kept"][:2]] == ["margin", "row"]


def test_a_report_elsewhere_and_of_other_rows(copy, tmp_path):
    make_table(30, seed=3).to_csv(tmp_path / "new.csv", index=False)
    before = (copy / "report.html").read_bytes()
    found = call("report", copy, tmp_path / "new.csv", "--out", tmp_path / "pages" / "new.html", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert "3 clusters of 30 rows." in (tmp_path / "pages" / "new.html").read_text()
    assert (copy / "report.html").read_bytes() == before


def test_a_table_that_has_changed_is_noticed(copy, table):
    run = json.loads((copy / "run.json").read_text())
    other = copy.parent / "changed.csv"
    make_table(seed=5).to_csv(other, index=False)
    run["input"]["path"] = str(other)
    (copy / "run.json").write_text(json.dumps(run))
    found = call("report", copy, "--force", "--refits", 0)
    assert found.exit_code == 0, found.output
    assert "has changed since the fit" in found.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 4, "is there already: replace it with --force"),
        (["--name", "cheap"], 2, "--name cheap: give the number of a group and its name, such as 0=cheap"),
        (["--name", "7=cheap"], 2, "--name 7=cheap: there is no group 7, but 0, 1, 2"),
        (["nowhere.csv", "--out", "new.html"], 2, "is not there: check the name"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, code, message, copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    says(call("report", copy, *words), code, message)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"colour": 1}}, "unknown settings ['colour']"),
        ({"settings": {"jobs": "x"}}, "--jobs x: it must be a number of threads"),
        ({"input": 5}, "says which table it was made of: name it"),
        ({"input": {"path": 5}}, "says which table it was made of: name it"),
    ],
)
def test_a_run_that_makes_no_sense(change, message, copy):
    run = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(run | change))
    says(call("report", copy, "--force"), 2, message)


def test_a_table_that_is_gone_must_be_named(copy, table):
    run = json.loads((copy / "run.json").read_text())
    run["input"]["path"] = str(copy / "gone.csv")
    (copy / "run.json").write_text(json.dumps(run))
    says(call("report", copy, "--force"), 2, "is not there any more: name it, madbayes report MODEL DATA")
    (copy / "run.json").unlink()
    says(call("report", copy, "--force"), 2, "there is no run.json beside the model")
    assert call("report", copy, table, "--force", "--refits", 0).exit_code == 0
