# SPDX-License-Identifier: Apache-2.0
"""Models: a file, or text or bytes in memory, with the settings of their import."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _core

Globs = Union[str, Sequence[str]]


class Model:
    """A model, which is read when a question is asked about it. Models are immutable and can be pickled."""

    __slots__ = ("_data", "_format", "_name", "_settings", "_signature")

    def __init__(self, name: str, settings: dict[str, Any], *, format: Optional[str] = None, data: bytes = b"", signature: str = "") -> None:
        self._name, self._format, self._data, self._signature = name, format, data, signature
        given = {key: value for key, value in settings.items() if not (value is None or value is False or isinstance(value, (list, tuple)) and not value)}
        self._settings = json.dumps(given, sort_keys=True)

    @staticmethod
    def load(path: Union[str, os.PathLike[str]], *, loss: Optional[str] = None, metrics: Globs = (), weights: Union[str, os.PathLike[str], None] = None,
             trainable: Globs = (), frozen: Globs = (), global_batch: Optional[int] = None, sequence: Optional[int] = None,
             expert_capacity: Union[float, str, None] = None, accept_folded: bool = False, no_recognition: bool = False) -> Model:
        """Returns the model of a file: an ONNX export, a Hugging Face config.json, StableHLO text or kerf IR.

        >>> kerf.Model.load("examples/gpt2/model.onnx")
        Model('examples/gpt2/model.onnx')
        """
        return Model(os.fspath(path), _settings(loss, metrics, weights, trainable, frozen, global_batch, sequence, expert_capacity,
                                                accept_folded, no_recognition))

    @staticmethod
    def from_config(config: Any, *, global_batch: Optional[int] = None, sequence: Optional[int] = None,
                    expert_capacity: Union[float, str, None] = None, name: str = "config.json in memory", trainable: Globs = (),
                    frozen: Globs = ()) -> Model:
        """Returns the model of a Hugging Face configuration: a dictionary, or an object with `to_dict()`."""
        fields = config.to_dict() if hasattr(config, "to_dict") else config
        text = fields if isinstance(fields, str) else json.dumps(fields)
        return Model(name, _settings(None, (), None, trainable, frozen, global_batch, sequence, expert_capacity, False, False),
                     format="config", data=_encoded(text))

    @staticmethod
    def from_onnx_bytes(data: bytes, *, name: str = "ONNX in memory", loss: Optional[str] = None, metrics: Globs = (),
                        trainable: Globs = (), frozen: Globs = (), accept_folded: bool = False, no_recognition: bool = False) -> Model:
        """Returns the model of an ONNX export in memory. Weights that it does not contain are given to kerf.Trainer."""
        return Model(name, _settings(loss, metrics, None, trainable, frozen, None, None, None, accept_folded, no_recognition),
                     format="onnx", data=bytes(memoryview(data)))

    @staticmethod
    def from_stablehlo_text(text: str, *, signature: str = "", name: str = "StableHLO in memory", trainable: Globs = (), frozen: Globs = ()) -> Model:
        """Returns the model of a StableHLO program. `signature` is the text of signature.json (docs/stablehlo.md)."""
        return Model(name, _settings(None, (), None, trainable, frozen, None, None, None, False, False), format="mlir",
                     data=_encoded(text), signature=signature)

    @property
    def name(self) -> str:
        """The path of the model, or its name in messages."""
        return self._name

    @property
    def in_memory(self) -> bool:
        """Whether the model is in memory rather than in a file."""
        return self._format is not None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the import, with the keys of "job.options" in plan.json."""
        return json.loads(self._settings)

    @property
    def signature(self) -> str:
        """The text of signature.json of a StableHLO program in memory."""
        return self._signature

    @property
    def text(self) -> str:
        """The text of a StableHLO program or of a configuration in memory."""
        return self._data.decode()

    def with_text(self, text: str) -> Model:
        """Returns this model in memory with another text of the same program."""
        return _rebuild(self._name, self.settings, self._format, text.encode(), self._signature)

    def source(self) -> _core.ModelSource:
        """Returns the model as the compiled module takes it."""
        if self._format is None:
            return _core.ModelSource.file(self._name)
        return _core.ModelSource.memory(self._format, self._data, self._name, self._signature)

    def _key(self) -> tuple[Any, ...]:
        return (self._name, self._format, self._data, self._signature, self._settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return (_rebuild, (self._name, self.settings, self._format, self._data, self._signature))

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.settings.items())
        return f"Model({self._name!r}{settings})"


def _encoded(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"the text of a model is a str, not a {type(text).__name__}")
    return text.encode(errors="surrogatepass")  # the reader refuses what is no text, with its place


def _rebuild(name: str, settings: dict[str, Any], format: Optional[str], data: bytes, signature: str) -> Model:
    return Model(name, settings, format=format, data=data, signature=signature)


def _settings(loss: Optional[str], metrics: Globs, weights: Union[str, os.PathLike[str], None], trainable: Globs, frozen: Globs,
              global_batch: Optional[int], sequence: Optional[int], expert_capacity: Union[float, str, None], accept_folded: bool,
              no_recognition: bool) -> dict[str, Any]:
    def texts(globs: Globs) -> list[str]:
        return [globs] if isinstance(globs, str) else list(globs)

    return {"loss": loss, "metric": texts(metrics), "weights": None if weights is None else os.fspath(weights), "trainable": texts(trainable),
            "frozen": texts(frozen), "global_batch": global_batch, "sequence": sequence, "expert_capacity": expert_capacity,
            "accept_folded": accept_folded, "no_recognition": no_recognition}


ModelLike = Union[Model, str, "os.PathLike[str]"]


def as_model(model: ModelLike) -> Model:
    """Returns a model, also of a path."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        return Model.load(model)
    raise TypeError(f"a model is a kerf.Model or a path, not a {type(model).__name__}")
