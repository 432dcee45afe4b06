# SPDX-License-Identifier: Apache-2.0
"""Captures a PyTorch module and its loss as a kerf.Model, through PyTorch's ONNX exporter."""
from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Optional

import torch

from ..checks import callable_, instance
from ..errors import InputError
from ..model import Model
from .capture_batch import Batch, Calls, LossModule, read_batch

OPSET = 20
PROTOBUF_LIMIT = 2**31 - 1  # bytes that one ONNX message can have


@dataclasses.dataclass(frozen=True)
class Captured:
    """A captured module: the model, the inputs of its graph, and the parameters under the names that the graph has."""

    model: Model
    batch: Batch
    names: dict[str, torch.nn.Parameter]


def capture(module: torch.nn.Module, batch: Any, loss: Optional[Callable[..., Any]] = None, data: bool = False) -> Model:
    """Returns the model of a module's loss on a batch, for kerf.plan, kerf.Trainer and the other calls of Kerf.

    Args:
        module: the module, in the mode in which it is to be trained. Its parameters keep their names.
        batch: one batch: a dictionary of the keyword arguments, a tuple of the positional ones, or one tensor. Its shapes
            are those of every step. Only shapes and types of tensors count; other values become part of the model.
        loss: a function that is called as `loss(module, *batch)` or `loss(module, **batch)` and returns the loss, one
            number. Without it the module itself is called, and returns its loss: a number, the first element of a
            tuple, or `.loss`.
        data: whether the model contains the values of the parameters. Without them, parameters may be on the device
            "meta", and kerf.Trainer takes values as `weights`.

    Raises:
        kerf.InputError: the module, the loss or the batch cannot be captured; the message names the module.

    >>> model = kerf.torch.capture(module, {"input_ids": ids, "labels": ids})
    >>> kerf.plan(model, "dgx-a100", ranks=8)
    """
    _check_kinds(module, loss)
    instance(data, bool, "data is True or False")
    frozen = tuple(name for name, parameter in module.named_parameters() if not parameter.requires_grad)
    values = {id(parameter) for parameter in module.parameters()} if data else set()
    return captured(module, batch, loss, values, frozen).model


def captured(module: torch.nn.Module, batch: Any, loss: Optional[Callable[..., Any]], values: set[int], frozen: tuple[str, ...]) -> Captured:
    """Returns what capture returns, with the inputs and the parameters of the graph.

    `values` has the ids of the parameters whose values the model contains, and `frozen` the names of those that are not trained.
    """
    _check_kinds(module, loss)
    _check_modules(module, values)
    read = read_batch(module, batch, loss)
    program = _export(module, read, loss)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    initializers = program.model.graph.initializers
    names = {name: parameter for name, parameter in parameters.items() if name in initializers and initializers[name].uses()}
    if not names:
        raise InputError(f"{_name(module)}: the loss uses no parameter of the module; compute it from the module's results")
    _values(program, names, values)
    same = {id(parameters[name]) for name in frozen}
    model = Model.from_onnx_bytes(_bytes(program, _name(module)), name=_name(module),
                                  frozen=[name for name, parameter in names.items() if id(parameter) in same])
    return Captured(model, read, names)


def _check_kinds(module: torch.nn.Module, loss: Optional[Callable[..., Any]]) -> None:
    instance(module, torch.nn.Module, "module is a torch.nn.Module")
    if loss is not None:
        callable_(loss, "loss")


def _name(module: torch.nn.Module) -> str:
    return type(module).__name__


def _check_modules(module: torch.nn.Module, values: set[int]) -> None:
    """Raises InputError for modules whose export would not compute what PyTorch computes, and for missing values."""
    for name, one in module.named_modules():
        where = f"{_name(module)}: the module '{name}' ({_name(one)})" if name else _name(module)
        if isinstance(one, torch.nn.modules.batchnorm._BatchNorm) and one.training:
            raise InputError(f"{where} normalizes by the statistics of the batch, which PyTorch's exporter does not write; call eval() on it "
                             "to train with its running statistics, or export as docs/exporting.md says for batch normalization")
        if one._backward_hooks or one._backward_pre_hooks:
            raise InputError(f"{where} has a backward hook, which an exported graph does not have; remove the hook")
        for key, parameter in one._parameters.items():
            if parameter is not None and (parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)):
                raise InputError(f"{where} has a hook on the gradient of its parameter '{key}', which an exported graph does not have; "
                                 "remove the hook")
            if parameter is not None and parameter.is_meta and id(parameter) in values:
                raise InputError(f"{where} has the parameter '{key}' on the device \"meta\", without values; give data=False, or values")
        for key, buffer in one._buffers.items():
            if buffer is not None and buffer.is_meta:
                raise InputError(f"{where} has the buffer '{key}' on the device \"meta\", without values; only parameters may be without values: "
                                 "make the module in accelerate.init_empty_weights(include_buffers=False)")


