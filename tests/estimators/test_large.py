"""Tables of many rows, in memory and in files: the same groups to the last bit, in as much memory as is allowed."""

import copy
import errno
import gc
import multiprocessing
import os
import pickle
import signal
import time
import weakref
from pathlib import Path

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import madbayes
from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures
from madbayes.engine import homes
from madbayes.engine.search import Search
from madbayes.estimators import at_home
from madbayes.estimators.checkpoints import NAME, Checkpoint
from madbayes.estimators.memory import Memory
from madbayes.files import FolderError
from madbayes.io import load_record
from madbayes.model import bp_means_objective, dp_means_objective
from madbayes.sources import FileRows

QUICK = Search(max_moves=20)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(5, 6))
    return centres[rng.integers(5, size=7000)] + rng.normal(size=(7000, 6))


@pytest.fixture
def parts():
    rng = np.random.default_rng(1)
    A = 3 * rng.normal(size=(4, 6))
    return (rng.random((3000, 4)) < 0.4) @ A + 0.3 * rng.normal(size=(3000, 6))


@pytest.fixture(autouse=True)
def many_parts(monkeypatch):
    monkeypatch.setattr(homes, "PART_ENTRIES", 2**13)  # 512 rows


CLUSTERS = [
    DPMeans(3000.0, search=QUICK, random_state=0),
    DPMeans(0, max_clusters=6, search=QUICK, random_state=0),
    CovarianceDPMeans(3000.0, covariances=np.diag([1.0, 2, 1, 2, 1, 2]), search=QUICK, random_state=0),
    CovarianceDPMeans(1.0, search=QUICK, random_state=0),
]
FEATURES = [
    BPMeans(2000.0, search=QUICK, random_state=0),
    KFeatures(4, search=QUICK, random_state=0),
    StepwiseKFeatures(2000.0, search=QUICK, random_state=0),
]


def mapped(X, tmp_path):
    np.save(tmp_path / "table.npy", X)
    return np.load(tmp_path / "table.npy", mmap_mode="r")


def groups(model):
    return model.labels_ if hasattr(model, "labels_") else model.allocations_


def table_for(model, blobs, parts):
    return blobs if hasattr(model, "max_clusters") else parts


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", CLUSTERS + FEATURES, ids=repr)
def test_a_file_gives_the_bits_of_memory(model, dtype, blobs, parts, tmp_path):
    X = table_for(model, blobs, parts).astype(dtype)
    here = pickle.loads(pickle.dumps(model.fit(X)))
    there = model.fit(mapped(X, tmp_path))
    assert here.objective_ == there.objective_
    assert here.unusual_error_ == there.unusual_error_
    assert_array_equal(groups(here), groups(there))
    for mine, theirs in zip(here._groups(), there._groups(), strict=True):
        assert_array_equal(mine, theirs)
    assert_array_equal(here.objective_trace_, there.objective_trace_)


@pytest.mark.parametrize("model", CLUSTERS + FEATURES, ids=repr)
def test_threads_change_nothing(model, blobs, parts):
    X = table_for(model, blobs, parts)
    one = pickle.loads(pickle.dumps(model.fit(X)))
    three = model.set_params(n_jobs=3).fit(X)
    model.set_params(n_jobs=None)
    assert one.objective_ == three.objective_
    assert_array_equal(groups(one), groups(three))


@pytest.mark.parametrize("model", CLUSTERS + FEATURES, ids=repr)
def test_the_value_is_that_of_the_objective(model, blobs, parts):
    X = table_for(model, blobs, parts)
    model.fit(X)
    Z = groups(model)
    if isinstance(model, CovarianceDPMeans):
        value = model._objective(X, np.eye(model.n_clusters_)[Z], model._groups())
        assert_array_equal(Z, model.predict(X))
    elif Z.ndim == 1:
        value = dp_means_objective(model.penalty_)(X, np.eye(model.n_clusters_)[Z], model.cluster_centers_)
        assert_array_equal(Z, model.predict(X))
    else:
        value = bp_means_objective(model.penalty_)(X, Z.astype(float), model.components_)
        assert_array_equal(Z, model.transform(X))
    assert_allclose(model.objective_, value, rtol=1e-12)
    assert_allclose(model.score(X), -value, rtol=1e-12)
    assert (np.diff(model.objective_trace_) <= 1e-9 * model.objective_).all()


