"""Solutions for one number of groups after the other: their errors fall, and their numbers are right."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from madbayes.engine.blocks import Workers
from madbayes.engine.climb import (
    EASY,
    ENOUGH,
    FRESH,
    FRESH_EACH,
    ON_LINE,
    PAYING_LOOKS,
    PAYS,
    SHAKES,
    STILL_PAYS,
    WIDTH,
    Climb,
    Effort,
    _is_alike,
    solve_path,
)
from madbayes.engine.null import groupless
from madbayes.engine.path import PenaltyPath
from madbayes.engine.path_search import CLUSTERS, FEATURES, _is_in_doubt, _stretches, find_path
from madbayes.engine.search import Search, Solution, search
from madbayes.model import bp_means_objective, dp_means_objective
from madbayes.model.priors import one_hot

KINDS = {"clusters": CLUSTERS, "features": FEATURES}
tables = st.tuples(st.integers(1, 9), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-6, 6).map(lambda i: i / 2))
)
by_kind = pytest.mark.parametrize("kind", KINDS)


def linear_gaussian(N, D, K, sigma=0.5, p=0.5, seed=0):
    g = np.random.default_rng(seed)
    Z = g.random((N, K)) < p
    A = g.normal(size=(K, D))
    return Z @ A + sigma * g.normal(size=(N, D))


def blobs(K, N, D, distance, seed=0):
    """Groups of equal size, no two centres nearer than ``distance`` standard deviations."""
    g = np.random.default_rng(seed)
    centres = np.zeros((0, D))
    while len(centres) < K:
        new = g.uniform(-2 * distance, 2 * distance, size=D)
        if all(np.linalg.norm(new - centre) > distance for centre in centres):
            centres = np.vstack([centres, new])
    return np.repeat(centres, N // K, axis=0) + g.normal(size=(K * (N // K), D))


def error_of(kind, X, solution, weights=None):
    """Squared error by the objective, at no price."""
    if kind == "clusters":
        return dp_means_objective(0.0)(X, one_hot(solution.groups, solution.K), solution.A, weights)
    return bp_means_objective(0.0)(X, solution.groups, solution.A, weights)


def solve(kind, X, most, weights=None, seed=0, n_jobs=1, is_over=lambda: False, before=(), effort=Effort()):  # noqa: B008
    with Workers(n_jobs) as workers:
        return solve_path(
            KINDS[kind].landscape(X, 0.0, weights), KINDS[kind].moves, most, effort=effort, before=before,
            ways=KINDS[kind].ways, rng=np.random.default_rng(seed), workers=workers, is_over=is_over,
        )  # fmt: skip


def find(kind, X, weights=None, cap=None, limit=16, min_weight=3.0, n_null=3, seed=0, n_jobs=1, effort=Effort()):  # noqa: B008
    with Workers(n_jobs) as workers:
        return find_path(
            KINDS[kind], X, weights, cap=cap, limit=limit, min_weight=min_weight, effort=effort._replace(n_null=n_null),
            rng=np.random.default_rng(seed), workers=workers,
        )  # fmt: skip


@by_kind
@settings(max_examples=25)
@given(tables, st.integers(1, 5), st.booleans())
def test_paths_are_consecutive_and_their_errors_fall(kind, X, most, weighted):
    weights = np.random.default_rng(0).uniform(0.1, 3, size=len(X)) if weighted else None
    solutions = solve(kind, X, most, weights)
    smallest = 1 if kind == "clusters" else 0
    total = float(((1.0 if weights is None else weights[:, None]) * X**2).sum())
    assert [solution.K for solution in solutions] == list(range(smallest, smallest + len(solutions)))
    assert most >= solutions[-1].K
    for solution in solutions:
        assert solution.value == pytest.approx(error_of(kind, X, solution, weights), rel=1e-9, abs=1e-9 * total)
    values = [solution.value for solution in solutions]
    assert all(after <= before + 1e-12 * total for before, after in pairwise(values))
    # It goes on as long as it may, unless there is nothing left.
    distinct = len(np.unique(X, axis=0))
    assert most == solutions[-1].K or values[-1] <= 1e-12 * total
    assert len(solutions) <= distinct + 1


@by_kind
def test_it_stops_when_nothing_is_left(kind):
    """Two groups and no noise: features need two as well, for none is the sum of others."""
    X = np.repeat([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]], [7, 5], axis=0)
    solutions = solve(kind, X, 16)
    assert solutions[-1].K == 2
    assert solutions[-1].value == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("seed", range(6))
def test_features_without_noise_are_counted(seed):
    """As many columns as features, so that fewer never explain everything; more are not looked for."""
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.vstack([np.eye(3), rng.integers(2, size=(15, 3))])) @ rng.normal(size=(3, 3))
    solutions = solve("features", X, 8)
    assert [solution.K for solution in solutions] == [0, 1, 2, 3]
    assert solutions[-1].value <= 1e-12 * solutions[0].value
    assert find("features", X, limit=8, n_null=0).best == 3


@pytest.mark.parametrize("seed", range(6))
def test_a_path_ends_with_the_fewest_features_that_explain_all(seed):
    """However many the first way up took."""
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(60, 6)) @ rng.normal(size=(6, 8))
    solutions = solve("features", X, 12)
    assert solutions[-1].K == 6
    assert solutions[-1].value <= 1e-12 * solutions[0].value


@by_kind
def test_solutions_with_hardly_other_groups_are_alike(kind):
    """In any order, with one row in twenty elsewhere; not with one group in place of another."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    Z = (
        np.eye(4, dtype=np.uint8)[labels][:, :3]
        if kind == "clusters"
        else rng.integers(2, size=(60, 3), dtype=np.uint8)
    )

    def made(Z):
        groups = Z.argmax(axis=1) if kind == "clusters" else Z
        return Solution(groups, np.zeros((3, 1)), 1.0)

    moved, other = Z.copy(), Z.copy()
    moved[:3] = np.roll(moved[:3], 1, axis=1)
    if kind == "clusters":
        other[:10], other[30:40] = np.roll(other[:10], 1, axis=1), np.roll(other[30:40], 2, axis=1)
    else:
        other[:, 0] = rng.integers(2, size=60)
    assert _is_alike(made(Z), made(Z[:, [2, 0, 1]]))
    assert _is_alike(made(Z), made(moved))
    assert not _is_alike(made(Z), made(other))


