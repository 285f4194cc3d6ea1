"""The compiled Gibbs sampler against the plain one: the same numbers are drawn, so the chains must be the same."""

import numpy as np
import pytest

from madbayes.engine import gibbs
from madbayes.engine.blocks import Workers
from madbayes.engine.gibbs import sample
from madbayes.engine.kernels import gibbs as kernels
from madbayes.paper.gibbs import IBPGibbs, draw_count

BOTH_MODES = pytest.mark.parametrize("collapsed", [True, False], ids=["collapsed", "uncollapsed"])
ALL_SAMPLED = {"sample_sigma2": True, "sample_rho2": True, "sample_mass": True}


def table(seed, N=30, D=6, K=4, noise=0.5):
    """Rows made of a few features and noise."""
    rng = np.random.default_rng(seed)
    Z, A = rng.random((N, K)) < 0.5, rng.normal(size=(K, D))
    return Z @ A + noise * rng.normal(size=(N, D))


def assert_same_chain(chain, expected):
    assert chain.K.tolist() == expected.K.tolist()
    for Z, Z_expected, A, A_expected in zip(chain.Z, expected.Z, chain.A, expected.A, strict=True):
        assert Z.dtype == np.uint8
        np.testing.assert_array_equal(Z, Z_expected)
        np.testing.assert_allclose(A, A_expected, rtol=1e-7, atol=1e-8)
    for name in ("log_joint", "sigma2", "rho2", "mass"):
        np.testing.assert_allclose(getattr(chain, name), getattr(expected, name), rtol=1e-8)


def assert_same_way(X, n_sweeps, init=None, seed=0, **parameters):
    """The chain of the plain sampler, after the same was found in compiled code."""
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    chain = sample(IBPGibbs(**parameters, random_state=ours), X, n_sweeps, init)
    expected = IBPGibbs(**parameters, random_state=theirs).sample(X, n_sweeps, init)
    assert_same_chain(chain, expected)
    assert ours.random() == theirs.random()  # and not a number more was drawn
    return expected


@BOTH_MODES
@pytest.mark.parametrize("sampled", [{}, {"sample_sigma2": True}, {"sample_rho2": True}, ALL_SAMPLED])
def test_chains_are_the_same(collapsed, sampled):
    chains = [
        assert_same_way(table(seed), 40, seed=seed, sigma2=0.3, collapsed=collapsed, **sampled) for seed in range(8)
    ]
    # Or it would not be much of a test: features come, and go, and rows change what they have.
    steps = np.concatenate([np.diff(chain.K) for chain in chains])
    assert steps.min() < 0 < steps.max()
    assert all(len({Z.tobytes() for Z in chain.Z}) > 5 for chain in chains)


@BOTH_MODES
def test_chains_are_the_same_with_many_features_and_hardly_any_noise(collapsed):
    X = table(1, N=60, D=20, K=8, noise=0.05)
    chain = assert_same_way(X, 60, sigma2=0.01, rho2=20.0, mass=2.0, collapsed=collapsed, **ALL_SAMPLED)
    assert chain.K.max() >= 8


@BOTH_MODES
def test_priors_of_the_parameters_are_heeded(collapsed):
    priors = {"variance_prior": (3.0, 0.2), "mass_prior": (2.0, 5.0)}
    chain = assert_same_way(table(2), 30, collapsed=collapsed, **priors, **ALL_SAMPLED)
    plain = sample(IBPGibbs(random_state=0, collapsed=collapsed, **ALL_SAMPLED), table(2), 30)
    assert not np.allclose(chain.mass, plain.mass)
    assert not np.allclose(chain.sigma2, plain.sigma2)


@BOTH_MODES
def test_room_is_made_when_it_runs_out(collapsed, monkeypatch):
    monkeypatch.setattr(gibbs, "ROOM", 1)
    monkeypatch.setattr(gibbs, "MOST_SWEEPS", 3)
    chain = assert_same_way(table(3), 10, mass=20.0, collapsed=collapsed)
    assert chain.K.max() > 8  # 2, 4 and 8 were too few


@BOTH_MODES
def test_a_chain_starts_where_it_is_told_to(collapsed):
    X = table(4, N=12, D=3)
    Z = np.random.default_rng(5).integers(2, size=(12, 3))
    Z[:, 1] = 0  # no row has it: the first sweep drops it
    for init in (Z, (Z, np.ones((3, 3))), np.zeros((12, 0)), np.eye(12)):
        assert_same_way(X, 5, init, collapsed=collapsed, **ALL_SAMPLED)


@BOTH_MODES
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1)])
def test_small_tables_are_no_obstacle(shape, collapsed):
    assert_same_way(np.ones(shape), 50, mass=2.0, collapsed=collapsed, **ALL_SAMPLED)


