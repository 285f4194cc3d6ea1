"""Values in the terms of JSON and arrays, and back.

None, booleans, integers, finite floats, strings, lists and dictionaries with strings for keys stand for themselves.
Everything else is a dictionary whose key ``"$"`` says what it is: see ``docs/persistence.md``.
"""

import math
import re
from collections import UserList
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator

from madbayes.backends import is_dask
from madbayes.io.checks import check_fitted
from madbayes.io.registry import (
    CLUSTERS,
    ESTIMATORS,
    FEATURES,
    FUNCTIONS,
    LATER,
    OWN_STATE,
    RECORDS,
    TYPES,
    name_of,
    own_state_name,
    resolve,
    supported,
)

KIND = "$"
# Kinds of dtypes whose arrays are stored as they are; arrays of objects are lists of values.
PLAIN = "biufcUSmM"
DTYPE = re.compile(r"[<>|=]?[biufcUSmMO]\d*(\[\w+\])?")
# Models in models in models: no sensible one is deeper, and one that holds itself has no end.
DEPTH = 100
# Callbacks watch a fit and are no part of what it found; requests are stored by way of scikit-learn's own methods.
LEFT_OUT = ("_skl_callbacks", "_metadata_request")
METHODS = ("fit", "score", "transform", "inverse_transform", "predict", "partial_fit")
KEY_LENGTH = 624  # words in the state of the Mersenne twister


