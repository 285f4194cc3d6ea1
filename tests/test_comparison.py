"""Fits matched with each other, and with refits on parts of the rows."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, match, stability

MODELS = [
    DPMeans(200.0, n_init=40, random_state=0),
    BPMeans(200.0, max_components=2, n_init=40, random_state=0),
    KFeatures(2, n_init=40, random_state=0),
    StepwiseKFeatures(50.0, random_state=0),
    CovarianceDPMeans(0.1, random_state=0),
]


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request):
    return clone(request.param)


@pytest.fixture
def blobs():
    """Two features in all four combinations, which are clusters far apart as well."""
    rng = np.random.default_rng(3)
    Z = np.repeat([[0, 0], [1, 0], [0, 1], [1, 1]], [20, 18, 12, 10], axis=0)
    return Z @ np.array([[20.0, 0.0], [0.0, 30.0]]) + 0.3 * rng.normal(size=(60, 2))


def allocations(max_components=5):
    shape = st.tuples(st.integers(1, 12), st.integers(0, max_components))
    return arrays(np.uint8, shape, elements=st.integers(0, 1))


@given(allocations(), st.randoms(use_true_random=False))
def test_a_permuted_copy_matches_perfectly(Z, random):
    order = random.sample(range(Z.shape[1]), Z.shape[1])
    found = match(Z[:, order], Z)
    used = Z[:, order].any(axis=0)
    assert found.agreement == 1
    assert_array_equal(found.group_agreement, used)
    assert_array_equal((Z[:, found.order[used]] != found.complemented[used]), Z[:, order][:, used])


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_permuted_labels_match_perfectly(labels):
    labels = np.array(labels)
    names = np.array(["d", "b", "f", "a", "g", "c", "e"])[labels + 3]
    found = match(labels, names)
    assert found.agreement == 1
    assert_array_equal(np.unique(names)[found.order], names[np.unique(labels, return_index=True)[1]])
    assert not found.complemented.any()


@given(allocations(), allocations())
def test_agreement_is_a_share_and_the_same_from_both_sides(a, b):
    N = min(len(a), len(b))
    there, back = match(a[:N], b[:N]), match(b[:N], a[:N])
    assert 0 <= there.agreement <= 1
    assert ((there.group_agreement >= 0) & (there.group_agreement <= 1)).all()
    if not (a[:N].all(axis=0).any() or b[:N].all(axis=0).any()):
        assert there.group_agreement.sum() == pytest.approx(back.group_agreement.sum())
    partners = there.order[there.order >= 0]
    assert len(set(partners)) == len(partners)
    assert_array_equal(np.sort([*partners, *there.unmatched[1]]), np.arange(b.shape[1]))
    assert_array_equal(np.flatnonzero(there.order < 0), there.unmatched[0])


def test_shares_by_hand():
    """Groups {0, 1, 2}, {3, 4} and {2, 3}, {0, 1}, {4}."""
    found = match([0, 0, 0, 1, 1], [1, 1, 0, 0, 2])
    assert_array_equal(found.order, [1, 2])
    assert_allclose(found.group_agreement, [2 / 3, 1 / 2])
    assert found.agreement == pytest.approx(3 / 5)
    assert_array_equal(found.unmatched[0], [])
    assert_array_equal(found.unmatched[1], [0])
    assert str(found) == "60 % of the memberships agree; 0: 1 (67 %), 1: 2 (50 %)"


def test_complemented_features_match_beside_a_base_feature(seed):
    rng = np.random.default_rng(seed)
    Z = np.column_stack([np.ones(40), rng.random((40, 3)) < 0.4]).astype(int)
    A = rng.normal(size=(4, 6))
    Z2, A2 = Z.copy(), A.copy()
    Z2[:, 2], A2[0], A2[2] = 1 - Z[:, 2], A[0] + A[2], -A[2]
    assert_allclose(Z2 @ A2, Z @ A)
    found = match(Z, Z2[:, ::-1])
    assert found.agreement == 1
    assert_array_equal(found.order, [3, 2, 1, 0])
    assert_array_equal(found.complemented, [False, False, True, False])
    assert "2: not 1 (100 %)" in str(found)


def test_without_a_base_feature_an_opposite_is_no_match():
    z = np.array([[1, 1, 0, 0, 1]]).T
    found = match(z, 1 - z)
    assert found.agreement == 0
    assert_array_equal(found.order, [-1])
    assert str(found) == "0 % of the memberships agree; 0: none"
    # Where one of the fits has a base feature, it is that fit which can be told otherwise.
    based = np.column_stack([np.ones(5), z])
    assert_array_equal(match(based, 1 - z).order, [-1, 0])
    assert_array_equal(match(1 - z, based).order, [1])
    assert match(1 - z, based).complemented.all()


def test_the_base_feature_itself_is_not_complemented():
    based = np.column_stack([np.ones(10), np.arange(10) == 0])
    rare = (np.arange(10) == 5)[:, None].astype(int)
    assert not match(based, rare).complemented[0]
    assert match(based, rare).group_agreement[0] < 0.2


def test_unrelated_groups_agree_little(seed):
    rng = np.random.default_rng(seed)
    Z, other = (rng.random((2, 400, 4)) < 0.4).astype(int)
    assert match(Z, other).agreement < 0.55
    assert match(rng.integers(5, size=400), rng.integers(5, size=400)).agreement < 0.4


def test_fits_without_groups():
    nothing, one = np.zeros((3, 0)), np.ones((3, 1))
    assert match(nothing, nothing).agreement == 1
    assert str(match(nothing, nothing)) == "100 % of the memberships agree; no groups"
    assert match(nothing, one).agreement == 0
    assert_array_equal(match(one, nothing).order, [-1])


def test_fitted_models_match_with_each_other_and_with_what_they_say(model, blobs):
    first = clone(model).fit(blobs)
    second = clone(model).set_params(random_state=5).fit(blobs)
    groups = getattr(second, "labels_", getattr(second, "allocations_", None))
    for other in (second, groups):
        found = match(first, other)
        assert found.agreement == 1
        assert_array_equal(found.order, np.arange(len(found.order)))


def test_clusters_of_others_are_accepted(blobs):
    theirs = KMeans(4, n_init=10, random_state=0).fit(blobs)
    assert match(DPMeans(50.0).fit(blobs), theirs).agreement == 1
    assert match(pd.Series(theirs.labels_), theirs).agreement == 1


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([0, 1], [0, 1, 1], r"a has 2 rows and b 3: give groups of the same rows"),
        ([0, 1], [[0], [1]], r"a holds clusters and b features: give two fits of the same kind"),
        ([[2], [1]], [[0], [1]], r"a holds 2: give zeros and ones only"),
        ([[0], [1]], 3, r"b=3 is not accepted: give a fitted model, labels of shape \(n_rows,\)"),
        ([0, 1], [[0], [1, 0]], r"b=\[\[0\], \[1, 0\]\] is not accepted"),
        ([None, "one"], [0, 1], r"a has labels that cannot be sorted: give labels of one type, none missing"),
    ],
)
def test_what_cannot_be_matched_gets_a_clear_error(a, b, message):
    with pytest.raises(ValueError, match=message):
        match(a, b)


def test_models_must_be_fitted(blobs):
    with pytest.raises(NotFittedError):
        match(DPMeans(1.0), DPMeans(1.0).fit(blobs))


def test_groups_far_apart_are_stable(model, blobs):
    found = stability(blobs, model, n_refits=6, random_state=0)
    assert found.agreement > 0.97
    assert found.spread < 0.05
    assert (found.group_agreement > 0.95).all()
    assert len(found.unstable) == 0
    assert len(found.matches) == len(found.n_groups) == 6
    assert repr(found).endswith("All groups are stable.")
    assert not hasattr(model, "penalty_")


def test_a_cloud_cut_in_two_is_not_stable(seed):
    X = np.random.default_rng(seed).normal(size=(200, 10))
    found = stability(X, DPMeans(0, max_clusters=2, n_init=3, random_state=0), n_refits=10, random_state=0)
    assert found.agreement < 0.85
    assert_array_equal(found.unstable, [0, 1])
    assert repr(found).endswith("No group is stable: other rows would give other groups.")


def test_the_group_that_is_not_stable_is_named(seed):
    """Far from a cloud cut in two, a small group of its own."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(150, 10)), 50 + rng.normal(size=(40, 10))])
    found = stability(X, DPMeans(0, max_clusters=3, n_init=5, random_state=0), n_refits=10, random_state=0)
    assert found.group_agreement[2] == 1
    assert 1 <= len(found.unstable) <= 2
    assert repr(found).count("  not stable") == len(found.unstable)
    names = {
        1: f"Not stable: group {found.unstable[0]}; the others are.",
        2: "Not stable: group 0, group 1; the others are.",
    }
    assert repr(found).endswith(names[len(found.unstable)])


