import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.datasets import make_dice
from madbayes.display import plot_images, plot_model, plot_reconstruction

SHAPE = (8, 8)


class Dice:
    """A model that knows the pips: with no noise its reconstruction is exact."""

    def __init__(self, n_components=4):
        self.data = make_dice(20, noise=0, random_state=0)
        self.components_ = self.data.A[:n_components]

    def transform(self, X):
        overlaps = X @ self.components_.T
        return (overlaps > (self.components_**2).sum(axis=1) / 2).astype(float)

    def inverse_transform(self, Z):
        return Z @ self.components_


def shown(figure):
    """The numbers behind every image of a figure, in the order they were drawn."""
    return [axis.images[0].get_array().data for axis in figure.axes if axis.images]


def titles(figure):
    return [axis.get_title() for axis in figure.axes if axis.images]


def test_images_are_what_was_given():
    A = make_dice(1).A
    figure = plot_images(A, SHAPE, ["a", "b", "c", "d"])
    assert_array_equal(shown(figure), A.reshape(4, 8, 8))
    assert titles(figure) == ["a", "b", "c", "d"]


def test_images_share_one_grey_scale():
    images = np.array([[0.0, 1.0, 2.0, 3.0], [-4.0, 0.0, 0.0, 0.0]])
    figure = plot_images(images, (2, 2))
    assert [axis.images[0].get_clim() for axis in figure.axes if axis.images] == [(-4, 3), (-4, 3)]


def test_titles_are_optional_and_colour_is_drawn_as_colour():
    images = np.random.default_rng(0).random((3, 12))
    figure = plot_images(images, (2, 2, 3), n_columns=2)
    assert_array_equal(shown(figure), images.reshape(3, 2, 2, 3))
    assert titles(figure) == ["", "", ""]


@pytest.mark.parametrize("n_images", [0, 1, 3, 4, 5])
def test_any_number_of_images_fits_in_lines_of_three(n_images):
    figure = plot_images(np.ones((n_images, 64)), SHAPE, n_columns=3)
    assert len(shown(figure)) == n_images
    assert len(figure.axes) == {0: 3, 1: 3, 3: 3, 4: 6, 5: 6}[n_images]


def test_reconstruction_stands_below_the_rows():
    model = Dice()
    X = model.data.X
    figure = plot_reconstruction(X, model, SHAPE, n_rows=3)
    above, below = np.split(np.array(shown(figure)), 2)
    assert_allclose(above, X[:3].reshape(3, 8, 8))
    assert_allclose(below, above, atol=1e-12)
    assert titles(figure) == ["row 0", "row 1", "row 2", "rebuilt", "rebuilt", "rebuilt"]


def test_reconstruction_of_fewer_rows_than_asked_for():
    model = Dice()
    assert len(shown(plot_reconstruction(model.data.X[:2], model, SHAPE, n_rows=8))) == 4


@pytest.mark.parametrize("n_components", [0, 1, 4])
def test_model_picture_has_features_rows_and_reconstruction(n_components):
    model = Dice(n_components)
    figure = plot_model(model.data.X, model, SHAPE, n_rows=3)
    assert len(shown(figure)) == n_components + 2 * 3
    assert titles(figure)[:n_components] == [f"feature {k}" for k in range(n_components)]
    for picture, component in zip(shown(figure)[:n_components], model.components_, strict=True):
        assert_array_equal(picture, component.reshape(SHAPE))


@pytest.mark.parametrize("plot", [plot_reconstruction, plot_model])
def test_a_picture_can_be_saved_and_read_back(plot, tmp_path):
    model = Dice()
    file = tmp_path / "picture.png"
    plot(model.data.X, model, SHAPE, n_rows=4).savefig(file, dpi=50)
    pixels = imread(file)
    assert pixels.ndim == 3
    assert pixels[..., :3].min() < 0.1  # dark pips
    assert pixels[..., :3].max() == 1  # on white


def test_drawing_neither_opens_pyplot_nor_changes_the_backend(tmp_path):
    script = (
        "import sys, matplotlib\n"
        "from madbayes.datasets import make_bars\n"
        "from madbayes.display import plot_images\n"
        "before = dict.__getitem__(matplotlib.rcParams, 'backend')\n"
        "plot_images(make_bars().A, (5, 5)).savefig('bars.png')\n"
        "assert dict.__getitem__(matplotlib.rcParams, 'backend') is before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "bars.png").exists()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "madbayes\[plot\]"'):
        plot_images(np.ones((1, 4)), (2, 2))


def test_matplotlib_is_imported_at_use():
    script = "import sys, madbayes.display; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
