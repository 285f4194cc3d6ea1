"""The lower hull against the number of groups that is best at each of many penalties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from madbayes.engine.path import WEAK_RATIO, PenaltyPath

losses_lists = st.lists(st.integers(0, 1000), min_size=1, max_size=9).map(lambda losses: sorted(losses, reverse=True))


def path_of(losses, smallest=1):
    numbers = np.arange(smallest, smallest + len(losses))
    return PenaltyPath(numbers, np.array(losses, dtype=float), [f"solution {K}" for K in numbers])


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
