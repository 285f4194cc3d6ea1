import importlib.util
import io
import json
import pickle
import subprocess
import sys
import types
import warnings
import zipfile
from copy import deepcopy
from hashlib import sha256
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

import madbayes
from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, ModelFileError, StepwiseKFeatures, load, save
from madbayes.engine.search import Search
from madbayes.io import metadata
from madbayes.io.values import Decoder, Encoder

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("model_fixtures", ROOT / "tools" / "model_fixtures.py")
fixtures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fixtures)

X = fixtures.cluster_rows()
NAMED = pd.DataFrame(X, columns=["a", "b <c>"])
QUICK = {"search": "paper", "n_init": 2}


def same(one, other):
    """Whether two values are equal in every bit, type and part."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and one.dtype.kind == "O":
        return one.shape == other.shape and same(one.ravel().tolist(), other.ravel().tolist())
    if isinstance(one, np.ndarray | np.generic):
        alike = one.dtype == other.dtype and one.shape == other.shape and one.strides == other.strides
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, np.random.RandomState):
        return same(one.get_state(legacy=False), other.get_state(legacy=False))
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    return same(vars(one), vars(other)) if hasattr(one, "__dict__") and not isinstance(one, type) else one == other


def there_and_back(model, folder):
    save(model, folder / "model.madbayes")
    return load(folder / "model.madbayes")


ESTIMATORS = {
    "auto": DPMeans(random_state=0, max_clusters=4),
    "share": DPMeans("5%", random_state=np.random.RandomState(3)),
    "capped": DPMeans(0, max_clusters=np.int64(3), random_state=1, **QUICK),
    "centres": DPMeans(np.float32(30), init=X[:3], n_jobs=2),
    "list": DPMeans(30, init=[[0.0, 1.0], [9.0, 3.0]], search=Search(max_moves=20), verbose=False),
    "from a model": DPMeans(30, random_state=0, init=DPMeans(100.0, random_state=0, **QUICK).fit(X)),
    "covariances": CovarianceDPMeans(random_state=0, max_clusters=4, prior_covariance=np.eye(2)),
    "known covariances": CovarianceDPMeans(5.0, covariances=np.stack([np.eye(2)] * 3), **QUICK),
    "features": BPMeans(random_state=0, max_components=4),
    "codes": BPMeans(50.0, init=(np.eye(30, 2, dtype=int), X[:2]), random_state=0, **QUICK),
    "stepwise": StepwiseKFeatures(50.0, random_state=0, **QUICK),
    "K": KFeatures(3, random_state=0, collapsed=True, **QUICK),
}


@pytest.mark.filterwarnings("ignore:weak evidence")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_model_comes_back_as_it_was(name, dtype, tmp_path):
    table = NAMED.astype(dtype)
    model = deepcopy(ESTIMATORS[name]).fit(table)
    model.save(tmp_path / "model.madbayes")
    back = load(tmp_path / "model.madbayes")
    assert same(vars(model), vars(back))
    assert set(vars(model)) > set(model.get_params(deep=False))
    for method in ("predict", "transform", "score_samples", "score"):
        if hasattr(model, method):
            assert same(getattr(model, method)(table), getattr(back, method)(table))
    assert model.describe() == back.describe()
    assert str(getattr(model, "path_", None)) == str(getattr(back, "path_", None))
    assert same(clone(model).get_params(), clone(back).get_params())


@pytest.mark.filterwarnings("ignore:weak evidence")
@pytest.mark.parametrize("name", ["auto", "share", "from a model", "codes"])
def test_a_second_fit_is_the_same(name, tmp_path):
    model = deepcopy(ESTIMATORS[name]).fit(NAMED)
    back = there_and_back(model, tmp_path)
    model.fit(NAMED)
    back.fit(NAMED)
    kept = [key for key in vars(model) if key != "runs_"]  # those have seconds
    assert same({key: vars(model)[key] for key in kept}, {key: vars(back)[key] for key in kept})


@pytest.mark.filterwarnings("ignore:weak evidence")
@pytest.mark.parametrize("name", ["auto", "covariances", "features"])
def test_equal_models_make_equal_files(name, tmp_path):
    model = deepcopy(ESTIMATORS[name]).fit(NAMED)
    save(there_and_back(model, tmp_path), tmp_path / "again.madbayes")
    assert (tmp_path / "again.madbayes").read_bytes() == (tmp_path / "model.madbayes").read_bytes()


@pytest.mark.parametrize("dump", [pickle.dumps, lambda model: joblib.dump(model, buffer := io.BytesIO()) or buffer])
def test_pickle_and_joblib_work_still(dump, tmp_path):
    model = DPMeans(random_state=0, max_clusters=4).fit(NAMED)
    kept = dump(there_and_back(model, tmp_path))
    back = pickle.loads(kept) if isinstance(kept, bytes) else joblib.load(kept)
    assert same(vars(back)["path_"].losses, model.path_.losses)
    assert same(back.predict(NAMED), model.labels_)


def mixed():
    """A table with words, gaps and large numbers."""
    frame = fixtures.table()
    frame["worth"] = np.arange(30.0) ** 6
    frame["mark"] = pd.Series(["yes", "no", np.nan] * 10, dtype=object)
    return frame


def pipelines():
    numbers = ["height", "width", "worth"]
    words = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), RobustScaler()), numbers),
            ("one hot", OneHotEncoder(sparse_output=False, min_frequency=11, drop=None), ["colour", "mark"]),
            ("places", OrdinalEncoder(dtype=np.float32, encoded_missing_value=-1), ["mark"]),
            ("left out", "drop", ["mark"]),
        ],
        remainder="drop",
    )
    chosen = ColumnTransformer(
        [("all", SimpleImputer(strategy="median"), make_column_selector("t", dtype_include=np.number))],
        remainder="drop",
    )
    by_number = ColumnTransformer([("first", "passthrough", slice(0, 1)), ("last", StandardScaler(), [1])])
    middle = Pipeline([("pca", PCA(2, svd_solver="randomized", random_state=np.random.RandomState(0)))])
    return {
        "words": (
            Pipeline(
                [("columns", words), ("svd", TruncatedSVD(2, random_state=0)), ("model", DPMeans("9%", random_state=0))]
            ),
            mixed(),
        ),
        "chosen": (make_pipeline(chosen, FunctionTransformer(np.log1p), "passthrough", KFeatures(2)), mixed()),
        "by number": (make_pipeline(by_number, MaxAbsScaler(), Normalizer(), DPMeans("9%", random_state=0)), X),
        "nested": (make_pipeline(MinMaxScaler((-1, 1)), middle, BPMeans("9%")), fixtures.feature_rows()),
        "frames": (
            make_pipeline(StandardScaler(), DPMeans("9%", random_state=0)).set_output(transform="pandas"),
            NAMED,
        ),
        "no model": (make_pipeline(StandardScaler(), PCA()), X),
    }


@pytest.mark.filterwarnings("ignore:components leave nothing")
@pytest.mark.parametrize("name", pipelines())
def test_a_pipeline_comes_back_as_it_was(name, tmp_path):
    model, table = pipelines()[name]
    model.fit(table)
    back = there_and_back(model, tmp_path)
    assert same(vars(model), vars(back))
    before, after = model.transform(table), back.transform(table)
    assert type(before) is type(after)
    assert same(np.asarray(before), np.asarray(after))
    if hasattr(model, "labels_") or hasattr(model[-1], "labels_"):
        assert same(back.predict(table), model[-1].labels_)
    again = np.asarray(clone(model).fit(table).transform(table))
    assert same(np.asarray(clone(back).fit(table).transform(table)), again)


def test_a_model_without_groups_comes_back(tmp_path):
    model = BPMeans(1e9).fit(X)
    back = there_and_back(model, tmp_path)
    assert back.components_.shape == (0, 2)
    assert same(vars(model), vars(back))
    assert same(model.transform(X), back.transform(X))


def test_lists_in_an_array_of_objects_are_not_taken_for_axes():
    array = np.empty(2, dtype=object)
    array[0], array[1] = [1, 2], [3, 4]
    assert same(Decoder({}).decode(Encoder().encode(array, "array")), array)


def test_a_random_state_that_steps_share_is_shared_again(tmp_path):
    random = np.random.RandomState(5)
    random.normal()  # so that a number is kept for the next call
    model = make_pipeline(PCA(2, svd_solver="randomized", random_state=random), DPMeans("9%", random_state=random)).fit(
        X
    )
    back = there_and_back(model, tmp_path)
    assert back[0].random_state is back[1].random_state
    assert same(random, back[0].random_state)


def test_metadata_requests_come_back(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        model = DPMeans(30.0).set_fit_request(sample_weight="weight").set_score_request(sample_weight=False).fit(X)
        back = there_and_back(model, tmp_path)
        assert str(back.get_metadata_routing()) == str(model.get_metadata_routing())
        assert "weight" in str(back.get_metadata_routing())


class Recipe(TransformerMixin, BaseEstimator):
    """A stand-in for a class that says itself what to store."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def fit(self, X, y=None):
        self.names_, self.shift_ = list(X.columns), X.to_numpy()[0]
        return self

    def transform(self, X):
        return self.factor * (X[self.names_].to_numpy() - self.shift_)

    def _to_state(self):
        return {"factor": self.factor, "names": self.names_, "more": [{"shift": self.shift_}]}

    @classmethod
    def _from_state(cls, state):
        recipe = cls(state["factor"])
        recipe.names_, recipe.shift_ = state["names"], state["more"][0]["shift"]
        return recipe


