"""Progress, callbacks of scikit-learn 1.9, and what an interrupt leaves; without callbacks before 1.9."""

import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

from madbayes import BPMeans, DPMeans, KFeatures
from madbayes.engine.climb import Climb
from madbayes.engine.search import Search
from madbayes.estimators.progress import STEPS, Progress

HAS_CALLBACKS = parse_version(sklearn.__version__) >= parse_version("1.9.0")
with_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="callbacks came with scikit-learn 1.9")


class Recorder:
    """Writes down the tasks that end, and stops where it is told to."""

    def __init__(self, stop=lambda tasks: False):
        self.begun, self.ended, self.life, self.stop = [], [], [], stop

    def setup(self, estimator, context):
        self.life.append("setup")

    def teardown(self, estimator, context):
        self.life.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(path_of(context))

    def on_fit_task_end(self, estimator, context):
        self.ended.append(path_of(context))
        return self.stop(self.ended)


class Follower(Recorder):
    """Follows estimators into others."""

    max_propagation_depth = None


class Looker(Recorder):
    """Asks for the model that would be fitted now."""

    def __init__(self, stop=lambda tasks: False):
        super().__init__(stop)
        self.models, self.data = [], []

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.data.append((X, y, metadata))
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return super().on_fit_task_end(estimator, context)


def path_of(context):
    """The names and numbers from the fit down to a task."""
    path = []
    while context is not None:
        path.insert(0, (context.task_name, context.task_id))
        context = context.parent
    return tuple(path)


def names(task):
    return [name for name, _ in task]


def groups_of(model):
    return model.cluster_centers_ if hasattr(model, "cluster_centers_") else model.components_


def assigned(model):
    return model.labels_ if hasattr(model, "labels_") else model.allocations_


def same(one, two):
    assert_array_equal(groups_of(one), groups_of(two))
    assert_array_equal(assigned(one), assigned(two))
    assert one.objective_ == two.objective_
    assert_array_equal(one.objective_trace_, two.objective_trace_)


@pytest.fixture(params=["best", "paper"])
def search(request):
    return request.param


@with_callbacks
def test_the_same_answer_with_callbacks(model, search, X):
    model.set_params(search=search)
    quiet, told = clone(model).fit(X), clone(model).set_callbacks(Looker()).fit(X)
    same(quiet, told)
    assert quiet.search_info_ == told.search_info_


@with_callbacks
def test_tasks_are_a_tree_whose_every_end_has_a_beginning(model, search, X):
    recorder = Recorder()
    model.set_params(search=search).set_callbacks(recorder).fit(X)
    assert recorder.life == ["setup", "teardown"]
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert len(set(recorder.ended)) == len(recorder.ended)
    assert names(recorder.ended[-1]) == ["fit"]
    assert {tuple(names(task)) for task in recorder.ended} == {
        ("fit",), ("fit", "search"), ("fit", "search", "step" if search == "best" else "run")
    }  # fmt: skip
    if search == "best":
        assert 1 <= len(recorder.ended) - 2 <= STEPS


@with_callbacks
def test_a_search_is_followed_step_by_step(more):
    """Ten moves a step: as many steps as moves were asked for allow."""
    recorder = Recorder()
    options = Search(agreement=10**6, max_lineages=None, max_moves=10 * STEPS)
    BPMeans(5.0, search=options, random_state=0).set_callbacks(recorder).fit(more)
    steps = [task for task in recorder.ended if names(task)[-1] == "step"]
    assert 0.7 * STEPS <= len(steps) <= STEPS


@with_callbacks
def test_the_path_is_part_of_the_fit(blobs):
    recorder = Recorder()
    model = DPMeans(random_state=0).set_callbacks(recorder).fit(blobs[0])
    numbers = [
        task for task in recorder.ended if names(task) == ["fit", "path", "numbers of groups", "number of groups"]
    ]
    of_the_table = [task for task in numbers if task[2][1] == 0]
    assert len(of_the_table) >= len(model.path_.n_components) - 1  # one is there before the first step
    assert [task[1] for task in recorder.ended if len(task) == 2] == [("path", 0), ("search", 1)]


