"""The lower hull against the number of groups that is best at each of many penalties."""

import json
import re
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from madbayes.engine.path import (
    SPREADS,
    WEAK_RATIO,
    WEAK_SPREADS,
    PenaltyPath,
    WeakEvidenceWarning,
    warn_of_weak_evidence,
)
from madbayes.evidence import path_words

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
        if K >= 2 and hi < np.inf and (lo > 0 or len(losses) > K or losses[K - 1] == 0)
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


null_tables = st.lists(st.dictionaries(st.integers(2, 9), st.floats(1.0, 30.0), max_size=4), max_size=4)


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
    with pytest.raises(ValueError, match=rf"K={K} is not on the path: give an integer from {smallest}"):
        path.for_k(K)


@pytest.mark.parametrize(
    ("ask", "argument", "odd"),
    [
        *product(["at"], ["penalty"], [np.nan, np.inf, -5.0, None, "auto", True, 10**400]),
        *product(["for_k"], ["K"], [2.0, "2", None, True, np.nan]),
        *product(["suggest"], ["K"], [2.0, "2", True, [2]]),
        *product(["plot"], ["ax"], ["axes", [None], [1, 2]]),
    ],
)
def test_what_cannot_be_asked_for_is_refused(ask, argument, odd):
    with pytest.raises(ValueError, match=f"^{re.escape(f'{argument}={odd!r}')} is "):
        getattr(path_of([3.0, 2.0, 1.0]), ask)(odd)


@given(losses_lists, st.sampled_from([0, 1]), null_tables)
def test_candidates_are_wider_than_those_of_groupless_tables(losses, smallest, null_ratios):
    path = path_of(losses, smallest, null_ratios=null_ratios)
    ratios = path.ratios
    assert [ratios[K] for K in path.candidates] == sorted((ratios[K] for K in path.candidates), reverse=True)
    for K in path.candidates:
        assert K >= 2
        assert ratios[K] >= max(WEAK_RATIO, path.threshold(K))
        assert ratios[K] >= min(max(ratios.values()), 1e9) ** 0.5
    if path.contenders:
        widest = path.contenders[0]
        assert ratios[widest] == max(ratios.values())
        assert (widest in path.candidates) == (ratios[widest] >= path.threshold(widest))
    if path.candidates:
        assert path.best == path.candidates[0]
        assert path.ratio == ratios[path.best]
    else:
        assert path.best == (1 if 1 in path.intervals else smallest)
        assert str(path).startswith("No groups found" if ratios else "There was no number of groups to choose")


@given(losses_lists, null_tables)
def test_stronger_groupless_tables_leave_fewer_candidates(losses, null_ratios):
    """All of their intervals, at every number, wider by the same factor."""
    weaker, stronger = ([{K: f * null.get(K, 1.0) for K in range(1, 11)} for null in null_ratios] for f in (1.0, 2.0))
    without, with_null, with_stronger = (
        path_of(losses, null_ratios=ratios).candidates for ratios in ([], weaker, stronger)
    )
    assert set(with_stronger) <= set(with_null) <= set(without)


@given(losses_lists, null_tables)
def test_the_groupless_ratio_is_the_one_that_was_compared(losses, null_ratios):
    path = path_of(losses, null_ratios=null_ratios)
    if not null_ratios or not path.ratios:
        assert path.null_ratio is None
    elif path.candidates:
        assert path.ratio >= path.null_ratio == path.threshold(path.best)
    else:
        widest = max(path.ratios, key=lambda K: path.ratios[K])
        assert path.null_ratio == path.threshold(widest)


