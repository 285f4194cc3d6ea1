"""Likelihoods of the data given a grouping: log-probability before the small-variance limit, loss after it.

``A`` stands for whatever a group has: its mean, a K x D matrix, or for the covariance models a
:class:`MeansCovariances`. Row weights multiply the squared error of a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import multigammaln

from madbayes.model.priors import Kind

Weights = NDArray[np.floating] | None


class Likelihood(Protocol):
    """What an :class:`~madbayes.model.Objective` needs from a likelihood."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Which matrices Z the likelihood accepts."""

    def log_prob(self, X: NDArray, Z: NDArray, A: Any, sigma2: float) -> float:
        """Log-density of X and A given Z at the variance sigma2."""

    def loss(self, X: NDArray, Z: NDArray, A: Any, sample_weight: Weights = None) -> float:
        """Limit of -2 sigma2 log_prob as sigma2 -> 0."""

    def fit(self, X: NDArray, Z: NDArray, sample_weight: Weights = None) -> Any:
        """The A of smallest loss for this Z."""


def squared_error(R: NDArray, sample_weight: Weights = None) -> float:
    """Sum of the squared entries of R, each row times its weight."""
    row_errors = np.einsum("nd,nd->n", R, R)
    return float(row_errors.sum() if sample_weight is None else sample_weight @ row_errors)


def gram_inverse(gram: NDArray) -> NDArray:
    """A symmetric generalised inverse of Z'WZ: the inverse when there is one.

    The diagonal is scaled to one first, so that groups of very different weight are no obstacle.
    """
    scale = np.sqrt(np.diag(gram))
    scale[scale == 0] = 1.0
    scales = np.outer(scale, scale)
    return np.linalg.pinv(gram / scales, rcond=1e-12, hermitian=True) / scales


def least_squares(X: NDArray, Z: NDArray, sample_weight: Weights = None) -> NDArray:
    """The A at which the gradient of the squared error, -2 Z'(X - ZA), is zero.

    Linearly dependent columns of Z are no obstacle: one of the minimisers is returned. The second pass removes
    the rounding error that a large common offset in X leaves in the first.

    Paper: equation (16), with its sign put right.
    """
    Z = np.asarray(Z, dtype=float)
    ZW = Z.T if sample_weight is None else Z.T * sample_weight
    inverse = gram_inverse(ZW @ Z)
    A = inverse @ (ZW @ X)
    return A + inverse @ (ZW @ (X - Z @ A))


def log_gaussian(squared: float, log_det: float, n_entries: int) -> float:
    """Log-density of n_entries Gaussian numbers with this summed squared distance and log-determinant."""
    return float(-0.5 * (n_entries * np.log(2 * np.pi) + log_det + squared))


@dataclass(frozen=True)
class Gaussian:
    """Rows around the sum of their groups' means; means around zero with variance rho2.

    With one group per row this is the Gaussian mixture, with any number the linear-Gaussian model.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import Gaussian
    >>> X, Z = np.array([[1.0], [3.0]]), np.ones((2, 1))
    >>> Gaussian().fit(X, Z)
    array([[2.]])
    >>> Gaussian().loss(X, Z, np.array([[2.0]]))
    2.0
    """

    rho2: float = 1.0
    kinds: tuple[Kind, ...] = ("clusters", "features")

    def log_prob(self, X: NDArray, Z: NDArray, A: NDArray, sigma2: float) -> float:
        """Log of p(X | Z, A) p(A).

        Paper: equation (5), times the Gaussian prior of A.
        """
        data = log_gaussian(squared_error(X - Z @ A) / sigma2, X.size * np.log(sigma2), X.size)
        return data + log_gaussian(squared_error(A) / self.rho2, A.size * np.log(self.rho2), A.size)

    def loss(self, X: NDArray, Z: NDArray, A: NDArray, sample_weight: Weights = None) -> float:
        """Squared error of the rows."""
        return squared_error(X - Z @ A, sample_weight)

    def fit(self, X: NDArray, Z: NDArray, sample_weight: Weights = None) -> NDArray:
        """Least-squares means."""
        return least_squares(X, Z, sample_weight)