@with_callbacks
@pytest.mark.parametrize("stop_at", [1, 3, 10])
def test_a_callback_stops_with_the_best_so_far(model, search, X, stop_at):
    looker = Looker(lambda tasks: len(tasks) >= stop_at)
    model.set_params(search=search, n_init=20).set_callbacks(looker).fit(X)
    steps = [task for task in looker.ended if len(task) == 3]
    stopped = model.search_info_.get("stopped")
    assert stopped == ("by a callback" if len(steps) >= stop_at else None)
    assert len(steps) <= stop_at
    assert_array_equal(assigned(model), model.predict(X) if hasattr(model, "predict") else model.transform(X))
    assert_allclose(-model.score(X), model.objective_)
    last = looker.models[-2]  # the last of all is the model itself
    assert_array_equal(groups_of(last), groups_of(model))
    assert_array_equal(assigned(last), assigned(model))
    assert last.objective_ == model.objective_


@with_callbacks
def test_what_callbacks_are_given(model, X):
    weights, looker = np.linspace(1, 2, len(X)), Looker()
    model.set_callbacks(looker).fit(X, sample_weight=weights)
    assert all(rows is X and y is None and data["sample_weight"] is weights for rows, y, data in looker.data)
    for some in looker.models:
        assert_allclose(-some.score(X, sample_weight=weights), some.objective_)
        assert some.objective_ >= model.objective_ * (1 - 1e-9)
        assert some is not model


@with_callbacks
def test_a_stop_on_the_path_chooses_among_what_was_looked_at(blobs):
    recorder = Recorder(lambda tasks: sum(names(task)[-1] == "number of groups" for task in tasks) >= 5)
    model = DPMeans(random_state=0).set_callbacks(recorder).fit(blobs[0])
    assert list(model.path_.n_components) == [1, 2, 3, 4, 5, 6]
    assert model.path_.null_ratio is None
    assert model.search_info_["stopped"] == "by a callback"
    assert model.n_clusters_ == 3


@with_callbacks
def test_an_error_in_a_callback_is_raised_and_the_callback_is_taken_down(model, X):
    def fail(tasks):
        raise ZeroDivisionError

    recorder = Recorder(fail)
    with pytest.raises(ZeroDivisionError):
        model.set_callbacks(recorder).fit(X)
    assert recorder.life == ["setup", "teardown"]
    assert not hasattr(model, "objective_")


@with_callbacks
def test_the_progress_bar_of_scikit_learn(X, capsys):
    from sklearn.callback import ProgressBar

    DPMeans(5.0, random_state=0).set_callbacks(ProgressBar()).fit(X)
    shown = capsys.readouterr().out
    assert "DPMeans - fit" in shown
    assert "DPMeans - search" in shown
    assert "100%" in shown


@with_callbacks
def test_the_scores_along_a_search(X):
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring=lambda model, X, y: {"score": model.score(X)})
    model = BPMeans(5.0, random_state=0).set_callbacks(monitor).fit(X, np.zeros(len(X)))
    scores = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "step"]
    assert scores == sorted(scores)
    assert_allclose(scores[-1], -model.objective_)


@with_callbacks
def test_in_a_pipeline(X):
    follower = Follower()
    pipeline = make_pipeline(StandardScaler(), DPMeans(5.0, random_state=0)).set_callbacks(follower).fit(X)
    searches = [task for task in follower.ended if names(task)[-1] == "search"]
    assert len(searches) == 1
    assert len(searches[0]) == 3  # the pipeline, its step, the search
    assert_array_equal(
        pipeline[-1].labels_, DPMeans(5.0, random_state=0).fit(StandardScaler().fit_transform(X)).labels_
    )


