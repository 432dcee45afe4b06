# SPDX-License-Identifier: Apache-2.0
"""Turns a JAX function and its arguments into a model: StableHLO text, with names from the trees of the arguments."""
from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import jax

from ..checks import callable_, instance
from ..errors import InputError
from ..model import Model
from .trace import marked_text


@dataclasses.dataclass(frozen=True)
class Argument:
    """One leaf of the arguments of a function."""

    name: str  # e.g. "params.layers.0.w"
    top: str  # the name of the function's argument, e.g. "params"
    shape: tuple[int, ...]
    dtype: Any


def capture(fn: Callable[..., Any], *args: Any, params: Union[str, Sequence[str]] = "params", donate: Union[str, Sequence[str]] = (),
            updates: Optional[Mapping[str, int]] = None, name: Optional[str] = None, **kwargs: Any) -> Model:
    """Returns the model of a JAX loss function, or of a whole train step.

    `args` and `kwargs` are arguments of `fn`: arrays, or `jax.ShapeDtypeStruct` where no data is needed. A loss function
    returns a scalar, and `params` names the arguments that are trained. In a whole train step, each argument of `donate`,
    and each argument that `fn = jax.jit(step, donate_argnums=...)` donates, is replaced by a result. The result is found
    by its tree of shapes. Where several results would do, `updates` gives the position of the right one, as in
    `updates={"params": 0, "momentum": 1}`.
    """
    callable_(fn, "fn")
    if updates is not None:
        instance(updates, Mapping, "updates is a dictionary of positions by names of arguments")
    if name is not None:
        instance(name, str, "name is a text")
    plain = inspect.unwrap(fn)
    arguments = flat_arguments(plain, args, kwargs)
    tops = list(dict.fromkeys(one.top for one in arguments))
    donated = _texts(donate) + [one for one in _donated(fn, args, kwargs, plain) if one not in _texts(donate)]
    for option, given in (("donate", _texts(donate)), ("updates", list(updates or {}))):
        for one in given:
            if one not in tops:
                raise InputError(f"{option}= names '{one}', which is no argument with arrays of {_title(fn)}; the arguments are: {', '.join(tops)}")
    donated += [one for one in updates or {} if one not in donated]
    result = jax.eval_shape(plain, *args, **kwargs)
    signature: dict[str, Any] = {"arguments": [{"name": one.name, "shape": list(one.shape)} for one in arguments]}
    signature["results"] = [{"name": _dotted(path, "result")} for path, _ in jax.tree_util.tree_flatten_with_path(result)[0]]
    settings: dict[str, Any] = {}
    if donated:
        aliases = _pair(fn, arguments, donated, dict(updates or {}), args, kwargs, plain, result)
        for one, entry in zip(arguments, signature["arguments"]):
            if one.name in aliases:
                entry["aliases_result"] = aliases[one.name]
    else:
        settings["trainable"] = _trained(fn, arguments, _texts(params))
    text, _ = marked_text(plain, args, kwargs)
    title = name or f"{_title(fn)} of JAX"
    return Model(title, settings, format="mlir", data=text.encode(), signature=json.dumps({title: signature}))


def flat_arguments(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Argument]:
    """Returns the leaves of the arguments in the order in which JAX passes them."""
    names = _positional_names(plain, len(args))
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path((args, kwargs))[0]:
        top = names[path[1].idx] if path[0].idx == 0 else str(path[1].key)
        if not hasattr(leaf, "shape"):
            leaf = jax.eval_shape(jax.numpy.asarray, leaf)
        found.append(Argument(_dotted(path[2:], top), top, tuple(leaf.shape), leaf.dtype))
    seen = set()
    for one in found:
        if one.name in seen:
            raise InputError(f"two arrays of the arguments are called '{one.name}'; rename a key of the tree")
        seen.add(one.name)
    return found


def _positional_names(plain: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        return [f"arg{i}" for i in range(count)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "arg")
    return [names[i] if i < len(names) else f"{rest}{i}" for i in range(count)]


def _dotted(path: Sequence[Any], top: str) -> str:
    return ".".join([top] + [jax.tree_util.keystr((key,), simple=True) for key in path])


def _texts(names: Union[str, Sequence[str]]) -> list[str]:
    found = [names] if isinstance(names, str) else list(names)
    for one in found:
        instance(one, str, "params and donate are names of arguments")
    return found


def _title(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _donated(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], plain: Callable[..., Any]) -> list[str]:
    """Returns the names of the arguments that a jitted function donates."""
    lower = getattr(fn, "lower", None)
    if lower is None:
        return []
    info = lower(*args, **kwargs).args_info
    names, found = _positional_names(plain, len(args)), []
    for top, tree in [*zip(names, info[0]), *info[1].items()]:
        flags = [leaf.donated for leaf in jax.tree.leaves(tree)]
        if any(flags):
            found.append(top)
    return found


def _trained(fn: Callable[..., Any], arguments: list[Argument], params: list[str]) -> list[str]:
    tops = list(dict.fromkeys(one.top for one in arguments))
    for one in params:
        if one not in tops:
            raise InputError(f"params= names '{one}', which is no argument with arrays of {_title(fn)}; name the trained arguments, which "
                             f"are among: {', '.join(tops)}. For a whole train step, name the arguments that it replaces with donate=")
    return [glob for one in params if one != "params" for glob in _globs(one, arguments)]


def _globs(top: str, arguments: list[Argument]) -> list[str]:
    return [top if any(one.name == top for one in arguments) else f"{top}.*"]


def _shapes(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(jax.eval_shape(lambda: tree) if not _abstract(tree) else tree)
    return structure, [(tuple(leaf.shape), leaf.dtype) for leaf in leaves]


def _abstract(tree: Any) -> bool:
    return all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(tree))


def _pair(fn: Callable[..., Any], arguments: list[Argument], donated: list[str], updates: dict[str, int], args: tuple[Any, ...],
          kwargs: dict[str, Any], plain: Callable[..., Any], result: Any) -> dict[str, int]:
    """Returns for each array of the donated arguments the index of the result that replaces the array."""
    parts = list(result) if isinstance(result, (tuple, list)) and not hasattr(result, "_fields") else [result]
    starts, at = [], 0
    for part in parts:
        starts.append(at)
        at += len(jax.tree.leaves(part))
    trees = {**dict(zip(_positional_names(plain, len(args)), args)), **kwargs}
    aliases: dict[str, int] = {}
    taken: dict[int, str] = {}
    for top in donated:
        mine = _shapes(trees[top])
        same = [i for i, part in enumerate(parts) if _shapes(part) == mine]
        if top in updates:
            if updates[top] not in same:
                raise InputError(f"updates= says that result {updates[top]} of {_title(fn)} replaces '{top}', but the result has another tree, "
                                 f"shape or type; results with those of '{top}': {', '.join(map(str, same)) or 'none'}")
            same = [updates[top]]
        if not same:
            raise InputError(f"{_title(fn)} donates '{top}', but none of its {len(parts)} results has the tree, shapes and types of '{top}'; "
                             f"return the new '{top}', or do not donate it")
        if len(same) > 1:
            raise InputError(f"{_title(fn)} donates '{top}', and {len(same)} of its results could replace it: {', '.join(map(str, same))}; "
                             f"give updates={{'{top}': POSITION}}")
        if same[0] in taken:
            raise InputError(f"result {same[0]} of {_title(fn)} would replace both '{taken[same[0]]}' and '{top}'; correct updates= or donate=")
        taken[same[0]] = top
        for offset, one in enumerate(one for one in arguments if one.top == top):
            aliases[one.name] = starts[same[0]] + offset
    return aliases
