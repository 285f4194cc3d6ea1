"""What is learned of a table in blocks is what is learned of the whole."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from madbayes.tables import Recipe, TableError
from madbayes.tables.distinct import Distinct
from madbayes.tables.selection import keys_of, number_of, order_statistics
from madbayes.tables.summaries import summarise

N = 700


def table(seed=0):
    """A bit of everything, with gaps."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "key": rng.permutation(np.arange(N)) + 17,
            "customer_id": rng.permutation(np.arange(0, 9 * N, 9)),
            "name": [f"somebody {n}" for n in range(N)],
            "income": rng.lognormal(10, 2, N),
            "age": rng.integers(18, 80, N),
            "tiny": 1e-200 * rng.normal(size=N),
            "shifted": 100 + rng.normal(size=N),
            "colour": rng.choice(["red", "green", "blue"], N, p=[0.2, 0.5, 0.3]),
            "member": rng.random(N) < 0.6,
            "country": "here",
            "nothing": [None] * N,
            "since": pd.date_range("2020-01-01", periods=N),
            "born": [f"19{n % 90 + 10}-03-0{n % 9 + 1}" for n in range(N)],
        }
    )
    frame.loc[rng.choice(N, 60, replace=False), "income"] = np.nan
    frame.loc[rng.choice(N, 9, replace=False), "shifted"] = np.inf
    frame.loc[rng.choice(N, 30, replace=False), "colour"] = None
    return frame


def blocks_of(frame, n=97):
    return [frame.iloc[start : start + n].reset_index(drop=True) for start in range(0, len(frame), n)]


def fit_in_blocks(recipe, frames, **options):
    recipe.look(frames, **options)
    found = [recipe.encode(frame) for frame in frames]
    dropped = sum(int((~one.kept).sum()) for one in found)
    return recipe.learn([one.X for one in found], n_dropped=dropped)


@pytest.mark.parametrize("kind", ["clusters", "features"])
@pytest.mark.parametrize("missing", ["median", "drop"])
@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_blocks_give_what_the_whole_gives(kind, missing, scale):
    options = {"kind": kind, "missing": missing, "scale": scale, "pca": 3}
    frame = table()
    whole, parts = Recipe(**options).fit(frame), fit_in_blocks(Recipe(**options), blocks_of(frame))
    assert parts.decisions_ == whole.decisions_
    assert parts.columns_ == whole.columns_
    assert parts.id_columns_ == whole.id_columns_ == ["key", "customer_id", "name"]
    assert (parts.n_rows_, parts.n_dropped_) == (whole.n_rows_, whole.n_dropped_)
    for one, other in zip(parts._scaling, whole._scaling, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=0)
    assert np.allclose(parts.axes_, whole.axes_, rtol=1e-7, atol=1e-9)
    assert np.allclose(parts.axes_origin_, whole.axes_origin_, rtol=0, atol=1e-9)


def test_deviations_far_from_zero_are_not_lost_in_blocks():
    values = 1e9 + np.random.default_rng(0).normal(size=4000)
    recipe = fit_in_blocks(Recipe(), blocks_of(pd.DataFrame({"a": values, "b": values[::-1] ** 2}), 64))
    assert np.isclose(recipe.deviations_[0], (values - 1e9).std(), rtol=1e-8)


def test_quartiles_and_medians_are_those_of_pandas_whatever_is_missing():
    frame = table()
    recipe = fit_in_blocks(Recipe(missing="median", scale="robust"), blocks_of(frame, 50))
    income = frame["income"].fillna(frame["income"].median())
    low, middle, high = income.quantile([0.25, 0.5, 0.75])
    scaling, place = recipe._scaling, recipe.encoded_names_.index("income")
    assert scaling.fill[place] == frame["income"].median()
    unit = (high - low) / 1.3489795003921634
    assert np.isclose(scaling.units[place] / scaling.factors[place], unit, rtol=1e-12)
    assert np.isclose(scaling.centres[place] / scaling.factors[place], middle, rtol=1e-12)


@pytest.mark.parametrize("gaps", [0, 1, 2, 39, 40])
@pytest.mark.parametrize("n", [41, 42])
def test_quartiles_beside_many_gaps(n, gaps):
    values = np.random.default_rng(n + gaps).normal(size=n)
    column = np.concatenate([values, np.full(gaps, np.nan)])
    frame = pd.DataFrame({"a": column, "b": np.arange(n + gaps) % 7 * 0.5})
    scaling = Recipe(missing="median", scale="robust").fit(frame)._scaling
    filled = np.where(np.isnan(column), np.median(values), column)
    low, middle, high = np.percentile(filled, [25, 50, 75])
    assert np.isclose(scaling.centres[0] / scaling.factors[0], middle)
    expected = (high - low) / 1.3489795003921634 or filled.std()
    assert np.isclose(scaling.units[0] / scaling.factors[0], expected)


