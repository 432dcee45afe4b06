# SPDX-License-Identifier: Apache-2.0
"""The questions that Kerf answers about a model on a cluster."""
from __future__ import annotations

import json
import logging
import sys
import warnings as _warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, Union

from . import _core
from .answers import Comparison, Explanation, Pareto, ParetoPoint, Simulation, Verification
from .cluster import ClusterLike, cluster_text
from .errors import Warning
from .model import Model, ModelLike, as_model
from .optimizer import DtypeLike, OptimizerLike, step_settings
from .plans import Plan, PlanLike, as_plan

logger = logging.getLogger("kerf")

Progress = Callable[[float, float], Optional[bool]]
ProgressLike = Union[Progress, bool, None]
Search = Literal["auto", "placement", "whole"]
Mode = Literal["auto", "semi", "data", "stand-alone"]
Bytes = Union[int, str]


def _progress(asked: ProgressLike) -> Callable[[float, float], bool]:
    """Returns the function that the module calls: it logs, shows a line on a terminal if asked, and calls the user's."""
    terminal = asked is True or (asked is None and sys.stderr is not None and sys.stderr.isatty())

    def tell(best: float, bound: float) -> bool:
        logger.info("best %.4g s, bound %.4g s", best, bound)
        if callable(asked):
            return asked(best, bound) is not False
        if terminal:
            sys.stderr.write(f"\rsearching: {f'best {best:.4g} s' if best > 0 else 'no plan yet'}, bound {bound:.4g} s \x1b[K")
            sys.stderr.flush()
        return True

    return tell


def _finish(asked: ProgressLike) -> None:
    if asked is True or (asked is None and sys.stderr is not None and sys.stderr.isatty()):
        sys.stderr.write("\r\x1b[K")


def tell(warnings: Sequence[str], notes: Sequence[str] = ()) -> None:
    """Passes warnings on as kerf.Warning, and logs notes."""
    for warning in warnings:
        _warnings.warn(warning, Warning, stacklevel=3)
    for note in notes:
        logger.info("%s", note)


def search_settings(*, ranks: Optional[int] = None, search: str = "auto", mode: str = "auto", memory: Optional[Bytes] = None,
                    margin: Optional[float] = None, budget: Optional[float] = None, top: Optional[int] = None, all_ranks: bool = False,
                    trainer: Optional[str] = None) -> dict[str, Any]:
    """Returns the settings of a search that were given."""
    given = {"ranks": ranks, "search": None if search == "auto" else search, "mode": None if mode == "auto" else mode, "memory": memory,
             "margin": margin, "budget": budget, "top": top, "all_ranks": all_ranks or None, "for": trainer}
    return {key: value for key, value in given.items() if value is not None}


def _constraints(constraints: Optional[PlanLike]) -> Optional[str]:
    return None if constraints is None else as_plan(constraints).text


def _search(model: ModelLike, cluster: ClusterLike, settings: dict[str, Any], constraints: Optional[PlanLike], start: Optional[PlanLike],
            pareto: bool, progress: ProgressLike) -> tuple[Plan, dict[str, Any]]:
    its = as_model(model)
    settings = {**its.settings, **settings}
    try:
        answer = json.loads(_core.plan(its.source(), json.dumps(settings), cluster_text(cluster), _constraints(constraints),
                                       _constraints(start), pareto, _progress(progress)))
    finally:
        _finish(progress)
    tell(answer["warnings"], answer["notes"])
    job = {key: value for key, value in answer["plan"].items() if key == "job"}  # that of the whole search
    others = tuple(Plan({**other["plan"], **job}, model=its) for other in answer["others"])
    plan = Plan(answer["plan"], model=its, report=answer["text"], alternatives=others, notes=tuple(answer["notes"]),
                interrupted=answer["interrupted"])
    return plan, answer


def plan(model: ModelLike, cluster: ClusterLike = None, *, ranks: Optional[int] = None, optimizer: OptimizerLike = None,
         dtype: DtypeLike = None, search: Search = "auto", constraints: Optional[PlanLike] = None, memory: Optional[Bytes] = None,
         margin: Optional[float] = None, budget: Optional[float] = None, top: int = 3, all_ranks: bool = False, mode: Mode = "auto",
         trainer: Optional[str] = None, start: Optional[PlanLike] = None, progress: ProgressLike = None) -> Plan:
    """Returns the fastest plan that fits into the memory of the devices.

    Ctrl-C ends a search over whole plans with the best plan so far (`Plan.interrupted`). `progress` is called about once
    a second with the step seconds of the best plan (0: none yet) and the lower bound; if it returns False, the search
    ends in the same way. Without it, one line is shown where standard error is a terminal; False shows nothing.

    Raises:
        InfeasibleError: no plan fits; the message says what would make one fit.
        InputError: the model, the cluster or a setting is wrong.

    >>> kerf.plan("examples/gpt2/model.onnx", ranks=4, all_ranks=True).ranks
    4
    """
    settings = {**step_settings(optimizer, dtype),
                **search_settings(ranks=ranks, search=search, mode=mode, memory=memory, margin=margin, budget=budget, top=top,
                                  all_ranks=all_ranks, trainer=trainer)}
    return _search(model, cluster, settings, constraints, start, False, progress)[0]


