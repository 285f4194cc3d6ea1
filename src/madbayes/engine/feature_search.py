"""The landscape of features, and the moves in it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.allocation import Table
from madbayes.engine.blocks import Workers
from madbayes.engine.bounds import singular_squares
from madbayes.engine.branching import Proof
from madbayes.engine.columns import better_column
from madbayes.engine.reductions import PARTNERS, reductions
from madbayes.engine.search import SAME, SOON, Solution, Stronger, is_lower, is_same
from madbayes.engine.seeding import seed_features
from madbayes.model import bp_means_objective
from madbayes.model.likelihoods import Weights, gram_inverse
from madbayes.paper.features import JOINT_LIMIT
from madbayes.paper.result import RELATIVE_GAIN, ROUNDING

# Branch and bound for a code of more than a few bits gives up after this many nodes; near a good solution seldom.
NODE_LIMIT = 100
# Iterations of a polish, which seldom takes more than twenty.
MAX_ITER = 100
# In starts features go beyond least squares by this share of their last step.
MOMENTUM = 0.9
# Squares this many times those about the mean leave too few digits of products, and so many none that matter.
FAR, TOO_FAR = 1e6, 1e12
# Tables of so few rows have many local optima, and cost next to nothing.
TINY = 20
# Starts of a lineage: so many from ++ seeds, from rows as features, and greedy ones. Where moves may soon do better,
# fewer of all.
STARTS, BRIEF_STARTS = (9, 3, 3), (3, 1, 1)
# Collapsed BP-means leads from what is worse by less than this factor to what is better, in noise one time in ten.
NEAR = 1.03
# From what annealing has led to it leads on to the best hardly ever if that is worse by more than this factor, nor do
# better columns.
ABOUT_BEST = 1.003
# Passes that take as long as one of collapsed BP-means, about: where all codes of a row are compared, and else.
JOINT_PASS, COLLAPSED_PASS = 6, 2
# Passes that take as long as to look for better columns, about: so many, and one more for so many rows, as its matrices
# have one number for each pair of them. With more rows than that they are too large.
COLUMNS_PASS, COLUMNS_MORE, COLUMNS_ROWS = 30, 20, 2000
# And to find the best features of two solutions.
CROSSING_PASS = 100
# Annealing begins and ends so many times as warm as the noise, and takes so many sweeps.
WARM, COLD, SWEEPS = 4.0, 0.4, 200
# Fresh starts along the path are many rather than cold: a third as many sweeps, and twice as warm at the end.
FRESH_COLD, FRESH_SWEEPS = 0.8, 70
# A shake begins as warm as something between these, from what is worse than the best by less than this factor.
SHAKE_WARM, SHAKE_COLD, SHAKE_SWEEPS, SHAKEN = (1.0, 3.0), 0.3, 100, 1.2
# A sweep takes as long as so many passes.
SWEEP_PASS = 0.75
# Of rows side by side there are so many at most, and at least so many blocks: none knows of the others' changes.
AT_ONCE, BLOCKS = 128, 4
# Other bases that are tried where nothing else helps, all there are of up to eight features.
BASES = 168
# A glance at where an allocation leads takes so many iterations.
GLANCE = 3
# For one feature less, so many of the cheapest may go, so many of the best allocations are tried, and so many kept.
GONE, REDUCTIONS, SHRUNK = 16, 16, 4
# The coarse table has so many more columns than there are features.
SPARE = 4
# In a tiny table so many random codes as well.
TRIES = 8
# Nodes of branch and bound that it is worth, too: some tenths of a second at most.
NODES = 3_000_000
# Features that may pay only together: a base does not before others are added to it.
TOGETHER = 3
# Makes columns of rows that might have a new feature, from the residuals.
Columns = Callable[[Any, NDArray, np.random.Generator], NDArray[np.uint8]]
# Rows whose residuals are compared when a feature is made of one.
ROWS = (1, 3, 8)


@dataclass
class FeatureLandscape:
    """Squared error of X = ZA with optimal codes, plus the penalty for each feature.

    Parameters
    ----------
    table : Table
        Of one block.
    penalty : float
        The price of a feature.
    K : int, optional
        Exactly so many features; any number if not given.
    cap : int, optional
        At most so many.
    unit : float
        Weights in the table are in this unit: the largest is one, so that products of weights stay finite.
    optimum : float, optional
        The lowest value there is, once it is known.
    size : int, optional
        Numbers that a pass is counted by; those in the table if not given.
    """

    table: Table
    penalty: float
    K: int | None = None
    cap: int | None = None
    unit: float = 1.0
    optimum: float | None = None
    size: int | None = None

    @classmethod
    def of(cls, X: NDArray, penalty: float, sample_weight: Weights = None, **limits: int | None) -> "FeatureLandscape":
        """The landscape of a table, all of it in one block. Equal weights are only a unit: the kernels are faster."""
        unit = 1.0 if sample_weight is None else float(np.max(sample_weight))
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64) / unit
        weights = None if weights is None or (weights == 1.0).all() else weights
        table = Table.of(X.astype(np.float64, copy=False), weights)
        return cls(table._replace(blocks=[slice(0, len(X))]), penalty, **limits, unit=unit)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weight of every row, in units of the largest."""
        return self.table.weights if self.table.weights.size else np.ones(len(self.table.X))

    @cached_property
    def squares(self) -> float:
        """Squared error without any feature, in units of the largest weight."""
        return float(self.weights @ self.table.squares)

    @cached_property
    def negligible(self) -> float:
        """Squared error that is rounding."""
        return ROUNDING * self.unit * float(self.weights.sum() * self.table.squares.max(initial=0.0))

    @cached_property
    def is_far(self) -> bool:
        """Whether the table is so far from the origin that products of rows lose the digits that matter."""
        return self.is_beyond(FAR)

    def is_beyond(self, limit: float) -> bool:
        """Whether squares of rows are so many times those about the mean."""
        return bool(self.table.squares.sum() > limit * self.spread)

    @cached_property
    def spread(self) -> float:
        """Squares about the mean."""
        X = self.table.X
        return float(((X - X.mean(axis=0)) ** 2).sum())

    @property
    def is_tiny(self) -> bool:
        """Whether there are so few rows that nothing is too dear to try."""
        return len(self.table.X) <= TINY

    def cost(self, K: int) -> float:
        """Operations of a pass over the rows with K groups, about."""
        return (self.size or self.table.X.size) * (K + 1.0)

    @property
    def enough(self) -> int:
        """Lineages that are enough where they do not agree: the larger the table, the more there may be to find."""
        return 30 if self.is_tiny else min(40, max(6, self.table.X.size // 100))

    @property
    def most(self) -> int:
        """No solution has more features than this."""
        limit = self.cap if self.K is None else self.K
        return len(self.table.X) if limit is None else min(limit, len(self.table.X))

    def residuals(self, solution: Solution) -> NDArray[np.float64]:
        """X - ZA."""
        return self.table.X - solution.groups @ solution.A

    def simplest(self) -> Solution:
        """No feature."""
        return self.descend(np.zeros((len(self.table.X), 0), dtype=np.uint8))

    def start(self, rng: np.random.Generator, is_brief: bool = False) -> Solution:
        """The best of some of different kinds, none of which is best everywhere: moves from a bad one cost more."""
        if self.most == 0:
            return self.simplest()
        n_seeded, n_rows, n_greedy = BRIEF_STARTS if is_brief and not self.is_tiny else STARTS
        grown = [self._start_greedily(rng)] if self.K is None else []
        here = self.with_K(max(1, grown[0].K)) if grown else self  # at a price, the first one tells how many
        allocations = (make(rng) for make in [here.seeded] * n_seeded + [here.of_rows] * n_rows)
        starts = [*grown, *(self.descend(Z, node_limit=0, momentum=MOMENTUM) for Z in allocations)]
        starts += [self._start_greedily(rng) for _ in range(n_greedy - len(grown))]
        starts.sort(key=_rank)
        best = min((self.polish(one.groups) for one in (starts if self.is_tiny else starts[:1])), key=_rank)
        if self.is_tiny and not self.is_exact(best):
            best = min([best, *(self._start_anywhere(best.K, rng) for _ in range(TRIES))], key=_rank)
        return best

    def seeded(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        """The start that ++ seeds make, with as many features as there shall be: good where they are sparse."""
        seeds, weights = [int(rng.integers(2**31))], self.table.weights if self.table.weights.size else None
        Z, _ = seed_features(self.table.X, self.most, seeds, sample_weight=weights, workers=Workers(1))[0]
        return Z

    def of_rows(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        """As many rows as features, each of them a feature of the rows that are nearer with it than without."""
        A = self.table.X[rng.choice(len(self.table.X), self.most, replace=False)]
        return ((A**2).sum(axis=1) < 2 * self.table.X @ A.T).astype(np.uint8)

    def rough_start(self, rng: np.random.Generator) -> NDArray[np.uint8] | None:
        """Rows as features where it is known how many there are."""
        return None if self.K is None or self.most == 0 else self.of_rows(rng)

    def start_warm(self, best: float, rng: np.random.Generator) -> Solution:
        """Where annealing leads from rows as features: good where they are few, or fewer than there might be."""
        groups = self.rough_start(rng)
        if groups is None:
            return self.simplest()
        start = self.glance(groups)
        found = self._cooled(start, np.geomspace(WARM, FRESH_COLD, FRESH_SWEEPS), self, best, rng)
        if found is start:  # nothing is left, or it is too far: its value may be rounding of products
            found = self.polish(groups)
        return found._replace(passes=start.passes + found.passes)

    @cached_property
    def coarse(self) -> "FeatureLandscape | None":
        """The rows in their leading principal directions: what features tell apart stays, and most of the noise goes.

        Passes over it are counted as those over the table, as they take nearly as long: codes take most of the time.
        """
        n_columns = self.most + SPARE
        if self.K is None or self.table.X.shape[1] <= n_columns:
            return None
        directions = np.linalg.svd(np.sqrt(self.weights)[:, None] * self.table.X, full_matrices=False)[2]
        X, weights = self.table.X @ directions[:n_columns].T, self.table.weights
        coarse = FeatureLandscape.of(np.ascontiguousarray(X), 0.0, weights if weights.size else None, K=self.K)
        return replace(coarse, size=self.table.X.size)

    def taken_over(self, solution: Solution) -> Solution:
        """What a solution of the coarse table leads to in this one."""
        return self.polish_collapsed(self.polish(solution.groups))

    def _start_anywhere(self, K: int, rng: np.random.Generator) -> Solution:
        """Random codes of about K features, all of which stay until they are as good as they get."""
        here = self.with_K(max(1, min(self.most, K + int(rng.integers(-1, 3)))) if self.K is None else self.most)
        return self.polish(here.polish(rng.integers(2, size=(len(self.table.X), here.most))).groups)

    def _start_greedily(self, rng: np.random.Generator) -> Solution:
        """One feature after the other as long as it pays, all made of rows or all of directions.

        Directions are better where noise is strong, rows where features are sparse. The first may be one of all rows.
        """
        make = (row_columns, direction_columns)[rng.integers(2)]
        solution, column = self.simplest(), np.ones(len(self.table.X), dtype=np.uint8)
        if rng.random() < 0.5:
            column = best_column(self, self.table.X, make, rng)
        best, waited = solution, 0
        while self.most > solution.K and not self.is_exact(solution) and waited < TOGETHER:
            more = self.descend(np.column_stack([solution.groups, column]), node_limit=0, momentum=MOMENTUM)
            if more.K <= solution.K:
                break
            best, waited = (more, 0) if self.is_lower(more, best) else (best, waited + 1)
            solution = more
            column = best_column(self, self.residuals(solution), make, rng)
        return best

    def is_exact(self, solution: Solution) -> bool:
        """Whether there is nothing left to explain."""
        return solution.value - self.penalty * solution.K <= self.negligible

    def is_final(self, solution: Solution) -> bool:
        """Whether it is known that nothing is lower: at a price, by what the rank of the table lets features explain.

        K features explain no more than the K largest squared singular values.
        """
        if self.optimum is not None and solution.value <= self.optimum * (1 + SAME):
            return True
        if not self.is_exact(solution):
            return solution.K == 0 and solution.value <= self.penalty and self.K is None
        if self.K is not None or not self.penalty * solution.K > 0:
            return True
        return solution.value <= self.negligible + (1 + SAME) * float(np.minimum(self.spectrum, self.penalty).sum())

    @cached_property
    def spectrum(self) -> NDArray[np.float64]:
        """Squared singular values of the table."""
        return self.unit * singular_squares(self.table.X, self.weights)

    def is_lower(self, solution: Solution, than: Solution) -> bool:
        """Whether a solution is better by more than rounding; where K is given, more features always are."""
        if self.K is not None and solution.K != than.K:
            return solution.K > than.K and not self.is_exact(than)
        return is_lower(solution, than)

    @property
    def crossing_pass(self) -> int:
        """Passes that take as long as to cross two solutions, about."""
        return CROSSING_PASS

    @property
    def wanted(self) -> str:
        """What an allocation is, in words."""
        n_rows = len(self.table.X)
        return f"an allocation Z: {n_rows} rows of zeros and ones, one for each of landscape.table.X"

    def accepts(self, groups: NDArray) -> bool:
        """Whether this is an allocation of its rows."""
        is_table = groups.ndim == 2 and len(groups) == len(self.table.X) and groups.dtype.kind in "biuf"
        return is_table and bool(((groups == 0) | (groups == 1)).all())

    def polish(self, groups: NDArray) -> Solution:
        """Best codes and least squares in turn; features that cost more than they explain are dropped.

        In a tiny table the stronger polish costs little, and leads to far better optima.
        """
        solution = self._polished(groups)
        return self.polish_collapsed(solution) if self.is_tiny else solution

    def _polished(self, groups: NDArray) -> Solution:
        return self._fill(self._thinned(self.descend(groups)))

    def _thinned(self, solution: Solution, node_limit: int | None = None) -> Solution:
        """Without the cheapest features, one after the other, as long as there are too many or one does not pay."""
        while self.most < solution.K or (self.penalty > 0 and solution.K):
            costs = deletion_costs(self, solution)
            k = int(costs.argmin())
            if self.most >= solution.K and costs[k] >= self.penalty:
                break
            solution = self.descend(np.delete(solution.groups, k, axis=1), node_limit)
        return solution

    def _fill(self, solution: Solution) -> Solution:
        """Where the number of features is given, bring it about; a solution with fewer counts only if it is exact."""
        while self.K is not None and self.most > solution.K and not self.is_exact(solution):
            R = self.residuals(solution)
            worst = R[(self.weights * (R**2).sum(axis=1)).argmax()]
            more = self.descend(np.column_stack([solution.groups, 2 * R @ worst > worst @ worst]))
            if more.K <= solution.K:
                return solution._replace(value=np.inf)
            solution = more
        return solution

    def glance(self, groups: NDArray, iterations: int = GLANCE) -> Solution:
        """About where an allocation leads."""
        return self.descend(groups, node_limit=0, max_iter=iterations, is_brief=not self.is_far)

    def descend(
        self,
        groups: NDArray,
        node_limit: int | None = None,
        momentum: float = 0.0,
        max_iter: int = MAX_ITER,
        is_brief: bool = False,
    ) -> Solution:
        """Best codes and least squares in turn until nothing changes, or for so many iterations.

        Momentum may end anywhere, and elsewhere. The value is that of residuals, or, if it is to be brief, of products.
        """
        from madbayes.engine import kernels

        (N, K), D, table = groups.shape, self.table.X.shape[1], self.table
        Z, A = np.array(groups, dtype=np.uint8, order="C"), np.empty((K, D))
        scratch = kernels.Scratch(
            np.empty(N), np.empty((N, K)), np.empty((K, K)), np.empty((K, D)), np.empty((K, K)), np.empty((K, K)),
            np.empty(K, dtype=bool),
        )  # fmt: skip
        nodes = NODE_LIMIT if node_limit is None else node_limit
        used, iterations, explained = kernels.polish(
            table.X,
            table.squares,
            table.weights,
            Z,
            A,
            K,
            RELATIVE_GAIN,
            nodes,
            max_iter,
            momentum,
            self.is_far,
            is_brief,
            scratch,
        )
        error = self.squares - explained
        if not is_brief:
            kernels.row_errors(table.X, Z, A, used, scratch.errors)  # by differences: exact solutions are exact
            error = float(self.weights @ scratch.errors)
        return Solution(Z[:, :used], A[:used], self.unit * error + self.penalty * used, iterations)

    def crossed(self, solution: Solution, other: Solution) -> NDArray:
        """The features of both that explain most together: all of them, less the cheapest, one after the other."""
        Z = np.unique(np.hstack([solution.groups, other.groups]), axis=1)
        return self._thinned(self.descend(Z, node_limit=0), node_limit=0).groups

    def parameters(self, solution: Solution) -> NDArray:
        """What the estimator learns of the groups: the features."""
        return solution.A

    def with_K(self, K: int) -> "FeatureLandscape":
        """The same table with exactly K features, at no price."""
        return FeatureLandscape(self.table, 0.0, K, unit=self.unit)

    def grown(self, solution: Solution, rng: np.random.Generator) -> list[NDArray]:
        """Allocations with one more feature."""
        R = self.residuals(solution)
        columns = np.hstack([row_columns(self, R, rng), direction_columns(self, R, rng)])
        best = explained(self, R, columns).argsort()[-3:]
        return [np.column_stack([solution.groups, column]) for column in columns[:, best].T]

    def shrunk(self, solution: Solution) -> list[NDArray]:
        """Allocations without one of the cheapest features, whose rows may have one or two others instead."""
        found = sorted(map(self.glance, self.reduced(solution, GONE, REDUCTIONS)), key=lambda one: one.value)
        return [one.groups for one in found[:SHRUNK]]

    def reduced(
        self, solution: Solution, n_gone: int, most: int, n_partners: int = PARTNERS
    ) -> list[NDArray[np.uint8]]:
        """The best allocations without one of so many of the cheapest features."""
        gone = deletion_costs(self, solution).argsort()[:n_gone]
        return reductions(self.table.X, self.weights, solution.groups, gone, most, n_partners)

    def polish_near(self, solution: Solution, best: float) -> Solution:
        """Collapsed BP-means, from what is little worse than the best; it is part of every polish of a tiny table."""
        if self.is_tiny or not best + SAME * abs(best) < solution.value < NEAR * best:
            return solution
        found = self.polish_collapsed(solution)
        return found._replace(passes=solution.passes + found.passes)

    @property
    def stronger(self) -> list[Stronger]:
        """Annealing, and other bases; for a tiny table, the best of all solutions."""
        if self.is_tiny:
            return [Stronger("prove", 1.0, self.prove)]
        return [Stronger("anneal", SOON, self.anneal), Stronger("look_around", 1.0, self.look_around)]

    def look_around(self, solution: Solution, rng: np.random.Generator) -> Solution:
        """The first lower solution that another basis leads to, of all there are in random order, or of many."""
        passes, bases = 0, all_bases(solution.K)
        for i in rng.permutation(len(bases))[:BASES]:
            found = self.polish_near(self.polish(rebased(solution, *bases[i])), solution.value)
            passes += found.passes
            if self.is_lower(found, solution):
                return found._replace(passes=passes)
        return solution._replace(passes=max(passes, 1))

    def anneal(self, solution: Solution, rng: np.random.Generator) -> Solution:
        """Collapsed BP-means, first with chance: warm enough for the codes that noise makes doubtful, and then colder.

        At the temperature of the noise, twice its variance, codes would be drawn by how probable they are. Better
        columns of what that has led to, or else of what there was, come last.
        """
        found = self._cooled(solution, np.geomspace(WARM, COLD, SWEEPS), self, np.inf, rng)
        if found is solution:
            return solution
        refined = self.refined(found if self.is_lower(found, solution) else solution, rng)
        return refined._replace(passes=found.passes + refined.passes)

    def shaken(self, solution: Solution, best: float, rng: np.random.Generator) -> Solution:
        """What a short anneal leads to, from what is not much worse than the best, and better columns if it is near it.

        Half of the time it is in the coarse table, if there is one: that is better on some tables, and all columns are
        on others.
        """
        there = self.coarse if self.coarse is not None and rng.random() < 0.5 else self
        warm = np.exp(rng.uniform(*np.log(SHAKE_WARM)))
        if not solution.value < SHAKEN * best:
            return solution
        found = self._cooled(solution, np.geomspace(warm, SHAKE_COLD, SHAKE_SWEEPS), there, best, rng)
        if found is solution:
            return solution
        passes = solution.passes + found.passes
        if found.value < ABOUT_BEST * best and not is_same(found.value, best):
            found = self.refined(found, rng)
            passes += found.passes
        return found._replace(passes=passes)

    def refined(self, solution: Solution, rng: np.random.Generator) -> Solution:
        """Where columns of Z that explain more lead, one after the other, as long as there are any."""
        passes = 1
        while solution.K and len(self.table.X) <= COLUMNS_ROWS and not self.is_exact(solution):
            passes += COLUMNS_PASS + len(self.table.X) // COLUMNS_MORE
            P = inverse_gram(self, solution)
            Z = better_column(self.residuals(solution), solution.groups, solution.A, P, self.weights, rng)
            if Z is None:
                break
            found = self.polish_collapsed(self._polished(Z))
            passes += found.passes
            if not self.is_lower(found, solution):
                break
            solution = found
        return solution._replace(passes=passes)

    def _cooled(
        self, solution: Solution, heat: NDArray, there: "FeatureLandscape", best: float, rng: np.random.Generator
    ) -> Solution:
        """What annealing in a table of the same rows leads to, at so many times the temperature of the noise there.

        It knows only products, so tables too far from the origin are left alone. Collapsed BP-means follows where it is
        about as good as the best.
        """
        from madbayes.engine import kernels

        if not solution.K or self.is_exact(solution) or self.is_beyond(TOO_FAR):
            return solution
        start = solution if there is self else there.descend(solution.groups, max_iter=0)
        (N, D), error = there.table.X.shape, (start.value - there.penalty * start.K) / there.unit
        variance = error / (there.weights.sum() * min(N, D))
        Z = np.array(start.groups, dtype=np.uint8, order="C")
        at_once = min(AT_ONCE, -(-N // BLOCKS))
        kernels.anneal(there.table.X, there.table.squares, there.table.weights, Z, 2 * variance * heat, at_once, rng)
        found = self._polished(Z)
        passes = found.passes + round(SWEEP_PASS * len(heat))
        if found.value < ABOUT_BEST * best:
            found = self.polish_collapsed(found)
            passes += found.passes
        return found._replace(passes=passes)

    def prove(self, solution: Solution, rng: np.random.Generator) -> Solution:
        """The best there is, if branch and bound finds it soon, or this one."""
        if self.is_final(solution):
            return solution
        proof = Proof(self.table.X, self.weights, bp_means_objective(self.penalty / self.unit), solution.groups)
        bound = proof.bound(NODES, self.most)
        found = self.polish(proof.Z)
        best = found if self.is_lower(found, solution) else solution
        if self.unit * bound >= best.value * (1 - SAME):
            self.optimum = best.value
        return best

    def polish_collapsed(self, solution: Solution) -> Solution:
        """Collapsed BP-means, in which features follow every single change of a bit."""
        from madbayes.engine import kernels

        if not solution.K:
            return solution
        table, Z, A = self.table, np.array(solution.groups, dtype=np.uint8, order="C"), np.empty(solution.A.shape)
        # With a penalty a row may pay to keep a feature of its own; none is opened here, and without one none is lost.
        limits = kernels.Limits(0, 0, self.penalty / self.unit, np.inf, 0.0, RELATIVE_GAIN)
        trace = np.empty(MAX_ITER)
        _, passes, _ = kernels.run_collapsed(table.X, table.weights, Z, A, len(A), limits, JOINT_LIMIT, trace)
        found = self._polished(Z)
        each = JOINT_PASS if solution.K <= JOINT_LIMIT else COLLAPSED_PASS
        return found._replace(passes=found.passes + each * max(passes, 1))


def _rank(solution: Solution) -> tuple[float, int]:
    """The lowest value comes first, and of those the fewest features."""
    return solution.value, solution.K


def deletion_costs(landscape: FeatureLandscape, solution: Solution) -> NDArray[np.float64]:
    """What the squared error grows by without each feature, the others refitted: |a_k|^2 over [(Z'WZ)^-1]_kk."""
    return landscape.unit * (solution.A**2).sum(axis=1) / np.diag(inverse_gram(landscape, solution))


def inverse_gram(landscape: FeatureLandscape, solution: Solution) -> NDArray[np.float64]:
    """(Z'WZ)^-1, with weights in units of the largest."""
    Z = solution.groups.astype(np.float64)
    gram = (Z.T * landscape.weights) @ Z
    try:
        return np.asarray(np.linalg.inv(gram))
    except np.linalg.LinAlgError:  # weights next to which others vanish
        return gram_inverse(gram)


def join_costs(landscape: FeatureLandscape, solution: Solution) -> NDArray[np.float64]:
    """What the squared error grows by if two features become one of the rows that have either; about.

    It is exact where no residuals are left and no other feature follows. Rows lose the features they have of the two,
    a_j, a_k or a_j + a_k, and the new one gives back |sum of what its rows lose|^2 over their number.
    """
    Z, G = solution.groups.astype(np.float64), solution.A @ solution.A.T
    both = (Z.T * landscape.weights) @ Z
    sizes, squares = np.diag(both), np.diag(G)
    lost = (sizes * squares)[:, None] + sizes * squares + 2 * both * G
    total = (sizes**2 * squares)[:, None] + sizes**2 * squares + 2 * np.outer(sizes, sizes) * G
    costs = lost - total / (sizes[:, None] + sizes - both)
    np.fill_diagonal(costs, np.inf)
    return landscape.unit * costs


def all_bases(K: int) -> list[tuple[int, int, int]]:
    """What :func:`rebased` may be asked for."""
    return [(j, k, how) for j in range(K) for k in range(K) if j != k for how in range(3)]


def rebased(solution: Solution, j: int, k: int, how: int) -> NDArray[np.uint8]:
    """Allocations with feature j replaced by its union with k, their difference, or what is in one of them only."""
    Z = solution.groups.copy()
    a, b = solution.groups[:, j], solution.groups[:, k]
    Z[:, j] = (a | b, a & (1 - b), a ^ b)[how]
    return Z


def exchange_gains(landscape: FeatureLandscape, solution: Solution, columns: NDArray) -> NDArray[np.float64]:
    """What more is explained if each feature is replaced by a new one with each of several columns, all refitted.

    With P = (Z'WZ)^-1, deleting feature k costs |a_k|^2 / P_kk and leaves residuals R + g a_k, g = Z P_k / P_kk; a
    column c explains |c'W(R + g a_k)|^2 of them over c'Wc less what the features left explain of c.
    """
    Z, P = solution.groups.astype(np.float64), inverse_gram(landscape, solution)
    CW, squares, own = columns.T * landscape.weights, (solution.A**2).sum(axis=1), np.diag(P)
    CR, CZ = CW @ landscape.residuals(solution), CW @ Z
    h = CZ @ P / own
    explained = (CR**2).sum(axis=1)[:, None] + 2 * h * (CR @ solution.A.T) + h**2 * squares
    left = (CW.sum(axis=1) - (CZ @ P * CZ).sum(axis=1))[:, None] + h**2 * own
    gains = np.where(left > RELATIVE_GAIN * CW.sum(axis=1)[:, None], explained / np.maximum(left, RELATIVE_GAIN), 0.0)
    return landscape.unit * (gains - squares / own).T


def explained(landscape: FeatureLandscape, R: NDArray, columns: NDArray) -> NDArray[np.float64]:
    """What a new feature explains of the residuals, for each of several columns of rows that have it."""
    ZW = columns.T * landscape.weights
    return landscape.unit * ((ZW @ R) ** 2).sum(axis=1) / np.maximum(ZW.sum(axis=1), np.finfo(float).tiny)


def row_columns(landscape: FeatureLandscape, R: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Who would have a feature made of the residual of a row, for some rows drawn by their squared errors."""
    errors = landscape.weights * (R**2).sum(axis=1) + np.finfo(float).tiny
    rows = rng.choice(len(R), rng.choice(ROWS), p=errors / errors.sum())
    return ((R[rows] ** 2).sum(axis=1) < 2 * R @ R[rows].T).astype(np.uint8)


def direction_columns(landscape: FeatureLandscape, R: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The rows at one end of a direction in which residuals are long, cut where their mean explains most; both ends."""
    from madbayes.engine import kernels

    weights = landscape.weights
    v = long_direction(R * np.sqrt(weights)[:, None], rng)
    columns = np.zeros((len(R), 2), dtype=np.uint8)
    for end, order in enumerate(((R @ v).argsort(), (-R @ v).argsort())):
        columns[order[: kernels.best_end(R, weights, order)], end] = 1
    return columns


def long_direction(R: NDArray, rng: np.random.Generator) -> NDArray:
    """A direction near the first singular vectors: the fewer steps, the more are mixed."""
    v = np.asarray(rng.standard_normal(R.shape[1]))
    for _ in range(rng.integers(1, 6)):
        v = R.T @ (R @ v)
        v /= np.abs(v).max() + np.finfo(float).tiny
    return v


def best_column(landscape: FeatureLandscape, R: NDArray, make: Columns, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The one that explains most."""
    columns = make(landscape, R, rng)
    return columns[:, explained(landscape, R, columns).argmax()]
