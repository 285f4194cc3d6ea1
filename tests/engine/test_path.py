"""The lower hull against the number of groups that is best at each of many penalties."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from madbayes.engine.path import (
    NULL_MARGIN,
    WEAK_FACTOR,
    WEAK_RATIO,
    PenaltyPath,
    WeakEvidenceWarning,
    warn_of_weak_evidence,
)

losses_lists = st.lists(st.integers(0, 1000), min_size=1, max_size=9).map(lambda losses: sorted(losses, reverse=True))


def path_of(losses, smallest=1, **options):
    numbers = np.arange(smallest, smallest + len(losses))
    return PenaltyPath(numbers, np.array(losses, dtype=float), [f"solution {K}" for K in numbers], **options)


def best_at(path, penalty):
    """All numbers of groups that are best at this penalty."""
    values = path.sse + penalty * path.n_components
    return {int(K) for K in path.n_components[values <= values.min() + 1e-9]}


@given(losses_lists, st.sampled_from([0, 1]))
def test_each_interval_is_where_its_number_is_best(losses, smallest):
    path = path_of(losses, smallest)
    owners = sorted(path.intervals.items(), key=lambda item: item[1])
    for penalty in np.linspace(0.0, 1001.0, 400):
        owned = {K for K, (lo, hi) in owners if lo <= penalty <= hi}
        assert owned
        assert owned <= best_at(path, penalty)
    for K, (lo, hi) in owners:
        assert best_at(path, (lo + min(hi, lo + 1)) / 2) == {K}


@given(losses_lists, st.sampled_from([0, 1]))
def test_intervals_are_consecutive_from_zero_to_infinity(losses, smallest):
    ends = sorted(path_of(losses, smallest).intervals.values())
    assert ends[0][0] == 0
    assert ends[-1][1] == np.inf
    assert [hi for _, hi in ends[:-1]] == [lo for lo, _ in ends[1:]]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9))
def test_a_worse_solution_with_more_groups_does_not_count(losses):
    path = path_of(losses)
    assert list(path.sse) == [min(losses[: i + 1]) for i in range(len(losses))]
    assert path.intervals == path_of(list(path.sse)).intervals


@given(losses_lists, st.sampled_from([0, 1]))
def test_the_suggestion_lies_inside_the_interval(losses, smallest):
    path = path_of(losses, smallest)
    for K, (lo, hi) in path.intervals.items():
        assert lo < path.suggest(K) < hi
        assert best_at(path, path.suggest(K)) == {K}
    assert path.suggest() == path.suggest(path.best)


@pytest.mark.parametrize("exponent", [-330, -100, 0, 100, 330])
def test_best_and_suggestion_follow_the_units(exponent):
    losses = np.array([100.0, 60.0, 10.0, 9.0, 8.5])
    unit = 2.0**exponent * 2.0**exponent
    path, scaled = path_of(losses), path_of(losses * unit)
    assert scaled.best == path.best == 3
    assert scaled.ratio == path.ratio
    np.testing.assert_allclose(scaled.suggest() / unit, path.suggest(), rtol=1e-12)


@given(losses_lists)
def test_best_has_the_widest_interval(losses):
    path = path_of(losses)
    widths = {
        K: hi / lo if lo > 0 else np.inf
        for K, (lo, hi) in path.intervals.items()
        if K >= 2 and hi < np.inf and (lo > 0 or losses[K - 1] == 0)
    }
    if max(widths.values(), default=0.0) >= WEAK_RATIO:
        assert widths[path.best] == max(widths.values()) == path.ratio
    else:
        assert path.best == min(path.intervals)


def test_the_largest_number_does_not_count_unless_it_explains_everything():
    assert path_of([100.0, 70.0, 41.0, 1.0]).best == 1
    assert path_of([100.0, 70.0, 41.0, 0.0]).best == 4
    assert path_of([100.0, 70.0, 41.0, 0.0]).ratio == np.inf


def test_one_group_rather_than_none():
    assert path_of([100.0, 50.0, 1e-3], smallest=0).best == 1
    assert path_of([100.0, 99.0, 1.0, 0.5, 0.25], smallest=0).best == 2
    assert path_of([100.0], smallest=0).best == 0


def test_nothing_to_choose():
    for losses in ([5.0], [0.0], [7.0, 7.0, 7.0]):
        path = path_of(losses)
        assert path.intervals == {1: (0.0, np.inf)}
        assert (path.best, path.ratio, path.suggest()) == (1, None, 1.0)


def test_of_the_last_interval_the_suggestion_is_twice_its_lower_end():
    assert path_of([100.0, 40.0, 30.0]).suggest(1) == 120.0


def test_a_number_that_is_best_at_no_penalty_is_refused():
    with pytest.raises(ValueError, match=r"K=2 .*\[1, 3, 4\]"):
        path_of([100.0, 60.0, 10.0, 9.0]).suggest(2)


def test_solutions_by_number():
    assert path_of([3.0, 2.0, 1.0], smallest=0).for_k(2) == "solution 2"
    assert path_of([3.0, 2.0, 1.0], smallest=1).for_k(2) == "solution 2"


null_tables = st.dictionaries(st.integers(2, 9), st.floats(1.0, 30.0), max_size=4)


@given(losses_lists, st.sampled_from([0, 1]), st.floats(0, 2000))
def test_the_solution_at_a_penalty_is_best_there(losses, smallest, penalty):
    path = path_of(losses, smallest)
    K = int(path.at(penalty).removeprefix("solution "))
    assert K in best_at(path, penalty)
    owners = {K for K, (lo, hi) in path.intervals.items() if lo < penalty < hi}
    assert owners <= {K}


@given(losses_lists, st.sampled_from([0, 1]))
def test_the_solution_at_the_suggested_penalty(losses, smallest):
    path = path_of(losses, smallest)
    for K in path.intervals:
        assert path.at(path.suggest(K)) == path.for_k(K) == f"solution {K}"


def test_of_two_solutions_the_one_with_fewer_groups():
    assert path_of([10.0, 4.0]).at(6.0) == "solution 1"
    assert path_of([10.0, 4.0, 4.0]).at(0.0) == "solution 2"


@pytest.mark.parametrize(("smallest", "K"), [(1, 0), (1, 4), (1, -1), (0, 3), (0, -1)])
def test_a_number_outside_the_path_is_refused(smallest, K):
    path = path_of([3.0, 2.0, 1.0], smallest)
    with pytest.raises(ValueError, match=rf"K={K} is not on the path: give {smallest} to {smallest + 2}"):
        path.for_k(K)


@given(losses_lists, st.sampled_from([0, 1]), null_tables)
def test_candidates_are_wider_than_those_of_groupless_tables(losses, smallest, null_ratios):
    path = path_of(losses, smallest, null_ratios=null_ratios)
    ratios = path.ratios
    assert [ratios[K] for K in path.candidates] == sorted((ratios[K] for K in path.candidates), reverse=True)
    for K, ratio in ratios.items():
        assert K >= 2
        comparable = [other for k, other in null_ratios.items() if (k == 2) == (K == 2)]
        assert path.threshold(K) == max([WEAK_RATIO, *(NULL_MARGIN * other for other in comparable)])
        assert (K in path.candidates) == (ratio >= path.threshold(K))
    if path.candidates:
        assert path.best == path.candidates[0]
        assert path.ratio == ratios[path.best] >= path.threshold(path.best)
    else:
        assert path.best == (1 if 1 in path.intervals else min(path.intervals))
        assert str(path).startswith("No groups found")


@given(losses_lists, null_tables)
def test_stronger_groupless_tables_leave_fewer_candidates(losses, null_ratios):
    stronger = {K: 2 * ratio for K, ratio in null_ratios.items()}
    without, with_null, with_stronger = (
        path_of(losses, null_ratios=ratios).candidates for ratios in ({}, null_ratios, stronger)
    )
    assert set(with_stronger) <= set(with_null) <= set(without)


@given(losses_lists, null_tables)
def test_the_groupless_ratio_is_the_one_that_was_compared(losses, null_ratios):
    path = path_of(losses, null_ratios=null_ratios)
    if not null_ratios:
        assert path.null_ratio is None
    elif not path.candidates:
        assert path.null_ratio == max(null_ratios.values())
    else:
        assert path.threshold(path.best) == max(WEAK_RATIO, NULL_MARGIN * path.null_ratio)


def test_two_groups_are_compared_with_two():
    losses = [100.0, 40.0, 10.0, 8.0, 6.5]
    path = path_of(losses, null_ratios={2: 9.0, 4: 1.3})
    assert (path.best, path.candidates) == (3, [3])
    assert path.threshold(3) == pytest.approx(NULL_MARGIN * 1.3)
    assert path.threshold(2) == pytest.approx(NULL_MARGIN * 9.0)
    losses = [100.0, 10.0, 8.0, 7.0]
    assert path_of(losses, null_ratios={2: 1.1, 4: 90.0}).candidates == [2]
    assert path_of(losses, null_ratios={2: 90.0, 4: 1.1}).candidates == [3]


@given(losses_lists, st.integers(1, 9))
def test_no_number_above_the_cap_is_chosen(losses, cap):
    path, free = path_of(losses, cap=cap), path_of(losses)
    assert path.intervals == free.intervals
    assert path.ratios == {K: ratio for K, ratio in free.ratios.items() if cap >= K}
    assert all(cap >= K for K in path.candidates)
    assert cap >= path.best


def test_the_answer_in_words():
    losses = [100.0, 60.0, 10.0, 9.0, 8.5]
    assert str(path_of(losses)) == "3 groups: best for penalties from 1 to 45 (45x). Also plausible: 4."
    told = str(path_of(losses, null_ratios={3: 2.0}, n_outliers=7))
    assert told.startswith("3 groups: best for penalties from 1 to 45 (45x; groupless data: 2x).")
    assert told.endswith("7 rows in tiny groups were set aside.")
    assert str(path_of(losses, null_ratios={3: 200.0})).startswith("No groups found")


@given(losses_lists, null_tables)
def test_weak_evidence_is_warned_of(losses, null_ratios):
    path = path_of(losses, null_ratios=null_ratios)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_weak_evidence(path)
    strong = path.candidates and path.ratio >= WEAK_FACTOR * path.threshold(path.best)
    assert len(caught) == bool(path.ratios and not strong)
    for warning in caught:
        assert warning.category is WeakEvidenceWarning
        assert str(path) in str(warning.message)