def test_a_single_feature_that_some_rows_lack():
    """None is the simplest answer then, unless it is worth far more than in groupless tables. More go first."""
    losses, partial = [100.0, 20.0, 19.0, 18.2], {"smallest": 0, "has_base": False}
    assert path_of(losses, smallest=0).best == 1
    assert path_of(losses, smallest=0).ratios == {2: pytest.approx(1.25)}
    assert path_of(losses, **partial).ratios[1] == 80.0
    assert path_of(losses, **partial).candidates == path_of(losses, smallest=0).candidates
    strict = [{2: 5.0}]
    for null, found in ((30.0, [1]), (70.0, [])):
        path = path_of(losses, null_ratios=strict, null_firsts=[null] * 3, **partial)
        assert path.candidates == found
        assert path.best == len(found)
        assert path.threshold(1) == pytest.approx(null * np.exp(0.1 * SPREADS * np.sqrt(3 / 5)))
    assert path_of([100.0, 60.0, 10.0, 9.0, 8.5], null_firsts=[1.1] * 3, **partial).candidates[0] == 2


@pytest.mark.parametrize(("ratio", "found"), [(1.4, []), (1.6, [1])])
def test_a_single_feature_needs_more_than_most_groupless_tables_which_have_no_interval_for_it(ratio, found):
    losses = [100.0, 100.0 - 10 * ratio, 90.0 - 10 * ratio, 81.0 - 10 * ratio, 73.0 - 10 * ratio]
    path = path_of(losses, smallest=0, has_base=False, null_ratios=[{2: 5.0, 3: 5.0}] * 8, null_firsts=[1.0] * 8)
    assert path.ratios[1] == pytest.approx(ratio)
    assert path.candidates == found


def test_intervals_without_end_are_no_wider_than_those_of_groupless_tables():
    losses = [100.0, 70.0, 41.0, 0.0]
    assert path_of(losses, null_ratios=[{4: 3.0}]).candidates == [4]
    assert path_of(losses, null_ratios=[{4: np.inf}]).candidates == []


def test_many_groupless_tables_tell_mean_and_spread():
    """Normal logarithms with mean .5 and standard deviation .2, a number on its own.

    The largest of three standard normal numbers has the mean 3 / (2 sqrt(pi)).
    """
    rng = np.random.default_rng(0)
    null_ratios = [{K: float(np.exp(rng.normal(0.5, 0.2))) for K in (4, 5, 6)} for _ in range(2000)]
    path = path_of([100.0, 60.0, 10.0, 9.0], null_ratios=null_ratios)
    assert path.threshold(5) == pytest.approx(np.exp(0.5 + SPREADS * 0.2), rel=0.02)
    assert path.threshold(5, 0.0) == pytest.approx(np.exp(0.5 + 0.2 * 1.5 / np.sqrt(np.pi)), rel=0.02)


@given(losses_lists, st.sampled_from([0, 1]))
def test_outer_ratios_are_those_of_every_second_number(losses, smallest):
    path, sse = path_of(losses, smallest), np.minimum.accumulate(losses)
    for i in range(2, len(losses) - 2):
        ends = path_of([sse[i - 2], sse[i], sse[i + 2]]).intervals.get(2)
        outer = path.outer_ratios.get(smallest + i)
        if ends is not None and ends[0] > 0:
            assert outer == pytest.approx(ends[1] / ends[0])
        else:
            assert outer is None or outer <= 1
    assert set(path.outer_ratios) <= set(range(smallest + 2, smallest + len(losses) - 2))


def test_ratios_are_compared_together_with_outer_ratios():
    """Logarithms of ratios with mean .3 and standard deviation .2, of outer ratios .1 more and exactly along with them.

    Sums have mean .7 and standard deviation .4 then.
    """
    logs = np.random.default_rng(0).normal(0.3, 0.2, size=2000)
    nulls = {
        "null_ratios": [{5: float(np.exp(log))} for log in logs],
        "null_outer_ratios": [{5: float(np.exp(log + 0.1))} for log in logs],
    }
    path = path_of([100.0, 80.0, 60.0, 40.0, 20.0, 16.0, 12.0], **nulls)
    assert path.outer_ratios[5] == pytest.approx(5.0)
    assert path.threshold(5, 4.0) * 5.0 == pytest.approx(np.exp(0.7 + 4.0 * 0.4), rel=0.05)


