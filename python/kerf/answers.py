# SPDX-License-Identifier: Apache-2.0
"""The answers of Kerf: simulations, explanations, verifications, comparisons and Pareto fronts."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from . import show
from .plans import Plan, Report


class Simulation:
    """The prediction of one plan: step time, its parts, and the memory of each pipeline stage."""

    def __init__(self, content: dict[str, Any], plan: Plan) -> None:
        self._content, self.plan = content, plan  # the plan with its gaps filled in

    @property
    def data(self) -> dict[str, Any]:
        """The prediction with the keys of `kerf simulate --json`."""
        return self._content["simulation"]

    @property
    def step_seconds(self) -> float:
        """Seconds of one step."""
        return self.data["step_seconds"]

    @property
    def fits(self) -> bool:
        """Whether every stage fits into the memory of its device."""
        return self.data["fits"]

    @property
    def breakdown(self) -> dict[str, Any]:
        """The seconds of the step by cause."""
        return self.data["breakdown"]

    @property
    def memory(self) -> list[dict[str, Any]]:
        """The memory of each pipeline stage."""
        return self.data["memory"]

    @property
    def tokens_per_second(self) -> float:
        """Tokens of a global batch divided by the seconds of a step."""
        return self.data["tokens_per_second"]

    @property
    def timeline(self) -> list[dict[str, Any]]:
        """Every task and message of a step, in the format of chrome://tracing and Perfetto."""
        import json

        trace = json.loads(self._content["trace"])
        return trace["traceEvents"] if isinstance(trace, dict) else trace

    def report(self) -> Report:
        """Returns the report: text, data and a web page."""
        return Report(self._content)

    def to_frame(self) -> Any:
        """Returns the memory of the stages as a data frame of pandas."""
        return show.frame(self.memory)

    def plot(self, ax: Any = None) -> Any:
        """Draws the memory of each stage by purpose, and returns the axes of matplotlib."""
        ax = show.axes(ax)
        bottom = [0.0] * len(self.memory)
        for purpose in ("weights", "gradients", "states", "activations", "workspace"):
            sizes = [stage.get(f"{purpose}_bytes", stage.get(purpose, 0.0)) / show.GIB for stage in self.memory]
            ax.bar(range(len(sizes)), sizes, bottom=bottom, label=purpose)
            bottom = [below + size for below, size in zip(bottom, sizes)]
        ax.set_xlabel("pipeline stage")
        ax.set_ylabel("GiB of each rank")
        ax.legend()
        return ax

    def __str__(self) -> str:
        return self._content["text"]

    def __repr__(self) -> str:
        return f"Simulation({show.seconds_text(self.step_seconds)} a step, {'fits' if self.fits else 'does not fit'})"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


class Explanation:
    """The reasons for the decisions of a plan, or the plan that would be the best one after a change."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    @property
    def data(self) -> Any:
        """The explanation with the keys of `kerf explain --json`."""
        return self._content["json"]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or the progress function ended the searches."""
        return self._content["interrupted"]

    def to_frame(self) -> Any:
        """Returns the alternatives, or the operators of a plan of the search over placements, as a data frame."""
        data = self.data
        return show.frame(data if isinstance(data, list) else data.get("alternatives") or data.get("strategies") or [])

    def __str__(self) -> str:
        return self._content["text"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self).splitlines()[0].strip() if str(self) else ''!r})"

    def _repr_html_(self) -> str:
        return show.preformatted(str(self))


class Comparison(Explanation):
    """The differences between two plans."""

    def to_frame(self) -> Any:
        """Returns the decisions that differ as a data frame of pandas."""
        decisions = self.data.get("decisions", self.data.get("strategies", {}))
        if isinstance(decisions, dict):
            decisions = [{"key": key, "one": pair[0], "other": pair[1]} for key, pair in decisions.items()]
        return show.frame(decisions)


class Verification:
    """Whether training under a plan gives the numbers of one rank, and whether the plan fits. It is true if both hold."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    @property
    def data(self) -> dict[str, Any]:
        """The result with the keys of `kerf verify --json`."""
        return self._content["json"]

    @property
    def passed(self) -> bool:
        """Whether the numbers are equal and every stage fits."""
        return self._content["passed"]

    @property
    def message(self) -> str:
        """The fault that was found; "" if the plan passed."""
        return self._content["message"]

    @property
    def status(self) -> int:
        """The exit status of `kerf verify`: 0, 2 (a stage does not fit) or 3 (the numbers differ)."""
        return self._content["status"]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self._content["text"] + (f"{self.message}\n" if self.message else "")

    def __repr__(self) -> str:
        return f"Verification(passed={self.passed}{f', message={self.message!r}' if self.message else ''})"

    def _repr_html_(self) -> str:
        return show.preformatted(str(self))


@dataclasses.dataclass(frozen=True)
class ParetoPoint:
    """A plan that no other plan beats in step time, memory and ranks at once."""

    plan: Plan
    ranks: int
    device_bytes: float
    step_seconds: float
    price: Optional[float]  # of a step; None: the cluster has no price


class Pareto(Sequence[ParetoPoint]):
    """Plans that trade step time for ranks or memory, the fastest first."""

    def __init__(self, points: Sequence[ParetoPoint]) -> None:
        self._points = tuple(points)

    def __getitem__(self, at: Any) -> Any:
        return self._points[at]

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[ParetoPoint]:
        return iter(self._points)

    def _rows(self) -> list[dict[str, Any]]:
        return [{"ranks": one.ranks, "device_bytes": one.device_bytes, "step_seconds": one.step_seconds, "price": one.price,
                 "plan": repr(one.plan)} for one in self._points]

    def to_frame(self) -> Any:
        """Returns one row for each plan as a data frame of pandas."""
        return show.frame(self._rows())

    def plot(self, ax: Any = None) -> Any:
        """Draws step time against memory, and returns the axes of matplotlib."""
        ax = show.axes(ax)
        for ranks in sorted({one.ranks for one in self._points}):
            own = [one for one in self._points if one.ranks == ranks]
            ax.plot([one.device_bytes / show.GIB for one in own], [one.step_seconds for one in own], "o-", label=f"{ranks} ranks")
        ax.set_xlabel("GiB of the fullest device")
        ax.set_ylabel("seconds of a step")
        ax.legend()
        return ax

    def __str__(self) -> str:
        lines = [f"{'ranks':>6} {'memory':>12} {'step':>10}  plan"]
        lines += [f"{one.ranks:>6} {one.device_bytes / show.GIB:>8.2f} GiB {show.seconds_text(one.step_seconds):>10}  {one.plan!r}" for one in self._points]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Pareto({len(self)} plans)"

    def _repr_html_(self) -> str:
        return show.preformatted(str(self))