def test_weights_are_copies(blobs):
    copies = np.random.default_rng(2).integers(1, 4, len(blobs))
    model = DPMeans(6000.0, search=QUICK, random_state=0)
    weighted = model.fit(blobs, sample_weight=copies.astype(float)).objective_
    copied = model.fit(np.repeat(blobs, copies, axis=0)).objective_
    assert_allclose(weighted, copied, rtol=1e-9)


def test_rows_of_no_weight_have_labels_and_no_influence(blobs):
    weights = np.ones(len(blobs))
    weights[::7] = 0
    model = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs, sample_weight=weights)
    assert_array_equal(model.labels_, model.predict(blobs))
    alone = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs[weights > 0])
    assert alone.objective_ == model.objective_


def test_blocks_and_parquet_are_tables(blobs, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    model = DPMeans(3000.0, search=QUICK, random_state=0)
    wanted = model.fit(blobs).objective_
    assert model.fit(iter(np.array_split(blobs, 7))).objective_ == wanted
    folder = tmp_path / "table"
    folder.mkdir()
    for i, block in enumerate(np.array_split(blobs, 3)):
        pq.write_table(pa.table(dict(zip("abcdef", block.T, strict=True))), folder / f"{i}.parquet", row_group_size=500)
    assert model.fit(folder).objective_ == wanted
    assert list(model.feature_names_in_) == list("abcdef")
    assert_array_equal(model.predict(str(folder)), model.labels_)
    with pytest.raises(ValueError, match="expecting 5 features"):
        DPMeans(3000.0, search=QUICK).fit([blobs[:, :5]]).predict(folder)


@pytest.mark.parametrize("model", [CLUSTERS[0], FEATURES[0]], ids=repr)
def test_what_does_not_fit_in_memory_is_kept_in_files(model, blobs, parts, tmp_path, monkeypatch):
    X = table_for(model, blobs, parts)
    here = pickle.loads(pickle.dumps(model.fit(X)))
    tight = Memory(4000, str(tmp_path))
    monkeypatch.setattr(Memory, "of", classmethod(lambda cls, *args: tight))
    there = model.fit(mapped(X, tmp_path))
    assert not groups(there).flags.writeable  # it is in a file
    assert_array_equal(groups(here), groups(there))
    assert here.objective_ == there.objective_
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.npy"]
    there.save(tmp_path / "model.madbayes")
    assert_array_equal(groups(madbayes.load(tmp_path / "model.madbayes")), groups(here))


def test_labels_in_a_file_without_a_name_travel_to_other_processes(blobs, tmp_path, monkeypatch):
    """joblib would send the name of the file of a numpy.memmap."""
    model = DPMeans(3000.0, search=QUICK, random_state=0)
    wanted = model.fit(blobs).labels_
    monkeypatch.setattr(Memory, "of", classmethod(lambda cls, *args: Memory(4000, str(tmp_path))))
    model.fit(mapped(blobs, tmp_path))
    (travelled,) = joblib.Parallel(n_jobs=2)(joblib.delayed(np.asarray)(labels) for labels in [model.labels_])
    assert_array_equal(travelled, wanted)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(other.labels_, wanted)


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform", "partial_fit"])
def test_temporary_files_go_with_the_fit(method, blobs, tmp_path):
    """At once, and not when the garbage collector comes by: fits in a loop would fill the disk."""
    model = DPMeans(3000.0, search=QUICK, random_state=0, spill_dir=tmp_path)
    gc.collect()
    gc.disable()
    try:
        getattr(model, method)(iter(np.array_split(blobs, 3)))
        assert not list(tmp_path.iterdir())
    finally:
        gc.enable()


def test_a_generator_is_gone_over_once(blobs, parts):
    for model, X in ((DPMeans(3000.0, search=QUICK, random_state=0), blobs), (FEATURES[0], parts)):
        wanted = model.fit(X).transform(X)
        assert_array_equal(model.fit_transform(iter(np.array_split(X, 3))), wanted)


def test_batches_may_be_in_files_too(blobs, tmp_path):
    here = DPMeans(3000.0, search=QUICK, random_state=0).partial_fit(blobs[:1000])
    there = copy.deepcopy(here)
    here.partial_fit(blobs[1000:1500])
    there.partial_fit(mapped(blobs[1000:1500], tmp_path))
    for rows in ([blobs[1500:1600], blobs[1600:1700]], str(tmp_path / "last.npy")):
        np.save(tmp_path / "last.npy", blobs[1500:1700])
        assert_array_equal(
            copy.deepcopy(there).partial_fit(rows).labels_, copy.deepcopy(here).partial_fit(blobs[1500:1700]).labels_
        )


def test_new_rows_may_be_in_a_file_too(blobs, parts, tmp_path):
    model, rows = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs), mapped(blobs, tmp_path)
    assert_array_equal(model.predict(rows), model.labels_)
    assert_array_equal(model.transform(rows), model.transform(blobs))
    assert_array_equal(model.score_samples(rows), model.score_samples(blobs))
    assert_allclose(model.score(rows), -model.objective_, rtol=1e-12)
    weights = np.linspace(1, 2, len(blobs))
    assert_allclose(model.score(rows, sample_weight=weights), model.score(blobs, sample_weight=weights), rtol=1e-12)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(6999,\), but X has 7000 rows"):
        model.score(rows, sample_weight=weights[1:])
    with pytest.raises(ValueError, match="give a sample of its rows"):
        model.describe(X=iter([blobs]))
    features, rows = BPMeans(2000.0, search=QUICK, random_state=0).fit(parts), mapped(parts, tmp_path)
    assert_array_equal(features.transform(rows), features.allocations_)
    with pytest.raises(ValueError, match="give a sample of its rows"):
        features.describe(X=rows)
    with pytest.raises(ValueError, match="expecting 6 features"):
        features.transform(mapped(parts[:, :3].copy(), tmp_path))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"memory_limit": "many"}, "memory_limit='many'"),
        ({"memory_limit": "1MB"}, "memory_limit='1MB' is too little"),
        ({"spill_dir": "no such folder"}, "no such folder"),
        ({"spill_dir": 5}, "spill_dir=5 is not accepted: give the name of a folder"),
        ({"checkpoint": ""}, "checkpoint='' is not accepted: give the name of a folder"),
        ({"checkpoint": True}, "checkpoint=True is not accepted"),
    ],
)
def test_memory_that_cannot_be(params, words, blobs, tmp_path):
    with pytest.raises((ValueError, OSError), match=words):
        DPMeans(3000.0, **params).fit(mapped(blobs, tmp_path))