def test_of_intervals_as_wide_the_one_that_is_wide_without_its_neighbours_counts():
    """Both have the ratio 4 at four groups, twice that of groupless tables; outer ratios are 4 and 14.6."""
    nulls = {"null_ratios": [{3: 3.5, 4: 2.0, 5: 3.5}] * 8, "null_outer_ratios": [{4: 7.0}] * 8}
    for losses, outer, found in (
        ([210.0, 140.0, 100.0, 60.0, 50.0, 40.0], 4.0, []),
        ([466.0, 306.0, 156.0, 116.0, 106.0, 103.0], 190 / 13, [4]),
    ):
        path = path_of(losses[:5], beyond=losses[5:], **nulls)
        assert path.ratios[4] == 4.0
        assert path.outer_ratios[4] == outer
        assert path.candidates == found


def test_the_groupless_ratio_is_of_groupless_tables_whatever_makes_a_number_plausible():
    """Ratios of groupless tables that go along with outer ratios the other way: the products hardly differ."""
    nulls = {"null_ratios": [{4: 2.0}, {4: 5.0}] * 4, "null_outer_ratios": [{4: 17.5}, {4: 7.0}] * 4}
    losses = [466.0, 306.0, 156.0, 116.0, 106.0, 103.0]
    path = path_of(losses[:5], beyond=losses[5:], **nulls)
    assert path.candidates == [4]
    assert path.threshold(4) < path.ratio == 4.0 < 5.0 < path.null_ratio
    assert path.null_ratio == path_of(losses[:5], null_ratios=nulls["null_ratios"]).null_ratio
    told = f"(4x; without its neighbours 14.6x; groupless data: up to {path.null_ratio:.3g}x)."
    assert told in str(path)
    assert (
        "a factor of 4, and a factor of 14.6 without the numbers next to it; tables" in path_words(path, "clusters")[0]
    )


def test_groupless_tables_without_end_are_told_as_such():
    path = path_of([100.0, 60.0, 10.0, 9.0], null_ratios=[{3: np.inf}] * 3)
    assert path.null_ratio == path_of([100.0, 60.0, 10.0, 9.0], null_ratios=[{3: np.inf}] * 8).null_ratio == np.inf
    assert json.loads(json.dumps(path.to_dict()))["null_ratio"] is None
    nulls = {"null_ratios": [{4: 1.1}] * 7 + [{4: np.inf}], "null_outer_ratios": [{4: 0.9}] * 7 + [{4: 1e-9}]}
    path = path_of([466.0, 306.0, 156.0, 116.0, 114.0], beyond=[113.5], **nulls)
    assert path.candidates == [4]
    assert "(20x; without its neighbours 76x; groupless data: any width)" in str(path)
    assert "in tables without groups it may be as wide as can be" in path_words(path, "clusters")[0]
    assert "(without a lower end)" in str(path_of([100.0, 60.0, 0.0]))


def test_outer_ratios_that_some_groupless_tables_lack_do_not_count():
    losses = [210.0, 140.0, 100.0, 60.0, 50.0, 40.0, 32.0]
    without = path_of(losses, null_ratios=[{4: 2.0}] * 3)
    for null_outer_ratios in ([{4: 1.0}, {4: 1.0}], [{4: 1.0}, {4: 1.0}, {3: 1.0}]):
        path = path_of(losses, null_ratios=[{4: 2.0}] * 3, null_outer_ratios=null_outer_ratios)
        assert path.threshold(4) == without.threshold(4)


def test_a_number_is_compared_with_the_same_number():
    """Three groups have the ratio 15; thirteen is near for three groups, and far enough for another number."""
    losses = [100.0, 40.0, 10.0, 8.0, 6.5]
    assert path_of(losses).ratios[3] == 15.0
    assert path_of(losses, null_ratios=[{2: 1.1, 3: 13.0}] * 2).candidates == []
    assert path_of(losses, null_ratios=[{2: 13.0, 3: 1.1}] * 2).candidates == [3]