def pareto(model: ModelLike, cluster: ClusterLike = None, *, ranks: Optional[int] = None, optimizer: OptimizerLike = None,
           dtype: DtypeLike = None, constraints: Optional[PlanLike] = None, memory: Optional[Bytes] = None, margin: Optional[float] = None,
           budget: Optional[float] = None, trainer: Optional[str] = None, progress: ProgressLike = None) -> Pareto:
    """Returns the plans that no other plan beats in step time, memory and ranks at once.

    >>> kerf.pareto("config.json", "dgx-a100", dtype="bf16").plot()
    """
    settings = {**step_settings(optimizer, dtype),
                **search_settings(ranks=ranks, search="whole", memory=memory, margin=margin, budget=budget, trainer=trainer)}
    its = as_model(model)
    answer = _search(its, cluster, settings, constraints, None, True, progress)[1]
    price = answer["price_per_hour"]
    points: list[ParetoPoint] = []
    for one in answer["pareto"]:
        seconds = one["found"]["simulation"]["step_seconds"]
        points.append(ParetoPoint(Plan(one["found"]["plan"], model=its), one["ranks"], one["device_bytes"], seconds,
                                  price * one["ranks"] * seconds / 3600 if price else None))
    return Pareto(points)


def _given(model: Optional[ModelLike], plan: Optional[PlanLike]) -> tuple[Optional[Model], Optional[Plan]]:
    """Returns model and plan; a plan that kerf.plan made in this process knows its model."""
    its = None if plan is None else as_plan(plan)
    if model is not None:
        return as_model(model), its
    return (its.model if its is not None and its.model is not None and its.model.in_memory else None), its


def _asked(model: Optional[ModelLike], plan: PlanLike) -> tuple[Optional[Model], Plan]:
    """Returns model and plan, as _given does for a plan that has to be given."""
    its = as_plan(plan)
    return _given(model, its)[0], its


def _settings(model: Optional[Model], **given: Any) -> str:
    settings = {} if model is None else model.settings
    return json.dumps({**settings, **{key: value for key, value in given.items() if value is not None}})


def simulate(model: Optional[ModelLike] = None, plan: Optional[PlanLike] = None, cluster: ClusterLike = None, *, ranks: Optional[int] = None,
             optimizer: OptimizerLike = None, dtype: DtypeLike = None, trainer: Optional[str] = None, margin: Optional[float] = None) -> Simulation:
    """Returns what a plan takes, without a search. Gaps of the plan get defaults, and what is not given comes from its job.

    >>> kerf.simulate("config.json", {"mesh": {"model": 8}}, "dgx-a100", dtype="bf16").fits
    """
    its, given = _given(model, plan)
    settings = _settings(its, **{"ranks": ranks, "for": trainer, "margin": margin, **step_settings(optimizer, dtype)})
    answer = json.loads(_core.simulate(None if its is None else its.source(), None if given is None else given.text, settings,
                                       cluster_text(cluster), True))
    tell(answer["warnings"])
    return Simulation(answer, Plan(answer["plan"], model=its))


def explain(plan: PlanLike, *, model: Optional[ModelLike] = None, op: str = "", what_if: Union[str, Sequence[str]] = (),
            trainer: Optional[str] = None, progress: ProgressLike = None) -> Explanation:
    """Returns why a plan is as it is: its alternatives, and what limits it.

    `what_if` scales quantities of the job, such as "infiniband.bandwidth*2", and asks for the best plan then. `op` is a
    pattern of operators, for plans of the search over placements.
    """
    its, given = _asked(model, plan)
    changes = [what_if] if isinstance(what_if, str) else list(what_if)
    answer = _core.explain(None if its is None else its.source(), given.text, None, op, changes, trainer or "", _progress(progress))
    return Explanation(json.loads(answer))


def compare(plan: PlanLike, other: PlanLike, *, model: Optional[ModelLike] = None) -> Comparison:
    """Returns how two plans differ: in step time and its parts, in memory, and in decisions."""
    its, given = _asked(model, plan)
    answer = _core.explain(None if its is None else its.source(), given.text, as_plan(other).text, "", [], "", None)
    return Comparison(json.loads(answer))


def verify(model: Optional[ModelLike] = None, plan: Optional[PlanLike] = None, *, cluster: ClusterLike = None,
           optimizer: OptimizerLike = None, dtype: DtypeLike = None) -> Verification:
    """Checks that a plan gives the numbers of one rank and fits into memory, without the machines of the plan.

    A plan that fails is no exception: the result is false, and its `message` says why.
    """
    if plan is None:
        raise TypeError("verify() needs a plan: kerf.verify(plan=plan), or kerf.verify(model, plan)")
    its, given = _asked(model, plan)
    return Verification(json.loads(_core.verify(None if its is None else its.source(), given.text, _settings(its, **step_settings(optimizer, dtype)),
                                                cluster_text(cluster))))