@by_kind
def test_a_constant_table_is_over_at_once(kind):
    solutions = solve(kind, np.full((6, 2), 3.0), 16)
    assert [solution.K for solution in solutions] == ([1] if kind == "clusters" else [0, 1])
    assert [solution.K for solution in solve(kind, np.zeros((6, 2)), 16)] == [1 if kind == "clusters" else 0]


@by_kind
def test_it_can_be_over_earlier(kind):
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert len(solve(kind, X, 8, is_over=lambda: True)) == 1
    calls = iter([False, False] + [True] * 100)
    assert len(solve(kind, X, 8, is_over=lambda: next(calls))) == 3


@by_kind
def test_the_same_bits_for_any_number_of_threads(kind):
    X = blobs(3, 45, 2, 4)
    one, two = (solve(kind, X, 5, n_jobs=n_jobs) for n_jobs in (1, 2))
    for first, second in zip(one, two, strict=True):
        assert first.value == second.value
        assert_array_equal(first.groups, second.groups)
        assert_array_equal(first.A, second.A)


def separate(kind, X, K, seed):
    """A search of its own for a number of groups, which knows nothing of its neighbours."""
    rng = np.random.default_rng(seed)
    seeds = iter(lambda: int(rng.integers(2**31)), None)
    with Workers(1) as workers:
        landscape = KINDS[kind].landscape(X, 0.0, None).with_K(K)
        return search(landscape, KINDS[kind].moves, Search(max_lineages=10), seeds, workers)[0].value


@cache
def path_of_six_features():
    X = linear_gaussian(200, 50, 6)
    return X, solve("features", X, 9)


@pytest.mark.parametrize("K", range(1, 9))
def test_features_are_no_worse_than_separate_searches(K):
    X, solutions = path_of_six_features()
    assert solutions[K].K == K
    assert solutions[K].value <= 1.001 * separate("features", X, K, seed=K)


@pytest.mark.parametrize(("table_seed", "seed"), [(0, 1), (1, 0)])
def test_sparse_features_are_no_worse_than_separate_searches(table_seed, seed):
    """Which of eight planted features to leave out is another choice for each number: a single way up or down errs."""
    X = linear_gaussian(150, 20, 8, 0.3, 0.2, seed=table_seed)
    solutions = solve("features", X, 9, seed=seed)
    for K in range(4, 9):
        assert solutions[K].value <= 1.001 * separate("features", X, K, seed=K)


def test_no_planted_feature_is_missed_at_the_end():
    """All numbers come down from the largest. From one start of it, this path misses one of twelve sparse features."""
    X = linear_gaussian(300, 40, 12, 0.5, 0.15)
    planted = np.random.default_rng(0).random((300, 12)) < 0.15
    fitted = planted @ np.linalg.lstsq(planted.astype(float), X, rcond=None)[0]
    solutions = solve("features", X, 13, seed=5, effort=Effort(work=0.0))
    assert solutions[12].value <= 1.001 * ((X - fitted) ** 2).sum()


@pytest.fixture
def starts(monkeypatch):
    """Errors that starts of the largest number lead to, in this order, and those that were asked for."""
    found, asked, whole = [], [], Climb.improved

    def improved(self, here, starts=(), n_fresh=0, **options):
        if not (found and n_fresh):
            return whole(self, here, starts, n_fresh, **options)
        asked.append(found.pop(0))
        return [self.pools[-1][0]._replace(value=asked[-1])]

    monkeypatch.setattr(Climb, "improved", improved)
    return found, asked


@pytest.mark.parametrize(
    ("errors", "enough"),
    [([100.0, 1.0], 1), ([50.0, 50.9, 1.0], 2), ([50.0, 40.0, 30.0, 30.3, 1.0], 4), ([60.0, 50, 40, 30, 20, 10, 5], 6)],
)
def test_the_largest_number_is_begun_until_two_agree(starts, errors, enough):
    """What the way up has led to is one of them; here its error is 100."""
    starts[0].extend(errors)
    with Workers(1) as workers:
        landscape = FEATURES.landscape(linear_gaussian(30, 6, 2), 0.0, None)
        climb = Climb(landscape, FEATURES.moves, Effort(), np.random.default_rng(0), workers, FEATURES.ways, bool, [])
        climb.pools = [[landscape.with_K(2).polish(np.eye(30, 2))._replace(value=100.0)]]
        climb.crown(0)
    assert starts[1] == errors[:enough]
    assert climb.pools[0][0].value == min(100.0, *errors[:enough])