def test_a_number_is_compared_with_the_widest_of_groupless_tables():
    """Their geometric mean, at whatever number: sqrt(4 * 50) is below 15, sqrt(5 * 50) is not."""
    losses = [100.0, 40.0, 10.0, 8.0, 6.5]
    for least, expected in ((4.0, [3]), (5.0, [])):
        null_ratios = [{2: least, 3: 1.1}, {3: 1.2, 5: 50.0}]
        assert path_of(losses, null_ratios=null_ratios).candidates == expected
    assert path_of(losses, null_ratios=null_ratios).null_ratio == pytest.approx(np.sqrt(5 * 50))


def test_numbers_that_no_groupless_table_has_tell_nothing_of_the_spread():
    """Logarithms with standard deviation .3 at the last two numbers there are: six never occurs."""
    rng = np.random.default_rng(0)
    null_ratios = [{K: float(np.exp(rng.normal(2.0, 0.3))) for K in (4, 5)} for _ in range(400)]
    assert path_of([4.0, 3.0], null_ratios=null_ratios)._null_logarithms(5)[1] == pytest.approx(0.3, rel=0.1)


def test_three_groups_by_chance_in_clouds_that_are_cut_in_two():
    """Ratios of long normal clouds: at three groups none was so wide, but at two most were wider."""
    clouds = [{2: 5.8, 3: 1.7}, {2: 4.3, 3: 2.6}, {2: 4.4, 3: 1.5}, {2: 4.2, 3: 2.4}, {2: 4.1, 3: 2.0}]
    losses = np.array([100.0, 50.0, 30.0, 25.0, 20.5])
    path = path_of(losses, null_ratios=clouds)
    assert path.ratios[3] == 4.0
    assert np.log(4.0) > np.sum(path._null_logarithms(3) * np.array([1.0, SPREADS]))
    assert path.candidates == []


def test_groups_must_explain_at_least_as_much_as_in_groupless_tables():
    """Three groups leave a tenth of the squared error."""
    losses = [100.0, 60.0, 10.0, 9.0]
    assert path_of(losses, null_shares=[{3: 0.11}, {3: 0.12}]).candidates == [3]
    assert path_of(losses, null_shares=[{3: 0.08}, {3: 0.09}]).candidates == []
    assert path_of(losses, null_shares=[{3: 0.05}, {3: 0.18}]).candidates == [3]  # up to .149 within the error
    assert path_of(losses, null_shares=[{3: 0.05}, {3: 0.06}]).candidates == []
    assert path_of(losses, null_shares=[{4: 0.01}]).candidates == [3]


def test_more_is_asked_of_a_number_that_is_not_the_widest():
    """Ratios 4 and 3 of two numbers, the first of which is now narrow, now wide in groupless tables."""
    losses = [1000.0, 600.0, 500.0, 400.0, 300.0, 266.7, 233.3]
    ratios = path_of(losses).ratios
    assert list(ratios) == [2, 5]
    assert ratios == {2: pytest.approx(4.0), 5: pytest.approx(3.0, rel=1e-3)}
    for log_spreads, expected in ((SPREADS + 1.0, []), (WEAK_SPREADS + 0.5, [5])):
        null = float(3.0 / np.exp(0.1 * log_spreads))
        others = [{2: ratio, 4: null, 6: null} for ratio in (1.2, 3.5)]
        _, spread = path_of(losses, null_ratios=[other | {5: null} for other in others])._null_logarithms(5)
        same_spread = [other | {5: float(3.0 / np.exp(spread * log_spreads))} for other in others]
        assert path_of(losses, null_ratios=same_spread).candidates == expected