def test_a_class_may_say_itself_what_to_store(tmp_path, monkeypatch):
    module = types.ModuleType("madbayes.tables")
    module.Recipe = Recipe
    monkeypatch.setitem(sys.modules, "madbayes.tables", module)
    model = Pipeline([("recipe", Recipe()), ("model", DPMeans("9%"))]).fit(NAMED)
    back = there_and_back(model, tmp_path)
    assert same(back.predict(NAMED), model[-1].labels_)
    assert same(vars(back[0]), vars(model[0]))


# What cannot be saved


class Mine(DPMeans):
    """A class that a file knows nothing of."""


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            make_pipeline(StandardScaler(), KMeans(2)),
            r"Pipeline.steps\['kmeans'\]: KMeans is not known. Known are DPMeans, ",
        ),
        (Mine(30.0), "Mine is a subclass of DPMeans"),
        (DPMeans(30.0, init=KMeans(2).fit(X)), "DPMeans.init: KMeans is not known"),
        (make_pipeline(StandardScaler(), DPMeans(30.0), memory="cache"), "its memory is a cache"),
        (make_pipeline(FunctionTransformer(lambda X: X), DPMeans(30.0)), r"\['functiontransformer'\].func: functions"),
        (
            DPMeans(30.0, search=Search(start=lambda landscape, rng: landscape.start(rng).groups)),
            r"\['start'\]: functions",
        ),
        (make_pipeline(OneHotEncoder(dtype=complex, sparse_output=False)), "dtype: the class complex cannot be stored"),
        (DPMeans(30.0, random_state=np.random), "DPMeans.random_state: values of type module"),
        (DPMeans(30.0, random_state=np.random.RandomState(np.random.PCG64(1))), "RandomState on PCG64"),
        (
            DPMeans(30.0, init=pd.DataFrame(X[:2])),
            "DPMeans.init: values of type DataFrame cannot be stored: give plain",
        ),
        (DPMeans(30.0, init=np.ma.masked_array(X[:2])), "values of type MaskedArray cannot"),
    ],
)
def test_what_cannot_be_stored_is_named(model, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.fit(X)
    (tmp_path / "model.madbayes").write_bytes(b"old")
    with pytest.raises(TypeError, match=words):
        save(model, tmp_path / "model.madbayes")
    assert (tmp_path / "model.madbayes").read_bytes() == b"old"


def test_a_model_that_holds_itself(tmp_path):
    model = DPMeans(30.0).fit(X)
    model.init = model
    with pytest.raises(TypeError, match="it holds itself"):
        save(model, tmp_path / "a")


@pytest.mark.parametrize("value", [None, 3, DPMeans, np.eye(2), "model"])
def test_what_is_no_model(value, tmp_path):
    with pytest.raises(TypeError, match="give a fitted model or pipeline"):
        save(value, tmp_path / "a")


def test_models_that_are_not_fitted(tmp_path):
    exchanged = make_pipeline(StandardScaler(), DPMeans(30.0)).fit(X)
    exchanged.steps[0] = ("standardscaler", StandardScaler())
    for model in (DPMeans(), make_pipeline(StandardScaler(), DPMeans()), exchanged):
        with pytest.raises(NotFittedError):
            save(model, tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("", IsADirectoryError, "is a folder"),
        ("no/model", FileNotFoundError, "there is no folder '.*no': make it first"),
    ],
)
def test_places_where_no_model_can_be_saved(place, error, words, tmp_path):
    with pytest.raises(error, match=words):
        DPMeans(30.0).fit(X).save(tmp_path / place)


