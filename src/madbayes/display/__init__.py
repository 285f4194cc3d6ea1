"""Pictures of what was found, drawn with matplotlib (the extra ``plot``).

Displays as in scikit-learn: ``FeatureDisplay``, ``AllocationDisplay``, ``PathDisplay`` and ``TraceDisplay`` are made by
``from_estimator`` or from data, drawn by ``plot``, and keep ``ax_`` and ``figure_``. The functions ``plot_images``,
``plot_reconstruction`` and ``plot_model`` return a figure. No figure has a window behind it: save it with ``savefig``,
let a notebook show it, or give an axis of ``matplotlib.pyplot`` to draw on.
"""

from madbayes.display.allocation import AllocationDisplay
from madbayes.display.features import FeatureDisplay
from madbayes.display.images import plot_images, plot_model, plot_reconstruction
from madbayes.display.path import PathDisplay
from madbayes.display.trace import TraceDisplay

__all__ = [
    "AllocationDisplay",
    "FeatureDisplay",
    "PathDisplay",
    "TraceDisplay",
    "plot_images",
    "plot_model",
    "plot_reconstruction",
]