@dataclass(frozen=True)
class CollapsedGaussian:
    """The Gaussian likelihood with the means integrated out; A is not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import CollapsedGaussian
    >>> CollapsedGaussian().loss(np.array([[1.0], [3.0]]), np.ones((2, 1)))
    2.0
    """

    rho2: float = 1.0
    kinds: tuple[Kind, ...] = ("clusters", "features")

    def log_prob(self, X: NDArray, Z: NDArray, A: NDArray | None, sigma2: float) -> float:
        """Log of p(X | Z).

        In the singular vectors of Z the quadratic form is the squared error outside their span plus a
        shrunken part inside it: no difference of large numbers.

        Paper: equation (7), with the identity K x K.
        """
        (N, D), K = X.shape, Z.shape[1]
        U, s, _ = np.linalg.svd(np.asarray(Z, dtype=float), full_matrices=False)
        ratio = sigma2 / self.rho2
        inside = U.T @ X
        shrunken = (ratio / (s**2 + ratio)) @ np.einsum("kd,kd->k", inside, inside)
        log_det = np.log(s**2 + ratio).sum() + (K - len(s)) * np.log(ratio)
        volume = N * D * np.log(sigma2) - K * D * np.log(ratio) + D * log_det
        return log_gaussian((squared_error(X - U @ inside) + shrunken) / sigma2, volume, N * D)

    def loss(self, X: NDArray, Z: NDArray, A: NDArray | None = None, sample_weight: Weights = None) -> float:
        """Squared error about the least-squares means."""
        return squared_error(X - Z @ self.fit(X, Z, sample_weight), sample_weight)

    def fit(self, X: NDArray, Z: NDArray, sample_weight: Weights = None) -> NDArray:
        """Least-squares means: what the integral turns on in the limit."""
        return least_squares(X, Z, sample_weight)


class MeansCovariances(NamedTuple):
    """The groups of a covariance model."""

    means: NDArray  # K x D
    covariances: NDArray  # K x D x D


# The scatter of each cluster about given means, K x D x D: a function, for not every model looks at it.
Scatters = Callable[[NDArray], NDArray]


def cluster_scatters(X: NDArray, Z: NDArray, means: NDArray, sample_weight: Weights = None) -> NDArray:
    """Scatter matrix of each cluster about its mean, K x D x D.

    About the empirical means the traces add up to the first term of the collapsed DP-means objective.

    Paper: equation (9).
    """
    W = np.asarray(Z, dtype=float) if sample_weight is None else Z * sample_weight[:, None]
    return np.stack([((X - m).T * w) @ (X - m) for m, w in zip(means, W.T, strict=True)])


def mahalanobis(X: NDArray, means: NDArray, covariances: NDArray) -> NDArray:
    """Squared Mahalanobis distances of all rows to all clusters, N x K."""
    differences = X.T - means[:, :, None]
    whitened = np.linalg.solve(np.linalg.cholesky(covariances), differences)
    return np.einsum("kdn,kdn->nk", whitened, whitened)


def log_dets(matrices: NDArray) -> NDArray:
    """Log-determinants of positive definite matrices."""
    return np.linalg.slogdet(matrices).logabsdet


def log_mixture(X: NDArray, Z: NDArray, A: MeansCovariances, sigma2: float, rho2: float) -> float:
    """Log of p(X | Z, A) p(means) with covariances sigma2 times those of A."""
    D, sizes, means = X.shape[1], np.asarray(Z).sum(axis=0), A.means
    squared = (Z * mahalanobis(X, *A)).sum() / sigma2
    log_det = sizes @ (D * np.log(sigma2) + log_dets(A.covariances))
    data = log_gaussian(squared, log_det, X.size)
    return data + log_gaussian(squared_error(means) / rho2, means.size * np.log(rho2), means.size)


@dataclass(frozen=True)
class KnownCovarianceGaussian:
    """Gaussian clusters whose covariances are given: one D x D matrix for all, or one for each column of Z.

    Paper: Appendix E, the case of known covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import KnownCovarianceGaussian
    >>> model = KnownCovarianceGaussian(np.array([[4.0]]))
    >>> X, Z = np.array([[1.0], [3.0]]), np.ones((2, 1))
    >>> model.loss(X, Z, model.fit(X, Z))
    0.5
    """

    covariances: ArrayLike
    rho2: float = 1.0
    kinds: tuple[Kind, ...] = ("clusters",)

    def log_prob(self, X: NDArray, Z: NDArray, A: MeansCovariances, sigma2: float) -> float:
        """Log of p(X | Z, A) p(means)."""
        return log_mixture(X, Z, A, sigma2, self.rho2)

    def loss(self, X: NDArray, Z: NDArray, A: MeansCovariances, sample_weight: Weights = None) -> float:
        """Squared Mahalanobis error."""
        row_errors = (Z * mahalanobis(X, *A)).sum(axis=1)
        return float(row_errors.sum() if sample_weight is None else sample_weight @ row_errors)

    def fit(self, X: NDArray, Z: NDArray, sample_weight: Weights = None) -> MeansCovariances:
        """Cluster means, beside the given covariances."""
        means = least_squares(X, Z, sample_weight)
        return self.fit_about(means, lambda means: cluster_scatters(X, Z, means, sample_weight))

    def fit_about(self, means: NDArray, scatters: Scatters) -> MeansCovariances:
        """The clusters that have these means."""
        return MeansCovariances(means, np.stack([self.initial_covariance(k) for k in range(len(means))]))

    def covariance_prices(self, covariances: NDArray) -> NDArray:
        """What covariances add to the loss of each cluster: nothing, they are given."""
        return np.zeros(len(covariances))

    @property
    def n_slots(self) -> int:
        """Number of clusters that have a covariance of their own; 0 if all share one."""
        covariances = np.asarray(self.covariances)
        return len(covariances) if covariances.ndim == 3 else 0

    def initial_covariance(self, k: int) -> NDArray:
        """The covariance of cluster k."""
        covariances = np.asarray(self.covariances, dtype=float)
        return covariances[k] if self.n_slots else covariances


