"""Branch and bound for the bits z that bring Rz nearest to a point y, R being a triangle."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.compiling import compiled


class Tree(NamedTuple):
    """Buffers: where branch and bound is, for each bit."""

    rest: NDArray  # (K,), what is left of y once the later bits are chosen
    partial: NDArray  # (K + 1,), squared distance in the coordinates from here on
    bits: NDArray  # (K,), uint8
    nearer: NDArray  # (K,), uint8, the value to try first
    tried: NDArray  # (K,), int64, values tried


@compiled(inline="always")
def make_tree(K):  # type: ignore[no-untyped-def]
    """Buffers for K bits."""
    return Tree(np.empty(K), np.zeros(K + 1), np.zeros(K, np.uint8), np.zeros(K, np.uint8), np.zeros(K, np.int64))


@compiled()
def distance(y, R, bits, K):  # type: ignore[no-untyped-def]
    """|y - R bits|^2."""
    total = 0.0
    for i in range(K):
        c = y[i]
        for j in range(i, K):
            if bits[j]:
                c -= R[i, j]
        total += c * c
    return total


@compiled()
def branch(y, R, K, limit, node_limit, tree, code):  # type: ignore[no-untyped-def]
    """Bits from the last to the first, the nearer value first; returns whether any bits are nearer than the limit.

    limit : IN, a squared distance
    node_limit : IN, gives up after this many nodes
    code : OUT (K,), uint8, the nearest bits found, if any
    """
    rest, partial, bits, nearer, tried = tree.rest, tree.partial, tree.bits, tree.nearer, tree.tried
    level, nodes, found = K - 1, 0, False
    partial[K], tried[level] = 0.0, 0
    while level < K:
        if tried[level] == 2 or nodes > node_limit:
            level += 1
            continue
        if tried[level] == 0:
            rest[level] = y[level]
            for j in range(level + 1, K):
                if bits[j]:
                    rest[level] -= R[level, j]
            nearer[level] = abs(rest[level] - R[level, level]) < abs(rest[level])
        bit = nearer[level] if tried[level] == 0 else 1 - nearer[level]
        tried[level] += 1
        nodes += 1
        c = rest[level] - (R[level, level] if bit else 0.0)
        error = partial[level + 1] + c * c
        if error >= limit:
            tried[level] = 2  # the other value is farther still
            continue
        bits[level], partial[level] = bit, error
        if level > 0:
            level -= 1
            tried[level] = 0
            continue
        limit, found = error, True
        for j in range(K):
            code[j] = bits[j]
    return found
