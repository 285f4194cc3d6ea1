import json

import numpy as np
import pandas as pd
import pytest
from tests.commands.helpers import call, says

from madbayes.commands import results


def write(path, labels=None, Z=None, ids=None, names=None):
    """Assignments as fit writes them."""
    N = len(labels) if Z is None else len(Z)
    frame = pd.DataFrame({"row": np.arange(N)})
    if ids is not None:
        frame["id"] = ids
    if Z is None:
        K = max(labels) + 1
        frame["label"] = labels
    else:
        K = np.shape(Z)[1]
        frame[[f"group {k}" for k in range(K)]] = Z
    about = {
        "kind": "clusters" if Z is None else "features",
        "groups": names or [f"group {k}" for k in range(K)],
        "ids": [] if ids is None else ["id"],
    }
    results.write_table(frame, path, about)
    return path


def compared(*words):
    found = call("compare", *words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_a_result_is_the_same_as_itself(result):
    found = compared(result, result)
    assert found["moved"] == 0
    assert found["rows"] == 60
    assert len(found["kept"]) == 3
    assert not found["dead"]
    assert not found["born"]
    assert call("compare", result, result, "--max-moved", "0").exit_code == 0


def test_groups_of_another_order_are_the_same_and_rows_that_moved_are_counted(tmp_path):
    old = write(tmp_path / "old.parquet", [0] * 10 + [1] * 6 + [2] * 4)
    new = write(tmp_path / "new.parquet", [1] * 9 + [0] * 7 + [2] * 4)
    found = compared(old, new)
    assert found["moved"] == pytest.approx(1 / 20)
    assert [(pair["old"], pair["new"]) for pair in found["kept"]] == [
        ("group 0", "group 1"), ("group 1", "group 0"), ("group 2", "group 2")]  # fmt: skip
    assert found["kept"][0]["agreement"] == pytest.approx(9 / 10)
    assert call("compare", old, new, "--max-moved", "5%").exit_code == 0
    says(call("compare", old, new, "--max-moved", "0.04"), 3, "5 % of the rows have moved, more than 4 %")


def test_groups_are_born_and_die(tmp_path):
    old = write(tmp_path / "old.parquet", [0] * 10 + [1] * 6, names=["cheap", "dear"])
    new = write(tmp_path / "new.parquet", [0] * 10 + [1] * 3 + [2] * 3, names=["cheap", "a", "b"])
    found = compared(old, new)
    # Half of the dear ones are in a: that one is their heir, b is new.
    assert [pair["old"] for pair in found["kept"]] == ["cheap", "dear"]
    assert found["born"] == ["b"]
    assert found["moved"] == pytest.approx(3 / 16)
    back = compared(new, old)
    assert back["dead"] == ["b"]
    text = call("compare", old, new).stdout
    assert "b: new" in text
    assert "dear -> a: 6 rows -> 3 rows, 50 % in common" in text


def test_rows_are_matched_by_their_ids(tmp_path):
    old = write(tmp_path / "old.parquet", [0, 0, 0, 1, 1], ids=list("abcde"))
    new = write(tmp_path / "new.parquet", [1, 1, 0, 0, 0], ids=list("edcbx"))
    found = compared(old, new)
    assert (found["rows"], found["only_old"], found["only_new"], found["moved"]) == (4, 1, 1, 0)


def test_duplicates_count_once(tmp_path):
    old = write(tmp_path / "old.parquet", [0, 0, 1, 1, 1], ids=list("aabcc"))
    new = write(tmp_path / "new.parquet", [0, 1, 1, 1], ids=list("abcx"))
    found = compared(old, new)
    assert (found["rows"], found["only_old"], found["only_new"], found["moved"]) == (3, 0, 1, 0)
    assert "matched by id: 3 rows; 0 % of them have moved" in call("compare", old, new).stdout


def test_of_two_identifiers_the_one_that_stays_is_taken(tmp_path):
    """People change their names, not their numbers."""
    places = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for place, names in zip(places, ("pqrs", "pxyz"), strict=True):
        frame = pd.DataFrame({"row": range(4), "name": list(names), "number": [7, 8, 9, 10], "label": [0, 0, 1, 1]})
        about = {"kind": "clusters", "groups": ["group 0", "group 1"], "ids": ["name", "number"]}
        results.write_table(frame, place, about)
    found = compared(*places)
    assert found["matched_by"] == ["number"]
    assert found["rows"] == 4


def test_rows_without_identifiers_are_said_to_be_matched_by_their_numbers(tmp_path):
    old = write(tmp_path / "old.parquet", [0, 0, 1])
    assert "matched by their numbers: 3 rows" in call("compare", old, old).stdout


@pytest.mark.parametrize("name", ["place", "place_old", "0"])
def test_identifiers_may_be_called_anything_and_be_of_another_type(name, tmp_path):
    paths = []
    for which, ids in (("old", [1, 2, 3]), ("new", ["3", "1", "2"])):
        about = {"kind": "clusters", "groups": ["a", "b"], "ids": [name]}
        frame = pd.DataFrame({"row": range(3), name: ids, "label": [int(str(one) == "3") for one in ids]})
        paths.append(tmp_path / f"{which}.parquet")
        results.write_table(frame, paths[-1], about)
    found = compared(*paths)
    assert (found["rows"], found["moved"]) == (3, 0)


@pytest.mark.parametrize(
    "about",
    [
        {"kind": "chairs", "groups": ["a", "b"], "ids": []},
        {"kind": "features", "groups": ["a", "b"], "ids": []},
        {"kind": "clusters", "groups": ["a"], "ids": []},
        {"kind": "clusters", "groups": ["a", "b"], "ids": ["key"]},
        {"kind": "clusters", "groups": 7, "ids": []},
        ["clusters"],
    ],
)
def test_files_that_are_not_what_they_say(about, tmp_path):
    results.write_table(pd.DataFrame({"row": range(3), "label": [0, 1, 1]}), tmp_path / "a.parquet", about)
    found = call("compare", tmp_path / "a.parquet", tmp_path / "a.parquet")
    says(found, 2, "has no assignments that madbayes has written, or is broken")


def test_features_beside_a_base_may_be_complements(tmp_path):
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(20), rng.random((20, 2)) < 0.5]).astype(int)
    other = Z[:, [2, 0, 1]].copy()
    other[:, 2] = 1 - other[:, 2]
    other[3, 0] = 1 - other[3, 0]
    found = compared(write(tmp_path / "old.parquet", Z=Z), write(tmp_path / "new.parquet", Z=other))
    assert found["moved"] == pytest.approx(1 / 20)
    assert {pair["old"]: (pair["new"], pair["complement"]) for pair in found["kept"]} == {
        "group 0": ("group 1", False), "group 1": ("group 2", True), "group 2": ("group 0", False)}  # fmt: skip


def test_what_cannot_be_compared(result, features, tmp_path):
    says(call("compare", result, features / "result"), 2, "the old result has clusters and the new one features")
    says(call("compare", result, tmp_path), 2, "there is no ")
    says(call("compare", result, result / "components.parquet"), 2, "has no assignments that madbayes has written")
    says(call("compare", result, result / "run.json"), 2, "has no assignments that madbayes has written")
    says(call("compare", result, result, "--max-moved", "7"), 2, "--max-moved 7: give a share from 0 to 1")
    twice = write(tmp_path / "twice.parquet", [0, 0, 1], ids=["a", "b", "b"])
    says(call("compare", twice, twice), 2, "rows that have the same id are in different groups")
    strangers = [write(tmp_path / f"{name}.parquet", [0, 1], ids=list(name)) for name in ("ab", "xy")]
    says(call("compare", *strangers), 2, "the two results have no row in common")
