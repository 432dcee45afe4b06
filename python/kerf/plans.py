# SPDX-License-Identifier: Apache-2.0
"""Plans: all decisions about how a model is trained on a cluster."""
from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, Optional, Union

from . import _core, show
from .checks import write_text
from .errors import Error
from .model import Model, as_model


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The step time and the memory that were predicted when a plan was made."""

    step_seconds: float
    lower_bound_seconds: float  # no plan of the searched space takes less; 0: no bound is known
    peak_bytes: tuple[int, ...]  # of each pipeline stage
    fits: bool


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a parameter or buffer under a plan.

    The program may split dimensions of a tensor: one of shape (768, 2304) may have the sizes (768, 3, 12, 64). `folds` has
    for each dimension of `shape` the indices of its sizes, ((0,), (1, 2, 3)), and `axes` the mesh axes that cut each size.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    folds: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[str, ...], ...]
    trainable: bool
    stage: int  # pipeline stage that holds the tensor; -1: every stage that uses it


class Plan:
    """A plan, or constraints of a search where decisions are missing. Plans are immutable; their text is plan.json.

    Equal plans have equal texts. A plan of kerf.plan holds its job: model, settings and machines.
    """

    __slots__ = ("_dict", "_model", "_report", "_text", "alternatives", "interrupted", "notes")

    alternatives: tuple[Plan, ...]  # the next best plans of the search, which are not part of the text
    notes: tuple[str, ...]  # hints of the search
    interrupted: bool  # whether Ctrl-C or the progress function ended the search

    def __init__(self, content: Union[str, dict[str, Any]], *, where: str = "the plan", model: Optional[Model] = None, report: str = "",
                 alternatives: tuple[Plan, ...] = (), notes: tuple[str, ...] = (), interrupted: bool = False) -> None:
        """Makes a plan from the text or the dictionary of a plan.json, whose version a dictionary may leave out."""
        self._text = _core.parse_plan(content if isinstance(content, str) else json.dumps({"kerf": 1, **content}), where)
        self._dict: Optional[dict[str, Any]] = None
        self._model, self._report = model, report
        self.alternatives, self.notes, self.interrupted = alternatives, notes, interrupted

    @staticmethod
    def load(path: Union[str, os.PathLike[str]]) -> Plan:
        """Returns the plan of a file."""
        return Plan(_core.read_plan(os.fspath(path)))

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the plan as plan.json."""
        write_text(path, self._text)

    @property
    def text(self) -> str:
        """The text of plan.json."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of plan.json."""
        return json.loads(self._text)

    @property
    def sha256(self) -> str:
        """A hash of the text: ranks that compare it know whether they have the same plan."""
        return _core.sha256(self._text)

    def _read(self) -> dict[str, Any]:
        found = self._dict
        if found is None:
            found = self._dict = json.loads(self._text)
        return found

    @property
    def model(self) -> Optional[Model]:
        """The model for which kerf.plan made the plan; None for a plan of a file, whose job names the model's file."""
        return self._model

    @property
    def mesh(self) -> dict[str, int]:
        """The number of ranks along each axis of the mesh."""
        return dict(self._read().get("mesh", {}))

    @property
    def order(self) -> tuple[str, ...]:
        """The axes of the mesh, from the outermost to the innermost."""
        return tuple(self._read().get("order", ()))

    @property
    def ranks(self) -> int:
        """The number of ranks of the mesh."""
        product = 1
        for size in self.mesh.values():
            product *= size
        return product

    @property
    def schedule(self) -> Optional[dict[str, Any]]:
        """The pipeline schedule, as plan.json has it."""
        return self.to_dict().get("schedule")

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The parts of the model on each pipeline stage."""
        return self.to_dict().get("stages", [])

    @property
    def recompute(self) -> Any:
        """The activations that are recomputed, as plan.json has them."""
        return self.to_dict().get("recompute")

    @property
    def predicted(self) -> Optional[Prediction]:
        """The prediction that the search made for the plan."""
        found = self._read().get("predicted")
        if found is None:
            return None
        return Prediction(found["step_seconds"], found.get("lower_bound_seconds", 0.0), tuple(found["peak_bytes"]), found["fits"])

    @property
    def bound(self) -> float:
        """Seconds of a step below which no plan of the searched space gets; 0: no bound is known."""
        return self.predicted.lower_bound_seconds if self.predicted else 0.0

    @property
    def gap(self) -> Optional[float]:
        """The share of the step time by which a plan of the searched space could be faster; None: no bound is known."""
        predicted = self.predicted
        if predicted is None or predicted.lower_bound_seconds <= 0:
            return None
        return max(0.0, 1 - predicted.lower_bound_seconds / predicted.step_seconds)

    def __or__(self, constraints: Union[Plan, dict[str, Any]]) -> Plan:
        """Returns the decisions of this plan with those of `constraints` in their place, as constraints of a search."""
        merged = {key: value for key, value in self.to_dict().items() if key not in ("predicted", "inputs", "job", "report", "notes")}
        if not isinstance(constraints, (Plan, dict)):
            return NotImplemented
        for key, value in (constraints.to_dict() if isinstance(constraints, Plan) else constraints).items():
            merged[key] = {**merged[key], **value} if isinstance(value, dict) and isinstance(merged.get(key), dict) else value
        return Plan(merged)

    def layouts(self, model: Optional[Model] = None) -> dict[str, Layout]:
        """Returns the layout of each parameter and buffer, in the shapes of the model. Compiles the model under the plan."""
        its = as_model(model) if model is not None else self._model if self._model is not None and self._model.in_memory else None
        settings = json.dumps({} if its is None else its.settings)
        found = json.loads(_core.parameter_layouts(None if its is None else its.source(), self._text, settings, None))
        return {name: Layout(tuple(one["shape"]), tuple(one["sizes"]), tuple(map(tuple, one["folds"])), tuple(map(tuple, one["axes"])),
                             one["trainable"], one["stage"]) for name, one in found.items()}

    def report(self) -> Report:
        """Returns the report of the plan: that of the search over placements, or that of a simulation of the plan."""
        if "report" in self._read():
            return Report(json.loads(_core.placement_report(self._text)))
        from .ask import simulate

        return simulate(None, self).report()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __copy__(self) -> Plan:
        return self

    def __deepcopy__(self, memo: Any) -> Plan:
        return self

    def __reduce__(self) -> Any:
        return (_rebuild, (self._text, self._model))

    def __str__(self) -> str:
        return self._report or repr(self)

    def __repr__(self) -> str:
        predicted = self.predicted
        return f"Plan({_core.plan_text(self._text)}{f', {show.seconds_text(predicted.step_seconds)} a step' if predicted else ''})"

    def _repr_html_(self) -> str:
        try:
            return show.page(self.report().html)
        except Error:  # a plan without a job has no report
            return show.preformatted(str(self))


def _rebuild(text: str, model: Optional[Model]) -> Plan:
    return Plan(text, model=model)


class Report:
    """A report on a plan, as text, as data and as one web page that needs nothing else."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    @property
    def text(self) -> str:
        """The report as text."""
        return self._content["report_text"]

    @property
    def html(self) -> str:
        """The report as a web page."""
        return self._content["html"]

    @property
    def data(self) -> dict[str, Any]:
        """The report with the keys of docs/interface.md."""
        return self._content["report"]

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the report: as a page for .html, as JSON for .json, else as text."""
        name = os.fspath(path)
        write_text(name, self.html if name.endswith(".html") else json.dumps(self.data, indent=2) + "\n" if name.endswith(".json") else self.text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return show.page(self.html)


PlanLike = Union[Plan, dict[str, Any], str, "os.PathLike[str]"]


def as_plan(plan: PlanLike) -> Plan:
    """Returns a plan, also of a dictionary or of a path."""
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, dict):
        return Plan(plan)
    if isinstance(plan, (str, os.PathLike)):
        return Plan.load(plan)
    raise TypeError(f"a plan is a kerf.Plan, a dictionary or a path, not a {type(plan).__name__}")


def plan_text(plan: Optional[PlanLike]) -> Optional[str]:
    """Returns the text of a plan; nothing for nothing."""
    return None if plan is None else as_plan(plan).text