@pytest.fixture
def halves():
    """A climb of six planted features, a solution that has four of them, one that has four others, and their error."""
    g = np.random.default_rng(0)
    Z = g.integers(2, size=(200, 6), dtype=np.uint8)
    X = Z @ g.normal(size=(6, 50)) + 0.5 * g.normal(size=(200, 50))

    def with_some(features):
        others = g.integers(2, size=(200, 2), dtype=np.uint8)
        groups = np.hstack([Z[:, features], others])
        A = np.linalg.lstsq(groups, X, rcond=None)[0]
        return Solution(groups, A, float(((X - groups @ A) ** 2).sum()))

    with Workers(1) as workers:
        landscape = FEATURES.landscape(X, 0.0, None)
        climb = Climb(landscape, FEATURES.moves, Effort(), np.random.default_rng(0), workers, FEATURES.ways, bool, [])
        one, other = with_some([0, 1, 2, 3]), with_some([2, 3, 4, 5])
        climb.pools = [[one]]
        yield climb, one, other, landscape.with_K(6).polish(Z).value


def test_crossed_solutions_of_a_number_have_the_features_that_either_has(halves):
    climb, one, other, planted = halves
    assert min(found.value for found in climb.crossed(0, [other])) == pytest.approx(planted)
    assert climb.work >= 100 * climb.at(0).cost(6)
    work = climb.work
    assert climb.crossed(0, [one]) == []  # it has nothing that it does not have itself
    assert climb.work == work


def test_starts_of_the_largest_number_are_crossed_with_what_is_known(halves, monkeypatch):
    climb, _, other, planted = halves
    monkeypatch.setattr(Climb, "improved", lambda self, here, n_fresh: [other])
    climb.crown(0)
    assert climb.pools[0][0].value == pytest.approx(planted)


def test_one_start_is_enough_where_nothing_is_left(starts):
    """It may lead down elsewhere; but errors that are rounding need not agree."""
    starts[0].extend([1e-25, 1e-26])
    with Workers(1) as workers:
        landscape = FEATURES.landscape(np.repeat(np.eye(3), 8, axis=0), 0.0, None)
        climb = Climb(landscape, FEATURES.moves, Effort(), np.random.default_rng(0), workers, FEATURES.ways, bool, [])
        climb.pools = [[landscape.with_K(3).polish(np.repeat(np.eye(3), 8, axis=0))._replace(value=1e-24)]]
        climb.crown(0)
    assert starts == ([1e-26], [1e-25])


def values(solutions):
    return np.array([solution.value for solution in solutions])


@by_kind
def test_more_work_raises_no_error(kind):
    """What is done with little work is done first with more, too."""
    X = np.random.default_rng(0).normal(size=(60, 8))
    least, little, more = (values(solve(kind, X, 6, effort=Effort(work=work))) for work in (0.0, 1e7, 1e9))
    for fewer, better in ((least, little), (little, more)):
        assert (better <= fewer).all()
    assert more.sum() < least.sum()


@pytest.fixture
def times(monkeypatch):
    """The numbers that are looked at and the way, each time along the path."""
    times, whole = [], Climb.go_along

    def go_along(self, places, ways, *args):
        times.append((list(places), ways))
        return whole(self, places, ways, *args)

    monkeypatch.setattr(Climb, "go_along", go_along)
    return times


def test_without_work_there_is_only_the_first_way_down(times, monkeypatch):
    come_down, lasts = Climb.come_down, []
    monkeypatch.setattr(Climb, "come_down", lambda self, last: lasts.append(last) or come_down(self, last))
    solve("features", linear_gaussian(60, 10, 3), 6, effort=Effort(work=0.0))
    assert (lasts, times) == ([6], [])


def test_what_does_not_pay_is_done_once(monkeypatch, times):
    """Up and down in turn; again only while hardly anything was done."""
    monkeypatch.setattr("madbayes.engine.climb.STILL_PAYS", 1e9)
    monkeypatch.setattr("madbayes.engine.climb.LEAST", 0.0)
    solve("features", linear_gaussian(60, 10, 3), 5, effort=Effort(work=np.inf))
    up, down = ([1, 2, 3, 4, 5], FEATURES.ways.later), ([4, 3, 2, 1], FEATURES.ways.later)
    assert times == [up]
    times.clear()
    monkeypatch.setattr("madbayes.engine.climb.LEAST", 1e12)
    solve("features", linear_gaussian(60, 10, 3), 5, effort=Effort(work=np.inf))
    assert times == [up, down, up]
    assert FEATURES.ways.rounds == 3


@pytest.fixture
def gains(monkeypatch):
    """What the ways along the path bring after the first, each for so many operations; nothing else is looked at."""
    gains, work, taken = [], [0.0], []

    def go_along(self, places, ways, *args):
        taken.append(ways)
        self.work += work[0]
        return gains[len(taken) - 1] if gains else 1.0

    monkeypatch.setattr(Climb, "go_along", go_along)
    monkeypatch.setattr(Climb, "come_down", lambda self, last: vars(self).update(work=self.work + work[0]))
    for name in ("settle", "straighten"):
        monkeypatch.setattr(Climb, name, lambda self, *args, **pay: None)
    return gains, work, taken


