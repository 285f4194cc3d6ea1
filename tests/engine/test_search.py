"""The loop of the search, on a landscape simple enough to know everything about."""

from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from madbayes.engine.blocks import Workers
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.search import (
    ABREAST,
    STRIDE,
    Lineage,
    Search,
    Solution,
    Stronger,
    _end_where_others_did,
    _waits,
    is_lower,
    report,
    search,
)
from madbayes.estimators.progress import Budget


def at(position, value):
    return Solution(np.array([position]), np.zeros((1, 1)), float(value))


@dataclass
class Hills:
    """Whole numbers on a line, each with a height; a polish walks downhill to the nearest bottom."""

    is_tiny = False
    enough = 40

    heights: list
    starts: list
    harder: dict = field(default_factory=dict)  # where the stronger polish leads
    hardest: dict = field(default_factory=dict)  # and a second one
    nearer: dict = field(default_factory=dict)  # and the one of what is nearly as good
    rough: int | None = None  # where lineages with a rough start begin
    coarse: "Hills | None" = None  # the same places at other heights
    floor: float = -np.inf  # nothing is known to be lower than this
    began: int = 0
    bests: list = field(default_factory=list)  # that lineages had when they made a move

    def cost(self, K):
        return 1.0

    def is_final(self, solution):
        return solution.value <= self.floor

    def start(self, rng, is_brief=False):
        self.began += 1
        return self.polish(np.array([self.starts[rng.integers(len(self.starts))]]))

    def polish(self, groups):
        here = int(np.clip(groups[0], 0, len(self.heights) - 1))
        while True:
            beside = [i for i in (here - 1, here + 1) if 0 <= i < len(self.heights)]
            lower = min(beside, key=lambda i: self.heights[i])
            if self.heights[lower] >= self.heights[here]:
                return at(here, self.heights[here])
            here = lower

    wanted, crossing_pass = "a place", 1

    def accepts(self, groups):
        return True

    def crossed(self, solution, other):
        return None

    def taken_over(self, solution):
        return self.polish(solution.groups)

    def polish_near(self, solution, best):
        self.bests.append(best)
        return self.polish(np.array([self.nearer.get(int(solution.groups[0]), solution.groups[0])]))

    @property
    def stronger(self):
        def to(places):
            return lambda solution, rng: self.polish(
                np.array([places.get(int(solution.groups[0]), solution.groups[0])])
            )

        return [Stronger("harder", 0.25, to(self.harder)), Stronger("hardest", 1.0, to(self.hardest))]

    def rough_start(self, rng):
        return None if self.rough is None else np.array([self.rough])


def jump(landscape, solution, rng):
    return solution.groups + rng.integers(-3, 4)


def stay(landscape, solution, rng):
    return None


MOVES = {"jump": jump, "stay": stay}
# Places in which lineages of all kinds find something: rough ones and others, in the table and in a coarse one.
ROUGHLY = {"rough": 9, "hardest": {9: 14, 14: 1, 1: 3}}
SMOOTH = [5, 4, 3, 2, 2, 1, 1, 3, 5, 5, 5, 4, 4, 4, 3, 4]
HEIGHTS = [5, 3, 4, 2, 6, 1, 7, 0, 9, 8, 9, 9, 9, 9, 5, 9]


def seeds_from(seed=0):
    return (int(np.random.default_rng([seed, i]).integers(2**31)) for i in count())


def run(landscape, moves=MOVES, seed=0, n_jobs=1, **options):
    given, budget = options.pop("given", ()), options.pop("budget", None)
    with Workers(n_jobs) as workers:
        return search(landscape, moves, Search(**options), seeds_from(seed), workers, given=given, budget=budget)


def known(lineages):
    """All that is to be the same in two runs."""
    return [
        (run.seed, run.value, run.best.groups.tobytes(), run.trace, run.moves, run.ended, run.tried, run.kept)
        for run in lineages
    ]


@dataclass
class Looks:
    """A budget that is spent after some looks at the clock."""

    looks: int
    n_runs: int = 0
    interrupted: bool = False

    def is_spent(self):
        self.looks -= 1
        return self.interrupted or self.looks <= 0

    def interrupt(self):
        self.interrupted = True

    def advance(self, share, lineages):
        assert share >= 0


