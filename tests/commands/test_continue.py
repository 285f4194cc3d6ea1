"""``fit --init``: a result that continues an earlier one, and how ``compare`` tells what became of the groups."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from tests.commands.helpers import call, make_table, says

from madbayes.commands.results import open_model

DATA = Path(__file__).resolve().parents[1] / "data"
KINDS = {
    "small": (2e4, 25, "app"),
    "middle": (5e4, 60, "web"),
    "large": (9e4, 40, "shop"),
    "late": (9e4, 75, "web"),
}


def day(sizes, seed, *, raise_by=0.0, first=0):
    """Customers of some kinds on one day."""
    rng, kinds = np.random.default_rng(seed), np.repeat(list(sizes), list(sizes.values()))
    N = len(kinds)
    frame = pd.DataFrame([KINDS[kind] for kind in kinds], columns=["income", "age", "channel"])
    frame["income"] = frame["income"] * (1 + raise_by) + 2e3 * rng.normal(size=N)
    frame["age"] = frame["age"] + 2 * rng.normal(size=N)
    frame.insert(0, "customer", [f"C{first + n}" for n in range(N)])
    return frame.assign(truth=kinds)


DAYS = [
    day({"small": 40, "middle": 30, "large": 20}, 0),
    day({"small": 25, "middle": 35, "late": 20, "large": 20}, 1, raise_by=0.1),
    day({"small": 25, "middle": 35, "late": 30}, 2, raise_by=0.2, first=500),
]


def fitted(table, out, *words):
    found = call("fit", table, "--out", out, "--refits", 0, *words)
    assert found.exit_code == 0, found.output
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three days, each of which continues the one before; the first has a name for a group."""
    folder = tmp_path_factory.mktemp("days")
    for number, frame in enumerate(DAYS):
        frame.drop(columns="truth").to_csv(folder / f"day{number}.csv", index=False)
        start = ["--init", folder / f"result{number - 1}"] if number else []
        fitted(folder / f"day{number}.csv", folder / f"result{number}", *start)
        if not number:
            call("report", folder / "result0", "--name", "1=settled", "--refits", 0)
    return folder


def ids_by_kind(result, frame):
    found = pd.read_parquet(result / "assignments.parquet")
    return {kind: part.unique().tolist() for kind, part in found["group_id"].groupby(frame["truth"].to_numpy())}


def test_ids_of_rows_can_be_joined_from_day_to_day(results):
    assert ids_by_kind(results / "result0", DAYS[0]) == {"small": [0], "middle": [1], "large": [2]}
    assert ids_by_kind(results / "result1", DAYS[1]) == {"small": [0], "middle": [1], "large": [2], "late": [3]}
    assert ids_by_kind(results / "result2", DAYS[2]) == {"small": [0], "middle": [1], "late": [3]}
    found = pd.read_parquet(results / "result2" / "assignments.parquet")
    assert set(found["group"][found["group_id"] == 1]) == {"settled"}
    components = pd.read_parquet(results / "result2" / "components.parquet")
    assert dict(zip(components["group_id"], components["name"], strict=True)) == {
        0: "group 0",
        1: "settled",
        3: "group 3",
    }
    assert "settled" in (results / "result2" / "report.html").read_text(encoding="utf-8")


def test_columns_are_treated_as_on_the_first_day(results):
    first, later = (open_model(results / f"result{number}") for number in (0, 2))
    rows = DAYS[1].drop(columns="truth")
    assert_array_equal(first.recipe.transform(rows), later.recipe.transform(rows))
    # What is usual is told of today's table.
    assert later.recipe.n_rows_ == len(DAYS[2])
    assert later.recipe.means_[0] == pytest.approx(DAYS[2]["income"].mean())
    assert later.recipe.deviations_[0] == pytest.approx(DAYS[2]["income"].std(ddof=0))
    run = json.loads((results / "result2" / "run.json").read_text())
    assert run["settings"]["init"] == str(results / "result1")
    assert run["counts"]["rows_used"] == len(DAYS[2])


def test_the_penalty_is_the_same_for_as_many_rows(results):
    first, later = (open_model(results / f"result{number}").model for number in (0, 1))
    assert later.penalty_ / len(DAYS[1]) == pytest.approx(first.penalty_ / len(DAYS[0]))
    assert later.init is None


def test_a_run_that_continues_can_be_repeated(results, tmp_path):
    again = fitted(results / "day1.csv", tmp_path / "again", "--config", results / "result1" / "run.json")
    old, new = (open_model(place).model for place in (results / "result1", again))
    assert_array_equal(old.group_ids_, new.group_ids_)
    assert_array_equal(old.cluster_centers_, new.cluster_centers_)


def test_a_penalty_or_a_number_of_groups_may_be_given(results, tmp_path):
    words = ("--init", results / "result1")
    model = open_model(fitted(results / "day1.csv", tmp_path / "a", *words, "--penalty", "90%")).model
    assert model.group_ids_.tolist() == [1]  # that of the most rows
    # Fewer groups than the start has: no start, but the same ids.
    model = open_model(fitted(results / "day1.csv", tmp_path / "b", *words, "--groups", "3")).model
    assert model.n_clusters_ == 3
    assert set(model.group_ids_.tolist()) < {0, 1, 2, 3, 4}
    assert 0 in model.group_ids_