def test_a_limit_that_cannot_be_is_refused_for_tables_in_memory_too(blobs):
    with pytest.raises(ValueError, match="memory_limit='many'"):
        DPMeans(3000.0, memory_limit="many").fit(blobs)


def test_a_full_disk_is_named(blobs, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Memory, "of", classmethod(lambda cls, *args: Memory(4000, str(tmp_path))))
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(FolderError, match=f"in {str(tmp_path)!r}: name another folder by spill_dir"):
        DPMeans(3000.0, search=QUICK).fit(mapped(blobs, tmp_path))


def test_what_needs_the_table_in_memory_says_so(blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(Memory, "of", classmethod(lambda cls, *args: Memory(10**5, str(tmp_path))))
    with pytest.raises(ValueError, match="memory_limit leaves 0 MB for the table, and it takes 1 MB"):
        DPMeans(3000.0, search="paper").fit(mapped(blobs, tmp_path))


def test_the_paper_on_a_file_is_the_paper_in_memory(blobs, tmp_path):
    model = DPMeans(3000.0, search="paper", n_init=2, random_state=0)
    assert model.fit(blobs).objective_ == model.fit(mapped(blobs, tmp_path)).objective_


def test_rows_in_a_file_must_weigh_something(blobs, tmp_path):
    weights = np.ones(len(blobs))
    weights[3] = 0
    with pytest.raises(ValueError, match="sample_weight is zero for 1 rows of a table that is not in memory"):
        DPMeans(3000.0).fit(mapped(blobs, tmp_path), sample_weight=weights)


def test_a_start_competes_on_all_rows(blobs):
    truth = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs)
    started = DPMeans(3000.0, search=Search(max_moves=1, max_lineages=1), init=truth, random_state=0).fit(blobs)
    assert started.objective_ <= truth.objective_ * (1 + 1e-12)


