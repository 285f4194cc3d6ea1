"""Gibbs samplers of the two models before the small-variance limit: what the paper compares with.

Clusters or features, means integrated out or kept: the four samplers are one. Row n leaves, its groups are drawn
given the other rows, and it comes back. To the row the other rows always look the same: with the groups z it is
Gaussian around z mean with variance sigma2 (1 + z M z'), and every group that it would have to itself adds rho2.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from madbayes.model import CRP, IBP, CollapsedGaussian, Gaussian
from madbayes.model.likelihoods import squared_error
from madbayes.model.priors import Kind

Rng = np.random.Generator


class State(NamedTuple):
    """Where a sampler is."""

    Z: NDArray[np.uint8]  # N x K, no empty columns
    A: NDArray  # K x D; the posterior mean where A is integrated out
    sigma2: float
    rho2: float
    mass: float


class Chain(NamedTuple):
    """What a sampler went through, one entry for each sweep."""

    Z: list[NDArray[np.uint8]]  # N x K, no empty columns
    A: list[NDArray]  # K x D; the posterior mean where A is integrated out
    K: NDArray[np.int64]
    log_joint: NDArray  # log p(X, Z) where A is integrated out, else log p(X, Z, A); no hyperpriors
    sigma2: NDArray
    rho2: NDArray
    mass: NDArray


class Row(NamedTuple):
    """Row n, taken out: x given z is N(z mean, sigma2 (1 + z M z') I)."""

    x: NDArray
    z: NDArray  # its bits in the groups that other rows have too
    n_own: int  # how many groups it had to itself
    n_rows: int  # N, this row included
    sizes: NDArray  # of the groups, this row not included
    mean: NDArray  # K x D
    M: NDArray  # K x K


@dataclass
class Table:
    """The grouping in the middle of a sweep, ready for rows to leave and come back."""

    Z: NDArray[np.uint8]
    A: NDArray
    gram: NDArray  # Z'Z
    sums: NDArray  # Z'X

    @classmethod
    def of(cls, X: NDArray, Z: NDArray, A: NDArray) -> Self:
        """Count everything once; the rows then change it one by one."""
        Zf = Z.astype(float)
        return cls(Z.astype(np.uint8), A, Zf.T @ Zf, Zf.T @ X)

    def take_out(self, n: int, x: NDArray) -> tuple[NDArray, int]:
        """Remove row n with the groups no other row has: its bits in the rest, and how many it had to itself."""
        z = self.Z[n].astype(float)
        shared = self.gram.diagonal() > z
        n_own = int(z[~shared].sum())
        if not shared.all():
            self.Z, self.A, self.sums = self.Z[:, shared], self.A[shared], self.sums[shared]
            self.gram, z = self.gram[np.ix_(shared, shared)], z[shared]
        self.gram -= np.outer(z, z)
        self.sums -= np.outer(z, x)
        return z, n_own

    def put_back(self, n: int, x: NDArray, z: NDArray, A_new: NDArray) -> None:
        """Add row n with the bits z and with groups of its own, whose means are the rows of A_new."""
        if k := len(A_new):
            self.Z, self.A = np.pad(self.Z, ((0, 0), (0, k))), np.vstack([self.A, A_new])
            self.gram, self.sums = np.pad(self.gram, (0, k)), np.pad(self.sums, ((0, k), (0, 0)))
            z = np.append(z, np.ones(k))
        self.Z[n] = z
        self.gram += np.outer(z, z)
        self.sums += np.outer(z, x)


def posterior_mean(X: NDArray, Z: NDArray, ratio: float) -> NDArray:
    """Mean of A given Z and X, with ratio = sigma2 / rho2."""
    Zf = Z.astype(float)
    return np.linalg.solve(Zf.T @ Zf + ratio * np.eye(Z.shape[1]), Zf.T @ X)


def draw_means(X: NDArray, Z: NDArray, sigma2: float, rho2: float, rng: Rng) -> NDArray:
    """Draw of A given Z and X: each column has the covariance sigma2 (Z'Z + sigma2 / rho2 I)^-1."""
    Zf, ratio, (K, D) = Z.astype(float), sigma2 / rho2, (Z.shape[1], X.shape[1])
    factor = np.linalg.cholesky(Zf.T @ Zf + ratio * np.eye(K))
    noise = np.linalg.solve(factor.T, rng.standard_normal((K, D)))
    return posterior_mean(X, Z, ratio) + np.sqrt(sigma2) * noise


def log_normal(squared: Any, variance: Any, D: int) -> Any:
    """Log-density of D Gaussian numbers with this summed squared distance, up to a constant."""
    return -0.5 * (D * np.log(variance) + squared / variance)


def draw_index(log_weights: NDArray, rng: Rng) -> int:
    """Index with probability in proportion to exp(log_weights), the largest made 1: nothing can overflow."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def draw_gamma(shape: float, rate: float, rng: Rng) -> float:
    """Gamma number, kept off zero: at a small shape it underflows, and its logarithm is wanted."""
    return max(float(rng.gamma(shape)), 1e-200) / rate


def draw_bits(row: Row, sigma2: float, rho2: float, rng: Rng) -> tuple[NDArray, float, float]:
    """Gibbs over the bits of z: the new z, the squared distance of x to z mean, and sigma2 (1 + z M z').

    The residual r, w = M z and s = z M z' follow each flip, so that it costs O(K + D). The bits come in a random
    order: the columns lie in the order of their birth, which says something about z, and a scan whose order depends
    on what it is to draw does not leave the posterior alone.
    """
    x, z, n_own, N, sizes, mean, M = row
    D, z, own = len(x), z.copy(), n_own * rho2
    # A logistic number is below the log-odds with just the probability of the bit.
    threshold = rng.logistic(size=len(z)) - np.log(sizes / (N - sizes))
    r, w = x - z @ mean, M @ z
    s = z @ w
    for k in rng.random(len(z)).argsort():
        a, m = mean[k], M[k]
        if z[k]:
            r, w = r + a, w - m
            s -= 2 * w[k] + m[k]
        r1, s1 = r - a, s + 2 * w[k] + m[k]
        off, on = log_normal(r @ r, sigma2 * (1 + s) + own, D), log_normal(r1 @ r1, sigma2 * (1 + s1) + own, D)
        z[k] = on - off > threshold[k]
        if z[k]:
            r, w, s = r1, w + m, s1
    return z, float(r @ r), float(sigma2 * (1 + s))


def draw_count(squared: float, variance: float, D: int, rho2: float, rate: float, rng: Rng) -> int:
    """Number k of new features: Poisson(k; rate) times the density of the row with variance + k rho2.

    Above twice the rate and the k of the best density the weights only fall, so a negligible last one ends the sum.
    """
    cap = 20 + 2 * int(rate)
    while True:
        k = np.arange(cap + 1)
        log_weights = xlogy(k, rate) - gammaln(k + 1) + log_normal(squared, variance + k * rho2, D)
        if log_weights[-1] < log_weights.max() - 40:  # exp(-40) is below the rounding of double precision
            return draw_index(log_weights, rng)
        cap *= 2


def check_data(X: ArrayLike) -> NDArray:
    """X as a matrix of finite floats."""
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or not len(X) or not np.isfinite(X).all():
        raise ValueError(f"X of shape {X.shape}: it must be a matrix of finite numbers with at least one row")
    return X


def check_sweeps(n_sweeps: int) -> None:
    """A chain has at least one sweep."""
    if n_sweeps < 1:
        raise ValueError(f"n_sweeps={n_sweeps}: it must be at least 1")


def check_groups(Z: ArrayLike, N: int, kind: Kind) -> NDArray:
    """The starting Z as a binary matrix of the right kind."""
    Z = np.asarray(Z)
    if Z.ndim != 2 or len(Z) != N:
        raise ValueError(f"init has a Z of shape {Z.shape}: it must be a matrix with {N} rows, one for each of X")
    if not np.isin(Z, (0, 1)).all():
        raise ValueError(f"init has a Z with the entries {np.unique(Z)[:5]}: they must be 0 or 1")
    if kind == "clusters" and not (Z.sum(axis=1) == 1).all():
        raise ValueError(f"init has rows in {np.unique(Z.sum(axis=1))} clusters: every row must be in exactly 1")
    return Z


def unpack_init(init: Any, N: int) -> tuple[Any, Any]:
    """Z and A (or None) from what a caller may start a chain with."""
    if init is None:
        return np.ones((N, 1)), None
    if hasattr(init, "Z") and hasattr(init, "A"):
        return init.Z, init.A
    return init if isinstance(init, tuple) and len(init) == 2 else (init, None)


@dataclass(frozen=True, kw_only=True)
class Gibbs(ABC):
    """What the two samplers share; see :class:`IBPGibbs` for the parameters."""

    sigma2: float = 1.0
    rho2: float = 1.0
    mass: float = 1.0
    collapsed: bool = True
    sample_sigma2: bool = False
    sample_rho2: bool = False
    sample_mass: bool = False
    variance_prior: tuple[float, float] = (1.0, 1.0)
    mass_prior: tuple[float, float] = (1.0, 1.0)
    random_state: int | Rng | None = None
    prior: ClassVar[CRP | IBP]

    def __post_init__(self) -> None:
        for name in ("sigma2", "rho2", "mass", "variance_prior", "mass_prior"):
            value = getattr(self, name)
            if not (np.all(np.greater(value, 0)) and np.all(np.isfinite(value))):
                raise ValueError(f"{name}={value}: it must be finite and > 0")

    @abstractmethod
    def _draw_row(self, row: Row, state: State, rng: Rng) -> tuple[NDArray, int]:
        """The row's bits in the groups that others have, and its number of new groups."""

    @abstractmethod
    def _draw_mass(self, N: int, K: int, mass: float, rng: Rng) -> float:
        """The mass given the number of groups."""

    @abstractmethod
    def _inverse(self, P: NDArray) -> NDArray:
        """Inverse of Z'Z plus a multiple of the identity."""

    def sample(self, X: ArrayLike, n_sweeps: int, init: Any = None) -> Chain:
        """Run a chain.

        Parameters
        ----------
        X : array-like of shape (N, D)
            The data.
        n_sweeps : int
            Number of sweeps over the rows, at least 1.
        init : None, Z, (Z, A) or an object with attributes Z and A
            Where to start; by default one group that has all rows. A missing A is drawn given Z and X.

        Returns
        -------
        Chain
            The states after each sweep.
        """
        X = check_data(X)
        check_sweeps(n_sweeps)
        rng = np.random.default_rng(self.random_state)
        states = [self.start(X, init, rng)]
        for _ in range(n_sweeps):
            states.append(self.sweep(X, states[-1], rng))
        return self.chain(X, states[1:])

    def sweep(self, X: NDArray, state: State, rng: Rng) -> State:
        """One pass over the rows, then A and the parameters that are sampled.

        A sampler that integrates A out draws it all the same for the parameters' sake and then forgets it: an
        exact draw of A given the rest leaves the distribution of the rest as it is.
        """
        table = Table.of(X, state.Z, state.A)
        for n, x in enumerate(X):
            self._update_row(n, x, table, state, rng)
        A = draw_means(X, table.Z, state.sigma2, state.rho2, rng)
        state = self._draw_parameters(X, state._replace(Z=table.Z, A=A), rng)
        if not self.collapsed:
            return state
        return state._replace(A=posterior_mean(X, state.Z, state.sigma2 / state.rho2))

    def _update_row(self, n: int, x: NDArray, table: Table, state: State, rng: Rng) -> None:
        """Take row n out, draw its groups, put it back."""
        N, D = len(table.Z), len(x)
        z, n_own = table.take_out(n, x)
        mean, M = self._others(table, state.sigma2 / state.rho2)
        row = Row(x, z, n_own, N, table.gram.diagonal(), mean, M)
        z, K_new = self._draw_row(row, state, rng)
        A_new = np.zeros((K_new, D))
        if K_new and not self.collapsed:
            A_new = draw_means((x - z @ mean)[None], np.ones((1, K_new)), state.sigma2, state.rho2, rng)
        table.put_back(n, x, z, A_new)

    def _others(self, table: Table, ratio: float) -> tuple[NDArray, NDArray]:
        """What the rows in the table say about A: its mean and its covariance over sigma2."""
        K = len(table.gram)
        if not self.collapsed:
            return table.A, np.zeros((K, K))
        M = self._inverse(table.gram + ratio * np.eye(K))
        return M @ table.sums, M

    def _draw_parameters(self, X: NDArray, state: State, rng: Rng) -> State:
        """Draw sigma2, rho2 and the mass, those that are sampled."""
        (Z, A, sigma2, rho2, mass), (shape, scale) = state, self.variance_prior
        if self.sample_sigma2:
            sigma2 = 1 / draw_gamma(shape + X.size / 2, scale + squared_error(X - Z @ A) / 2, rng)
        if self.sample_rho2:
            rho2 = 1 / draw_gamma(shape + A.size / 2, scale + squared_error(A) / 2, rng)
        if self.sample_mass:
            mass = self._draw_mass(len(Z), len(A), mass, rng)
        return State(Z, A, sigma2, rho2, mass)

    def start(self, X: NDArray, init: Any, rng: Rng) -> State:
        """State before the first sweep, which drops any empty groups of init."""
        Z, A = unpack_init(init, len(X))
        Z = check_groups(Z, len(X), self.prior.kind).astype(np.uint8)
        A = draw_means(X, Z, self.sigma2, self.rho2, rng) if A is None else np.asarray(A, dtype=float)
        if A.shape != (Z.shape[1], X.shape[1]):
            raise ValueError(f"init has an A of shape {A.shape}: it must be {(Z.shape[1], X.shape[1])}")
        return State(Z, A, self.sigma2, self.rho2, self.mass)

    def _log_joint(self, X: NDArray, state: State) -> float:
        Z, A, sigma2, rho2, mass = state
        likelihood = CollapsedGaussian(rho2) if self.collapsed else Gaussian(rho2)
        return likelihood.log_prob(X, Z, A, sigma2) + self.prior.log_prob(Z, float(np.log(mass)))

    def chain(self, X: NDArray, states: list[State], log_joint: bool = True) -> Chain:
        """The states as a chain; without the joint probabilities, which take a while, these are NaN."""
        Z, A, sigma2, rho2, mass = map(list, zip(*states, strict=True))
        K, joints = np.array([len(a) for a in A]), [self._log_joint(X, s) if log_joint else np.nan for s in states]
        return Chain(Z, A, K, np.array(joints), np.array(sigma2), np.array(rho2), np.array(mass))


@dataclass(frozen=True, kw_only=True)
class IBPGibbs(Gibbs):
    """Gibbs sampler of the linear-Gaussian model with the Indian buffet process prior.

    Paper: section 5.1.

    Parameters
    ----------
    sigma2, rho2, mass : float
        Variance of the data, variance of the means, mass of the prior; where they are sampled, their start.
    collapsed : bool
        Whether A is integrated out or part of the state.
    sample_sigma2, sample_rho2, sample_mass : bool
        Which of the parameters are sampled.
    variance_prior : (float, float)
        Shape and scale of the inverse gamma prior of sigma2 and of rho2.
    mass_prior : (float, float)
        Shape and rate of the gamma prior of the mass.
    random_state : int, numpy Generator or None
        The seed; an int gives the same chain every time.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.paper.gibbs import IBPGibbs
    >>> Z, A = np.array([[1, 0], [0, 1], [1, 1]] * 4), np.array([[8.0, 0.0], [0.0, 8.0]])
    >>> chain = IBPGibbs(sigma2=0.01, rho2=50.0, mass=0.1, random_state=0).sample(Z @ A, n_sweeps=50)
    >>> best = chain.log_joint.argmax()
    >>> bool(np.allclose(chain.Z[best] @ chain.A[best], Z @ A, atol=0.1))
    True
    """

    prior: ClassVar[CRP | IBP] = IBP()

    def _draw_row(self, row: Row, state: State, rng: Rng) -> tuple[NDArray, int]:
        """Bit by bit, with the means of the row's own features integrated out in both modes; then these anew."""
        z, squared, variance = draw_bits(row, state.sigma2, state.rho2, rng)
        return z, draw_count(squared, variance, len(row.x), state.rho2, state.mass / row.n_rows, rng)

    def _draw_mass(self, N: int, K: int, mass: float, rng: Rng) -> float:
        """K is Poisson with mean mass times the N-th harmonic number, so the gamma prior is conjugate."""
        shape, rate = self.mass_prior
        return draw_gamma(shape + K, rate + (1 / np.arange(1, N + 1)).sum(), rng)

    def _inverse(self, P: NDArray) -> NDArray:
        return np.linalg.inv(P)


@dataclass(frozen=True, kw_only=True)
class CRPGibbs(Gibbs):
    """Gibbs sampler of the Gaussian mixture with the Chinese restaurant process prior.

    With ``collapsed=True`` it is algorithm 3 of Neal (2000); otherwise the cluster means are part of the state,
    as in his algorithm 2. The parameters are those of :class:`IBPGibbs`.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.paper.gibbs import CRPGibbs
    >>> X = np.array([[0.0], [0.1], [9.0], [9.1]])
    >>> chain = CRPGibbs(sigma2=0.01, rho2=50.0, random_state=0).sample(X, n_sweeps=20)
    >>> chain.Z[chain.log_joint.argmax()].sum(axis=0).tolist()
    [2, 2]
    """

    prior: ClassVar[CRP | IBP] = CRP()

    def _draw_row(self, row: Row, state: State, rng: Rng) -> tuple[NDArray, int]:
        """One of the clusters that others are in, or a new one with its mean integrated out."""
        x, K, D = row.x, len(row.sizes), len(row.x)
        squared = ((x - row.mean) ** 2).sum(axis=1)
        old = np.log(row.sizes) + log_normal(squared, state.sigma2 * (1 + row.M.diagonal()), D)
        new = np.log(state.mass) + log_normal(x @ x, state.sigma2 + state.rho2, D)
        k = draw_index(np.append(old, new), rng)
        return (np.arange(K) == k).astype(float), int(k == K)

    def _draw_mass(self, N: int, K: int, mass: float, rng: Rng) -> float:
        """Escobar and West (1995): given a beta auxiliary variable, a mixture of two gammas."""
        shape, rate = self.mass_prior
        rate -= np.log(rng.beta(mass + 1, N))
        odds = (shape + K - 1) / (N * rate)
        return draw_gamma(shape + K - (rng.random() * (1 + odds) > odds), rate, rng)

    def _inverse(self, P: NDArray) -> NDArray:
        """P is diagonal: a row is in one cluster only."""
        return np.diag(1 / np.diag(P))