@pytest.mark.parametrize(("share", "allowed", "expected"), [(0.6, 9.0, 3), (0.6, 1.5, 2), (0.6, 1.0, 1), (1.1, 9.0, 0)])
def test_after_enough_work_only_what_has_paid_goes_on(gains, share, allowed, expected):
    """Here every time pays, and is such a share of what is enough."""
    gains[1][0] = share * ENOUGH
    solve("features", linear_gaussian(60, 10, 3), 5, effort=Effort(work=allowed * ENOUGH))
    assert gains[2] == [FEATURES.ways.later] * expected


def test_the_path_is_not_gone_along_again_when_that_has_brought_hardly_anything(gains, monkeypatch):
    monkeypatch.setattr("madbayes.engine.climb.LEAST", -1.0)
    gains[0].extend([1.6 * STILL_PAYS, 0.9 * STILL_PAYS, 1.0])
    solve("features", linear_gaussian(60, 10, 3), 5, effort=Effort(work=np.inf))
    assert len(gains[2]) == 2


@pytest.fixture
def doubtful():
    """A climb whose errors are these, from no feature on; the last number is too large for starts of its own."""
    X, errors = linear_gaussian(60, 12, 4), [100.0, 80.0, 70.0, 55.0, 50.0, 45.0]
    with Workers(1) as workers:
        landscape = FEATURES.landscape(X, 0.0, None)
        ways = FEATURES.ways._replace(max_fresh=4)
        climb = Climb(landscape, FEATURES.moves, Effort(), np.random.default_rng(0), workers, ways, bool, [])
        solutions = [landscape.simplest(), *(landscape.with_K(K).start(np.random.default_rng(0)) for K in range(1, 6))]
        climb.pools = [[one._replace(value=error)] for one, error in zip(solutions, errors, strict=True)]
        yield climb


def test_errors_above_the_line_between_their_neighbours_are_in_doubt(doubtful):
    assert [doubtful.doubt(i) for i in range(1, 5)] == pytest.approx([-5 / 30, 2.5 / 25, -5 / 20, 0.0])
    assert doubtful.doubt(5) == -np.inf  # it has one neighbour only
    doubtful.pools[3] = [doubtful.pools[3][0]._replace(value=0.0)]
    assert doubtful.doubt(3) == doubtful.doubt(4) == -np.inf  # one more group explains nothing more


@pytest.mark.parametrize("after", [60.0, 65.0])
def test_a_number_between_equal_errors_is_in_great_doubt(doubtful, after):
    """Or between errors that rise: there is nothing to divide by."""
    doubtful.pools[1] = [doubtful.pools[1][0]._replace(value=60.0)]
    doubtful.pools[3] = [doubtful.pools[3][0]._replace(value=after)]
    assert 1e6 < doubtful.doubt(2) < np.inf


@pytest.fixture
def looks(monkeypatch):
    """Places that are looked at, in this order; what that brings, by the place; and how it is done."""
    places, brings, how = [], {}, set()

    def look(self, i, neighbours, ways, n_fresh):
        assert neighbours == [i - 1, i + 1]
        places.append(i)
        how.add((ways, n_fresh))
        self.work += 1.0
        return brings.get(i, 0.0)

    monkeypatch.setattr(Climb, "look", look)
    return places, brings, how


def test_numbers_are_less_in_doubt_when_looks_bring_nothing(doubtful, looks, monkeypatch):
    """Doubts are -5/30, 1/10, -1/4 and 0, and here each look that brings nothing takes 0.06 from one."""
    monkeypatch.setattr("madbayes.engine.climb.FADE", 0.06)
    doubtful.effort = Effort(work=8.5)
    doubtful.settle(range(1, 5), ("shaken",), 0, looks=10**9, pays=0.1, recent=1.0)
    assert looks[0] == [2, 2, 4, 2, 4, 2, 4, 2, 1]
    assert looks[2] == {(("shaken",), 0)}
    looks[0].clear()
    looks[1][4], doubtful.work = 0.01, 0.0
    doubtful.settle(range(1, 5), (), 2, looks=10**9, pays=0.1, recent=1.0)
    assert looks[0] == [2, 2, *[4] * 7]


@pytest.mark.parametrize(("n_looks", "recent", "expected"), [(1, 2.0, 1), (1, 10.0, 3), (10, 2.0, 7), (10, 0.9, 0)])
def test_looks_where_it_is_in_doubt_end_when_they_do_not_pay(doubtful, looks, n_looks, recent, expected):
    """What was brought before is forgotten by and by: exp(-0.7) is the first that is below a half."""
    doubtful.settle(range(1, 5), (), 1, looks=n_looks, pays=1.0, recent=recent)
    assert len(looks[0]) == expected


def test_looks_where_it_is_in_doubt_can_be_stopped(doubtful, looks):
    answers = iter([False, False, True])
    doubtful.is_over = lambda: next(answers)
    doubtful.settle(range(1, 5), (), 1, looks=10**9, pays=0.1, recent=1.0)
    assert len(looks[0]) == 2