# Values: laws of what is stored

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
SCALARS = (
    hnp.scalar_dtypes()
    .filter(lambda dtype: dtype.kind in "biufcmM")
    .flatmap(lambda dtype: hnp.from_dtype(dtype) | hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))
)
VALUES = st.recursive(
    PLAIN | SCALARS | st.builds(np.array, st.lists(st.text(max_size=3), min_size=1)),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.just("$"), inner)
        | st.lists(inner, max_size=3).map(lambda items: np.fromiter(items, dtype=object, count=len(items)))
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(VALUES)
def test_values_come_back_bit_for_bit(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    back = Decoder(encoder.arrays).decode(json.loads(text))
    assert same_values(back, value)


def same_values(one, other):
    """The same, but that a NaN is a NaN."""
    if isinstance(one, float) and type(one) is type(other) and one != one:
        return other != other
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same_values, one, other))
    if isinstance(one, dict):
        return same_values(list(one.items()), list(other.items()))
    if isinstance(one, np.ndarray) and one.dtype.kind == "O":
        return same_values(one.tolist(), other.tolist())
    return same(one, other)


@pytest.mark.parametrize(
    "array",
    [
        np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 4),
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.zeros((3, 3), dtype=[("a", "f8"), ("b", "i4")])["a"],
        np.arange(9.0)[::-2],
    ],
    ids=["windows", "repeated", "fields", "backwards"],
)
def test_arrays_of_odd_places_are_stored_without_them(array):
    encoder = Encoder()
    told = encoder.encode(array, "array")
    assert same(Decoder(encoder.arrays).decode(told), np.ascontiguousarray(array))