@given(
    arrays(np.float64, (37, 2), elements=st.floats(allow_nan=True, allow_infinity=False)),
    st.integers(2, 30),
    st.integers(4, 200),
)
def test_order_statistics_are_exact_in_any_room(X, step, room):
    sizes = (~np.isnan(X)).sum(axis=0)
    ranks = {d: sorted({0, int(size) // 3, int(size) - 1}) for d, size in enumerate(sizes) if size}
    found = order_statistics([X[n : n + step] for n in range(0, 37, step)], ranks, sizes, room)
    ordered = np.sort(X, axis=0)
    assert found == {(d, rank): ordered[rank, d] for d, some in ranks.items() for rank in some}


def test_order_statistics_need_three_passes_of_many_rows():
    class Counted(list):
        passes = 0

        def __iter__(self):
            Counted.passes += 1
            return super().__iter__()

    X = np.random.default_rng(0).normal(size=(200_000, 1))
    found = order_statistics(Counted(np.split(X, 20)), {0: [50_000, 100_000]}, np.array([200_000]), 2000)
    assert found == {(0, rank): np.partition(X[:, 0], rank)[rank] for rank in (50_000, 100_000)}
    assert Counted.passes == 3


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_keys_have_the_order_of_numbers(a, b):
    low, high = keys_of(np.array([a, b]))
    assert (low < high) == (a < b) or a == b
    assert number_of(int(low)) == a


@pytest.mark.parametrize("capacity", [None, 50])
def test_different_keys_are_counted_in_memory_and_on_the_disk(capacity, tmp_path):
    rng = np.random.default_rng(0)
    blocks = [rng.integers(0, 900, 40).astype(np.uint64) << np.uint64(40) for _ in range(30)]
    counter = Distinct(capacity, tmp_path)
    for block in blocks:
        counter.add(block)
    assert bool(list(tmp_path.iterdir())) == (capacity is not None)
    assert counter.count() == len(np.unique(np.concatenate(blocks)))
    counter.add(np.array([1, 2, 1 << 40], dtype=np.uint64))
    assert counter.count() == len(np.unique([*np.concatenate(blocks), 1, 2, 1 << 40]))
    del counter
    assert not list(tmp_path.iterdir())


def test_a_repetition_in_the_last_block_makes_a_key_a_number(tmp_path):
    frame = pd.DataFrame({"nr": np.arange(4000), "id": np.arange(4000) * 7, "x": np.arange(4000) % 13 * 1.5})
    options = {"capacity": 300, "folder": tmp_path}
    assert fit_in_blocks(Recipe(), blocks_of(frame, 100), **options).id_columns_ == ["nr", "id"]
    frame.loc[3999, ["nr", "id"]] = [3, 7]
    recipe = fit_in_blocks(Recipe(), blocks_of(frame, 100), **options)
    assert recipe.encoded_names_ == ["nr", "id", "x"]
    assert not list(tmp_path.iterdir())


def test_text_that_tells_rows_apart_is_counted_over_all_blocks(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": [f"n{n}" for n in range(3000)], "x": rng.normal(size=3000)})
    options = {"capacity": 100, "folder": tmp_path}
    assert fit_in_blocks(Recipe(), blocks_of(frame, 250), **options).id_columns_ == ["a"]
    frame["a"] = [f"n{n % 1500}" for n in range(3000)]  # no repetition in any block
    with pytest.raises(TableError, match="column 'a' is text with 1500 different values in 3000 rows"):
        Recipe().look(blocks_of(frame, 250), **options)


def test_a_column_that_is_text_in_some_blocks_only_is_text():
    first = pd.DataFrame({"a": [1, 2] * 4, "x": np.arange(8.0) ** 2})
    second = pd.DataFrame({"a": ["2", "many", "1", "1"], "x": [1.0, 3.0, 3.0, 2.0]})
    frames = [first, second]
    recipe = fit_in_blocks(Recipe(), frames)
    assert recipe.encoded_names_ == ["a=1", "a=2", "a=many", "x"]
    together = pd.concat(frames, ignore_index=True)
    assert np.allclose(Recipe().fit_transform(together), recipe.transform(together), rtol=1e-12)


def test_a_date_among_texts_is_found_in_any_block():
    names = ["2020-01-01", "2021-01-01", "never"]
    frames = [pd.DataFrame({"a": [name] * 5, "x": np.arange(5.0) ** 2}) for name in names]
    assert summarise(frames[:2], ["a"], 50)["a"].role == "date"
    assert summarise(frames, ["a"], 50)["a"].role == "text"