def test_errors_above_the_line_are_looked_at_and_all_that_is_kept_swaps_where_they_are_on_it(
    doubtful, looks, monkeypatch
):
    """That of two features is above it, that of four just on it; that of five is the last, and has no line."""
    swapped = []
    doubtful.pools[4] = [doubtful.pools[4][0]._replace(value=50.0 + i) for i in range(WIDTH)]
    monkeypatch.setattr(Climb, "taken", lambda self, i, *args: swapped.append((i, args[0], len(args[2]))) or [])
    doubtful.straighten(5)
    assert looks[0] == [2]
    assert looks[2] == {((FEATURES.ways.first,), 0)}
    assert swapped == [(4, "swap", WIDTH), (2, "swap", 1)]
    swapped.clear()
    doubtful.pools[4] = [doubtful.pools[4][0]._replace(value=50.0 - 11 * ON_LINE)]
    doubtful.straighten(5)
    assert swapped == [(2, "swap", 1)]


@pytest.mark.parametrize("change", [{"work": 1e99}, {"is_over": lambda: True}], ids=["no work left", "stopped"])
def test_errors_above_the_line_are_not_looked_at(doubtful, looks, change):
    vars(doubtful).update(change)
    doubtful.straighten(5)
    assert looks[0] == []


@pytest.mark.parametrize(
    ("errors", "tried"),
    [([50.0], 1), ([51.0, 52.0, 50.0], 3), ([51.0] * 9, EASY), ([49.0, 50.0, 49.0], 3)],
    ids=["at once", "then", "never", "the best that is known by then"],
)
def test_a_number_is_easy_if_a_start_of_its_own_leads_to_the_best(doubtful, monkeypatch, errors, tried):
    """Here four features, of which the best error is 50."""
    made, found = [], iter(errors)

    def improved(self, here, n_fresh):
        made.append((here.K, n_fresh))
        return [self.pools[4][0]._replace(value=next(found))]

    monkeypatch.setattr(Climb, "improved", improved)
    assert doubtful.is_easy(4) == (tried < EASY)
    assert made == [(4, 1)] * tried
    assert doubtful.pools[4][0].value == min(50.0, *errors[:tried])


@pytest.mark.parametrize(("work", "easy", "is_asked", "goes_on"), [
    (ENOUGH, True, False, True), (1.1 * ENOUGH, True, True, False), (1.1 * ENOUGH, False, True, True),
    (3 * ENOUGH, True, False, True),
])  # fmt: skip
def test_after_enough_work_only_hard_tables_are_gone_on_with(doubtful, monkeypatch, work, easy, is_asked, goes_on):
    """The largest number that may be chosen tells: the last but one. With no work left it does not matter."""
    asked, gone = [], []
    doubtful.work, doubtful.effort = work, Effort(work=2 * ENOUGH)
    for name in ("crown", "come_down", "settle", "straighten", "go_along"):
        monkeypatch.setattr(Climb, name, lambda self, *args, **pay: 0.0)
    monkeypatch.setattr(Climb, "is_easy", lambda self, i: asked.append(i) or easy)
    monkeypatch.setattr(Climb, "go_on", lambda self, last, enough: gone.append((last, enough)) or 0.0)
    doubtful.look_again()
    assert asked == [4] * is_asked
    assert gone == [(5, np.inf)] * goes_on


def test_fresh_starts_are_for_small_numbers_and_lineages_for_all_but_the_largest(doubtful, looks, monkeypatch):
    """Both where it is in doubt; what going along the path has brought tells how long to go on.

    A single feature is found by the starts it had.
    """
    settled, results = [], {"crown": 0, "come_down": None, "go_along": 0.25, "straighten": None}
    for name, result in results.items():
        monkeypatch.setattr(Climb, name, lambda self, *args, result=result: result)

    def settle(self, places, ways, n_fresh, **pay):
        settled.append((list(places), ways, n_fresh, pay))

    monkeypatch.setattr(Climb, "settle", settle)
    for max_fresh, small in ((2, [2]), (5, [2, 3, 4])):
        doubtful.ways, doubtful.brought = doubtful.ways._replace(max_fresh=max_fresh), 0.125
        doubtful.look_again()
        assert settled.pop(0) == (small, (), FRESH, {"looks": PAYING_LOOKS, "pays": PAYS, "recent": PAYS + 0.125})
        pay = {"looks": 5, "pays": STILL_PAYS, "recent": 0.25}
        assert settled.pop(0) == ([2, 3, 4], FEATURES.ways.later, 0, pay)
    for change in ({"work": 1e99}, {"work": 0.0, "ways": doubtful.ways._replace(rounds=0)}):
        vars(doubtful).update(change)
        doubtful.look_again()
        assert settled[-1][-1]["recent"] == 0.0


@pytest.mark.parametrize(("max_first", "max_fresh"), [(3, 2), (1, 4), (np.inf, np.inf)])
def test_on_the_way_down_small_numbers_have_lineages_and_fresh_starts(doubtful, monkeypatch, max_first, max_fresh):
    looks = []
    monkeypatch.setattr(Climb, "look", lambda self, *args: looks.append(args))
    doubtful.ways = doubtful.ways._replace(max_first=max_first, max_fresh=max_fresh)
    doubtful.come_down(5)
    assert [(i, nearby) for i, nearby, _, _ in looks] == [(4, [5]), (3, [4]), (2, [3]), (1, [2])]
    assert [i for i, _, ways, _ in looks if ways == (FEATURES.ways.first,)] == [
        i for i in (4, 3, 2, 1) if i <= max_first
    ]
    assert [n for i, _, _, n in looks] == [FRESH if i <= max_fresh else 0 for i in (4, 3, 2, 1)]
    looks.clear()
    doubtful.is_over = lambda: True
    doubtful.come_down(5)
    assert looks == []