@given(st.permutations(range(3)), st.lists(st.integers(1, 3), min_size=3, max_size=3), st.booleans())
def test_arrays_keep_their_place_in_memory(axes, steps, is_reversed):
    whole = np.arange(6 * 6 * 6.0).reshape(6, 6, 6).transpose(axes)
    part = whole[1 :: steps[0], : 6 : steps[1], :: steps[2]]
    part = part[::-1] if is_reversed else part
    encoder = Encoder()
    told = encoder.encode(part, "part")
    back = Decoder(encoder.arrays).decode(told)
    assert (back == part).all()
    assert is_reversed or back.strides == part.strides


# Broken files


@pytest.fixture(scope="module")
def content():
    """The bytes of a small model."""
    return (ROOT / "tests" / "data" / "features-v1.madbayes").read_bytes()


def is_refused(path, content):
    """Whether a file of this content is refused, in words that name it; if not, it must be the same model."""
    path.write_bytes(content)
    try:
        model = load(path)
    except ModelFileError as error:
        return path.name in str(error)
    original = load(ROOT / "tests" / "data" / "features-v1.madbayes")
    assert same(vars(model), vars(original))
    return False


def test_a_file_that_was_cut_off_anywhere(content, tmp_path):
    assert all(is_refused(tmp_path / "cut", content[:length]) for length in range(0, len(content), 19))
    assert all(is_refused(tmp_path / "cut", content[:-length]) for length in range(1, 200))


@settings(max_examples=300)
@given(data=st.data())
def test_a_byte_that_has_changed(data, content, tmp_path_factory):
    # Some bytes of a ZIP archive mean nothing, as its dates do.
    position = data.draw(st.integers(0, len(content) - 1))
    mask = data.draw(st.integers(1, 255))
    changed = bytearray(content)
    changed[position] ^= mask
    is_refused(tmp_path_factory.getbasetemp() / "changed", bytes(changed))