def hills_of(kind):
    """With rough starts, with a coarse table, with both or neither."""
    rough = ROUGHLY if "rough" in kind else {}
    coarse = Hills(SMOOTH, list(range(16)), **rough) if "coarse" in kind else None
    return Hills(HEIGHTS, list(range(16)), **rough, coarse=coarse)


kinds_of_hills = st.sampled_from(["plain", "rough", "coarse", "rough and coarse"])


@given(st.integers(0, 2**16), st.integers(1, 15), kinds_of_hills)
def test_lineages_are_what_they_say(seed, agreement, kind):
    """What scouts keep is lower in their own table, and does not show in the trace."""
    lineages = run(hills_of(kind), seed=seed, agreement=agreement)
    values = [lineage.value for lineage in lineages]
    assert values == sorted(values)
    for lineage in lineages:
        assert lineage.value == HEIGHTS[lineage.best.groups[0]] == lineage.trace[-1]
        assert all(after < before for before, after in zip(lineage.trace, lineage.trace[1:], strict=False))
        assert lineage.moves == sum(lineage.tried.values())
        assert lineage.scout is not None or len(lineage.trace) == 1 + sum(lineage.kept.values())
        assert lineage.kept["stay"] == 0
        assert all(lineage.kept[name] <= lineage.tried[name] for name in lineage.kept)
        assert lineage.seconds > 0
    assert len({lineage.seed for lineage in lineages}) == len(lineages)


@given(st.integers(0, 2**16), kinds_of_hills)
def test_report_adds_the_lineages_up(seed, kind):
    """Moves of scouts are moves of the lineages that they scout for."""
    lineages = run(hills_of(kind), seed=seed, max_lineages=12, agreement=1000 if kind != "plain" else 4)
    told = report(lineages)
    assert told["lineages"] == len(lineages)
    assert told["moves"] == sum(lineage.moves for lineage in lineages)
    assert told["agreeing"] == sum(lineage.ended and lineage.value == lineages[0].value for lineage in lineages)
    for name in (*MOVES, "harder", "hardest"):
        assert told["tried"].get(name, 0) == sum(lineage.tried[name] for lineage in lineages)
        assert told["kept"].get(name, 0) == sum(lineage.kept[name] for lineage in lineages)


@given(st.integers(0, 2**16), kinds_of_hills)
def test_the_same_lineages_for_any_number_of_threads(seed, kind):
    one, two = (known(run(hills_of(kind), seed=seed, n_jobs=n_jobs, agreement=12)) for n_jobs in (1, 2))
    assert one == two


def test_the_same_lineages_of_features_for_any_number_of_threads():
    X = np.random.default_rng(0).normal(size=(40, 3))
    one, two = (
        known(run(FeatureLandscape.of(X, 5.0), feature_moves, n_jobs=n_jobs, max_moves=200)) for n_jobs in (1, 2)
    )
    assert one == two


@pytest.mark.parametrize("agreement", [1, 2, 3, 5, 8])
def test_it_ends_when_lineages_agree(agreement):
    lineages = run(Hills([3, 2, 1, 0], [0, 1, 2, 3]), agreement=agreement, max_lineages=None)
    assert report(lineages)["agreeing"] >= agreement
    assert len(lineages) < agreement + 2 * agreement + 2  # generations double: the last began because it was needed


@pytest.mark.parametrize("max_lineages", [1, 2, 3, 7])
def test_it_ends_with_the_last_lineage_allowed(max_lineages):
    landscape = Hills(HEIGHTS, list(range(16)))
    lineages = run(landscape, agreement=1000, max_lineages=max_lineages)
    assert len(lineages) == max_lineages
    assert landscape.began == max_lineages
    assert all(lineage.ended for lineage in lineages)