def test_features_are_borrowed_for_the_best_solution_and_swapped_in_it(doubtful, monkeypatch):
    taken = []
    doubtful.pools[3] = [doubtful.pools[3][0]._replace(value=55.0 + i) for i in range(4)]
    monkeypatch.setattr(Climb, "keep", lambda *args: None)
    monkeypatch.setattr(Climb, "taken", lambda self, i, name, take, some: taken.append((name, list(some))) or [])
    doubtful.look(3, [], (), 0)
    assert [(name, [one.value for one in some]) for name, some in taken] == [("borrow", [55.0]), ("swap", [55.0])]


@pytest.mark.parametrize(("i", "n_fresh", "expected"), [(1, 9, FRESH_EACH), (3, 9, 9), (3, 10, 9), (4, 10, 10)])
def test_there_are_no_more_fresh_starts_than_so_many_a_feature(doubtful, i, n_fresh, expected):
    begun = []
    doubtful.ways = doubtful.ways._replace(begin=lambda here, best, rng: begun.append(here.K) or here.start(rng))
    doubtful.begun(i, n_fresh)
    assert FRESH_EACH == 3
    assert begun == [i] * expected


def test_what_fresh_starts_bring_is_summed_up(doubtful, monkeypatch):
    """Beside that of the way from neighbours, which brings errors down by a fifth first, and of ways that follow."""
    values = iter([44.0, 33.0, 22.0])
    monkeypatch.setattr(Climb, "visit", lambda self, i, neighbour: self.keep(i, lower(self, i)))
    monkeypatch.setattr(Climb, "begun", lambda self, i, n_fresh: lower(self, i))
    monkeypatch.setattr(Climb, "followed", lambda self, way, i: lower(self, i))

    def lower(climb, i):
        return [climb.pools[i][0]._replace(value=next(values))]

    doubtful.ways = FEATURES.ways._replace(borrow=None, swap=None, refine=None)
    assert doubtful.look(3, [4], ("moves",), 2) == pytest.approx(1 - 22 / 55)
    assert doubtful.brought == pytest.approx(1 - 33 / 44)


def test_all_that_is_kept_is_refined_once(doubtful):
    """What that leads to is, too."""
    refined = []

    def refine(here, solution, rng):
        refined.append((here.K, solution.value))
        return solution._replace(value=54.0) if solution.value == 57.0 else solution

    doubtful.ways = FEATURES.ways._replace(refine=refine, borrow=None)
    best, other = doubtful.pools[3][0], doubtful.at(3).polish(np.eye(60, 3, dtype=np.uint8))
    doubtful.pools[3] = [best, other._replace(value=57.0)]
    for _ in range(2):
        doubtful.look(3, [], (), 0)
    assert refined == [(3, 55.0), (3, 57.0)]
    assert doubtful.pools[3][0].value == 54.0


def test_lineages_are_shaken_from_any_solution_that_is_kept(doubtful, monkeypatch):
    begun = []
    doubtful.pools[3] = [doubtful.pools[3][0]._replace(value=55.0 + i) for i in range(4)]

    def improved(self, here, starts, **options):
        (start,) = starts
        begun.append(start.value)
        assert options == {"is_strong": False, "shake": FEATURES.ways.shake}
        return []

    monkeypatch.setattr(Climb, "improved", improved)
    for _ in range(200):
        doubtful.followed("shaken", 3)
    times = [begun.count(55.0 + i) for i in range(4)]
    assert sum(times) == 200
    assert times[0] > 100  # about half of them and a quarter of the others
    assert min(times) > 10


def test_whatever_moves_lead_to_is_shaken(doubtful):
    """So many times, however few features there are."""
    shaken, start = [], doubtful.at(3).start(np.random.default_rng(0))
    doubtful.pools[3] = [start]
    doubtful.ways = FEATURES.ways._replace(shake=lambda landscape, found, *args: shaken.append(found.K) or found)
    doubtful.moves = {"stay": lambda landscape, solution, rng: solution.groups}
    (found,) = doubtful.followed("shaken", 3)
    assert shaken == [3] * SHAKES
    assert found.value == start.value


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_no_gain(seed, monkeypatch):
    """Without noise, and more features than were planted: nothing is left but rounding."""
    gains, whole = [], Climb.go_along

    def go_along(self, *args):
        before, negligible = values(self.solutions), 1e-12 * self.solutions[0].value
        gains.append(whole(self, *args))
        shares = 1 - values(self.solutions) / before
        assert gains[-1] == pytest.approx(shares[before > negligible].sum())
        assert (before <= negligible).any()
        return gains[-1]

    monkeypatch.setattr(Climb, "go_along", go_along)
    rng = np.random.default_rng(seed)
    solve("features", rng.integers(2, size=(60, 6)) @ rng.normal(size=(6, 8)), 9)
    assert len(gains) > 2