class Encoder:
    """What a model is made of; ``arrays`` has those it came across, by their names."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray] = {}
        self._generators: list[np.random.RandomState] = []

    def encode(self, value: Any, place: str, depth: int = 0) -> Any:
        """A value in terms of JSON. ``place`` names it in messages."""
        if depth > DEPTH:
            raise TypeError(f"cannot save {place[:80]}...: it holds itself, or models in models without end")
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {KIND: "float", "value": repr(value)}
        for is_it, encode in self._coders():
            if is_it(value):
                return encode(value, place, depth + 1)
        raise TypeError(f"cannot save {place}: {self._why(value)}")

    def _coders(self) -> list[tuple[Callable[[Any], bool], Callable[[Any, str, int], Any]]]:
        return [
            (lambda value: isinstance(value, np.generic), self._scalar),
            (lambda value: type(value) in (np.ndarray, np.memmap), self._array),
            (lambda value: type(value) is list or isinstance(value, UserList), self._list),
            (lambda value: type(value) is tuple, self._tuple),
            (lambda value: type(value) is dict, self._dict),
            (lambda value: type(value) is slice, self._slice),
            (lambda value: isinstance(value, np.dtype), self._dtype),
            (lambda value: isinstance(value, type) and value in TYPES.values(), self._type),
            (lambda value: isinstance(value, np.ufunc) and self._known(value), self._function),
            (lambda value: type(value) is np.random.RandomState, self._random_state),
            (lambda value: name_of(type(value), RECORDS) is not None, self._record),
            (lambda value: name_of(type(value), ESTIMATORS) is not None, self._estimator),
            (lambda value: own_state_name(type(value)) is not None, self._own_state),
        ]

    @staticmethod
    def _why(value: Any) -> str:
        name = type(value).__name__
        if isinstance(value, type):
            return f"the class {value.__name__} cannot be stored"
        if isinstance(value, BaseEstimator):
            parents = [parent.__name__ for parent in type(value).__mro__ if name_of(parent, ESTIMATORS)]
            what = (
                f"{name} is a subclass of {parents[0]}, which a file cannot hold" if parents else f"{name} is not known"
            )
            return f"{what}. Known are {supported()}; for anything else, use joblib.dump"
        if callable(value):
            known = ", ".join(f"numpy.{function}" for function in FUNCTIONS)
            return f"functions cannot be stored, other than {known}"
        return f"values of type {name} cannot be stored: give plain values or NumPy arrays"

    @staticmethod
    def _known(function: np.ufunc) -> bool:
        return any(function is getattr(np, name) for name in FUNCTIONS)

    def _scalar(self, value: np.generic, place: str, depth: int) -> Any:
        if value.dtype.kind not in PLAIN:
            raise TypeError(f"cannot save {place}: scalars of dtype {value.dtype} cannot be stored")
        return {KIND: "scalar", "dtype": value.dtype.str, "value": value.tobytes().hex()}

    def _array(self, value: NDArray, place: str, depth: int) -> Any:
        if value.dtype.kind == "O":
            items = self._list(value.ravel().tolist(), place, depth)
            return {KIND: "objects", "shape": list(value.shape), "items": items}
        if value.dtype.kind not in PLAIN:
            raise TypeError(f"cannot save {place}: arrays of dtype {value.dtype} cannot be stored")
        name = f"arrays/{len(self.arrays)}.npy"
        strides = _strides_to_keep(value)
        if strides is None:
            self.arrays[name] = np.asarray(value) if value.flags.forc else value.copy()
            return {KIND: "array", "member": name}
        # Part of a larger array, as the components of PCA are: products depend on where its numbers lie, in their last
        # bits.
        self.arrays[name] = np.zeros(_extent(value.shape, strides), dtype=value.dtype)
        _view(self.arrays[name], value.shape, strides)[...] = value
        return {KIND: "array", "member": name, "shape": list(value.shape), "strides": strides}

    def _list(self, value: Any, place: str, depth: int) -> list[Any]:
        return [self.encode(item, f"{place}[{self._label(i, item)}]", depth) for i, item in enumerate(value)]

    @staticmethod
    def _label(i: int, item: Any) -> str:
        """Steps of a pipeline are known by their names, other items by their number."""
        return repr(item[0]) if type(item) is tuple and item and type(item[0]) is str else str(i)

    def _tuple(self, value: tuple, place: str, depth: int) -> Any:
        if len(value) > 1 and type(value[0]) is str and isinstance(value[1], BaseEstimator):
            return {KIND: "tuple", "items": [self.encode(item, place, depth) for item in value]}
        return {KIND: "tuple", "items": self._list(value, place, depth)}

    def _dict(self, value: dict, place: str, depth: int) -> Any:
        pairs = [(key, self.encode(item, f"{place}[{key!r}]", depth)) for key, item in value.items()]
        if all(type(key) is str for key in value) and KIND not in value:
            return dict(pairs)
        return {KIND: "dict", "items": [[self.encode(key, f"a key of {place}", depth), item] for key, item in pairs]}

    def _slice(self, value: slice, place: str, depth: int) -> Any:
        return {KIND: "slice", "items": self._list([value.start, value.stop, value.step], place, depth)}

    def _dtype(self, value: np.dtype, place: str, depth: int) -> Any:
        if not DTYPE.fullmatch(value.str):
            raise TypeError(f"cannot save {place}: the dtype {value} cannot be stored")
        return {KIND: "dtype", "value": value.str}

    def _type(self, value: type, place: str, depth: int) -> Any:
        return {KIND: "type", "name": next(name for name, known in TYPES.items() if known is value)}

    def _function(self, value: np.ufunc, place: str, depth: int) -> Any:
        return {KIND: "function", "name": next(name for name in FUNCTIONS if getattr(np, name) is value)}

    def _random_state(self, value: np.random.RandomState, place: str, depth: int) -> Any:
        for number, known in enumerate(self._generators):
            if known is value:  # steps that share one go on sharing it
                return {KIND: "same_random_state", "number": number}
        state: Any = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise TypeError(
                f"cannot save {place}: a RandomState on {state['bit_generator']} cannot be stored, only the usual one"
            )
        self._generators.append(value)
        parts = {"key": state["state"]["key"], "pos": state["state"]["pos"]}
        return {
            KIND: "random_state",
            **self._dict({**parts, "has_gauss": state["has_gauss"], "gauss": state["gauss"]}, place, depth),
        }

    def _record(self, value: Any, place: str, depth: int) -> Any:
        inside = self._dict(_fields_of(value), f"{place} ({type(value).__name__})", depth)
        return {KIND: "record", "class": name_of(type(value), RECORDS), "fields": inside}

    def _own_state(self, value: Any, place: str, depth: int) -> Any:
        return {
            KIND: "state",
            "class": own_state_name(type(value)),
            "state": self.encode(value._to_state(), place, depth),
        }

    def _estimator(self, value: Any, place: str, depth: int) -> Any:
        params = _with_a_short_past(value)
        if params.get("memory") is not None:
            raise TypeError(
                f"cannot save {place}: its memory is a cache in another place; leave it out, set_params(memory=None)"
            )
        attributes = {name: part for name, part in vars(value).items() if name not in params and name not in LEFT_OUT}
        for name, part in attributes.items():
            if is_dask(part):  # not computed yet, and perhaps too large for a file: none of its rows
                attributes[name] = np.empty((0, *part.shape[1:]), part.dtype)
        return {
            KIND: "estimator",
            "class": name_of(type(value), ESTIMATORS),
            "params": {name: self.encode(part, f"{place}.{name}", depth) for name, part in params.items()},
            "usual": _usual_parameters(type(value), params),
            "attributes": {name: self.encode(part, f"{place}.{name}", depth) for name, part in attributes.items()},
            "requests": _requests_of(value),
        }


def _with_a_short_past(value: Any) -> dict[str, Any]:
    """Parameters, without the start of the start: a fit needs the model it starts from, and not what that came from.

    Otherwise every file would hold all files before it.
    """
    params = value.get_params(deep=False)
    start: Any = params.get("init")
    if start is value or not hasattr(start, "group_ids_") or start.init is None:
        return params
    start = copy(start)
    start.init = None
    return {**params, "init": start}


def _strides_to_keep(array: NDArray) -> list[int] | None:
    """Steps from number to number along each axis; None of an array without gaps, or whose numbers overlap."""
    strides = [stride // array.itemsize for stride in array.strides]
    is_odd = min(strides, default=0) < 1 or any(stride % array.itemsize for stride in array.strides)
    return None if array.flags.forc or is_odd or _extent(array.shape, strides) < array.size else strides


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """From the first number to the last, in numbers."""
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def _view(memory: NDArray, shape: Sequence[int], strides: Sequence[int]) -> NDArray:
    """Some of the numbers of a long array, as an array of several axes."""
    is_inside = memory.ndim == 1 and math.prod(shape) <= memory.size and _extent(shape, strides) == memory.size
    if not is_inside or min(*shape, *strides) < 1:
        raise ValueError("an array reaches beyond its memory")
    return as_strided(memory, shape, [stride * memory.itemsize for stride in strides])


def _fields_of(value: Any) -> dict[str, Any]:
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value._asdict() if hasattr(value, "_asdict") else dict(vars(value))


def _usual_parameters(cls: type, params: dict[str, Any]) -> list[str]:
    """Names of the parameters that were left at their defaults, which are plain values."""
    defaults = {name: parameter.default for name, parameter in signature(cls).parameters.items()}
    same = (name for name, value in params.items() if type(value) is type(defaults[name]))
    return [name for name in same if repr(params[name]) == repr(defaults[name])]


def _requests_of(value: Any) -> dict[str, dict[str, bool | str | None]]:
    """What the user has asked metadata routing to pass on."""
    if "_metadata_request" not in vars(value):
        return {}
    routing = value.get_metadata_routing()
    return {name: dict(getattr(routing, name).requests) for name in METHODS if getattr(routing, name).requests}


class Decoder:
    """Values from the terms of JSON and the arrays of a file."""

    def __init__(self, arrays: Mapping[str, NDArray]) -> None:
        self._arrays = dict(arrays)
        self._generators: list[np.random.RandomState] = []
        self._kinds: dict[str, Callable[..., Any]] = {
            "float": self._float,
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._objects,
            "tuple": lambda items: tuple(self._list(items)),
            "dict": lambda items: {self.decode(key): self.decode(value) for key, value in items},
            "slice": lambda items: slice(*self._list(items)),
            "dtype": _dtype_of,
            "type": lambda name: TYPES[name],
            "function": self._function,
            "random_state": self._random_state,
            "same_random_state": lambda number: self._generators[number],
            "record": self._record,
            "estimator": self._estimator,
            "state": self._own_state,
        }
        self.steps: list[str] = []  # classes of scikit-learn that were met

    def decode(self, value: Any) -> Any:
        """The value that was encoded."""
        if isinstance(value, list):
            return self._list(value)
        if not isinstance(value, dict):
            return value
        if KIND not in value:
            return {name: self.decode(part) for name, part in value.items()}
        rest = {"cls" if name == "class" else name: part for name, part in value.items() if name != KIND}
        return self._kinds[value[KIND]](**rest)

    def _list(self, items: list[Any]) -> list[Any]:
        if not isinstance(items, list):
            raise ValueError("a list is missing")
        return [self.decode(item) for item in items]

    @staticmethod
    def _float(value: str) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value]

    @staticmethod
    def _scalar(dtype: str, value: str) -> np.generic:
        (number,) = np.frombuffer(bytes.fromhex(value), dtype=_dtype_of(dtype))
        return number

    def _array(self, member: str, shape: list[int] | None = None, strides: list[int] | None = None) -> NDArray:
        # Taken away, so that a small file cannot ask for a large array many times.
        array = self._arrays.pop(member).copy(order="K")
        return array if shape is None or strides is None else _view(array, shape, strides)

    def _objects(self, shape: list[int], items: list[Any]) -> NDArray:
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(self._list(items)):  # one by one: lists are items here, not axes
            array[i] = item
        return array.reshape(shape)

    @staticmethod
    def _function(name: str) -> Any:
        if name not in FUNCTIONS:
            raise ValueError(f"{name!r} is not a function that model files may hold")
        return getattr(np, name)

    def _random_state(self, key: Any, pos: int, has_gauss: int, gauss: float) -> np.random.RandomState:
        words = self.decode(key)
        # NumPy believes what it is told here, and would read beyond the end of its memory.
        if words.shape != (KEY_LENGTH,) or words.dtype != np.uint32 or not 0 <= pos <= KEY_LENGTH:
            raise ValueError("the state of a random generator is impossible")
        generator = np.random.RandomState()
        generator.set_state(("MT19937", words, int(pos), int(bool(has_gauss)), float(gauss)))
        self._generators.append(generator)
        return generator

    def _record(self, cls: str, fields: dict[str, Any]) -> Any:
        return _known(cls, RECORDS)(**self.decode(fields))

    def _own_state(self, cls: str, state: dict[str, Any]) -> Any:
        known: Any = _known(cls, OWN_STATE)
        return known._from_state(self.decode(state))

    def _estimator(
        self, cls: str, params: dict, usual: list[str], attributes: dict, requests: dict[str, dict[str, Any]]
    ) -> Any:
        known = _known(cls, ESTIMATORS)
        if cls.startswith("sklearn"):
            self.steps.append(cls)
        if params.get("memory") is not None:
            raise ValueError("a pipeline with a cache: caches hold code")
        model = known(**self.decode(_without_strangers(known, params, usual)))
        for name, value in self.decode(attributes).items():
            if not _is_attribute(known, name):
                raise ValueError(f"{name!r} is not an attribute that fit sets")
            setattr(model, name, value)
        for name, earlier in LATER.get(cls, {}).items():
            if not hasattr(model, name) and hasattr(model, earlier):
                setattr(model, name, getattr(model, earlier))
        with config_context(enable_metadata_routing=True):
            for method, asked in requests.items():
                getattr(model, f"set_{METHODS[METHODS.index(method)]}_request")(**asked)
        if cls in CLUSTERS + FEATURES:
            check_fitted(model)
        return model


def _known(name: str, kinds: tuple[str, ...]) -> type:
    if name not in kinds:
        raise ValueError(f"{name!r} is not a class that may stand here")
    return resolve(name)


def _without_strangers(cls: type, params: dict[str, Any], usual: list[str]) -> dict[str, Any]:
    """Parameters but for those that this scikit-learn does not have, if they were left at their defaults."""
    known = cls._get_param_names()  # type: ignore[attr-defined]
    if lost := [name for name in params if name not in known and name not in usual]:
        raise ValueError(f"{cls.__name__} has no parameter {lost[0]!r} in the scikit-learn that is installed here")
    return {name: value for name, value in params.items() if name in known}


def _is_attribute(cls: type, name: str) -> bool:
    """Names that fit may set: none of Python's own, and nothing that would hide a method."""
    return name.isidentifier() and not name.startswith("__") and not hasattr(cls, name) and name not in LEFT_OUT


def _dtype_of(value: str) -> np.dtype:
    if not DTYPE.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is not a dtype that model files may hold")
    return np.dtype(value)