def test_compare_goes_by_ids(results):
    found = json.loads(call("compare", results / "result0", results / "result1", "--json").stdout)
    assert found["continues"]
    assert {pair["id"]: (pair["old_size"], pair["new_size"]) for pair in found["kept"]} == {
        0: (40, 25), 1: (30, 35), 2: (20, 20)}  # fmt: skip
    assert (found["dead"], found["born"]) == ([], ["group 3"])
    # Customers C25 to C39 were small, and so on: 15 + 10 + 20 of the 90 are something else now.
    truth = DAYS[0]["truth"].to_numpy() != DAYS[1]["truth"].to_numpy()[:90]
    assert found["moved"] == pytest.approx(truth.mean())
    # Incomes are a tenth higher: of 90 000 that is nearly 9000.
    shift = {pair["id"]: pair["shift"] for pair in found["kept"]}[2]
    large = [frame.loc[frame["truth"] == "large", "income"].mean() for frame in DAYS[:2]]
    assert shift == pytest.approx((large[1] - large[0]) / DAYS[1]["income"].std(ddof=0))


def test_compare_of_days_that_have_no_row_in_common(results):
    found = call("compare", results / "result0", results / "result2")
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0] == "The new result continues 2 of its 3 groups; 1 gone, 1 new."
    assert "  group 2: gone" in lines
    assert "  group 3: new" in lines
    (settled,) = [line for line in lines if line.startswith("  settled: ")]
    assert settled.startswith("  settled: 30 rows (33 %) -> 35 rows (39 %); income +")
    says(call("compare", results / "result0", results / "result2", "--max-moved", "1%"), 2, "have no row in common")


def test_two_fits_of_their_own_are_compared_by_their_rows(results, tmp_path):
    """Their ids are the same numbers and mean nothing."""
    other = fitted(results / "day1.csv", tmp_path / "other")
    found = json.loads(call("compare", results / "result1", other, "--json").stdout)
    assert not found["continues"]
    assert found["moved"] == 0


def test_two_heirs_of_one_result_share_what_both_have_from_it(results, tmp_path):
    frame = day({"small": 25, "middle": 35, "large": 20}, 5)
    extra = frame.iloc[:20].assign(income=2e5, age=20.0, channel="app", customer=[f"X{n}" for n in range(20)])
    pd.concat([frame, extra]).drop(columns="truth").to_csv(tmp_path / "t.csv", index=False)
    heir = fitted(tmp_path / "t.csv", tmp_path / "heir", "--init", results / "result0")
    found = json.loads(call("compare", results / "result1", heir, "--json").stdout)
    assert sorted(pair["id"] for pair in found["kept"]) == [0, 1, 2]
    assert found["dead"] == found["born"] == ["group 3"]  # of the same id, born in two places


def test_applied_rows_have_ids(results, tmp_path):
    call("apply", results / "result1", results / "day2.csv", "--out", tmp_path / "old.parquet")
    found = json.loads(call("compare", tmp_path / "old.parquet", results / "result2", "--json").stdout)
    assert found["continues"]
    assert (found["moved"], found["dead"]) == (0, ["group 2"])
    assert all(pair["shift"] is None for pair in found["kept"])


def test_names_are_given_by_id(results, tmp_path):
    copy = fitted(results / "day2.csv", tmp_path / "copy", "--init", results / "result1")
    assert call("report", copy, "--name", "3=new ones", "--refits", 0).exit_code == 0
    model = open_model(copy).model
    assert dict(zip(model.group_ids_.tolist(), model.group_names_, strict=True))[3] == "new ones"


def test_features_are_continued(features, tmp_path):
    from madbayes.datasets import make_dice

    X = make_dice(n_rows=80, noise=0.2, random_state=1).X
    np.save(tmp_path / "dice.npy", X.reshape(-1, 8, 8))
    out = fitted(tmp_path / "dice.npy", tmp_path / "out", "--kind", "features", "--init", features / "result")
    old, new = (open_model(place).model for place in (features / "result", out))
    assert sorted(new.group_ids_) == sorted(old.group_ids_)
    for group_id in old.group_ids_:
        a, b = (model.components_[model.group_ids_.tolist().index(group_id)] for model in (old, new))
        assert np.abs(a - b).max() < 0.5
    assert json.loads(call("compare", features / "result", out, "--json").stdout)["continues"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--init", "{}/result0", "--kind", "features"], "has clusters: add --kind clusters, or name another result"),
        (["--init", "{}/result0", "--scale", "none"], "--scale does not go with --init"),
        (["--init", "{}/result0", "--id-column", "age"], "--id-column does not go with --init"),
        (["--init", "{}/nowhere"], "there is no model"),
        (["--init", "{}/day0.csv"], "is not a model of madbayes"),
        (["--penalty", "same"], "--penalty same: name the earlier result that has it, --init MODEL"),
        (["--init", str(DATA / "clusters-v1.madbayes")], "was saved without its recipe for tables"),
    ],
)
def test_what_cannot_be_continued(results, tmp_path, words, message):
    words = [word.format(results) for word in words]
    says(call("fit", results / "day1.csv", "--out", tmp_path / "out", *words), 2, message)
    assert not (tmp_path / "out").exists()


def test_a_table_that_lacks_columns(results, tmp_path):
    make_table().drop(columns="age").to_csv(tmp_path / "short.csv", index=False)
    found = call("fit", tmp_path / "short.csv", "--init", results / "result0", "--out", tmp_path / "out")
    says(found, 2, "the model needs more columns: there is no column 'age'")