@given(losses_lists, st.integers(1, 8))
def test_what_is_beyond_the_path_only_limits_ratios(losses, length):
    whole = path_of(losses)
    path = path_of(losses[:length], beyond=losses[length:])
    assert path.intervals == path_of(losses[:length]).intervals
    assert path.ratios == {K: ratio for K, ratio in whole.ratios.items() if min(length, len(losses)) >= K}
    assert path.best <= length
    assert path.best in path.intervals


def test_more_groups_that_do_not_help_make_an_interval_endless():
    assert path_of([100.0, 70.0, 20.0, 20.0]).ratios == {3: np.inf}
    assert path_of([100.0, 70.0, 20.0]).ratios == {}
    assert path_of([100.0, 70.0, 20.0], beyond=[20.0]).ratios == {3: np.inf}


@given(losses_lists, st.sampled_from([0, 1]), null_tables)
def test_plain_values_survive_json(losses, smallest, null_ratios):
    path = path_of(losses, smallest, null_ratios=null_ratios)
    read = json.loads(json.dumps(path.to_dict(), allow_nan=False))
    assert read["n_components"] == path.n_components.tolist()
    assert read["sse"] == path.sse.tolist()
    ends = {item["K"]: (item["low"], np.inf if item["high"] is None else item["high"]) for item in read["intervals"]}
    assert ends == path.intervals
    assert {item["K"]: item["ratio"] or np.inf for item in read["ratios"]} == path.ratios
    assert (read["best"], read["candidates"]) == (path.best, path.candidates)
    assert read["words"] == str(path)


def test_an_endless_interval_is_null_in_json():
    plain = path_of([100.0, 70.0, 41.0, 0.0]).to_dict()
    assert plain["best"] == 4
    assert plain["ratio"] is None
    assert path_of([5.0]).to_dict()["ratio"] is None


def test_the_picture_shows_intervals_and_errors():
    path = path_of([100.0, 60.0, 10.0, 9.0])
    numbers, errors = path.plot().axes
    drawn = {int(line.get_ydata()[0]): tuple(line.get_xdata()) for line in numbers.lines}
    assert drawn == {1: (45.0, 450.0), 3: (1.0, 45.0), 4: (0.1, 1.0)}
    assert numbers.get_xscale() == "log"
    assert list(errors.lines[0].get_ydata()) == [100.0, 60.0, 10.0, 9.0]
    assert [text.get_text() for text in errors.get_legend().get_texts()] == ["best: 3"]


def test_the_picture_of_a_path_of_one():
    for losses in ([5.0], [0.0]):
        numbers, errors = path_of(losses, smallest=0).plot().axes
        assert list(errors.lines[0].get_xdata()) == [0]
        assert len(numbers.lines) == 1


def test_the_picture_goes_where_it_should():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(2, 1)
    assert path_of([100.0, 60.0, 10.0, 9.0]).plot(axes) is figure
    assert all(axis.lines for axis in axes)


def test_the_answer_in_words():
    losses = [100.0, 60.0, 10.0, 9.0, 8.5]
    assert str(path_of(losses)) == "3 groups: best for penalties from 1 to 45 (45x)."
    told = str(path_of([100.0, 20.0, 17.0, 14.0, 13.9]))
    assert told == "4 groups: best for penalties from 0.1 to 3 (30x). Also plausible: 2."
    path = path_of(losses, null_ratios=[{3: 2.0}], n_outliers=7)
    assert f"(45x; groupless data: up to {path.null_ratio:.3g}x)." in str(path)
    assert str(path).endswith("7 rows in tiny groups were set aside.")
    assert str(path_of(losses, null_ratios=[{3: 200.0}])).startswith("No groups found")


@given(losses_lists, null_tables)
def test_weak_evidence_is_warned_of(losses, null_ratios):
    path = path_of(losses, null_ratios=null_ratios)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_weak_evidence(path)
    strong = path.candidates and path.ratio >= path.threshold(path.best, WEAK_SPREADS)
    assert len(caught) == bool(path.ratios and not strong)
    for warning in caught:
        assert warning.category is WeakEvidenceWarning
        assert str(path) in str(warning.message)
