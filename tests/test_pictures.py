import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from madbayes.datasets import load_faces, load_images, load_tabletop
from madbayes.pictures import Pictures, natural_key, project


def save(folder, name, array):
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(folder / name)


@pytest.fixture
def folder(tmp_path):
    """Three coloured pictures, and files that are none."""
    rng = np.random.default_rng(0)
    for number in (10, 2, 1):
        save(tmp_path, f"Photo_{number}.PNG", rng.integers(256, size=(4, 5, 3)))
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "more.png").mkdir()
    return tmp_path


def test_a_row_for_each_picture_in_the_order_of_their_numbers(folder):
    X, names, shape = load_images(folder)
    assert names == ["Photo_1.PNG", "Photo_2.PNG", "Photo_10.PNG"]
    assert shape == (4, 5, 3)
    with Image.open(folder / "Photo_2.PNG") as image:
        assert_array_equal(X[1].reshape(shape), np.asarray(image) / 255)


def test_grey(folder):
    save(folder, "Photo_3.png", np.full((4, 5, 3), 51))
    X, _, shape = load_images(str(folder), grey=True)
    assert shape == (4, 5)
    assert_allclose(X[2], 0.2)


def test_numbers_in_names_count_as_numbers():
    names = ["b.png", "a10b2.png", "a10b11.png", "A9.png", "10.png", "9.png"]
    assert sorted(names, key=natural_key) == ["9.png", "10.png", "A9.png", "a10b2.png", "a10b11.png", "b.png"]


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder='.*nowhere' is not a folder"):
        load_images(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="has no pictures"):
        load_images(tmp_path)


def test_pictures_of_different_sizes(folder):
    save(folder, "Photo_4.png", np.zeros((5, 4, 3)))
    with pytest.raises(ValueError, match=r"differ in size: Photo_1.PNG and Photo_4.png"):
        load_images(folder)


@pytest.mark.parametrize("length", [0, 40, 60])
def test_a_broken_picture_is_named(folder, length):
    whole = (folder / "Photo_2.PNG").read_bytes()
    (folder / "Photo_2.PNG").write_bytes(whole[:length])
    with pytest.raises(ValueError, match=r"Photo_2.PNG cannot be read as a picture"):
        load_images(folder)


def test_without_pillow_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"madbayes\[app\]"):
        load_images(folder)


def test_projections_keep_distances_and_lead_back_to_pictures(folder):
    pictures = load_images(folder)
    X, axes, mean, _, names, _ = projection = project(pictures, scale=0.5)
    assert names == pictures.names
    assert X.shape == (3, 3)
    assert_allclose(axes[:2] @ axes[:2].T, np.eye(2), atol=1e-12)
    assert_allclose(X @ X.T, 0.25 * (pictures.X - mean) @ (pictures.X - mean).T, atol=1e-12)
    assert_allclose(projection.pictures(X).reshape(3, -1), pictures.X, atol=1e-12)
    assert_allclose(projection.parts(X[0] - X[1]).ravel(), pictures.X[0] - pictures.X[1], atol=1e-12)
    assert (np.diff((X**2).sum(axis=0)) <= 0).all()


def test_fewer_components_are_the_first_ones(folder):
    pictures = load_images(folder)
    assert_array_equal(project(pictures, 1).X, project(pictures).X[:, :1])


def test_other_pictures_are_not_the_tabletop(folder):
    with pytest.raises(ValueError, match="not the 100 tabletop pictures"):
        load_tabletop(folder)


def test_faces_are_grey_and_scaled(folder):
    faces = load_faces(folder, n_components=2)
    assert (faces.shape, faces.scale, faces.X.shape) == ((4, 5), 1 / np.sqrt(2), (3, 2))
    expected = load_images(folder, grey=True)
    assert_allclose(faces.mean, expected.X.mean(axis=0))


def test_a_single_face_has_no_components(tmp_path):
    save(tmp_path, "1a.png", np.zeros((3, 3)))
    with pytest.raises(ValueError, match="single picture"):
        load_faces(tmp_path)


@pytest.mark.pictures
def test_the_tabletop_pictures_have_their_published_squared_error():
    """With one feature the best is the mean of the rows without it or with it: 615.9, and more without any."""
    table = load_tabletop(Path(os.environ["MADBAYES_DATA"]) / "tabletop")
    assert table.X.shape == (100, 100)
    assert table.shape == (240, 320, 3)
    assert table.names[:2] == ["Picture_1.jpg", "Picture_2.jpg"]
    from madbayes import KFeatures

    assert KFeatures(1, random_state=0).fit(table.X).objective_ == pytest.approx(615.9, abs=0.05)


def test_pictures_are_plain_arrays():
    assert project(Pictures(np.eye(3), list("abc"), (3,)), 2).X.shape == (3, 2)