@pytest.mark.parametrize("penalty", ["auto", "5%"])
def test_refits_use_the_penalty_of_the_fit(penalty, blobs, monkeypatch):
    used, fit = [], DPMeans.fit

    def watched(self, X, y=None, sample_weight=None):
        used.append((self.penalty, None if sample_weight is None else sample_weight.sum()))
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(DPMeans, "fit", watched)
    model = DPMeans(penalty, random_state=0)
    stability(blobs, model, n_refits=2, random_state=0)
    expected = fit(clone(model), blobs).penalty_
    assert used[0] == (penalty, None)
    assert used[1:] == [(expected, pytest.approx(len(blobs)))] * 2


def test_a_fitted_model_is_taken_as_it_is(blobs):
    frame = pd.DataFrame(blobs, columns=["width", "height"])
    model = BPMeans(200.0, max_components=2, n_init=40, random_state=0).set_output(transform="pandas").fit(frame)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    found = stability(frame, model, n_refits=3, random_state=0)
    assert found.agreement > 0.97
    assert all(vars(model)[name] is value for name, value in before.items())


def test_an_init_is_for_the_fit_only(blobs):
    start = BPMeans(200.0, max_components=2, n_init=40, random_state=0).fit(blobs)
    model = BPMeans(200.0, max_components=2, n_init=40, init=(start.allocations_, start.components_), random_state=0)
    assert stability(blobs, model, n_refits=3, random_state=0).agreement > 0.97