@by_kind
def test_each_way_leads_to_as_many_groups_as_there_were(kind):
    X = linear_gaussian(60, 12, 4)
    before = solve(kind, X, 6, effort=Effort(again=False))
    here, moves, ways = KINDS[kind].landscape(X, 0.0, None), KINDS[kind].moves, KINDS[kind].ways
    with Workers(1) as workers:
        climb = Climb(here, moves, Effort(), np.random.default_rng(0), workers, ways, bool, [[one] for one in before])
        K = before[3].K
        for way in (ways.first, *ways.later):
            found = climb.followed(way, 3)
            assert found, way
            assert {one.K for one in found} == {K}
        assert [one.K for one in climb.begun(3, 2)] == [K] * (2 if kind == "features" else 1)
        for name, take in (("borrow", ways.borrow), ("swap", ways.swap)):
            last, pool = len(before) - 1, climb.pools[3]
            assert [one.K for one in climb.taken(3, name, take, pool)] == ([K] if kind == "features" else [])
            assert climb.taken(3, name, take, pool) == []  # it was tried
            assert climb.taken(last, name, take, climb.pools[last]) == []  # there is nobody to take from
    assert climb.work > 0


def test_groupless_tables_are_the_same_however_long_the_path_is_looked_for(monkeypatch):
    drawn, draw = [], groupless
    monkeypatch.setattr(
        "madbayes.engine.path_search.groupless", lambda *args: drawn.append(draw(*args)) or drawn[-1].copy()
    )
    X = linear_gaussian(80, 10, 3, 1.5)
    for work in (0.0, 1e9):
        find("features", X, limit=5, n_null=2, effort=Effort(work=work))
    half = len(drawn) // 2
    assert half
    for one, other in zip(drawn[:half], drawn[half:], strict=True):
        assert_array_equal(one, other)


@by_kind
def test_a_path_goes_on(kind):
    X = blobs(3, 45, 2, 4)
    short = solve(kind, X, 4)
    longer = solve(kind, X, 6, before=short)
    assert [solution.K for solution in longer] == [*(solution.K for solution in short), 5, 6]
    for before, after in zip(short, longer[: len(short)], strict=True):
        assert after.value <= before.value
    assert len(short) == len(solve(kind, X, 4))  # what was given is not changed


def test_clusters_are_no_worse_than_separate_searches():
    X = blobs(5, 150, 3, 5)
    solutions = solve("clusters", X, 8)
    for K in range(2, 9):
        assert solutions[K - 1].value <= 1.001 * separate("clusters", X, K, seed=K)


# Choosing the number


@cache
def table(name):
    g = np.random.default_rng(0)
    if name == "cloud":
        return g.normal(size=(150, 1)) * [3.0, 2.0, 1.0, 2.0] + g.normal(size=(150, 4))
    if name == "lognormal":
        return np.exp(g.normal(size=(150, 4)))
    return g.normal(size=(150, 4))


@by_kind
@pytest.mark.parametrize("name", ["cloud", "lognormal", "noise"])
def test_tables_without_groups(kind, name):
    path = find(kind, table(name), limit=6, n_null=8)
    assert path.candidates == []
    assert path.best == (1 if kind == "clusters" or path.for_k(1).groups.all() else 0)
    assert str(path).startswith("No groups found")


def test_tiny_groups_are_set_aside():
    X = blobs(8, 160, 4, 10)
    far = np.random.default_rng(1).normal(size=(5, 4))
    far *= 200 / np.linalg.norm(far, axis=1, keepdims=True) * np.arange(1, 6)[:, None]
    path = find("clusters", np.vstack([X, far]))
    assert (path.best, path.n_outliers) == (8, 5)
    assert str(path).startswith("8 groups")
    assert "5 rows in tiny groups were set aside" in str(path)
    assert path.losses[0] < ((far - X.mean(axis=0)) ** 2).sum()  # they are no part of the losses
    assert find("clusters", X).n_outliers == 0


def test_tiny_groups_are_kept_if_they_are_many():
    """All of eight groups of four rows: more than a tenth of the table."""
    path = find("clusters", blobs(8, 32, 4, 12), min_weight=5.0, n_null=1)
    assert (path.best, path.n_outliers) == (8, 0)


def test_groups_of_groups():
    centres = np.repeat([[-60.0, 0.0, 0.0], [60.0, 0.0, 0.0]], 4, axis=0)
    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * 6
    X = np.repeat(centres + np.tile(corners, (2, 1)), 20, axis=0)
    path = find("clusters", X + np.random.default_rng(0).normal(size=X.shape))
    assert {2, 8} <= set(path.candidates)
    assert path.best in (2, 8)


def test_planted_features_are_counted():
    path = find("features", linear_gaussian(100, 20, 4), limit=6, n_null=2)
    assert path.candidates[0] == path.best == 4


@by_kind
def test_the_path_ends_at_the_cap_which_is_judged_by_one_more(kind):
    X = blobs(4, 60, 3, 9)
    for cap in (1, 2, 3):
        path = find(kind, X, cap=cap, n_null=1)
        assert path.n_components[-1] == len(path.solutions[-1].A) == cap
        assert len(path.beyond) == 1
        assert cap >= path.best
    path = find("clusters", X, cap=4, n_null=1)
    assert path.best == 4
    assert path.intervals[4][0] == 0  # no price is too low for the last number
    assert np.isfinite(path.ratio)
    assert find("clusters", X, cap=9, limit=5, n_null=1).n_components[-1] == 9


