"""The Gibbs samplers against exact posteriors of tiny problems, and against the prior (Geweke's joint test)."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from types import SimpleNamespace

import numpy as np
import pytest

from madbayes.model import CRP, IBP, CollapsedGaussian, Gaussian
from madbayes.paper.gibbs import CRPGibbs, IBPGibbs, State, Table, draw_count, draw_means

SAMPLERS = [CRPGibbs, IBPGibbs]
BOTH_MODES = pytest.mark.parametrize("collapsed", [True, False], ids=["collapsed", "uncollapsed"])
BOTH_SAMPLERS = pytest.mark.parametrize("Sampler", SAMPLERS)

X_TINY = np.array([[1.0, 0.3], [0.7, -0.6], [-0.4, 1.2], [1.6, 0.9]])
PARAMETERS = {CRPGibbs: {"sigma2": 0.8, "rho2": 1.5, "mass": 1.3}, IBPGibbs: {"sigma2": 0.8, "rho2": 1.5, "mass": 0.7}}


def batch_means(draws: np.ndarray, n_batches: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each column and its standard error, with the dependence between draws accounted for."""
    usable = draws[: len(draws) // n_batches * n_batches]
    means = usable.reshape(n_batches, -1, draws.shape[1]).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(n_batches)


def z_scores(draws: np.ndarray, expected: np.ndarray) -> np.ndarray:
    mean, error = batch_means(draws)
    return (mean - expected) / error


# Exact posteriors


def partitions(N: int) -> Iterator[np.ndarray]:
    """Every clustering of N rows, by restricted growth strings."""
    for labels in product(range(N), repeat=N):
        if all(label <= max(labels[:n], default=-1) + 1 for n, label in enumerate(labels)):
            yield (np.array(labels)[:, None] == np.arange(max(labels) + 1)).astype(np.uint8)


def allocations(N: int, K_max: int) -> Iterator[np.ndarray]:
    """Every feature allocation of N rows with up to K_max features: multisets of non-zero columns."""
    columns = [c for c in product((0, 1), repeat=N) if any(c)]
    for K in range(K_max + 1):
        for chosen in combinations_with_replacement(columns, K):
            yield np.array(chosen, dtype=np.uint8).reshape(K, N).T


def key(Z: np.ndarray) -> tuple:
    """The same for two matrices if they differ in the order of their columns only."""
    return tuple(sorted(map(tuple, Z.T.tolist())))


def fitted(X: np.ndarray, Z: np.ndarray, sigma2: float, rho2: float) -> np.ndarray:
    """E[ZA | Z, X] from the N x N covariance of the rows: not the way the sampler does it."""
    signal = rho2 * Z.astype(float) @ Z.T
    return signal @ np.linalg.solve(signal + sigma2 * np.eye(len(Z)), X)


def exact_posterior(Sampler: type) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Data, all groupings and their posterior probabilities."""
    parameters = PARAMETERS[Sampler]
    X, Zs = (X_TINY, list(partitions(4))) if Sampler is CRPGibbs else (X_TINY[:3], list(allocations(3, 8)))
    likelihood, log_mass = CollapsedGaussian(parameters["rho2"]), np.log(parameters["mass"])
    logs = [likelihood.log_prob(X, Z, None, parameters["sigma2"]) + Sampler.prior.log_prob(Z, log_mass) for Z in Zs]
    weights = np.exp(np.array(logs) - max(logs))
    return X, Zs, weights / weights.sum()


def test_the_enumerations_are_complete() -> None:
    assert len({key(Z) for Z in partitions(4)}) == 15
    assert np.exp([CRP().log_prob(Z, 0.3) for Z in partitions(4)]).sum() == pytest.approx(1)
    prior = np.exp([IBP().log_prob(Z, np.log(0.7)) for Z in allocations(3, 8)]).sum()
    assert prior == pytest.approx(1, abs=1e-4)
    _, Zs, probabilities = exact_posterior(IBPGibbs)
    last_shell = sum(p for Z, p in zip(Zs, probabilities, strict=True) if Z.shape[1] == 8)
    assert last_shell < 1e-4  # what is beyond it is smaller still


@BOTH_SAMPLERS
@BOTH_MODES
def test_chain_has_the_exact_posterior(Sampler: type, collapsed: bool) -> None:
    X, Zs, probabilities = exact_posterior(Sampler)
    parameters = PARAMETERS[Sampler]
    sampler = Sampler(**parameters, collapsed=collapsed, random_state=1)
    chain = sampler.sample(X, n_sweeps=8_000)

    likely = [key(Zs[i]) for i in np.argsort(-probabilities)[:15]]
    index = {name: i for i, name in enumerate(likely)}
    visited = np.array([index.get(key(Z), len(likely)) for Z in chain.Z])
    exact = dict(zip(map(key, Zs), probabilities, strict=True))
    assert np.abs(z_scores(visited[:, None] == np.arange(len(likely)), [exact[name] for name in likely])).max() < 5

    K = np.array([Z.shape[1] for Z in Zs])
    p_K = np.bincount(K, weights=probabilities)[: 1 + 4]
    observed = (chain.K[:, None] == np.arange(len(p_K)))[:, p_K > 0.01]
    assert np.abs(z_scores(observed, p_K[p_K > 0.01])).max() < 5

    fits = np.array([(Z @ A).ravel() for Z, A in zip(chain.Z, chain.A, strict=True)])
    shrink = {k: parameters[k] for k in ("sigma2", "rho2")}
    expected = sum(p * fitted(X, Z, **shrink).ravel() for Z, p in zip(Zs, probabilities, strict=True))
    assert np.abs(z_scores(fits, expected)).max() < 5


# One row of the feature sampler against the conditionals of the joint, where averages would hide small errors

OTHERS = np.array([[1, 0], [1, 1], [0, 1]], dtype=np.uint8)
X_ROW = np.array([[0.0, 0.0, 0.0], [1.5, 0.2, -0.3], [1.3, 1.4, 0.5], [0.1, 1.6, 0.9]])
A_ROW = np.array([[1.2, 0.1, -0.2], [0.2, 1.1, 0.4]])
K_CAP = 12
ROWS = pytest.mark.parametrize(
    ("x", "start"), [((0.6, 0.1, -0.1), (0, 0)), ((2.2, -0.4, 0.5), (0, 1))], ids=["small x", "large x"]
)


def grouping(bits: tuple[int, ...], k: int) -> np.ndarray:
    """Row 0 with these bits and k features of its own, above the other rows."""
    own = np.zeros((3, k), dtype=np.uint8)
    return np.vstack([np.append(bits, np.ones(k)), np.hstack([OTHERS, own])]).astype(np.uint8)


def log_joints(X: np.ndarray, collapsed: bool, sigma2: float, rho2: float, mass: float) -> np.ndarray:
    """Log-probability for each bit, other bit and number of own features of row 0, up to a constant."""
    values = np.zeros((2, 2, K_CAP))
    for *bits, k in np.ndindex(values.shape):
        Z, variance = grouping(tuple(bits), k), sigma2 + k * rho2
        if collapsed:
            data = CollapsedGaussian(rho2).log_prob(X, Z, None, sigma2)
        else:
            data = -0.5 * (3 * np.log(variance) + ((X[0] - bits @ A_ROW) ** 2).sum() / variance)
        values[(*bits, k)] = data + IBP().log_prob(Z, np.log(mass))
    return values


def normalised(log_weights: np.ndarray, axis: int) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum(axis=axis, keepdims=True)


def bits_after(log_weights: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Distribution of two bits when each is drawn once given the other, in either order with equal chances."""
    first, second = normalised(log_weights, axis=0), normalised(log_weights, axis=1)
    return (first[:, start[1], None] * second + second[start[0]] * first) / 2


@ROWS
@BOTH_MODES
@pytest.mark.parametrize("n_own", [0, 2])
def test_a_row_follows_the_conditionals(x: tuple, start: tuple, collapsed: bool, n_own: int) -> None:
    X, rng = np.vstack([x, X_ROW[1:]]), np.random.default_rng(11)
    parameters = {"sigma2": 0.3, "rho2": 0.6, "mass": 4.0}
    values = log_joints(X, collapsed, **parameters)
    exact = bits_after(values[:, :, n_own], start)[:, :, None] * normalised(values, axis=2)

    sampler = IBPGibbs(**parameters, collapsed=collapsed)
    state = State(grouping(start, n_own), np.vstack([A_ROW, np.ones((n_own, 3))]), **parameters)
    n_draws, counts, scores = 3000, np.zeros(values.shape), []
    for _ in range(n_draws):
        table = Table.of(X, state.Z, state.A)
        sampler._update_row(0, X[0], table, state, rng)
        k = table.Z.shape[1] - 2
        counts[table.Z[0, 0], table.Z[0, 1], k] += 1
        scores.append(own_means_score(table, X[0], k, sigma2=0.3, rho2=0.6))
    for axes in [(), (2,), (0, 1)]:  # all together, the bits, the number of own features
        p, observed = exact.sum(axis=axes), counts.sum(axis=axes) / n_draws
        common = p > 0.01
        assert p[common].sum() > 0.8
        assert np.abs((observed - p)[common] / np.sqrt(p * (1 - p) / n_draws)[common]).max() < 5
    if not collapsed:
        standard = np.vstack([score for score in scores if len(score)])
        assert np.abs(standard.mean(axis=0)).max() < 5 / np.sqrt(len(standard))
        assert np.abs((standard**2).mean(axis=0) - 1).max() < 5 * np.sqrt(2 / len(standard))


def own_means_score(table: Table, x: np.ndarray, k: int, sigma2: float, rho2: float) -> np.ndarray:
    """The sum of the k new means, standardised by its posterior; no rows for k = 0."""
    gain = k * rho2 / (sigma2 + k * rho2)
    residual = x - table.Z[0, :2] @ A_ROW
    return (table.A[2:].sum(axis=0, keepdims=True) - gain * residual)[: min(k, 1)] / np.sqrt(gain * sigma2 or 1)


@BOTH_MODES
def test_order_of_the_columns_says_nothing(collapsed: bool) -> None:
    # Columns lie in the order of their birth. Visiting the bits in that order biases the chain by a few per cent,
    # too little for the tests of whole chains; here it gives both bits with 0.49 from one start, 0.37 from the other.
    x, parameters = np.array([0.7]), {"sigma2": 0.1, "rho2": 1.0, "mass": 1e-9}
    X, rng, A = np.vstack([x, [1.0]]), np.random.default_rng(12), np.array([[0.5], [0.5]])
    sampler, totals = IBPGibbs(**parameters, collapsed=collapsed), []
    for start in ([1, 0], [0, 1]):
        state = State(np.array([start, [1, 1]], dtype=np.uint8), A, **parameters)
        tables = [Table.of(X, state.Z, state.A) for _ in range(3000)]
        for table in tables:
            sampler._update_row(0, x, table, state, rng)
        totals.append([table.Z[0].sum() for table in tables])
    frequencies = [np.bincount(total, minlength=3)[:3] / 3000 for total in totals]
    pooled = np.mean(frequencies, axis=0)
    assert np.all(np.abs(frequencies[0] - frequencies[1]) < 5 * np.sqrt(2 * pooled * (1 - pooled) / 3000) + 1e-9)


# Geweke: the prior must be what the sampler and fresh data in turn leave alone

N, D = 4, 2
SHAPE_SCALE, SHAPE_RATE = (6.0, 5.0), (3.0, 3.0)


def forward_parameters(Sampler: type, rng: np.random.Generator) -> State:
    (a, b), (c, d) = SHAPE_SCALE, SHAPE_RATE
    sigma2, rho2, mass = b / rng.gamma(a), b / rng.gamma(a), rng.gamma(c) / d
    Z = Sampler.prior.sample(N, np.log(mass), rng)
    return State(Z, np.sqrt(rho2) * rng.standard_normal((Z.shape[1], D)), sigma2, rho2, mass)


def forward_data(state: State, rng: np.random.Generator) -> np.ndarray:
    return state.Z @ state.A + np.sqrt(state.sigma2) * rng.standard_normal((N, D))


def with_prior_means(state: State, rng: np.random.Generator) -> State:
    """Collapsed samplers say nothing of A, so fresh data needs a fresh one."""
    return state._replace(A=np.sqrt(state.rho2) * rng.standard_normal(state.A.shape))


def statistics(state: State, X: np.ndarray) -> dict[str, float]:
    """Numbers with light tails, and products of them so that dependence counts too."""
    Z, A, sigma2, rho2, mass = state
    K, sizes, power = Z.shape[1], Z.sum(axis=0, dtype=int), np.log1p((X**2).mean())
    s, r, m = np.log([sigma2, rho2, mass])
    groups = {"K": K, "K^2": K**2, "ones": sizes.sum(), "single": (sizes == 1).sum(), "sizes^2": (sizes**2).sum()}
    rows = {"first": Z[0].sum(), "last": Z[-1].sum(), "both": int(Z[0] @ Z[-1])}
    parameters = {"s": s, "r": r, "m": m, "s^2": s**2, "r^2": r**2, "m^2": m**2, "K m": K * m}
    data = {"power": power, "power^2": power**2, "total": np.log1p((X.sum(axis=0) ** 2).mean())}
    mixed = {"K power": K * power, "s power": s * power, "r power": r * power, "A": np.log1p((A**2).sum())}
    return groups | rows | parameters | data | mixed


@BOTH_SAMPLERS
@BOTH_MODES
def test_sweeps_and_fresh_data_leave_the_prior_alone(Sampler: type, collapsed: bool) -> None:
    rng = np.random.default_rng(2)
    flags = {"collapsed": collapsed, "sample_sigma2": True, "sample_rho2": True, "sample_mass": True}
    sampler = Sampler(**flags, variance_prior=SHAPE_SCALE, mass_prior=SHAPE_RATE)

    prior = [forward_parameters(Sampler, rng) for _ in range(10_000)]
    independent = [statistics(state, forward_data(state, rng)) for state in prior]
    state, successive = prior[0], []
    for _ in range(10_000):
        state = sampler.sweep(forward_data(state, rng), state, rng)
        assert len(state.A) < 60  # the prior has hardly 20; a wrong sampler may run away and never end
        state = with_prior_means(state, rng) if collapsed else state
        successive.append(statistics(state, forward_data(state, rng)))

    (expected, error), (mean, dependent_error) = map(batch_means, map(as_array, (independent, successive)))
    # Not a quotient: some statistics are constant for clusterings, and then the difference must be zero.
    far = np.abs(mean - expected) > 5 * np.hypot(error, dependent_error)
    assert not [name for name, is_far in zip(independent[0], far, strict=True) if is_far]


def as_array(draws: list[dict[str, float]]) -> np.ndarray:
    return np.array([list(draw.values()) for draw in draws], dtype=float)


# Parts


def test_number_of_new_features_is_not_capped() -> None:
    rng = np.random.default_rng(3)
    # A flat density leaves the Poisson prior; 60 is far above the first cap.
    counts = np.array([draw_count(0.0, 1e12, 1, 1e-6, 60.0, rng) for _ in range(2000)])
    assert abs(counts.mean() - 60) < 5 * np.sqrt(60 / 2000)
    assert abs(counts.var() - 60) < 5 * 60 * np.sqrt(2 / 2000)


def test_number_of_new_features_may_have_two_modes() -> None:
    # The density falls fast after k = 0, but in the end the prior wins: log-weights 345, -52 at 21, 652 at 1000.
    counts = [draw_count(0.0, 1e-3, 100, 1.0, 1000.0, np.random.default_rng(seed)) for seed in range(20)]
    assert min(counts) > 700


def test_number_of_new_features_follows_the_data() -> None:
    # 200 numbers of variance 50, noise 0.1, features of variance 1: the density alone wants 50 features.
    D, rate, rng = 200, 1.0, np.random.default_rng(4)
    k = np.arange(400)
    log_weights = np.array(
        [-0.5 * D * (np.log(0.1 + j) + 50 / (0.1 + j)) - np.log(np.arange(1, j + 1)).sum() for j in k]
    )
    p = np.exp(log_weights - log_weights.max())
    p /= p.sum()
    mean = p @ k
    counts = np.array([draw_count(50.0 * D, 0.1, D, 1.0, rate, rng) for _ in range(1000)])
    assert mean > 20  # or the first cap would do
    assert abs(counts.mean() - mean) < 5 * np.sqrt(p @ (k - mean) ** 2 / 1000)


def test_draws_of_means_have_the_moments_of_the_regression() -> None:
    rng = np.random.default_rng(5)
    X, Z = X_TINY, np.array([[1, 0], [1, 1], [0, 1], [1, 1]])
    sigma2, rho2 = 0.5, 2.0
    precision = Z.T @ Z / sigma2 + np.eye(2) / rho2
    draws = np.array([draw_means(X, Z, sigma2, rho2, rng) for _ in range(4000)])
    mean, covariance = np.linalg.solve(precision, Z.T @ X / sigma2), np.linalg.inv(precision)
    centred = draws - mean
    assert np.abs(z_scores(draws.reshape(-1, 4), mean.ravel())).max() < 5
    products = np.einsum("ikd,ild->ikl", centred, centred).reshape(-1, 4) / 2
    assert np.abs(z_scores(products, covariance.ravel())).max() < 5


# Chains


@BOTH_SAMPLERS
@BOTH_MODES
def test_chain_is_consistent(Sampler: type, collapsed: bool) -> None:
    sampler = Sampler(collapsed=collapsed, sample_sigma2=True, sample_rho2=True, sample_mass=True, random_state=0)
    chain = sampler.sample(X_TINY, n_sweeps=200)
    assert {len(entry) for entry in chain} == {200}
    for Z, A, K, log_joint, sigma2, rho2, mass in zip(*chain, strict=True):
        assert Z.dtype == np.uint8
        assert Z.shape == (4, K)
        assert A.shape == (K, 2)
        assert Z.any(axis=0).all()
        assert Sampler is IBPGibbs or (Z.sum(axis=1) == 1).all()
        likelihood = CollapsedGaussian(rho2) if collapsed else Gaussian(rho2)
        expected = likelihood.log_prob(X_TINY, Z, A, sigma2) + Sampler.prior.log_prob(Z, np.log(mass))
        assert log_joint == pytest.approx(expected)
        if collapsed:
            np.testing.assert_allclose(Z @ A, fitted(X_TINY, Z, sigma2, rho2), atol=1e-10)
    assert min(len(np.unique(values)) for values in chain[-3:]) == 200


@BOTH_SAMPLERS
def test_parameters_stay_where_they_are_unless_sampled(Sampler: type) -> None:
    for name in ("sigma2", "rho2", "mass"):
        chain = Sampler(sigma2=0.3, rho2=0.4, mass=0.5, **{f"sample_{name}": True}, random_state=0).sample(X_TINY, 20)
        moved = {other for other in ("sigma2", "rho2", "mass") if len(np.unique(getattr(chain, other))) > 1}
        assert moved == {name}
    assert Sampler(sigma2=0.3, random_state=0).sample(X_TINY, 1).sigma2.tolist() == [0.3]


def same(first: tuple, second: tuple) -> bool:
    pairs = (pair for entries in zip(first, second, strict=True) for pair in zip(*entries, strict=True))
    return all(np.array_equal(a, b) for a, b in pairs)


@BOTH_SAMPLERS
@BOTH_MODES
def test_seed_decides_the_chain(Sampler: type, collapsed: bool) -> None:
    def run(seed: int | np.random.Generator) -> tuple:
        return Sampler(collapsed=collapsed, sample_sigma2=True, random_state=seed).sample(X_TINY, 30)

    assert same(run(7), run(7))
    assert same(run(7), run(np.random.default_rng(7)))
    assert not same(run(7), run(8))


@BOTH_SAMPLERS
@BOTH_MODES
def test_init_is_where_the_chain_starts(Sampler: type, collapsed: bool) -> None:
    # With hardly any noise the far rows stay where they are put and the means are known.
    X = np.array([[0.1, 50.0], [0.0, 50.0], [90.0, 0.0], [90.0, 0.1]])
    Z = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    A = np.array([[0.05, 50.0], [90.0, 0.05]])
    sampler = Sampler(sigma2=0.01, rho2=1e4, mass=1e-9, collapsed=collapsed, random_state=0)
    inits = [Z, Z.tolist(), Z.astype(bool), (Z, A), SimpleNamespace(Z=Z, A=A), SimpleNamespace(Z=Z, A=None),
             (np.insert(Z, 1, 0, axis=1), np.insert(A, 1, 7.0, axis=0)), State(Z, A, 9.0, 9.0, 9.0)]  # fmt: skip
    for init in inits:
        chain = sampler.sample(X, 1, init=init)
        np.testing.assert_array_equal(chain.Z[0], Z)
        np.testing.assert_allclose(chain.A[0], A, atol=0.5)
        assert (chain.sigma2[0], chain.rho2[0], chain.mass[0]) == (0.01, 1e4, 1e-9)


@BOTH_SAMPLERS
@BOTH_MODES
def test_default_init_is_one_group_of_all_rows(Sampler: type, collapsed: bool) -> None:
    sampler = Sampler(collapsed=collapsed, random_state=6)
    assert same(sampler.sample(X_TINY, 5), sampler.sample(X_TINY, 5, init=np.ones((4, 1))))


def test_kept_means_start_from_those_given() -> None:
    # The clusters have rows of both kinds, and only the given means can say which rows go where.
    X, Z, A = np.array([[1.0], [-1.0]] * 3), np.array([[1, 0]] * 3 + [[0, 1]] * 3), np.array([[1.0], [-1.0]])
    sampler = CRPGibbs(sigma2=1e-3, mass=1e-9, collapsed=False, random_state=0)
    np.testing.assert_array_equal(sampler.sample(X, 1, init=(Z, A)).Z[0], [[1, 0], [0, 1]] * 3)
    np.testing.assert_array_equal(sampler.sample(X, 1, init=(Z, -A)).Z[0], [[0, 1], [1, 0]] * 3)


@BOTH_MODES
def test_no_features_and_one_row_are_no_obstacle(collapsed: bool) -> None:
    sampler = IBPGibbs(mass=1e-12, collapsed=collapsed, sample_sigma2=True, sample_rho2=True, random_state=0)
    chain = sampler.sample(X_TINY[:1], 5, init=np.zeros((1, 0)))
    assert chain.K.tolist() == [0] * 5
    assert np.isfinite(chain.log_joint).all()
    assert CRPGibbs(collapsed=collapsed, random_state=0).sample(X_TINY[:1], 5).K.tolist() == [1] * 5


@BOTH_MODES
def test_far_offset_does_not_blur_the_distances(collapsed: bool) -> None:
    # Squares of 1e8 are exact to about 1: distances must not be differences of them.
    X = 1e8 + np.array([[0.0], [0.0], [2.0], [2.0]])
    chain = CRPGibbs(sigma2=1e-2, rho2=1e16, collapsed=collapsed, random_state=0).sample(X, 30)
    assert all(key(Z) == ((0, 0, 1, 1), (1, 1, 0, 0)) for Z in chain.Z[10:])


# Errors


@BOTH_SAMPLERS
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("name", ["sigma2", "rho2", "mass"])
def test_parameters_must_be_positive(Sampler: type, name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name}={value}.*> 0"):
        Sampler(**{name: value})


@BOTH_SAMPLERS
@pytest.mark.parametrize("name", ["variance_prior", "mass_prior"])
def test_hyperpriors_must_be_positive(Sampler: type, name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}=\(1.0, 0.0\).*> 0"):
        Sampler(**{name: (1.0, 0.0)})


@BOTH_SAMPLERS
def test_bad_calls_are_refused(Sampler: type) -> None:
    sampler = Sampler(random_state=0)
    with pytest.raises(ValueError, match=r"n_sweeps=0.*at least 1"):
        sampler.sample(X_TINY, 0)
    with pytest.raises(ValueError, match=r"init.*\(3, 1\).*4 rows"):
        sampler.sample(X_TINY, 1, init=np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"init.*0 or 1"):
        sampler.sample(X_TINY, 1, init=np.full((4, 1), 2))
    with pytest.raises(ValueError, match=r"init.*A of shape \(2, 2\).*\(1, 2\)"):
        sampler.sample(X_TINY, 1, init=(np.ones((4, 1)), np.ones((2, 2))))
    with pytest.raises(ValueError, match=r"X of shape \(2,\).*matrix"):
        sampler.sample(X_TINY[0], 1)
    with pytest.raises(ValueError, match=r"X of shape \(4, 2\).*finite"):
        sampler.sample(np.full((4, 2), np.nan), 1)


@pytest.mark.parametrize("Z", [np.ones((4, 2)), np.zeros((4, 1))])
def test_clusterings_start_with_one_cluster_for_each_row(Z: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"init.*clusters: every row must be in exactly 1"):
        CRPGibbs().sample(X_TINY, 1, init=Z)
    assert len(IBPGibbs(random_state=0).sample(X_TINY, 1, init=Z).Z) == 1