def test_same_seed_same_answer(model, blobs):
    answers = [stability(blobs, model, n_refits=4, random_state=2, n_jobs=n_jobs) for n_jobs in (1, 2, None)]
    assert repr(answers[0]) == repr(answers[1]) == repr(answers[2])
    for other in answers[1:]:
        assert_array_equal(other.group_agreement, answers[0].group_agreement)
    rows = [stability(blobs, model, n_refits=1, share=0.1, random_state=s).agreement for s in range(6)]
    assert len(set(rows)) > 1 or rows[0] > 0.97


def test_rows_of_weight_zero_do_not_count(blobs):
    model, rubbish = DPMeans(200.0, n_init=40, random_state=0), np.random.default_rng(0).normal(size=(30, 2)) * 1000
    weights = np.repeat([1.0, 0.0], [60, 30])
    found = stability(np.vstack([blobs, rubbish]), model, n_refits=4, sample_weight=weights, random_state=0)
    expected = stability(blobs, model, n_refits=4, random_state=0)
    assert repr(found) == repr(expected)


def test_of_many_groups_the_first_are_shown():
    X = np.repeat(100.0 * np.arange(23), 2)[:, None] + np.tile([0.0, 1.0], 23)[:, None]
    found = stability(X, DPMeans(9.0, random_state=0), n_refits=2, share=1, random_state=0)
    assert repr(found).splitlines()[-2:] == ["  ... and 3 more", "  All groups are stable."]
    assert found.agreement == 1


def test_no_groups_to_be_stable(seed):
    X = np.random.default_rng(seed).normal(size=(20, 2))
    found = stability(X, BPMeans(1e6, random_state=0), n_refits=2, random_state=0)
    assert found.agreement == 1
    assert repr(found).endswith("There are no groups.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_refits": 0}, r"n_refits=0 is not accepted: give an integer >= 1"),
        ({"share": 0}, r"share=0 is not accepted: give a number above 0 and at most 1"),
        ({"share": "half"}, r"share='half' is not accepted"),
        ({"n_jobs": 0}, r"n_jobs=0 is not accepted"),
        ({"random_state": "me"}, r"random_state='me' is not accepted"),
        ({"sample_weight": [1.0]}, r"sample_weight has shape \(1,\), but X has 60 rows"),
        ({"model": KMeans(2)}, r"model=KMeans\(n_clusters=2\) is not accepted: give an estimator of madbayes"),
        ({"X": np.full((60, 2), np.nan)}, r"X contains 120 NaN"),
    ],
)
def test_bad_arguments_get_a_clear_error(options, message, blobs):
    arguments = {"X": blobs, "model": DPMeans(50.0), **options}
    with pytest.raises(ValueError, match=message):
        stability(arguments.pop("X"), arguments.pop("model"), **arguments)


def test_importing_madbayes_does_not_import_numba():
    code = "import sys, madbayes; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
