import numpy as np
import pandas as pd
import pytest
from tests.commands.helpers import call, says

import madbayes
from madbayes.commands.showing import make_customers
from madbayes.datasets import make_dice


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo"
    found = call("demo", "--out", out)
    assert found.exit_code == 0, found.output
    return out, found


def test_it_says_where_the_reports_are(demo):
    out, found = demo
    for name in ("customers", "dice"):
        report = out / name / "report.html"
        assert f"Report: {report}" in found.stdout
        assert report.stat().st_size < 5_000_000
        assert f"$ madbayes fit {out / name}" in found.stderr
    assert "weak evidence" not in found.stderr


def test_it_finds_the_pips(demo):
    out, _ = demo
    found = madbayes.load(out / "dice" / "model.madbayes")[-1]
    truth = make_dice(side=2, pixels=4, noise=0.3, random_state=0).Z
    assert madbayes.match(found.allocations_, truth).agreement > 0.99
    assert (out / "dice.png").read_bytes().startswith(b"\x89PNG")


def test_it_finds_the_kinds_of_customers(demo):
    out, _ = demo
    frame = pd.read_csv(out / "customers.csv")
    labels = pd.read_parquet(out / "customers" / "assignments.parquet")["label"]
    assert labels.nunique() == 4
    assert frame["age"].groupby(labels).std().max() < 6
    pd.testing.assert_frame_equal(frame, make_customers(0), check_dtype=False)


def test_it_replaces_nothing_unasked(demo):
    out, _ = demo
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    says(call("demo", "--out", out), 4, "is not empty")
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_customers_are_all_different():
    assert make_customers(1)["customer"].is_unique
    assert np.isclose(make_customers(1)["income"].isna().sum(), 12)
