import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.experiments.scenes import FACE_COUNTS, make_faces, make_tabletop, places


def test_objects_hide_nothing_of_each_other():
    inside = np.stack(places((60, 80)))
    assert inside.sum(axis=0).max() == 1
    assert inside.any(axis=(1, 2)).all()


def test_without_noise_a_picture_is_the_table_and_its_objects():
    (X, _, shape), Z = make_tabletop(noise=0.0, random_state=0)
    assert shape == (60, 80, 3)
    design = np.column_stack([np.ones(len(Z)), Z])
    parts = np.linalg.lstsq(design, X, rcond=None)[0]
    assert_allclose(design @ parts, X, atol=1e-12)
    changed = np.abs(parts[1:].reshape(4, *shape)).max(axis=-1) > 1e-9
    assert_array_equal(changed, np.stack(places((60, 80))))
    assert X.min() >= 0
    assert X.max() <= 1


def test_faces_have_the_counts_of_the_paper(seed):
    pictures, Z = make_faces(random_state=seed)
    codes, counts = np.unique(Z @ [1, 2], return_counts=True)
    assert codes.tolist() == [0, 1, 2, 3]
    assert tuple(counts) == FACE_COUNTS
    assert pictures.X.shape == (400, 40 * 32)


def test_hair_and_skin_are_where_they_should_be():
    pictures, Z = make_faces((2, 2, 2, 2), noise=0.0, random_state=0)
    faces, (hair, skin) = pictures.X.reshape(-1, 40, 32), Z.T
    beside, forehead = faces[:, 20, 3], faces[:, 13, 16]
    assert (beside[hair == 1] < beside[hair == 0].min()).all()
    assert (forehead[skin == 1] < forehead[skin == 0].min()).all()


def test_same_seed_same_scenes():
    for make in (make_tabletop, make_faces):
        assert_array_equal(make(random_state=3).pictures.X, make(random_state=3).pictures.X)
        assert (make(random_state=3).pictures.X != make(random_state=4).pictures.X).any()
