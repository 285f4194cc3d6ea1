import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from tests.commands.helpers import call, make_table, says

import madbayes


def test_the_training_table_gets_the_training_assignments(result, table, tmp_path):
    found = call("apply", result, table, "--out", tmp_path / "new" / "a.parquet")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "new" / "a.parquet").read_bytes() == (result / "assignments.parquet").read_bytes()
    assert "group 0: 20 rows (33 %)" in found.stdout


def test_features_get_the_training_assignments(features, tmp_path):
    found = call("apply", features / "result", features / "dice.npy", "--out", tmp_path / "a.parquet")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "a.parquet").read_bytes() == (features / "result" / "assignments.parquet").read_bytes()


def test_other_columns_and_another_order_do_not_matter(result, table, tmp_path):
    frame = pd.read_csv(table).iloc[[31, 5]][["channel", "age", "income"]].assign(more=1)
    frame.to_parquet(tmp_path / "new.parquet")
    answer = json.loads(
        call("apply", result / "model.madbayes", tmp_path / "new.parquet", "--json", "--out", tmp_path / "a.csv").stdout
    )
    assert answer["rows"] == 2
    found, trained = pd.read_csv(tmp_path / "a.csv"), pd.read_parquet(result / "assignments.parquet")
    assert found["label"].tolist() == trained["label"].iloc[[31, 5]].tolist()
    assert np.allclose(found[["margin", "error"]], trained[["margin", "error"]].iloc[[31, 5]])
    assert list(found.columns) == ["row", "label", "group", "group_id", "margin", "error", "unusual"]


def test_what_is_unheard_of_is_counted(result, tmp_path):
    make_table(6, seed=1).assign(channel=["app", "fax", "fax", "app", "web", "fax"]).to_csv(tmp_path / "new.csv")
    found = call("apply", result, tmp_path / "new.csv", "--out", tmp_path / "a.tsv")
    assert found.exit_code == 0, found.output
    assert "Note: column 'channel' has 3 values that the model has never seen" in found.stderr
    assert "Unusual, worse than 99 % of the rows of the fit: 3 rows." in found.stdout
    assert pd.read_csv(tmp_path / "a.tsv", sep="\t")["unusual"].tolist() == [False, True, True, False, False, True]


def test_text_that_looks_like_numbers_is_text_as_in_the_fit(tmp_path):
    frame = make_table().assign(channel=lambda frame: frame["channel"].map({"app": "01", "web": "2x", "shop": "003"}))
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert call("fit", tmp_path / "t.csv", "--penalty", "5%", "--out", tmp_path / "r", "--refits", 0).exit_code == 0
    frame.iloc[[0]].to_csv(tmp_path / "one.csv", index=False)
    found = call("apply", tmp_path / "r", tmp_path / "one.csv", "--out", tmp_path / "a.csv")
    assert found.exit_code == 0, found.output
    assert "never seen" not in found.stderr
    assert not pd.read_csv(tmp_path / "a.csv")["unusual"].any()


@pytest.mark.parametrize(
    ("model", "data", "code", "message"),
    [
        ("nowhere", "t.csv", 2, "there is no model"),
        ("t.csv", "t.csv", 2, "is not a model of madbayes"),
        ("plain.madbayes", "t.csv", 2, "was saved without its recipe for tables"),
        ("result", "nowhere.csv", 2, "is not there: check the name"),
        ("result", "short.csv", 2, "the model needs more columns: there is no column 'income'"),
        ("result", "holes.csv", 2, "missing or infinite values, by column 'age': 1"),
        ("result", "words.csv", 2, "was numeric when the model was made and now has 1 other values, 'old'"),
        ("result", "t.csv --out t.csv", 4, "is there already: replace it with --force"),
        ("result", "t.csv --out .", 4, "is a folder: name a file with --out"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(model, data, code, message, result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_table(6)
    frame.to_csv("t.csv")
    frame.drop(columns="income").to_csv("short.csv")
    frame.assign(age=[1, 2, None, 4, 5, 6]).to_csv("holes.csv")
    frame.assign(age=[1, 2, "old", 4, 5, 6]).to_csv("words.csv")
    madbayes.save(madbayes.DPMeans(1.0).fit([[0.0], [5.0]]), "plain.madbayes")
    before = sorted(tmp_path.iterdir())
    says(call("apply", result if model == "result" else model, *data.split()), code, message)
    assert sorted(tmp_path.iterdir()) == before


def test_a_recipe_of_another_model_is_refused(result, table, tmp_path):
    recipe, model = (step for _, step in madbayes.load(result / "model.madbayes").steps)
    other = type(recipe)(pca=2).fit(pd.read_csv(table))
    for name, steps in (
        ("recipe", [("recipe", other), ("model", model)]),
        ("model", [("recipe", recipe), ("model", other)]),
    ):
        madbayes.save(Pipeline(steps), tmp_path / name)
        says(call("info", tmp_path / name), 2, "is broken: its recipe does not fit its model")


def test_names_of_files_that_are_not_written_here(result, table, tmp_path):
    found = call("apply", result, table, "--out", tmp_path / "new.xlsx")
    says(found, 2, "give a name that ends in .parquet, .pq, .csv, .tsv")
    assert not list(tmp_path.iterdir())


def test_missing_values_are_told_with_what_can_be_done_now(result, tmp_path):
    make_table().assign(age=np.nan).to_csv(tmp_path / "t.csv", index=False)
    found = call("apply", result, tmp_path / "t.csv", "--out", tmp_path / "new.csv")
    says(found, 2, "by column 'age': 60. The model knows no way with them: correct 60 of 60 rows, or fit it with")


def test_info_tells_what_the_model_needs(result):
    found = call("info", result)
    assert found.exit_code == 0, found.output
    assert "3 clusters of 60 rows" in found.stdout
    assert "channel: text with 3 values" in found.stdout
    facts = json.loads(call("info", result / "model.madbayes", "--json").stdout)
    assert facts["needs"] == ["income", "age", "channel"]
    assert facts["file"]["madbayes"] == madbayes.__version__
    incomes = {column["name"]: column["value"] for column in facts["groups"][0]["columns"]}["income"]
    assert incomes == pytest.approx(pd.read_parquet(result / "components.parquet")["income"][0])


def test_info_of_a_broken_file(result, tmp_path):
    content = (result / "model.madbayes").read_bytes()
    (tmp_path / "cut.madbayes").write_bytes(content[: len(content) // 2])
    says(call("info", tmp_path / "cut.madbayes"), 2, "cut off")