def test_fewer_features_than_asked_for():
    X = np.repeat([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], 500, axis=0)
    with pytest.warns(madbayes.estimators.at_home.ConvergenceWarning, match="leave nothing to explain"):
        model = KFeatures(5, search=QUICK, random_state=0).fit(X)
    assert model.n_components_ == 2
    assert_allclose(model.sse_, 0, atol=1e-20)


def test_an_interrupt_keeps_the_last_pass(blobs, monkeypatch):
    passes = []

    def watched(self, problem, run, budget):
        passes.append(run.value)
        if len(passes) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(DPMeans, "_say_pass", watched)
    with pytest.warns(UserWarning, match="interrupted"):
        model = DPMeans(0, max_clusters=12, search=Search(max_moves=1, max_lineages=1), random_state=0).fit(blobs)
    assert model.search_info_["stopped"] == "by an interrupt"
    assert model.objective_ <= passes[-1]
    assert_array_equal(model.labels_, model.predict(blobs))


def test_every_pass_is_told(blobs, capsys):
    DPMeans(0, max_clusters=8, search=Search(max_moves=1, max_lineages=1), random_state=0, verbose=1).fit(blobs)
    assert "DPMeans: pass 1 over 7000 rows: K=8 objective=" in capsys.readouterr().out


def slow_to_fit():
    return np.random.default_rng(3).random((20000, 8))


def patient(**params):
    return DPMeans(
        0, max_clusters=40, search=Search(max_moves=1, max_lineages=1), random_state=0, max_iter=1000, **params
    )


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    X = slow_to_fit()
    whole = patient().fit(X)
    with pytest.warns(UserWarning, match="not enough"):
        first = patient(checkpoint=tmp_path).set_params(max_iter=5).fit(X)
    state = load_record(tmp_path / NAME)
    assert isinstance(state, Checkpoint)
    assert len(state.trace) == 6
    resumed = patient(checkpoint=tmp_path).fit(X)
    assert resumed.search_info_["resumed"]
    assert resumed.objective_ <= first.objective_
    assert_allclose(resumed.objective_trace_[:6], state.trace)
    assert_allclose(resumed.objective_, whole.objective_, rtol=1e-9)
    with pytest.raises(ValueError, match="state of another fit, its table is"):
        resumed.fit(X + 1e-3)
    with pytest.raises(ValueError, match="its max_clusters is '40' and not '41'"):
        resumed.set_params(max_clusters=41).fit(X)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_twenty_times_a_fit_still_ends_with_the_same_answer(tmp_path):
    """At most the pass that was under way is lost, and what is written is whole at any moment."""
    X = slow_to_fit()
    whole = patient().fit(X)
    rng, context = np.random.default_rng(4), multiprocessing.get_context("fork")

    def fit(pipe):
        with os.fdopen(pipe, "w", buffering=1) as out:
            os.dup2(out.fileno(), 1)
            os.environ["PYTHONUNBUFFERED"] = "1"
            import builtins

            said = builtins.print
            builtins.print = lambda *args, **kwargs: said(*args, **kwargs, file=out, flush=True)
            patient(checkpoint=tmp_path, verbose=1).fit(X)

    most = 0
    for _ in range(20):
        read, write = os.pipe()
        process = context.Process(target=fit, args=(write,))
        process.start()
        os.close(write)
        before = load_record(tmp_path / NAME).trace if (tmp_path / NAME).exists() else []
        time.sleep(rng.uniform(0.02, 0.25))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with os.fdopen(read) as lines:
            told = [line for line in lines if ": pass" in line]
        if (tmp_path / NAME).exists():
            state = load_record(tmp_path / NAME)
            assert len(state.trace) >= len(before) + len(told) - 1
            most = max(most, len(state.trace))
            leftovers = {path.name for path in tmp_path.iterdir()} - {NAME}
            assert all(name.endswith(".part") for name in leftovers)
    assert most > 0
    model = patient(checkpoint=tmp_path).fit(X)
    assert_allclose(model.objective_, whole.objective_, rtol=1e-9)
    assert_array_equal(model.labels_, whole.labels_)