@with_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_in_a_grid_search(X, n_jobs, capsys):
    from sklearn.callback import ProgressBar

    search = GridSearchCV(DPMeans(random_state=0), {"penalty": [5.0, 50.0]}, cv=2, n_jobs=n_jobs)
    plain = clone(search).fit(X)
    told = clone(search).set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X)
    assert_array_equal(plain.cv_results_["mean_test_score"], told.cv_results_["mean_test_score"])
    assert "DPMeans - search" in capsys.readouterr().out


@pytest.mark.skipif(HAS_CALLBACKS, reason="says what is missing before scikit-learn 1.9")
def test_before_callbacks_a_fit_says_what_it_needs(model):
    assert not hasattr(model, "set_callbacks")
    with pytest.raises(AttributeError, match=r"callbacks need scikit-learn 1\.9, and this is 1"):
        model.set_callbacks()


def test_a_model_survives_a_fit_without_traces_of_callbacks(model, X):
    model.fit(X)
    assert not [name for name in vars(model) if "callback" in name]


def test_verbose_tells_of_the_path_and_the_lineages(blobs, capsys):
    model = DPMeans(random_state=0, verbose=1).fit(blobs[0])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "DPMeans: 1 of at most 17 numbers of groups looked at"
    assert sum("objective=" in line for line in lines) == len(model.runs_)


def test_verbose_prints_while_the_search_goes_on(more, capsys):
    """The first lineage is printed before the last has begun."""
    printed = []

    def look(landscape, solution, rng):
        printed.append(capsys.readouterr().out)

    BPMeans(5.0, search=Search(moves={"look": look}), random_state=0, verbose=1).fit(more)
    assert "objective=" in "".join(printed)


def interrupt_at(monkeypatch, place, name, call):
    """Ctrl-C in the given call of a function."""
    original, calls = getattr(place, name), []

    def interrupted(*args, **kwargs):
        calls.append(name)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(place, name, interrupted)
    return calls


@pytest.mark.parametrize("estimator", [DPMeans, BPMeans])
def test_an_interrupt_on_the_path_chooses_among_what_was_looked_at(estimator, search, blobs, monkeypatch):
    interrupt_at(monkeypatch, Climb, "polished", 6)
    model = estimator(search=search, random_state=0)
    with pytest.warns(UserWarning, match="interrupted: the number of groups is chosen"):
        model.fit(blobs[0])
    assert len(model.path_.n_components) == 6  # the simplest, and five more
    assert model.search_info_["stopped"] == "by an interrupt"
    assert len(model.runs_) <= 2 if search == "best" else len(model.runs_) >= 1
    assert_allclose(-model.score(blobs[0]), model.objective_)


def test_an_interrupt_of_second_looks_chooses_among_all_numbers(blobs, monkeypatch):
    whole = DPMeans(random_state=0).fit(blobs[0])
    interrupt_at(monkeypatch, Climb, "improved", 1)
    with pytest.warns(UserWarning, match="interrupted: the number of groups is chosen"):
        model = DPMeans(random_state=0).fit(blobs[0])
    assert_array_equal(model.path_.n_components, whole.path_.n_components)
    assert model.n_clusters_ == 3


def test_an_interrupt_in_a_groupless_table_keeps_the_path(blobs, monkeypatch):
    with monkeypatch.context() as patch:
        calls = interrupt_at(patch, Climb, "improved", None)
        whole = DPMeans(random_state=0).fit(blobs[0])
    interrupt_at(monkeypatch, Climb, "improved", len(calls))  # groupless tables come last
    with pytest.warns(UserWarning, match="interrupted: the number of groups is chosen"):
        model = DPMeans(random_state=0).fit(blobs[0])
    assert_array_equal(model.path_.sse, whole.path_.sse)
    assert len(model.path_.null_ratios) == len(whole.path_.null_ratios) - 1
    assert model.n_clusters_ == 3