@contextlib.contextmanager
def _without_values(module: torch.nn.Module, mode: Any) -> Iterator[None]:
    """Puts fake tensors of the CPU in the place of the module's parameters on the device "meta", and puts the parameters back."""
    from torch._subclasses.fake_tensor import FakeTensor
    fakes: dict[int, torch.nn.Parameter] = {}
    replaced: list[tuple[torch.nn.Module, str, torch.nn.Parameter]] = []
    try:
        for one in module.modules():
            for key, parameter in one._parameters.items():
                if parameter is None or not parameter.is_meta:
                    continue
                if id(parameter) not in fakes:
                    fake = FakeTensor(mode, torch.empty(parameter.shape, dtype=parameter.dtype, device="meta"), torch.device("cpu"))
                    fakes[id(parameter)] = torch.nn.Parameter(fake, requires_grad=parameter.requires_grad)
                replaced.append((one, key, parameter))
        for one, key, parameter in replaced:
            one._parameters[key] = fakes[id(parameter)]
        yield
    finally:
        for one, key, parameter in replaced:
            one._parameters[key] = parameter


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the exporter's reports of its own progress; what concerns the model, Kerf says when it reads the graph."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._dynamo", "torch.fx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _export(module: torch.nn.Module, batch: Batch, loss: Optional[Callable[..., Any]]) -> Any:
    try:
        import onnxscript  # noqa: F401 - the exporter needs it
    except ImportError as error:
        raise ImportError(f"kerf.torch.capture needs the packages onnx and onnxscript: {error}") from error
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    fake = any(parameter.is_meta for parameter in module.parameters())
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
    tensors = [torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for tensor in batch.tensors] if fake else \
        [tensor.detach().to("cpu") if not tensor.is_meta else torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in batch.tensors]
    if fake:
        tensors = [FakeTensor(mode, tensor, torch.device("cpu")) for tensor in tensors]
    shell, calls = LossModule(module, loss, batch), Calls(module)
    try:
        with _quiet(), _without_values(module, mode):
            return torch.onnx.export(shell, tuple(tensors), dynamo=True, opset_version=OPSET, optimize=False, verbose=False,
                                     input_names=list(batch.names))
    except InputError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, InputError):
            raise cause from None
        raise InputError(f"{_name(module)} cannot be exported: {_first_lines(cause)}{calls.place()}") from error
    finally:
        calls.remove()


def _first_lines(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])[:500]}"


def _values(program: Any, names: dict[str, torch.nn.Parameter], kept: set[int]) -> None:
    """Takes the values from all parameters but those with an id in `kept`."""
    import onnx_ir
    for name, parameter in names.items():
        held = program.model.graph.initializers[name]
        value = held.const_value
        if id(parameter) not in kept:
            held.const_value = onnx_ir.ExternalTensor("weights-that-are-not-given", 0, int(value.nbytes), value.dtype, shape=value.shape, name=name,
                                                      base_dir="")
    for node in program.model.graph:
        for key in [key for key in node.metadata_props if "stack_trace" in key]:
            del node.metadata_props[key]


def padded_tables(module: torch.nn.Module) -> set[int]:
    """Returns the ids of tables with a padding row. Kerf keeps a row of zeros as it is, for which it has to see the values."""
    return {id(one.weight) for one in module.modules() if isinstance(one, torch.nn.Embedding) and one.padding_idx is not None}


def _bytes(program: Any, name: str) -> bytes:
    import onnx_ir
    held = sum(value.const_value.nbytes for value in program.model.graph.initializers.values()
               if value.const_value is not None and not isinstance(value.const_value, onnx_ir.ExternalTensor))
    if held > PROTOBUF_LIMIT:
        raise InputError(f"{name}: its values take {held} bytes, and a model in memory has at most {PROTOBUF_LIMIT}; give data=False, and the values "
                         "to kerf.Trainer as weights")
    return onnx_ir.to_proto(program.model).SerializeToString()
