"""The page itself: sections put into a template, every word of the user escaped."""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from numpy.typing import ArrayLike

from madbayes.comparison import Stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.base import GroupEstimator
from madbayes.explain import Recipe
from madbayes.files import write_whole
from madbayes.report.path_view import path_view, staircase
from madbayes.report.sections import examples, gallery, odd_rows, pairs, residuals, stability_view
from madbayes.report.subject import subject_of
from madbayes.versions import versions
from madbayes.words import number, shown

# Of the run, told in places of their own.
TOLD = ("command", "versions", "title")


def write_report(
    file: str | os.PathLike[str],
    model: GroupEstimator,
    X: ArrayLike,
    *,
    recipe: Recipe | None = None,
    ids: Sequence[Any] | None = None,
    frame: Any = None,
    image_shape: tuple[int, ...] | None = None,
    path: PenaltyPath | None = None,
    stability: Stability | None = None,
    run: Mapping[str, Any] | None = None,
    sampled_from: int | None = None,
) -> None:
    """Write one HTML file about a fit. It needs no network and no other file.

    Parameters
    ----------
    file : path
        Where to write; a file that is there is replaced.
    model : fitted estimator of madbayes
    X : array-like of shape (n_rows, n_columns)
        What the model was fitted to.
    recipe : transformer, optional
        What made X of the user's table, such as :class:`madbayes.tables.Recipe`.
    ids : sequence of length n_rows, optional
        What to call the rows.
    frame : DataFrame of n_rows rows, optional
        The user's table, of which unusual rows are shown as they came.
    image_shape : tuple of int, optional
        Height and width, and 3 for colour, where rows are pictures.
    path : PenaltyPath, optional
        Where the number of groups comes from; by default that of the model, if it has one.
    stability : Stability, optional
        What :func:`madbayes.stability` returned.
    run : dict, optional
        How the fit was made: ``title``, ``command``, ``versions`` (a dict), and anything else worth
        telling, such as ``seed`` or ``timings`` (values, or dicts of them).
    sampled_from : int, optional
        Rows of the table of which X is a sample; the page says so.

    Examples
    --------
    >>> from madbayes import DPMeans
    >>> from madbayes.report import write_report
    >>> X = [[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 1.0], [10.0, 2.0]]
    >>> folder = getfixture("tmp_path")
    >>> write_report(folder / "report.html", DPMeans(penalty=20.0).fit(X), X)
    >>> "2 clusters of 5 rows." in (folder / "report.html").read_text(encoding="utf-8")
    True
    """
    page = render_report(
        model,
        X,
        recipe=recipe,
        ids=ids,
        frame=frame,
        image_shape=image_shape,
        path=path,
        stability=stability,
        run=run,
        sampled_from=sampled_from,
    )
    write_whole(file, page.encode())


def render_report(
    model: GroupEstimator,
    X: ArrayLike,
    *,
    recipe: Recipe | None = None,
    ids: Sequence[Any] | None = None,
    frame: Any = None,
    image_shape: tuple[int, ...] | None = None,
    path: PenaltyPath | None = None,
    stability: Stability | None = None,
    run: Mapping[str, Any] | None = None,
    sampled_from: int | None = None,
) -> str:
    """The page that :func:`write_report` writes.

    Parameters
    ----------
    model, X, recipe, ids, frame, image_shape, path, stability, run, sampled_from
        See there.

    Returns
    -------
    str
    """
    template, run = _template(), run or {}
    subject = subject_of(
        model,
        X,
        recipe=recipe,
        ids=ids,
        image_shape=image_shape,
        path=path,
        stability=stability,
        sampled_from=sampled_from,
    )
    if frame is not None and len(frame) != len(subject.X):
        raise ValueError(f"frame has {len(frame)} rows, and X has {len(subject.X)}: give the table that X was made of")
    view = path_view(subject)
    script = _text("report.js")
    return template.render(
        title=str(run.get("title") or "What was found"),
        style=_text("report.css"),
        script=script,
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        found=subject.explanation,
        one=subject.one,
        adds=subject.units.adds,
        pictured=subject.painter is not None,
        path=view,
        stairs=view and staircase(view),
        cards=gallery(subject),
        pairs=pairs(subject),
        examples=examples(subject),
        residuals=residuals(subject),
        stability=stability_view(subject, stability),
        odd=odd_rows(subject, frame),
        decisions=getattr(recipe, "decisions_", []),
        command=str(run.get("command") or repr(model)),
        versions=dict(run.get("versions") or versions()),
        details={str(name): _shown(value) for name, value in run.items() if name not in TOLD},
    )


def _template() -> Any:
    """The template, escaping all that is put into it."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('Reports need jinja2 and Pillow: pip install "madbayes[app]"') from error
    environment = Environment(
        loader=PackageLoader("madbayes.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment.get_template("report.html")


def _text(name: str) -> str:
    """A file of the page that is our own."""
    return (files("madbayes.report") / "templates" / name).read_text(encoding="utf-8").strip()


def _shown(value: Any) -> str | dict[str, str]:
    """A value as one reads it; of a dictionary each of its values."""
    return {str(name): shown(inner) for name, inner in value.items()} if isinstance(value, Mapping) else shown(value)