def test_an_interrupt_at_the_beginning_of_the_path_is_an_interrupt(blobs, monkeypatch):
    interrupt_at(monkeypatch, Climb, "polished", 1)
    model = DPMeans(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(blobs[0])
    assert not hasattr(model, "objective_")


@pytest.mark.parametrize("model", [DPMeans(500.0), BPMeans(500.0), KFeatures(3)], ids=lambda one: type(one).__name__)
def test_an_interrupt_on_all_rows_keeps_what_the_sample_gave(model, blobs, monkeypatch):
    X = blobs[0]
    monkeypatch.setattr(type(model), "_search_rows", 60)
    interrupt_at(monkeypatch, type(model), "_descend_at_home", 1)
    model = clone(model).set_params(random_state=0)
    with pytest.warns(UserWarning, match="interrupted: keeping the best of"):
        model.fit(X)
    assert model.search_info_["stopped"] == "by an interrupt"
    assert not model.converged_
    assert len(assigned(model)) == len(X)
    assert_allclose(-model.score(X), model.objective_)


def test_progress_without_anybody_to_tell():
    progress = Progress()
    with progress.steps("search", 4, "step") as steps:
        steps.reach(0.5, dict)
        steps.reach(1.0, dict)
        assert steps.count == 3  # two for the half, one for the rest
    progress.end()
    assert progress.stopped is None


@pytest.fixture
def many_rows(monkeypatch):
    """A table of which only a sample is searched."""
    monkeypatch.setattr(DPMeans, "_search_rows", 200)
    return np.random.default_rng(0).random((900, 3))


def many_passes(**params):
    return DPMeans(0, max_clusters=20, search=Search(max_moves=1, max_lineages=1), random_state=0, **params)


@with_callbacks
def test_who_looks_does_not_change_what_is_found(many_rows, monkeypatch):
    monkeypatch.setattr("madbayes.estimators.base.JUDGED", 100)  # a sample is drawn for every look
    model = DPMeans(2.0, search=Search(max_moves=60, max_lineages=4, agreement=100), random_state=0)
    alone = pickle.loads(pickle.dumps(model.fit(many_rows)))
    looker = Looker()
    model.set_callbacks(looker).fit(many_rows)
    assert len(looker.models) > 1
    assert [run.seed for run in model.runs_] == [run.seed for run in alone.runs_]
    assert model.objective_ == alone.objective_
    assert model.unusual_error_ == alone.unusual_error_


@with_callbacks
def test_passes_that_are_interrupted_are_a_part_that_ends(many_rows, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPMeans, "_say_pass", interrupt)
    recorder = Recorder()
    with pytest.warns(UserWarning, match="interrupted") as caught:
        many_passes().set_callbacks(recorder).fit(many_rows)
    assert caught[0].filename == __file__
    parts = [[names(task) for task in tasks if len(task) == 2] for tasks in (recorder.begun, recorder.ended)]
    assert parts == [[["fit", "search"], ["fit", "all rows"]]] * 2


@with_callbacks
def test_a_fit_that_goes_on_tells_of_its_passes(many_rows, tmp_path):
    many_passes(checkpoint=tmp_path, max_iter=300).fit(many_rows)
    recorder = Recorder()
    many_passes(checkpoint=tmp_path).set_callbacks(recorder).fit(many_rows)
    assert [names(task) for task in recorder.ended if len(task) == 2] == [["fit", "all rows"]]


@pytest.mark.parametrize("model", [DPMeans(5.0, search="paper"), BPMeans(5.0, search="paper"), DPMeans()], ids=repr)
def test_the_warning_of_an_interrupt_points_to_the_users_line(model, blobs, monkeypatch):
    if model.search == "paper":
        monkeypatch.setattr(type(model), "_batch", lambda self, problem: 1)
        interrupt_at(monkeypatch, type(model), "_run", 2)
    else:
        interrupt_at(monkeypatch, Climb, "improved", 6)
    with pytest.warns(UserWarning, match="interrupted") as caught:
        clone(model).fit(blobs[0])
    assert caught[0].filename == __file__