@pytest.mark.parametrize("max_moves", [1, 10, 50, 333])
def test_it_ends_with_the_last_move_allowed(max_moves):
    one, two = (
        run(Hills(HEIGHTS, list(range(16))), agreement=1000, max_lineages=None, max_moves=max_moves, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    assert report(one)["moves"] == max_moves
    assert known(one) == known(two)


@example(0, 7, "rough and coarse")
@given(st.integers(0, 2**16), st.integers(1, 30), kinds_of_hills)
def test_what_a_budget_cut_short_is_made_again_by_its_number_of_moves(seed, looks, kind):
    options = {"seed": seed, "agreement": 5 if kind == "plain" else 1000, "max_lineages": None}
    cut = run(hills_of(kind), budget=Looks(looks), **options)
    again = run(hills_of(kind), max_moves=report(cut)["moves"], **options)
    assert known(again) == known(cut)


def test_numbers_may_be_those_of_numpy():
    assert Search(max_lineages=np.int32(2), max_moves=np.int64(7)).max_lineages == 2
    for bad in (0, -1, 1.0, "many"):
        with pytest.raises(ValueError, match="max_lineages"):
            Search(max_lineages=bad)


def test_it_ends_at_once_where_nothing_can_be_lower():
    landscape = Hills([3, 2, 1, 0], [0], floor=0.0)
    lineages = run(landscape, agreement=1000, max_lineages=None)
    assert report(lineages)["moves"] == 0
    assert lineages[0].value == 0


def test_auto_is_what_the_landscape_finds_enough():
    landscape = Hills(HEIGHTS, list(range(16)))
    landscape.enough = 9
    assert len(run(landscape, agreement=1000)) == 9


def test_slow_lineages_let_others_begin():
    """From the left every move gains a little for a long time; from the right one is at the bottom."""
    heights = [3000 - i if i % 2 else 9000 for i in range(2001)] + [9000, 0]

    def right(landscape, solution, rng):
        return solution.groups + 2

    class Sides(Hills):
        def start(self, rng, is_brief=False):
            self.began += 1
            return self.polish(np.array([1 if self.began <= ABREAST else 2002]))

    lineages = run(Sides(heights, [1]), {"right": right}, agreement=2, max_lineages=None)
    assert lineages[0].value == 0
    assert max(lineage.moves for lineage in lineages) < 200  # a thousand to the end


def test_only_lineages_that_try_nothing_stronger_begin_with_a_brief_start():
    """They come first, and most tables are easy."""
    asked = []

    class Asked(Hills):
        def start(self, rng, is_brief=False):
            asked.append(is_brief)
            return super().start(rng)

    run(Asked([0, 1], [0]), {"stay": stay}, max_lineages=10, agreement=1000)
    assert asked == [True] * ABREAST + [False] * (10 - ABREAST)


def test_a_lineage_ends_after_so_many_moves_without_success():
    """One group: the patience of three, and as many again."""
    lineages = run(Hills([0, 1], [0]), {"stay": stay}, patience=7, max_lineages=3, agreement=1000)
    assert [lineage.moves for lineage in lineages] == [28, 28, 28]
    assert all(lineage.trace == [0.0] for lineage in lineages)


def test_generations_double_until_they_are_large():
    for agreement, expected in ((6, 2 + 4), (7, 2 + 4 + 8), (31, 2 + 4 + 8 + 16 + 16), (47, 2 + 4 + 8 + 3 * 16)):
        assert len(run(Hills([0, 1], [0]), agreement=agreement, max_lineages=None)) == expected


def test_the_stronger_polish_comes_when_the_matter_is_not_easy():
    landscape = Hills([1, 9, 9, 9, 9, 0], [0], harder={0: 5})
    easy = run(landscape, {"stay": stay}, max_lineages=ABREAST, agreement=1000)
    assert all(lineage.value == 1 for lineage in easy)
    lineages = run(landscape, {"stay": stay}, max_lineages=2 * ABREAST, agreement=1000)
    told = report(lineages)
    assert lineages[0].value == 0
    hard = [lineage for lineage in lineages if lineage.strength]
    assert 0 < len(hard) <= ABREAST
    assert all(lineage.trace == [1.0, 0.0] for lineage in hard)
    assert told["kept"]["harder"] == len(hard)
    assert told["tried"]["harder"] == 2 * len(hard)  # once more where it led


@given(st.integers(0, 2**16), st.lists(st.integers(0, 15), min_size=1, max_size=3))
def test_given_solutions_are_never_made_worse(seed, positions):
    given = [at(i, HEIGHTS[i]) for i in positions]
    lineages = run(Hills(HEIGHTS, list(range(16))), seed=seed, given=given, max_lineages=len(given))
    first = {int(lineage.seed): lineage for lineage in lineages}
    for seed_of, solution in zip(seeds_from(seed), given, strict=False):
        assert first[seed_of].trace[0] == solution.value
        assert first[seed_of].value <= solution.value
    assert lineages[0].value <= min(solution.value for solution in given)


def test_lineages_from_given_solutions_come_first():
    landscape = Hills(HEIGHTS, list(range(16)))
    lineages = run(landscape, given=[at(7, 0)], max_lineages=1)
    assert landscape.began == 0
    assert [lineage.value for lineage in lineages] == [0.0]


def test_gains_that_are_rounding_do_not_count():
    assert not is_lower(at(1, 1.0 - 1e-13), at(0, 1.0))
    assert is_lower(at(1, 1.0 - 1e-11), at(0, 1.0))


def test_anything_is_better_than_no_solution():
    """With a given number of groups, assignments that cannot be filled up are worth nothing: infinitely bad."""
    assert not is_lower(at(1, np.inf), at(0, np.inf))
    assert is_lower(at(1, 5.0), at(0, np.inf))


@dataclass
class Places(Hills):
    """Two digits, each of which is right or wrong wherever the other is; starts have one of them right."""

    heights: list = field(default_factory=list)
    starts: list = field(default_factory=lambda: [(0, 1), (1, 0)])

    def start(self, rng, is_brief=False):
        self.began += 1
        return self.polish(np.array(self.starts[self.began % len(self.starts)]))

    def polish(self, groups):
        return Solution(groups, np.zeros((1, 1)), float(groups.sum()))

    def polish_near(self, solution, best):
        return solution

    @property
    def stronger(self):
        return []

    wanted, crossing_pass = "a place", 1

    def accepts(self, groups):
        return True

    def crossed(self, solution, other):
        return np.minimum(solution.groups, other.groups) if (other.groups < solution.groups).any() else None


def test_the_best_lineage_takes_what_is_better_in_others():
    """No start has both digits right, and no move changes anything."""
    landscape = Places(starts=[(0, 3), (2, 0)])
    lineages = run(landscape, {"stay": stay}, max_lineages=2, agreement=1000)
    assert [lineage.trace for lineage in lineages] == [[2.0, 0.0], [3.0]]
    assert (lineages[0].kept["cross"], lineages[1].tried["cross"]) == (1, 0)


def test_a_lineage_goes_on_from_what_it_took():
    patience, options = 7, {"patience": 7, "max_lineages": 2, "agreement": 1000}
    best, other = run(Places(starts=[(0, 3), (2, 0)]), {"stay": stay}, **options)
    assert other.moves == 4 * patience
    assert best.moves == 2 * other.moves + best.tried["cross"]


def test_lineages_of_the_same_value_have_nothing_to_take():
    lineages = run(Places(starts=[(0, 1), (1, 0)]), {"stay": stay}, max_lineages=4, agreement=1000)
    assert sum(lineage.tried["cross"] for lineage in lineages) == 0


def test_what_is_taken_counts_as_a_move():
    """Two lineages of 28 moves and one that takes; then no move is left."""
    options = {"patience": 7, "max_lineages": None, "agreement": 1000}
    for max_moves, crossings in ((56, 0), (57, 1), (60, 1)):
        lineages = run(Places(starts=[(0, 3), (2, 0)]), {"stay": stay}, max_moves=max_moves, **options)
        assert report(lineages)["moves"] == max_moves
        assert report(lineages)["tried"].get("cross", 0) == crossings


@pytest.mark.parametrize("looks", [1, 2, 5])
def test_it_ends_when_the_budget_is_spent(looks):
    budget = Looks(looks)
    lineages = run(Hills(HEIGHTS, [0]), {"stay": stay}, budget=budget, patience=10**6, max_lineages=None)
    assert budget.n_runs == len(lineages) == ABREAST
    assert [lineage.moves for lineage in lineages] == [looks * STRIDE] * ABREAST


def test_a_time_limit_still_gives_a_solution():
    lineages = run(Hills(HEIGHTS, list(range(16))), budget=Budget(1e-9), agreement=10**6, max_lineages=None)
    assert len(lineages) == ABREAST
    assert np.isfinite(lineages[0].value)


def interrupting(after):
    """A move that the user interrupts at some time."""
    calls = count()

    def move(landscape, solution, rng):
        if next(calls) == after:
            raise KeyboardInterrupt
        return jump(landscape, solution, rng)

    return {"jump": move}


def test_without_a_budget_an_interrupt_is_raised():
    with pytest.raises(KeyboardInterrupt):
        run(Hills(HEIGHTS, list(range(16))), interrupting(40), agreement=1000)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_keeps_what_is_there(n_jobs):
    landscape, budget = Hills(HEIGHTS, list(range(16))), Budget(None)
    with pytest.warns(UserWarning, match="interrupted: keeping the best of"):
        lineages = run(landscape, interrupting(40), budget=budget, n_jobs=n_jobs, agreement=1000)
    assert 0 < len(lineages) <= landscape.began
    for lineage in lineages:
        assert lineage.value == HEIGHTS[lineage.best.groups[0]]
    values = [lineage.value for lineage in lineages]
    assert values == sorted(values)


def test_an_interrupt_before_there_is_anything_is_raised():
    class Slow(Hills):
        def start(self, rng, is_brief=False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Slow(HEIGHTS, [0]), budget=Budget(None))


def test_an_interrupt_keeps_a_given_solution():
    """It is there before the first move is made."""
    try:
        with pytest.warns(UserWarning, match="interrupted"):
            lineages = run(Hills(HEIGHTS, [0]), interrupting(0), budget=Budget(None), given=[at(3, 2)])
    except KeyboardInterrupt:
        pytest.fail("the given solution is lost")
    assert_array_equal(lineages[0].best.groups, [3])


def test_errors_in_moves_are_raised():
    def broken(landscape, solution, rng):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Hills(HEIGHTS, [0]), {"broken": broken}, budget=Budget(None))


def test_a_move_of_ones_own():
    """Only who steps right by two gets from the first bottom to the last."""
    heights = [0 - i if i % 2 else 10 for i in range(9)]
    lineages = run(Hills(heights, [1]), {"right": lambda landscape, solution, rng: solution.groups + 2}, agreement=1)
    assert lineages[0].best.groups[0] == 7
    assert lineages[0].trace == [-1.0, -3.0, -5.0, -7.0]


def test_what_moves_lead_to_is_polished_further_if_it_is_near():
    """From height 3 the move leads to 4, and from there to 0; the landscape is told the lineage's best."""
    hills = Hills([3, 9, 4, 9, 0], [0], nearer={2: 4})
    (lineage,) = run(hills, {"two": lambda landscape, solution, rng: np.array([2])}, max_lineages=1)
    assert lineage.trace == [3.0, 0.0]
    assert lineage.kept == {"two": 1}
    assert set(hills.bests) == {3.0, 0.0}


def test_a_shake_follows_every_move_in_place_of_the_polish_of_what_is_near():
    """It hears of the landscape, of what the move led to, and of the best value; what it finds counts as the move's."""
    hills, heard = Hills([3, 9, 9, 2, 9, 0], [0]), []

    def shake(landscape, solution, best, rng):
        assert landscape is hills
        heard.append((int(solution.groups[0]), best))
        return landscape.polish(solution.groups + 2)

    lineage = Lineage(0, shake=shake)
    lineage.advance(hills, {"three": lambda landscape, solution, rng: np.array([3])}, 4, 2)
    assert heard == [(3, 3.0), (3, 0.0)]
    assert lineage.trace == [3.0, 0.0]
    assert lineage.kept == {"three": 1}
    assert hills.bests == []


def test_the_stronger_polish_comes_once_moves_have_not_helped_for_some_time():
    """And once more after it has helped."""
    hills, lineage = Hills([1, 9, 9, 9, 9, 0], [0], harder={0: 5}), Lineage(0, strength=1)
    wait = lineage.patience(4) // 4
    tried = []
    for _ in range(2 * wait + 3):
        lineage.advance(hills, {"stay": stay}, 4, 1)
        tried.append(lineage.tried["harder"])
    assert tried == [0] * wait + [1] * (wait + 1) + [2, 2]
    assert lineage.trace == [1.0, 0.0]
    lineage.finish(hills, {"stay": stay}, 4)
    assert lineage.tried["harder"] == 2


def test_stronger_polishes_come_in_turn():
    """The second one at the end, and the first again wherever that has led."""
    heights = [2, 9, 9, 1, 9, 9, 0]
    hills, lineage = Hills(heights, [0], harder={3: 6}, hardest={0: 3}), Lineage(0, strength=2)
    lineage.finish(hills, {"stay": stay}, 4)
    assert lineage.trace == [2.0, 1.0, 0.0]
    assert lineage.tried["harder"] == 3
    assert lineage.tried["hardest"] == 2
    weaker = Lineage(0, strength=1)
    weaker.finish(hills, {"stay": stay}, 4)
    assert weaker.trace == [2.0]
    assert weaker.tried["hardest"] == 0


def test_lineages_end_where_others_did_that_tried_as_much():
    """Those of a generation make all their moves, as it tries more than the last, and the others end at once."""
    lineages = run(Hills([0, 1], [0]), {"stay": stay}, max_lineages=30, agreement=1000)
    patience = Lineage(0).patience(4)
    assert [lineage.strength for lineage in lineages] == [0] * 2 + [1] * 4 + [2] * 24
    assert [lineage.moves for lineage in lineages] == [patience] * 6 + [patience + 1] * 8 + [STRIDE] * 16


def test_a_lineage_with_a_rough_start_makes_the_strongest_polish_at_every_move():
    """It ends as soon as that does not help."""
    heights = [1, 9, 2, 9, 1.5, 9, 0, 9, -1]
    hills = Hills(heights, [0], harder={0: 8}, hardest={2: 4, 4: 6}, rough=2)
    lineage = Lineage(0, strength=2, is_rough=True)
    lineage.finish(hills, {"stay": stay}, 4)
    assert lineage.trace == [2.0, 1.5, 0.0]
    assert lineage.tried == {"hardest": 3}
    assert lineage.kept == {"hardest": 2}
    assert not hills.bests


@pytest.mark.parametrize(("ended", "goes_on", "expected"), [(0, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 0)])
def test_others_go_on_where_one_with_a_rough_start_ended(ended, goes_on, expected):
    """It has made no moves; where others ended, which look around as well, it ends, too."""
    done = Lineage(0, at(0, 1.0), 2, bool(ended), ended=True)
    lineage = Lineage(1, at(0, 1.0), 2, bool(goes_on))
    _end_where_others_did([lineage], [done, lineage])
    assert lineage.ended == expected


@pytest.mark.parametrize("is_rough", [False, True])
def test_lineages_wait_for_better_ones_of_their_kind(is_rough):
    """Steps that look around are few and long."""
    better, lineage = Lineage(0, at(0, 0.0), moves=3, ended=True), Lineage(1, at(1, 1.0), moves=5, is_rough=is_rough)
    assert _waits(lineage, [better, lineage], Search(), 1) != is_rough


def test_lineages_wait_for_better_ones_whose_scouts_were_rough():
    rough = Lineage(0, at(0, 1.02), 2, scout=Lineage(1, at(0, 1.0), is_rough=True, ended=True), moves=2, ended=True)
    for value, waits in ((1.05, True), (1.01, False)):
        usual = Lineage(2, at(2, value), moves=8)
        assert _waits(usual, [rough, usual], Search(), 3) == waits


@pytest.mark.parametrize("kind", ["coarse", "rough and coarse"])
@pytest.mark.parametrize("after", [30, 100, 200, 300])
def test_moves_that_scouts_made_before_an_interrupt_are_counted(kind, after):
    """Crossing and all stronger polishes are among those tried."""
    made, hills = [0], hills_of(kind)

    def interrupting(landscape, solution, rng):
        made[0] += 1
        if made[0] == after:
            raise KeyboardInterrupt
        return jump(landscape, solution, rng)

    lineages = run(hills, {"interrupting": interrupting}, agreement=1000, budget=Looks(10**6))
    told = report(lineages)
    assert made[0] == after
    assert told["moves"] == sum(told["tried"].values())


def test_without_a_rough_start_a_lineage_is_like_others():
    lineages = [Lineage(0, strength=2, is_rough=is_rough) for is_rough in (True, False)]
    for lineage in lineages:
        lineage.finish(Hills(HEIGHTS, [1]), {"jump": jump}, 4)
    assert known(lineages[:1]) == known(lineages[1:])
    assert not lineages[0].is_rough


@pytest.mark.parametrize(("max_lineages", "n_rough"), [(14, 4), (30, 4 + 14), (46, 4 + 14 + 14)])
def test_lineages_have_rough_starts_where_all_others_come_to_the_same(max_lineages, n_rough):
    """Of 8 in the third generation every second one, of 16 in the next all but two.

    Nothing leads from the usual start to the bottom.
    """
    heights = [1, 9, 9, 9, 9, 0]
    lineages = run(Hills(heights, [0], rough=5), {"stay": stay}, max_lineages=max_lineages, agreement=1000)
    assert sorted(lineage.trace for lineage in lineages) == [[0.0]] * n_rough + [[1.0]] * (max_lineages - n_rough)


@pytest.mark.parametrize(("height", "n_rough"), [(1.005, 4 + 14), (1.1, 4)])
def test_rough_starts_go_on_only_if_one_has_come_close(height, n_rough):
    heights = [1, 9, 9, 9, 9, height]
    lineages = run(Hills(heights, [0], rough=5), {"stay": stay}, max_lineages=30, agreement=1000)
    assert sum(lineage.began_roughly for lineage in lineages) == n_rough


def test_a_lineage_begins_where_its_scout_ends():
    """The scout sees other heights; what it finds counts by those of the table, and moves go on from there."""
    coarse = Hills([5, 4, 3, 2, 1, 0, 9, 9], [0])
    hills = Hills([2, 9, 9, 9, 9, 1, 9, 0], [0], coarse=coarse)
    scout = Lineage(0)
    lineage = Lineage(1, scout=scout, tried=scout.tried, kept=scout.kept)
    lineage.advance(hills, {"stay": stay}, 4, 0)
    assert (lineage.value, lineage.trace, lineage.scouting) == (1.0, [1.0], scout)
    while lineage.scouting is not None:
        lineage.advance(hills, {"stay": stay}, 4)
    assert (scout.value, lineage.value, lineage.ended) == (0.0, 1.0, False)
    assert (lineage.moves, scout.moves) == (scout.patience(4),) * 2
    lineage.finish(hills, {"ahead": lambda landscape, solution, rng: solution.groups + 2}, 4)
    assert lineage.trace == [1.0, 0.0]
    assert lineage.kept == {"ahead": 1}
    assert hills.began == 0


@pytest.mark.parametrize(("height", "goes_on"), [(1.5, False), (0.5, True)])
def test_what_a_scout_has_found_goes_on_only_if_it_is_the_best(height, goes_on):
    other, scout = Lineage(0, at(0, 1.0)), Lineage(1, at(1, 0.0), ended=True)
    lineage = Lineage(2, at(1, height), scout=scout)
    _end_where_others_did([lineage], [other, lineage])
    assert lineage.ended != goes_on
    assert not other.ended


def test_scouts_end_where_others_did():
    """The lineage ends with it if it is not the best: the other one has taken over the same."""
    done, scout = Lineage(0, at(3, 1.0), ended=True), Lineage(1, at(3, 1.0))
    lineages = [Lineage(2, at(4, 7.0), scout=done, ended=True), Lineage(3, at(5, 8.0), scout=scout)]
    _end_where_others_did(lineages[1:], lineages)
    assert scout.ended
    assert lineages[1].ended


@pytest.mark.parametrize("own", [{"moves": MOVES}, {"start": lambda *_: np.array([0])}, {}])
def test_what_the_user_has_made_sees_the_table_itself(own):
    hills = hills_of("rough and coarse")
    options = Search(agreement=1000, max_lineages=12, **own)
    lineages = search(hills, MOVES, options, seeds_from(), Workers(1))
    assert any(lineage.scout is not None for lineage in lineages) == (not own)
    assert (hills.coarse.began > 0) == (not own)


def test_starts_of_ones_own_are_never_rough():
    heights = [1, 9, 9, 9, 9, 0]
    own = run(
        Hills(heights, [0], rough=5), {"stay": stay}, max_lineages=14, agreement=1000, start=lambda *_: np.array([0])
    )
    assert all(lineage.trace == [1.0] for lineage in own)


def test_the_best_of_a_tiny_table_is_hardened_when_it_has_ended():
    """Once for each value; where that leads on, the lineage goes on, and where it is the last word, all end."""
    hills = Hills(HEIGHTS, [1], hardest={1: 3, 3: 7}, floor=0.0)
    hills.is_tiny = True
    lineages = run(hills, {"stay": stay})
    assert lineages[0].value == 0
    assert lineages[0].kept == {"hardest": 2}
    assert sum(lineage.tried["hardest"] for lineage in lineages) == 2
    assert len(lineages) == ABREAST
    assert known(run(hills, {"stay": stay}, n_jobs=2)) == known(lineages)


def test_hardening_is_a_move_that_is_counted():
    hills = Hills(HEIGHTS, [1], harder={1: 3})
    hills.is_tiny = True
    for most in range(40):
        lineages = run(hills, {"stay": stay}, max_moves=most)
        assert sum(lineage.moves for lineage in lineages) == most
