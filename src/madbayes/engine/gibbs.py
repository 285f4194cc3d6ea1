"""The Gibbs sampler that the paper compares with, fast: the chains of :class:`madbayes.paper.gibbs.IBPGibbs`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from madbayes.paper.gibbs import Chain, IBPGibbs, Rng, State, check_data, check_sweeps

if TYPE_CHECKING:
    from madbayes.engine.kernels.gibbs import GibbsScratch, Rules, Table, Trace

# Features that a chain has room for beyond those it starts with.
ROOM = 8
# Bytes of states that sweeps write before they are copied out, and sweeps that are lost when room runs out.
TRACE_BYTES, MOST_SWEEPS = 2**24, 100


def sample(model: IBPGibbs, X: ArrayLike, n_sweeps: int, init: Any = None, *, log_joint: bool = True) -> Chain:
    """Run a chain in compiled code: the chain of ``model.sample``, up to rounding.

    The sweeps hold no lock: chains may run in threads, each with a model of its own seed.

    Parameters
    ----------
    model : IBPGibbs
        The sampler.
    X : array-like of shape (N, D)
        The data.
    n_sweeps : int
        Number of sweeps over the rows, at least 1.
    init : None, Z, (Z, A) or an object with attributes Z and A
        Where to start; by default one feature that has all rows.
    log_joint : bool
        Whether to compute the joint probabilities of the chain, which takes longer than the sweeps; if not, they are
        NaN.

    Returns
    -------
    Chain
        The states after each sweep.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.engine.gibbs import sample
    >>> from madbayes.paper.gibbs import IBPGibbs
    >>> X, model = np.array([[8.0], [8.1], [0.2]]), IBPGibbs(sigma2=0.1, rho2=50.0, random_state=0)
    >>> all(np.array_equal(*Z) for Z in zip(sample(model, X, 20).Z, model.sample(X, 20).Z))
    True
    """
    X = np.require(check_data(X), requirements=["C", "W"])  # the kernels are compiled for such
    check_sweeps(n_sweeps)
    rng = np.random.default_rng(model.random_state)
    states = [model.start(X, init, rng)]
    room = len(states[0].A) + ROOM
    while (left := n_sweeps + 1 - len(states)) > 0:
        before = rng.bit_generator.state
        more = _sweeps(model, X, states[-1], min(left, _sweeps_at_once(X, room)), room, rng)
        if more:
            states += more
        else:  # begin these sweeps again, with the same numbers
            rng.bit_generator.state = before
            room *= 2
    return model.chain(X, states[1:], log_joint)


def _sweeps_at_once(X: NDArray, room: int) -> int:
    """Sweeps for one call of the kernel."""
    N, D = X.shape
    return int(np.clip(TRACE_BYTES // (room * (N + 8 * D)), 1, MOST_SWEEPS))


def _sweeps(model: IBPGibbs, X: NDArray, state: State, n_sweeps: int, room: int, rng: Rng) -> list[State]:
    """The states after so many sweeps, or none if there was no room."""
    from madbayes.engine.kernels.gibbs import Parameters, run_gibbs

    table, trace, used = _table(state, room), _trace(X, n_sweeps, room), len(state.A)
    parameters = Parameters(float(state.sigma2), float(state.rho2), float(state.mass))
    if not run_gibbs(X, table, used, parameters, _rules(model), trace, _scratch(X, room), rng):
        return []
    K, numbers = trace.used.tolist(), zip(trace.sigma2, trace.rho2, trace.mass, strict=True)
    states = [
        State(Z[:, :k].copy(), A[:k].copy(), *three)
        for k, Z, A, three in zip(K, trace.Z, trace.A, numbers, strict=True)
    ]
    if not all(np.isfinite(state.A).all() for state in states):
        raise np.linalg.LinAlgError("sigma2 / rho2 is so small that features which few rows tell apart are singular")
    return states


def _rules(model: IBPGibbs) -> "Rules":
    """What the kernel must know of the model."""
    from madbayes.engine.kernels.gibbs import Rules

    sampled = (model.sample_sigma2, model.sample_rho2, model.sample_mass)
    return Rules(model.collapsed, *sampled, *map(float, model.variance_prior), *map(float, model.mass_prior))


def _table(state: State, room: int) -> "Table":
    """A state with room for more features."""
    from madbayes.engine.kernels.collapsed import Fit
    from madbayes.engine.kernels.gibbs import Table

    (N, K), D = state.Z.shape, state.A.shape[1]
    Z, A = np.zeros((N, room), dtype=np.uint8), np.zeros((room, D))
    Z[:, :K], A[:K] = state.Z, state.A
    return Table(Z, np.zeros(room, dtype=np.int64), Fit(A, np.zeros((room, room)), np.zeros((room, room))))


def _trace(X: NDArray, n_sweeps: int, room: int) -> "Trace":
    """Where the kernel writes the states."""
    from madbayes.engine.kernels.gibbs import Trace

    N, D = X.shape
    Z, A = np.empty((n_sweeps, N, room), dtype=np.uint8), np.empty((n_sweeps, room, D))
    return Trace(Z, A, np.empty(n_sweeps, dtype=np.int64), *(np.empty(n_sweeps) for _ in range(3)))


def _scratch(X: NDArray, room: int) -> "GibbsScratch":
    """Buffers of the kernel."""
    from madbayes.engine.kernels.collapsed import Fit, View
    from madbayes.engine.kernels.gibbs import Equations, GibbsScratch

    N, D = X.shape
    fit = Fit(np.empty((room, D)), np.empty((room, room)), np.empty((room, room)))
    m = np.arange(1, N)
    return GibbsScratch(
        others=View(fit, np.empty(D), np.empty(room), np.empty(room), np.empty(room)),
        equations=Equations(np.empty((room, room)), np.empty((room, D)), np.empty((room, room)), np.empty(0)),
        log_odds=np.append(-np.inf, np.log(m / (N - m))),
        thresholds=np.empty(room),
        keys=np.empty(room),
        order=np.empty(room, dtype=np.int64),
        code=np.empty(room, dtype=np.uint8),
        shared=np.empty(room, dtype=np.bool_),
        draw=np.empty((room, D)),
        errors=np.empty(N),
    )