@dataclass(frozen=True)
class FullCovarianceGaussian:
    """Gaussian clusters that each learn their covariance.

    A cluster's covariance has an inverse Wishart prior with scale prior_covariance / sigma2 and
    covariance_penalty / sigma2 degrees of freedom. With that scaling the normaliser tends to the constant in
    :meth:`loss`, which makes the loss of a cluster zero when it has no scatter and positive otherwise; as
    printed in the paper, the objective has no lower bound.

    Paper: Appendix E.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import FullCovarianceGaussian
    >>> model = FullCovarianceGaussian(np.array([[1.0]]))
    >>> X, Z = np.array([[1.0], [3.0]]), np.ones((2, 1))
    >>> bool(np.isclose(model.loss(X, Z, model.fit(X, Z)), np.log(1 + 2)))
    True
    """

    prior_covariance: ArrayLike
    covariance_penalty: float = 1.0
    rho2: float = 1.0
    kinds: tuple[Kind, ...] = ("clusters",)

    def log_prob(self, X: NDArray, Z: NDArray, A: MeansCovariances, sigma2: float) -> float:
        """Log of p(X | Z, A) p(means) p(covariances)."""
        (K, D), c = A.means.shape, self.covariance_penalty
        Phi, nu = np.asarray(self.prior_covariance) / sigma2, c / sigma2
        normaliser = 0.5 * nu * log_dets(Phi) - 0.5 * nu * D * np.log(2) - multigammaln(0.5 * nu, D)
        traces = np.trace(np.linalg.solve(A.covariances, Phi[None]), axis1=1, axis2=2)
        wishart = K * normaliser - 0.5 * ((nu + D + 1) * log_dets(A.covariances) + traces).sum()
        return log_mixture(X, Z, A, sigma2, self.rho2) + float(wishart)

    def loss(self, X: NDArray, Z: NDArray, A: MeansCovariances, sample_weight: Weights = None) -> float:
        """Mahalanobis error plus the price of each non-empty cluster's covariance."""
        scatters = cluster_scatters(X, Z, A.means, sample_weight)
        used = np.asarray(Z).any(axis=0)
        return float(self.cluster_losses(scatters, A.covariances)[used].sum())

    def cluster_losses(self, scatters: NDArray, covariances: NDArray) -> NDArray:
        """tr((S + Phi) Sigma^-1) + c log|Sigma| - c log|Phi / c| - c D for each cluster.

        Written as tr(Sigma^-1 S), the Mahalanobis error of the rows, and a price for Sigma: two terms that are never
        negative.
        """
        traces = np.trace(np.linalg.solve(covariances, scatters), axis1=1, axis2=2)
        return traces + self.covariance_prices(covariances)

    def covariance_prices(self, covariances: NDArray) -> NDArray:
        """What the covariance of each cluster adds to its loss: c (tr M - log|M| - D), with M = Sigma^-1 Phi / c."""
        c, Phi = self.covariance_penalty, np.asarray(self.prior_covariance)
        M = np.linalg.solve(covariances, Phi[None] / c)
        return c * (np.trace(M, axis1=1, axis2=2) - log_dets(M) - len(Phi))

    def fit(self, X: NDArray, Z: NDArray, sample_weight: Weights = None) -> MeansCovariances:
        """Cluster means and (S + Phi) / c."""
        means = least_squares(X, Z, sample_weight)
        return self.fit_about(means, lambda means: cluster_scatters(X, Z, means, sample_weight))

    def fit_about(self, means: NDArray, scatters: Scatters) -> MeansCovariances:
        """The clusters that have these means: their covariances are (S + Phi) / c."""
        S, Phi = scatters(means), np.asarray(self.prior_covariance)
        return MeansCovariances(means, (S + Phi) / self.covariance_penalty)

    @property
    def n_slots(self) -> int:
        """No cluster has a covariance before it has rows."""
        return 0

    def initial_covariance(self, k: int) -> NDArray:
        """The covariance of a cluster without scatter, the same for every k."""
        return np.asarray(self.prior_covariance, dtype=float) / self.covariance_penalty
