"""Priors over groupings: log-probability before the small-variance limit, penalty after it.

Z is a binary N x K matrix: one row per data row, one column per group. A clustering has exactly one 1 in
each row, a feature allocation any number. Empty columns do not count as groups.

Every prior has a mass parameter, given as its logarithm: in the limit it is exp(-penalty / (2 sigma2)), and
that underflows long before sigma2 is small.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Kind = Literal["clusters", "features"]


class Prior(Protocol):
    """What an :class:`~madbayes.model.Objective` needs from a prior."""

    @property
    def kind(self) -> Kind:
        """Which matrices Z the prior is about."""

    def log_prob(self, Z: NDArray, log_mass: float) -> float:
        """Log-probability of Z at the mass exp(log_mass)."""

    def penalty(self, Z: NDArray, penalty: float) -> float:
        """Limit of -2 sigma2 log_prob(Z, -penalty / (2 sigma2)) as sigma2 -> 0."""


def group_sizes(Z: NDArray) -> NDArray[np.int64]:
    """Number of rows in each non-empty group."""
    sizes = np.asarray(Z).sum(axis=0, dtype=np.int64)
    return sizes[sizes > 0]


def one_hot(labels: NDArray[np.integer], K: int) -> NDArray[np.uint8]:
    """Binary matrix with a single 1 in each row, at the row's label."""
    return (np.asarray(labels)[:, None] == np.arange(K)).astype(np.uint8)


@dataclass(frozen=True)
class CRP:
    """Chinese restaurant process: any number of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import CRP
    >>> round(float(np.exp(CRP().log_prob(np.eye(2), log_mass=0.0))), 3)  # two customers, two tables
    0.5
    """

    kind: Kind = "clusters"

    def log_prob(self, Z: NDArray, log_mass: float) -> float:
        """Log of the exchangeable partition probability function.

        Paper: equation (1).
        """
        S, mass, N = group_sizes(Z), np.exp(log_mass), len(Z)
        return float((len(S) - 1) * log_mass + gammaln(mass + 1) - gammaln(mass + N) + gammaln(S).sum())

    def penalty(self, Z: NDArray, penalty: float) -> float:
        """One penalty for each cluster after the first."""
        return (len(group_sizes(Z)) - 1) * penalty

    def sample(self, n_rows: int, log_mass: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Seat the customers one by one."""
        labels: list[int] = []
        for _ in range(n_rows):
            weights = np.append(np.bincount(labels) if labels else [], np.exp(log_mass))
            labels.append(int(rng.choice(len(weights), p=weights / weights.sum())))
        return one_hot(np.array(labels), max(labels) + 1)


@dataclass(frozen=True)
class IBP:
    """Indian buffet process: any number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import IBP
    >>> empty = np.zeros((3, 0))
    >>> IBP().log_prob(empty, log_mass=0.0) == -(1 + 1 / 2 + 1 / 3)
    True
    """

    kind: Kind = "features"

    def log_prob(self, Z: NDArray, log_mass: float) -> float:
        """Log of the exchangeable feature probability function: of Z up to the order of its columns.

        Paper: equation (4).
        """
        Z = np.asarray(Z)
        S, N = group_sizes(Z), len(Z)
        _, repeats = np.unique(Z[:, Z.any(axis=0)].T, axis=0, return_counts=True)
        harmonic = (1 / np.arange(1, N + 1)).sum()
        buffet = gammaln(S) + gammaln(N - S + 1) - gammaln(N + 1)
        return float(len(S) * log_mass - np.exp(log_mass) * harmonic - gammaln(repeats + 1).sum() + buffet.sum())

    def penalty(self, Z: NDArray, penalty: float) -> float:
        """One penalty for each feature."""
        return len(group_sizes(Z)) * penalty

    def sample(self, n_rows: int, log_mass: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Serve the customers one by one."""
        Z = np.zeros((n_rows, 0), dtype=np.uint8)
        for n in range(n_rows):
            Z[n] = rng.random(Z.shape[1]) < Z.sum(axis=0) / (n + 1)
            new = np.zeros((n_rows, rng.poisson(np.exp(log_mass) / (n + 1))), dtype=np.uint8)
            new[n] = 1
            Z = np.hstack([Z, new])
        return Z


@dataclass(frozen=True)
class DirichletMultinomial:
    """At most K clusters, their frequencies integrated out.

    The probability is that of the labelled assignment, so relabelling clusters gives other outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import DirichletMultinomial
    >>> round(float(np.exp(DirichletMultinomial(K=2).log_prob(np.eye(2), log_mass=0.0))), 3)
    0.167
    """

    K: int
    kind: Kind = "clusters"

    def log_prob(self, Z: NDArray, log_mass: float) -> float:
        """Log-probability of the assignment.

        Gamma(mass) is written Gamma(mass + 1) / mass, which stays finite when the mass underflows.

        Paper: equation (11).
        """
        S, mass, N, K = group_sizes(Z), np.exp(log_mass), len(Z), self.K
        if len(S) > K:
            return -np.inf
        total = gammaln(K * mass + 1) - (np.log(K) + log_mass) - gammaln(N + K * mass)
        return float(total + (gammaln(S + mass) - gammaln(1 + mass) + log_mass).sum())

    def penalty(self, Z: NDArray, penalty: float) -> float:
        """One penalty for each cluster after the first; infinite above K clusters."""
        n_groups = len(group_sizes(Z))
        return (n_groups - 1) * penalty if n_groups <= self.K else np.inf

    def sample(self, n_rows: int, log_mass: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draw the frequencies, then the assignments."""
        q = rng.dirichlet(np.full(self.K, np.exp(log_mass)))
        return one_hot(rng.choice(self.K, size=n_rows, p=q), self.K)


@dataclass(frozen=True)
class BetaBernoulli:
    """At most K features, their frequencies integrated out.

    The probability is that of the matrix with all its K columns; columns missing from Z are empty.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.model import BetaBernoulli
    >>> round(float(np.exp(BetaBernoulli(K=1).log_prob(np.ones((1, 1)), log_mass=0.0))), 3)
    0.5
    """

    K: int
    kind: Kind = "features"

    def log_prob(self, Z: NDArray, log_mass: float) -> float:
        """Log-probability of the matrix.

        Gamma(mass) is written Gamma(mass + 1) / mass, which stays finite when the mass underflows.

        Paper: equation (13).
        """
        S, mass, N = group_sizes(Z), np.exp(log_mass), len(Z)
        if len(S) > self.K:
            return -np.inf
        # An empty column has Gamma(mass) above and below the line: only the normaliser is left.
        normaliser = gammaln(1 + mass) - gammaln(N + mass + 1)
        used = log_mass + gammaln(S + mass) - gammaln(1 + mass) + gammaln(N - S + 1)
        return float(self.K * normaliser + used.sum() + (self.K - len(S)) * gammaln(N + 1))

    def penalty(self, Z: NDArray, penalty: float) -> float:
        """One penalty for each feature; infinite above K features."""
        n_groups = len(group_sizes(Z))
        return n_groups * penalty if n_groups <= self.K else np.inf

    def sample(self, n_rows: int, log_mass: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Draw the frequencies, then the bits."""
        q = rng.beta(np.exp(log_mass), 1.0, size=self.K)
        return (rng.random((n_rows, self.K)) < q).astype(np.uint8)
