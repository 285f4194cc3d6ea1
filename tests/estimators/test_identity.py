from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.cluster import KMeans

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, ModelFileError, StepwiseKFeatures, load
from madbayes.datasets import make_mixture
from madbayes.estimators.identity import pairs

DATA = Path(__file__).resolve().parents[1] / "data"
FEW = settings(max_examples=15, deadline=None)


class Days:
    """Groups that wander; one stays away from the third day on, one comes, one falls in two."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.places = {name: np.array(place) for name, place in zip("abcde", PLACES, strict=True)}
        self.sizes = dict(zip("abcde", (100, 75, 60, 50, 40), strict=True))

    def table(self, day):
        """Rows of a day, and to which planted group they belong."""
        if day == 2:
            del self.places["c"]
        if day == 3:
            self.places["f"], self.sizes["f"] = np.array([-10.0, 5.0]), 45
        if day == 4:
            self.places["g"], self.sizes["g"] = self.places["a"] - [0, 4], 30
            self.places["a"], self.sizes["a"] = self.places["a"] + [0, 2], 65
        for name in self.places:
            self.places[name] = self.places[name] + self.rng.uniform(-0.6, 0.6, size=2)
        truth = np.repeat(list(self.places), [self.sizes[name] for name in self.places])
        order = self.rng.permutation(len(truth))
        X = np.array([self.places[name] for name in truth]) + self.rng.normal(size=(len(truth), 2))
        return X[order], truth[order]


PLACES = [[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0], [20.0, 5.0]]
MODELS = {
    "clusters": lambda **more: DPMeans(300.0, random_state=0, **more),
    "share": lambda **more: DPMeans("2%", random_state=0, **more),
    "covariances": lambda **more: CovarianceDPMeans(0.03, random_state=0, **more),
}


def ids_by_name(ids, truth):
    """The id that nearly all rows of each planted group have."""
    found = {}
    for name in np.unique(truth):
        values, counts = np.unique(ids[truth == name], return_counts=True)
        assert counts.max() > 0.9 * counts.sum()
        found[str(name)] = int(values[counts.argmax()])
    return found


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ids_follow_planted_groups_over_the_days(kind, dtype, tmp_path):
    days, old, known, seen = Days(seed=1), None, {}, set()
    for day in range(6):
        X, truth = days.table(day)
        model = MODELS[kind](init=old).fit(X.astype(dtype))
        found = ids_by_name(model.group_ids_[model.labels_], truth)
        assert len(set(found.values())) == len(found) == model.n_clusters_
        # The larger part of what fell in two is the one that continues, and it is "a" that is larger.
        for name, group_id in found.items():
            if name in known:
                assert group_id == known[name], (day, name)
            else:
                assert group_id not in seen, (day, name)
        known, seen = {**known, **found}, seen | set(found.values())
        model.save(tmp_path / "model.madbayes")
        old = load(tmp_path / "model.madbayes") if day % 2 else model
    assert set(known) == set("abcdefg")
    assert old._next_group_id == 7


@FEW
@given(st.integers(0, 10**6), st.sampled_from([DPMeans, BPMeans]))
def test_no_id_is_ever_given_to_two_groups(seed, cls):
    """Whatever the tables are: ids are unique, and one that was gone stays gone."""
    rng, old, alive, ever = np.random.default_rng(seed), None, set(), set()
    for _ in range(4):
        X = rng.normal(size=(12, 2)) + 4 * rng.integers(3, size=(12, 2))
        model = cls(rng.choice([2.0, 8.0, 40.0]), init=old, random_state=0, search="paper", n_init=2).fit(X)
        ids = set(model.group_ids_.tolist())
        assert len(ids) == len(model.group_ids_) == len(set(model.group_names_))
        assert not (ids - alive) & ever
        assert max(ids, default=-1) < model._next_group_id
        alive, ever, old = ids, ever | ids, model


@pytest.mark.parametrize("kind", MODELS)
def test_the_order_of_rows_does_not_matter(kind):
    days = Days(seed=2)
    first = MODELS[kind]().fit(days.table(0)[0])
    X, truth = days.table(1)
    order = np.random.default_rng(0).permutation(len(X))
    plain, mixed = (MODELS[kind](init=first).fit(rows) for rows in (X, X[order]))
    assert ids_by_name(plain.group_ids_[plain.labels_], truth) == ids_by_name(
        mixed.group_ids_[mixed.labels_], truth[order]
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model",
    [
        DPMeans(300.0),
        DPMeans(0, max_clusters=4),
        CovarianceDPMeans(0.03),
        BPMeans(300.0),
        KFeatures(3),
        StepwiseKFeatures(300.0),
    ],
    ids=str,
)
def test_the_same_rows_give_the_same_bits(model, dtype):
    X = Days(seed=3).table(0)[0].astype(dtype)
    first = model.set_params(random_state=0).fit(X)
    first.group_ids_ = first.group_ids_[::-1] + 5  # as after many days
    first._next_group_id = 50
    first.rename({0: "large"})
    again = type(model)(**{**model.get_params(deep=False), "init": first, "random_state": 7}).fit(X)
    for name in ("group_ids_", "cluster_centers_", "labels_", "components_", "allocations_"):
        if hasattr(first, name):
            assert_array_equal(getattr(again, name), getattr(first, name), strict=True)
    assert again.group_names_ == first.group_names_
    assert again.objective_ == first.objective_


def test_a_fit_from_nothing_or_from_centres_counts_from_zero():
    X = Days(seed=0).table(0)[0]
    old = DPMeans(300.0, random_state=0).fit(X).rename({0: "large"})
    for init in (None, old.cluster_centers_, KMeans(5, n_init=1, random_state=0).fit(X)):
        model = DPMeans(300.0, random_state=0, init=init).fit(X)
        assert model.group_ids_.tolist() == [0, 1, 2, 3, 4]
        assert model.group_names_ == [f"group {k}" for k in range(5)]


@pytest.mark.parametrize(("distance", "ids"), [(0.99, [0]), (1.01, [1])])
def test_a_group_is_new_where_four_penalties_are_cheaper(distance, ids):
    """Eight rows and a penalty of 2: the limit is at 8 d^2 = 4 * 2."""
    old = DPMeans(2.0, random_state=0).fit(np.zeros((8, 1)))
    assert DPMeans(2.0, init=old, random_state=0).fit(np.full((8, 1), distance)).group_ids_.tolist() == ids
    weighted = DPMeans(2.0, init=old, random_state=0).fit([[distance], [50.0]], sample_weight=[8.0, 0.0])
    assert weighted.group_ids_.tolist() == ids


def test_with_covariances_the_limit_is_in_their_units():
    """The same with a variance of 9: three times as far."""
    old = CovarianceDPMeans(2.0, covariances=[[9.0]], random_state=0).fit(np.zeros((8, 1)))
    for distance, ids in ((2.99, [0]), (3.01, [1])):
        later = CovarianceDPMeans(2.0, covariances=[[9.0]], init=old, random_state=0).fit(np.full((8, 1), distance))
        assert later.group_ids_.tolist() == ids


def test_without_a_price_groups_that_are_nearest_to_each_other_belong_together():
    rows = np.repeat([[0.0], [10.0], [20.0]], [3, 2, 1], axis=0)
    old = DPMeans(0, max_clusters=3, random_state=0).fit(rows)
    assert old.cluster_centers_.ravel().tolist() == [0, 10, 20]
    # 19 is nearest to 20, and 26 too, but 20 is nearer to 19: 26 is new, and 10 is gone.
    later = DPMeans(0, max_clusters=3, init=old, random_state=0).fit([[1.0], [1.0], [1.0], [19.0], [19.0], [26.0]])
    assert later.cluster_centers_.ravel().tolist() == [1, 19, 26]
    assert later.group_ids_.tolist() == [0, 2, 3]


def test_names_go_with_ids_and_a_name_that_is_taken_is_passed_over():
    old = DPMeans(2.0, random_state=0).fit(np.repeat([[0.0], [50.0]], [5, 4], axis=0)).rename({0: "group 2"})
    later = DPMeans(2.0, init=old, random_state=0).fit(np.repeat([[0.0], [99.0], [-99.0]], [3, 5, 4], axis=0))
    assert later.group_ids_.tolist() == [3, 4, 0]
    assert later.group_names_ == ["group 3", "group 4", "group 2"]


def test_a_warm_start_is_one():
    """Never above a plain descent from the old centres, which is written out here."""
    days = Days(seed=4)
    old = DPMeans(300.0, random_state=0).fit(days.table(0)[0])
    X = days.table(1)[0]
    means = old.cluster_centers_
    for _ in range(100):
        labels = ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        means = np.array([X[labels == k].mean(axis=0) for k in np.unique(labels)])
    value = ((X - means[labels]) ** 2).sum() + 300.0 * (len(means) - 1)
    model = DPMeans(300.0, init=old, random_state=0).fit(X)
    assert len(model.runs_) == 1
    assert model.objective_ <= value * (1 + 1e-12)


@FEW
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 4))
def test_pairs_are_the_cheapest_there_are(seed, n_old, n_new):
    """Compared with all ways to pair them: whoever is alone costs the limit."""
    costs, limit = np.random.default_rng(seed).exponential(size=(n_old, n_new)), 0.7
    rows, columns = pairs(costs, limit)
    found = costs[rows, columns].sum() + limit * (n_new - len(columns))
    wide = np.hstack([costs.T, np.full((n_new, n_new), limit)])
    ways = (sum(wide[k, j] for k, j in enumerate(way)) for way in permutations(range(n_old + n_new), n_new))
    assert found == pytest.approx(min(ways))
    assert (costs[rows, columns] < limit).all()


# Features


def feature_day(shares, seed, drift=0.0, n_rows=80):
    """A base and three parts in some of the rows."""
    rng = np.random.default_rng(seed)
    A = np.array([[5.0, 5, 5, 5, 5], [4, 0, 0, 0, 4], [0, 4, 0, -4, 0], [0, 0, 6, 0, 0]])
    A = A + drift * rng.uniform(-1, 1, size=A.shape)
    Z = np.column_stack([np.ones(n_rows), *(rng.permutation(n_rows) < share * n_rows for share in shares)])
    return Z @ A + 0.1 * rng.normal(size=(n_rows, 5)), Z.astype(bool)


def feature_ids(model, Z):
    """The id of the component that the rows of each planted one have, or all others have."""
    found = []
    for z in Z.T:
        (k,) = np.flatnonzero([(own == z).all() or (own != z).all() for own in model.allocations_.astype(bool).T])
        found.append(int(model.group_ids_[k]))
    return found


@pytest.mark.parametrize("cls", [BPMeans, StepwiseKFeatures, KFeatures])
def test_a_component_that_is_told_by_the_other_rows_is_the_same(cls):
    settings = {"n_components": 4} if cls is KFeatures else {"penalty": 20.0}
    X, Z = feature_day([0.45, 0.3, 0.2], seed=0)
    first = cls(**settings, random_state=0).fit(X)
    assert feature_ids(first, Z) == [0, 1, 2, 3]
    later, Z = feature_day([0.55, 0.3, 0.4], seed=1, drift=0.2)
    second = cls(**settings, init=first, random_state=0).fit(later)
    turned = int(np.flatnonzero(second.group_ids_ == 1)[0])
    assert second.components_[turned, 0] < -3  # told by the fewer: now it takes
    assert feature_ids(second, Z) == [0, 1, 2, 3]
    back, Z = feature_day([0.45, 0.3, 0.4], seed=2, drift=0.2)
    assert feature_ids(cls(**settings, init=second, random_state=0).fit(back), Z) == [0, 1, 2, 3]


def test_a_component_that_stays_away_and_one_that_comes():
    X, Z = feature_day([0.45, 0.3, 0.2], seed=0)
    first = BPMeans(20.0, random_state=0).fit(X).rename({1: "ends"})
    X, Z = feature_day([0.45, 0.3, 0.0], seed=1)
    second = BPMeans(20.0, init=first, random_state=0).fit(X)
    assert feature_ids(second, Z[:, :3]) == [0, 1, 2]
    X, Z = feature_day([0.45, 0.3, 0.2], seed=2)
    third = BPMeans(20.0, init=second, random_state=0).fit(X)
    assert feature_ids(third, Z) == [0, 1, 2, 4]
    assert third.group_names_[third.group_ids_.tolist().index(1)] == "ends"


def test_no_components_on_one_of_the_days():
    X, _ = feature_day([0.45, 0.3, 0.2], seed=0)
    nothing = BPMeans(1e6, random_state=0).fit(X)
    assert nothing.group_ids_.shape == (0,)
    later = BPMeans(20.0, init=nothing, random_state=0).fit(X)
    assert later.group_ids_.tolist() == [0, 1, 2, 3]
    again = BPMeans(1e6, init=later, random_state=0).fit(X)
    assert again._next_group_id == 4
    assert BPMeans(20.0, init=again, random_state=0).fit(X).group_ids_.tolist() == [4, 5, 6, 7]


# Files


def test_files_without_ids_count_from_zero():
    for name in ("clusters", "features"):
        model = load(DATA / f"{name}-v1.madbayes")
        K = len(model.group_names_)
        assert_array_equal(model.group_ids_, np.arange(K))
        assert model._next_group_id == K
    old = load(DATA / "clusters-v1.madbayes")
    later = DPMeans(old.penalty_, init=old, random_state=0).fit(old.cluster_centers_.repeat(10, axis=0))
    assert sorted(later.group_ids_) == list(range(old.n_clusters_))


def test_a_file_does_not_hold_all_days_before_it(tmp_path):
    X, model, sizes = make_mixture(200, 2, 3, random_state=0).X, None, []
    for _ in range(5):
        model = DPMeans(50.0, init=model, random_state=0).fit(X)
        model.save(tmp_path / "model.madbayes")
        sizes.append((tmp_path / "model.madbayes").stat().st_size)
    assert sizes[4] < sizes[1] + 100  # of the second day, which has one day before it; seconds have more or less digits
    back = load(tmp_path / "model.madbayes")
    assert back.init.init is None
    assert_array_equal(back.fit(X).group_ids_, model.group_ids_)
    assert model.init.init.init is not None  # the models themselves are left alone


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group_ids_", np.array([3, 3])),
        ("group_ids_", np.array([-1, 0])),
        ("group_ids_", np.array([0, 5])),
        ("group_ids_", np.array([0])),
        ("group_ids_", [0, 1]),
        ("_next_group_id", 1),
        ("_next_group_id", "many"),
        ("_group_origins", ["a"]),
        ("_group_origins", [0, 1]),
    ],
)
def test_files_whose_ids_cannot_be(name, value, tmp_path):
    model = DPMeans(2.0, random_state=0).fit([[0.0], [9.0]])
    setattr(model, name, value)
    model.save(tmp_path / "model.madbayes")
    with pytest.raises(ModelFileError):
        load(tmp_path / "model.madbayes")


def test_a_model_cannot_start_from_itself():
    model = DPMeans(2.0).fit(np.zeros((3, 1)))
    model.init = model
    with pytest.raises(ValueError, match="init is the model itself"):
        model.fit(np.zeros((3, 1)))