def test_the_path_goes_on_where_its_end_is_steepest():
    """Twenty groups where eight are looked at."""
    path = find("clusters", blobs(20, 160, 6, 14), limit=8, n_null=3)
    assert path.candidates == [20]
    assert path.n_components[-1] == 32


@by_kind
def test_the_path_of_a_cloud_does_not_go_on(kind):
    assert find(kind, table("cloud"), limit=4).n_components[-1] == 4


def test_without_groupless_tables_nothing_is_compared():
    path = find("clusters", blobs(3, 45, 2, 9), limit=5, n_null=0)
    assert path.null_ratios == ()
    assert path.null_ratio is None
    assert path.best == 3


@by_kind
def test_null_ratios_are_for_numbers_that_could_be_chosen(kind):
    path = find(kind, table("cloud")[:60], limit=6)
    assert len(path.null_ratios) == 3
    for ratios in path.null_ratios:
        assert all(K >= 2 and ratio >= 1 for K, ratio in ratios.items())
    assert path.null_ratio == path.null_reach(max(path.ratios, key=lambda K: path.ratios[K]))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([5], [(3, 7)]), ([2], [(0, 4)]), ([9, 3], [(1, 5), (7, 11)]), ([3, 8], [(1, 10)]), ([3, 4], [(1, 6)]), ([], [])],
)
def test_groupless_tables_are_looked_at_around_the_numbers_in_question(numbers, expected):
    assert _stretches(numbers) == expected


@by_kind
def test_null_shares_are_those_left_of_groupless_tables(kind):
    """They fall with the number of groups, and real groups leave less."""
    X = blobs(4, 160, 3, 12) if kind == "clusters" else linear_gaussian(160, 12, 4)
    path = find(kind, X)
    assert path.best == 4
    for shares in path.null_shares:
        assert set(shares) >= {2, 3, 4, 5, 6}
        assert all(shares[K + 1] < shares[K] for K in range(2, 6))
        assert shares[4] > path.sse[4 - path.n_components[0]] / path.sse[0]


@pytest.mark.parametrize(("width", "doubt"), [(0.3, False), (0.45, True), (0.8, True), (0.95, False)])
def test_intervals_about_as_wide_as_they_must_be_are_in_doubt(width, doubt):
    """Eight groupless tables with logarithms of 0.3 and -0.3 for two groups and 0 for three: a spread of 0.21.

    The root of (8 * 0.3^2 + 3 * 0.1^2) / (14 + 3), the last in each being what is usual. What is asked for is three of
    these, 0.63; chance makes up to 1.1 of them, 0.23.
    """
    nulls = [{2: float(np.exp(sign * 0.3)), 3: 1.0} for sign in (-1, 1) * 4]
    step = np.exp(width)
    path = PenaltyPath(np.arange(1, 5), 100 - np.array([0.0, step, 1 + step, 1.9 + step]), [None] * 4, nulls)
    assert path.contenders == [2]
    assert np.log(path.threshold(2)) == pytest.approx(3.0 * (0.75 / 17) ** 0.5)
    assert _is_in_doubt(path) == doubt


@pytest.mark.parametrize(("doubt", "n_tables"), [(False, 8), (True, 11)])
def test_more_groupless_tables_are_drawn_where_there_is_doubt(doubt, n_tables, monkeypatch):
    monkeypatch.setattr("madbayes.engine.path_search._is_in_doubt", lambda path: doubt)
    monkeypatch.setattr("madbayes.engine.path_search._is_clear", lambda path: False)
    assert len(find("features", linear_gaussian(60, 8, 3), limit=4, n_null=11).null_ratios) == n_tables


@by_kind
def test_a_few_groupless_tables_are_enough_where_all_is_clear(kind):
    X = blobs(3, 60, 2, 20) if kind == "clusters" else linear_gaussian(80, 20, 3, 0.1)
    path = find(kind, X, limit=5, n_null=20)
    assert path.best == 3
    assert len(path.null_ratios) <= 3


def test_tiny_groups_are_set_aside_one_after_the_other():
    """The far rows are so far apart that at first all others are one group."""
    far = np.array([[1e3, 0.0], [0.0, 1e4], [-1e5, 0.0]])
    path = find("clusters", np.vstack([blobs(3, 60, 2, 12), far]), limit=6, n_null=2)
    assert (path.best, path.n_outliers) == (3, 3)


@by_kind
def test_weights_are_copies_where_tables_are_compared(kind):
    """Groupless tables have as many rows as the copies, so that three rows of weight 20 are groups beyond doubt."""
    rows = np.array([[0.0, 1.0], [5.0, 0.0], [7.0, 9.0]])
    path = find(kind, rows, np.full(3, 20.0), limit=6)
    assert path.best == path.n_components[-1]
    assert path.sse[-1] <= 1e-20
    assert path.ratio == np.inf


def test_weights_are_repeated_rows_in_tiny_groups():
    """A row that weighs as much as ten is no outlier."""
    X = np.vstack([blobs(3, 60, 2, 12), [[300.0, 300.0]]])
    light, heavy = np.ones(61), np.append(np.ones(60), 10.0)
    assert find("clusters", X, light, limit=6, n_null=1).n_outliers == 1
    assert find("clusters", X, heavy, limit=6, n_null=1).n_outliers == 0
