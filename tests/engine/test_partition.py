from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from madbayes.engine import partition
from madbayes.engine.blocks import Workers

nearest = partial(partition.nearest, workers=Workers(1))


@given(
    X=arrays(np.int64, (6, 2), elements=st.integers(-3, 3)),
    A=st.integers(1, 5).flatmap(lambda K: arrays(np.int64, (K, 2), elements=st.integers(-3, 3))),
    offset=st.sampled_from([0, 10**8]),
)
def test_nearest_is_the_first_of_the_nearest(X, A, offset):
    squares = ((X[:, None] - A) ** 2).sum(axis=2)
    labels = nearest(X + float(offset), A + float(offset))
    assert_array_equal(labels, [row.tolist().index(row.min()) for row in squares])


def test_blocks_of_rows_do_not_change_the_clusters(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    whole_table = nearest(X, A)
    monkeypatch.setattr(partition, "row_blocks", lambda n_rows, _: [slice(i, i + 4) for i in range(0, n_rows, 4)])
    assert_array_equal(nearest(X, A), whole_table)