@pytest.mark.parametrize("model", [FEATURES[0], FEATURES[1]], ids=repr)
def test_features_go_on_from_a_checkpoint_too(model, parts, tmp_path):
    whole = pickle.loads(pickle.dumps(model.fit(parts)))
    model.set_params(checkpoint=tmp_path / "new folder").fit(parts)
    resumed = model.fit(parts)
    model.set_params(checkpoint=None)
    assert resumed.search_info_["resumed"]
    assert resumed.objective_ <= whole.objective_ * (1 + 1e-12)


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
def test_a_small_table_has_a_checkpoint_after_its_search(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 9]], 30, axis=0)
    first = DPMeans(checkpoint=tmp_path, random_state=0).fit(X)
    again = DPMeans(checkpoint=tmp_path, random_state=0).fit(X)
    assert again.search_info_["resumed"]
    assert again.objective_ == first.objective_
    assert again.path_.best == first.path_.best


def test_a_checkpoint_that_is_no_checkpoint(blobs, tmp_path):
    (tmp_path / NAME).write_bytes(b"something else")
    with pytest.raises(madbayes.io.ModelFileError, match=r"^checkpoint: .*or remove that file"):
        DPMeans(3000.0, checkpoint=tmp_path).fit(blobs)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file: name a folder"):
        DPMeans(3000.0, checkpoint=tmp_path / "file").fit(blobs)
    with pytest.raises(FolderError, match=r"checkpoint='.*below' cannot be written to .Not a directory"):
        DPMeans(3000.0, checkpoint=tmp_path / "file" / "below").fit(blobs)
    DPMeans(3000.0, search=QUICK).fit(blobs).save(tmp_path / NAME)
    with pytest.raises(madbayes.io.ModelFileError, match="is no state of a fit"):
        DPMeans(3000.0, checkpoint=tmp_path).fit(blobs)


def test_samples_of_huge_tables_need_no_memory_for_all_rows(tmp_path):
    from madbayes.estimators.problem import Problem

    class Home:
        shape, dtype, weighted = (10**9, 2), np.dtype(float), False

        def __len__(self):
            return self.shape[0]

        def take(self, rows):
            return np.column_stack([rows, rows]).astype(float), np.empty(0)

    known = homes.Moments(1e9, np.zeros(2), np.ones(2), 1.0)
    problem = Problem(Home(), None, None, np.random.RandomState(0), None, home=Home(), known=known)
    sample = problem.sample(1000)
    assert len(np.unique(sample.rows)) == 1000
    assert_allclose(sample.sample_weight, 1e6)


def test_partial_fit_goes_on_after_a_large_table(blobs, parts):
    for model, X in ((DPMeans(3000.0, search=QUICK, random_state=0), blobs), (BPMeans(2000.0, search=QUICK), parts)):
        value = model.fit(X).objective_
        model.partial_fit(X[:200])
        assert value < model.objective_ < 1.1 * value


def test_unusual_errors_of_large_tables_are_judged_by_a_sample(blobs, monkeypatch):
    exact = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs).unusual_error_
    monkeypatch.setattr("madbayes.estimators.base.JUDGED", 2000)
    judged = DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs).unusual_error_
    assert at_home.JUDGED >= 50_000
    assert judged != exact
    assert_allclose(judged, exact, rtol=0.2)


def test_file_rows_are_taken_as_they_are(blobs, tmp_path):
    path = Path(tmp_path / "rows.bin")
    path.write_bytes(blobs.tobytes())
    model = DPMeans(3000.0, search=QUICK, random_state=0)
    assert model.fit(FileRows(path, blobs.shape, blobs.dtype)).objective_ == model.fit(blobs).objective_


def test_a_fit_lets_go_of_its_rows(blobs, monkeypatch):
    """At once, not when memory is tidied up: they may fill the memory of many machines."""
    made, begin = [], homes.LocalHome.__init__

    def noted(self, *args):
        begin(self, *args)
        made.append(weakref.ref(self))

    monkeypatch.setattr(homes.LocalHome, "__init__", noted)
    gc.collect()
    gc.disable()
    try:
        DPMeans(3000.0, search=QUICK, random_state=0).fit(blobs)
        assert [home() for home in made] == [None]
    finally:
        gc.enable()