@settings(max_examples=100)
@given(content=st.binary(max_size=200), is_zip=st.booleans())
def test_any_bytes(content, is_zip, tmp_path_factory):
    assert is_refused(tmp_path_factory.getbasetemp() / "any", b"PK\x03\x04" * is_zip + content)


def test_files_that_are_not_there_or_not_ours(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*gone'"):
        load(tmp_path / "gone")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        load(tmp_path)
    for name, written, words in (
        ("empty", b"", "is empty"),
        ("table.csv", b"a,b\n1,2\n", "is not a model of madbayes"),
        ("pickle", pickle.dumps([1]), "is not a model of madbayes"),
        ("zip", zipped({"other.txt": b""}), "is a ZIP archive, but not a model"),
        ("json", zipped({"metadata.json": b"[]"}), "is a ZIP archive, but not a model"),
        ("half", zipped({"metadata.json": b'{"format": "madbayes model"}'}), "is broken"),
    ):
        (tmp_path / name).write_bytes(written)
        with pytest.raises(ModelFileError, match=words) as caught:
            load(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
    with pytest.raises(ModelFileError, match="not an ordinary file"):
        load("/dev/null")


def zipped(members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def forged(content, change=lambda head: None, arrays=None, method=zipfile.ZIP_STORED):
    """A file whose metadata were changed, with digests that are right again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(arrays or {})
    head = json.loads(members.pop("metadata.json"))
    head["members"] = {
        name: {"bytes": len(member), "sha256": sha256(member).hexdigest()} for name, member in members.items()
    }
    change(head)
    return zipped({"metadata.json": json.dumps(head), **members}, method)


def test_a_forgery_that_changes_nothing_is_read(content, tmp_path):
    assert not is_refused(tmp_path / "same", forged(content))


def put(**values):
    return lambda head: head["model"]["attributes"].update(values)


def npy(array, **header):
    """An array in NumPy's format, whose header says what it is told."""
    file = io.BytesIO()
    what = {**np.lib.format.header_data_from_array_1_0(array), **header}
    np.lib.format.write_array_header_1_0(file, what)
    return file.getvalue() + (array.tobytes() if array.dtype.kind != "O" else pickle.dumps(array))


ONE = {"$": "scalar", "dtype": "<f8", "value": "00" * 8}
FORGERIES = {
    "a class of the system": lambda head: head["model"].update({"class": "subprocess.Popen"}),
    "a class of scikit-learn that is not listed": lambda head: head["model"].update(
        {"class": "sklearn.cluster.KMeans"}
    ),
    "a record as the model": lambda head: head.update(
        model={"$": "record", "class": "madbayes.model.CRP", "fields": {}}
    ),
    "a list as the model": lambda head: head.update(model=[1]),
    "a record in place of an estimator": lambda head: head["model"].update({"class": "madbayes.model.CRP"}),
    "an unknown kind": put(sse_={"$": "code", "value": "print()"}),
    "a private name of Python": put(__class__=1),
    "a method": put(predict=1, transform=1),
    "a function of the system": put(sse_={"$": "function", "name": "load"}),
    "a type that is not listed": put(sse_={"$": "type", "name": "numpy.memmap"}),
    "a dtype that is none": put(sse_={"$": "dtype", "value": "f8,f8"}),
    "a scalar that is too long": put(sse_={**ONE, "value": "00" * 16}),
    "a scalar that is too short": put(sse_={**ONE, "value": ""}),
    "an array that is not there": put(components_={"$": "array", "member": "arrays/99.npy"}),
    "an array twice": lambda head: put(more_=head["model"]["attributes"]["components_"])(head),
    "objects without end": put(sse_={"$": "objects", "shape": [10**9, 10**9], "items": []}),
    "no components": lambda head: head["model"]["attributes"].pop("components_"),
    "more components than there are": put(n_components_=1000),
    "other columns": put(n_features_in_=3),
    "no objective": put(_objective=None),
    "no number of components": lambda head: head["model"]["attributes"].pop("n_components_"),
    "a number of components that is none": put(n_components_=True),
    "no total": lambda head: head["model"]["attributes"].pop("_total"),
    "a total that is no number": put(_total=[1]),
    "a penalty that is no number": put(penalty_="x"),
    "a gap that is no number": put(optimality_gap_={}),
    "a limit that is no number": put(unusual_error_=None),
    "names of other groups": put(group_names_=["a"]),
    "names that are numbers": put(group_names_=[0, 1, 2]),
    "one name twice": put(group_names_=["a", "a", "b"]),
    "names that are one word": put(group_names_="abc"),
    "a path that is none": put(path_=[1]),
    "threads that are none": lambda head: head["model"]["params"].update(n_jobs="x"),
    "not fitted": lambda head: head["model"].update(attributes={}),
    "an unknown parameter": lambda head: head["model"]["params"].update(shell="rm"),
    "requests for another method": lambda head: head["model"].update(requests={"_fit": {"sample_weight": True}}),
    "a size that is not true": lambda head: head["members"]["arrays/0.npy"].update(bytes=10**18),
    "another digest": lambda head: head["members"]["arrays/0.npy"].update(sha256="0" * 64),
    "an array that is not listed": lambda head: head["members"].pop("arrays/0.npy"),
    "a version that is none": lambda head: head.update(version="1"),
    "version zero": lambda head: head.update(version=0),
    "no version": lambda head: head.pop("version"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_metadata_are_refused(name, content, tmp_path):
    assert is_refused(tmp_path / "forged", forged(content, FORGERIES[name]))


FORGED_PATHS = {
    "numbers that are not consecutive": lambda fields: fields.update(n_components=[1, 3]),
    "no solutions": lambda fields: fields.update(solutions=[]),
    "solutions that are none": lambda fields: fields.update(solutions=[5] * len(fields["solutions"])),
    "losses that are none": lambda fields: fields.update(losses="x"),
    "solutions in another order": lambda fields: fields["solutions"].reverse(),
}


@pytest.mark.parametrize("name", FORGED_PATHS)
def test_forged_paths_are_refused(name, content, tmp_path):
    change = FORGED_PATHS[name]
    assert is_refused(
        tmp_path / "forged", forged(content, lambda head: change(head["model"]["attributes"]["path_"]["fields"]))
    )


def components(content):
    """The member that has the components, and them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        head = json.loads(archive.read("metadata.json"))
        member = head["model"]["attributes"]["components_"]["member"]
        return member, np.load(io.BytesIO(archive.read(member)))


ARRAYS = {
    "more than there is": lambda A: npy(A, shape=(10**9, 10**9)),
    "less than there is": lambda A: npy(A, shape=(1, 4)),
    "another shape": lambda A: npy(A.T),
    "no matrix": lambda A: npy(A.ravel()),
    "another kind": lambda A: npy(A.astype(int)),
    "a negative length": lambda A: npy(A, shape=(-1, 4)),
    "nothing many times": lambda A: npy(np.empty((0, 0)), shape=(10**9, 0)),
    "not a number": lambda A: npy(A + np.float32(np.nan)),
    "objects": lambda A: npy(np.array([[print]])),
    "a record": lambda A: npy(np.zeros(3, dtype=[("a", "f8")])),
    "a pickle": lambda A: pickle.dumps(A),
    "another version": lambda A: b"\x93NUMPY\x02" + npy(A)[7:],
    "code in the header": lambda A: npy(A).replace(b"'descr': '<f4'", b"'descr': exit()"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_forged_arrays_are_refused(name, content, tmp_path):
    member, A = components(content)
    assert is_refused(tmp_path / "forged", forged(content, arrays={member: ARRAYS[name](A)}))


@pytest.mark.parametrize(
    ("shape", "strides"),
    [([3, 5], [4, 1]), ([3, 4], [5, 1]), ([3, 4], [0, 1]), ([3, 4], [-4, 1]), ([12], [1, 1]), ([10**9, 10**9], [1, 1])],
)
def test_an_array_does_not_reach_beyond_its_memory(shape, strides):
    value = {"$": "array", "member": "a", "shape": shape, "strides": strides}
    with pytest.raises(ValueError, match=r"reaches beyond its memory|zip\(\)"):
        Decoder({"a": np.arange(12.0)}).decode(value)


@pytest.mark.parametrize("change", [{"pos": 625}, {"pos": -1}, {"key": [1, 2]}, {"key": {"$": "array", "member": "a"}}])
def test_an_impossible_random_state_is_refused(change):
    encoder = Encoder()
    state = encoder.encode(np.random.RandomState(0), "state")
    with pytest.raises((ValueError, AttributeError)):
        Decoder({**encoder.arrays, "a": np.zeros(3)}).decode({**state, **change})


def test_metadata_that_are_nested_without_end(content, tmp_path):
    text = b'{"format": "madbayes model", "version": 1, "members": {}, "model": ' + b"[" * 10**6 + b"]" * 10**6 + b"}"
    assert is_refused(tmp_path / "deep", zipped({"metadata.json": text}))
    numbers = b'{"format": "madbayes model", "version": ' + b"9" * 10**5 + b"}"
    assert is_refused(tmp_path / "long", zipped({"metadata.json": numbers}))


def test_a_cache_in_a_pipeline_is_refused(tmp_path):
    # A cache is read with pickle when the pipeline is fitted again.
    content = (ROOT / "tests" / "data" / "pipeline-v1.madbayes").read_bytes()
    (tmp_path / "cache").write_bytes(forged(content, lambda head: head["model"]["params"].update(memory="cache")))
    with pytest.raises(ModelFileError, match="caches hold code"):
        load(tmp_path / "cache")


def test_what_is_compressed_is_not_unpacked(content, tmp_path):
    bomb = zipped({"metadata.json": b" " * 10**8}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**6
    assert is_refused(tmp_path / "bomb", bomb)
    assert is_refused(tmp_path / "compressed", forged(content, method=zipfile.ZIP_DEFLATED))


def test_a_file_that_claims_to_be_larger_than_it_is(content, tmp_path):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = archive.getinfo("metadata.json").file_size
    claimed = content.replace(size.to_bytes(4, "little") * 2, (2**31).to_bytes(4, "little") * 2)
    assert claimed != content
    (tmp_path / "claims").write_bytes(claimed)
    with pytest.raises(ModelFileError, match="claims to be larger than it is"):
        load(tmp_path / "claims")


def test_metadata_have_a_limit(content, tmp_path, monkeypatch):
    monkeypatch.setattr("madbayes.io.archive.MAX_METADATA", 1000)
    assert is_refused_for(tmp_path / "long", content, "metadata.json takes .* 1000 are allowed")
    with pytest.raises(ValueError, match="too many for a file"):
        DPMeans(30.0).fit(X).save(tmp_path / "model")


def is_refused_for(path, content, words):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        load(path)
    return True


def test_two_parts_of_one_name(content, tmp_path):
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("metadata.json", "{}")
    assert is_refused_for(tmp_path / "double", file.getvalue(), "two parts have one name")


def test_a_newer_file_is_told_from_a_broken_one(content, tmp_path):
    newer = forged(content, lambda head: head.update(version=2, madbayes="7.0", members=None, model=None))
    assert is_refused_for(
        tmp_path / "newer",
        newer,
        "'.*newer' was written by madbayes 7.0 in version 2 .* up to 1: install a newer madbayes",
    )


def test_a_disk_that_cannot_be_read_is_not_a_broken_file(content, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    (tmp_path / "model").write_bytes(content)
    monkeypatch.setattr(zipfile.ZipFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        load(tmp_path / "model")


SPY = """
import sys, madbayes
seen = []
path = sys.argv[1]
sys.addaudithook(lambda event, args: seen.append((event, args)))
madbayes.load(path)
events = {event for event, _ in seen}
assert not events & {"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "socket.connect"}, events
opened = {args[0] for event, args in seen if event == "open" and "w" in str(args[1])}
assert not opened, opened
print("import" in events or "open" in events)
"""


def test_loading_runs_and_writes_nothing(tmp_path):
    path = ROOT / "tests" / "data" / "features-v1.madbayes"
    told = subprocess.run([sys.executable, "-c", SPY, path], capture_output=True, text=True, timeout=100, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == "True"


# Files of earlier versions

LABELS = [2, 1, 0] * 10
GAPS = [1, 2, 0, 1, 0, 0, 1, 2, 0, 1] + [2, 0, 1] * 6 + [2, 0]


def load_quietly(name):
    """Whichever scikit-learn it was written with."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the file has steps of scikit-learn")
        return load(ROOT / "tests" / "data" / name)


def test_clusters_of_version_1():
    model = load_quietly("clusters-v1.madbayes")
    assert model.predict(fixtures.cluster_rows()).tolist() == LABELS == model.labels_.tolist()
    assert model.path_.best == 3
    assert model.path_.for_k(2).A.shape == (2, 2)


def test_features_of_version_1():
    model = load_quietly("features-v1.madbayes")
    codes = [[n >> k & 1 for k in (2, 1, 0)] for n in range(32)]
    assert model.transform(fixtures.feature_rows()).tolist() == codes
    assert model.components_.dtype == np.float32
    assert np.abs(model.inverse_transform(codes) - fixtures.feature_rows()).max() < 0.21


@pytest.mark.parametrize("name", ["clusters", "features"])
def test_models_of_version_1_that_know_no_names_are_described(name):
    model = load_quietly(f"{name}-v1.madbayes")
    assert [group["name"] for group in model.describe()] == ["group 0", "group 1", "group 2"]
    assert model.unusual_error_ == np.inf


def test_a_pipeline_of_version_1():
    model = load_quietly("pipeline-v1.madbayes")
    assert model.predict(fixtures.table()).tolist() == GAPS == model[-1].labels_.tolist()


def test_the_fixtures_are_what_the_script_writes():
    for name, model in fixtures.models().items():
        kept = load_quietly(f"{name}-v1.madbayes")
        assert type(model) is type(kept)
        last = model[-1] if name == "pipeline" else model
        assert np.isclose(last.objective_, (kept[-1] if name == "pipeline" else kept).objective_)


def test_metadata_say_what_a_file_holds():
    told = metadata(ROOT / "tests" / "data" / "pipeline-v1.madbayes")
    assert list(told) == ["version", "madbayes", "scikit_learn", "numpy", "class"]
    assert (told["version"], told["madbayes"], told["class"]) == (1, "0.1.0", "sklearn.pipeline.Pipeline")


# Other versions of scikit-learn


def from_other(change, tmp_path):
    """The pipeline of version 1 as if another scikit-learn had written it."""
    content = (ROOT / "tests" / "data" / "pipeline-v1.madbayes").read_bytes()

    def pretend(head):
        head["scikit_learn"] = "0.9.0"
        change(head["model"]["params"]["steps"][0]["items"][1])

    (tmp_path / "other").write_bytes(forged(content, pretend))
    with pytest.warns(
        UserWarning, match=r"has steps of scikit-learn 0.9.0 \(ColumnTransformer, OneHotEncoder, PCA, Simple"
    ):
        return load(tmp_path / "other")


def test_parameters_that_are_gone_do_no_harm_if_they_were_left_alone(tmp_path):
    def change(columns):
        columns["params"]["forgotten"] = True
        columns["usual"].append("forgotten")

    assert from_other(change, tmp_path).predict(fixtures.table()).tolist() == GAPS


def test_parameters_that_are_gone_are_named_if_they_were_set(tmp_path):
    content = (ROOT / "tests" / "data" / "pipeline-v1.madbayes").read_bytes()
    change = lambda head: head["model"]["params"].update(forgotten=True)  # noqa: E731
    words = "Pipeline has no parameter 'forgotten' in the scikit-learn that is installed"
    assert is_refused_for(tmp_path / "a", forged(content, change), words)


def test_an_attribute_that_came_later_is_made_up_for(tmp_path):
    def change(columns):
        text = json.dumps(columns["attributes"])
        columns["attributes"] = json.loads(text.replace('"_fill_dtype"', '"_unknown_here"'))

    assert from_other(change, tmp_path).predict(fixtures.table()).tolist() == GAPS


def test_models_of_madbayes_do_not_ask_for_a_scikit_learn(content, tmp_path):
    (tmp_path / "other").write_bytes(forged(content, lambda head: head.update(scikit_learn="0.9.0")))
    assert load(tmp_path / "other").n_components_ == 3  # a warning would be an error here


def test_the_public_names():
    assert {"load", "save", "ModelFileError"} <= set(madbayes.__all__)