def test_tables_of_any_layout_are_taken():
    X, model = table(6), IBPGibbs(random_state=0)
    expected = sample(model, X, 3)
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(X), X.tolist(), frozen):
        assert_same_chain(sample(model, other, 3), expected)


@pytest.mark.parametrize("rate", [1e-200, 0.01, 1.0, 60.0, 1000.0])
@pytest.mark.parametrize("error", [0.0, 3.0, 1e4])
def test_numbers_of_new_features_are_the_same(rate, error):
    # With error 0 and rate 1000 the weights have two modes; with 1e4 the density alone wants many features.
    for D, variance, rho2 in ((1, 1.0, 1.0), (100, 1e-3, 1.0), (200, 0.1, 1.0), (1, 1e12, 1e-6)):
        ours, theirs = np.random.default_rng(7), np.random.default_rng(7)
        counts = [kernels.draw_count(error, variance, D, rho2, rate, ours) for _ in range(20)]
        assert counts == [draw_count(error, variance, D, rho2, rate, theirs) for _ in range(20)]


def test_updates_do_not_drift_from_the_fresh_inverse():
    X, sigma2, rho2 = table(8, N=100, D=20, K=6, noise=2.0), 4.0, 2.0
    # A mass that opens no features: whatever is set up anew would hide what updates have gathered.
    model = IBPGibbs(sigma2=sigma2, rho2=rho2, mass=1e-300, random_state=0)
    Z = np.random.default_rng(9).integers(2, size=(100, 6))
    state = model.start(X, Z, np.random.default_rng(0))
    work, scratch, used = gibbs._table(state, 8), gibbs._scratch(X, 8), 6
    kernels.renew(X, work, used, sigma2 / rho2, True, scratch.equations)
    parameters, rules, rng = kernels.Parameters(sigma2, rho2, 1e-300), gibbs._rules(model), np.random.default_rng(1)
    moves = 0
    for _ in range(20):
        before = work.Z.copy()
        used = kernels.sweep_rows(X, work, used, parameters, rules, scratch, rng)
        assert used == 6
        moves += (before != work.Z).any(axis=1).sum()
        Z = work.Z[:, :used].astype(float)
        P = np.linalg.inv(Z.T @ Z + sigma2 / rho2 * np.eye(used))
        A = P @ Z.T @ X
        np.testing.assert_allclose(work.fit.P[:used, :used], P, atol=1e-12)
        np.testing.assert_allclose(work.fit.A[:used], A, atol=1e-11)
        np.testing.assert_allclose(work.fit.G[:used, :used], A @ A.T, atol=1e-10)
        np.testing.assert_array_equal(work.sizes[:used], Z.sum(axis=0))
    assert moves > 500


@BOTH_MODES
def test_seed_decides_the_chain_in_any_number_of_threads(collapsed):
    X = table(10)

    def run(seed):
        return sample(IBPGibbs(collapsed=collapsed, random_state=seed, **ALL_SAMPLED), X, 20)

    with Workers(3) as workers:
        together = workers.map(run, [0, 1, 2, 3, 0])
    alone = [run(seed) for seed in [0, 1, 2, 3, 0]]
    for first, second in zip(alone, together, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(first.A, second.A, strict=True))
        assert np.array_equal(first.sigma2, second.sigma2)
    assert np.array_equal(alone[0].sigma2, alone[4].sigma2)
    assert not np.array_equal(alone[0].sigma2, alone[1].sigma2)


def test_joint_probabilities_can_be_left_out():
    X, model = table(11), IBPGibbs(random_state=0, sample_sigma2=True)
    chain, full = sample(model, X, 5, log_joint=False), sample(model, X, 5)
    assert np.isnan(chain.log_joint).all()
    assert chain.log_joint.shape == (5,)
    np.testing.assert_array_equal(chain.sigma2, full.sigma2)


@pytest.mark.parametrize("run", [sample, IBPGibbs.sample], ids=["compiled", "plain"])
def test_equal_features_without_noise_are_an_error(run, seconds):
    # Z'Z is singular, and the ridge is below rounding.
    model = IBPGibbs(sigma2=1e-30, mass=1e-9, random_state=0)
    with seconds(60), pytest.raises(np.linalg.LinAlgError):
        run(model, table(0), 2, (np.ones((30, 2)), np.ones((2, 6))))


def test_bad_calls_are_refused():
    model = IBPGibbs(random_state=0)
    with pytest.raises(ValueError, match=r"n_sweeps=0.*at least 1"):
        sample(model, table(0), 0)
    with pytest.raises(ValueError, match=r"finite"):
        sample(model, [[np.inf]], 1)
    with pytest.raises(ValueError, match=r"init.*\(3, 1\).*30 rows"):
        sample(model, table(0), 1, np.ones((3, 1)))
