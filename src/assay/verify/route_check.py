"""The check `route`: how far an attempt came on a site that is a state machine, and at which step it was lost.

The world's own log of calls is followed over the machine, which the task's parameters hold. Breadth-first search says
how far each node is from the goal, so the verdict names the nearest node, the skill of the step that was not taken
there, and where a step led away for good. It is a process verdict: the outcome is decided by the check `state`.

Covered: calls that were refused lead nowhere; a code counts as seen when its screen was reached. Not covered: a goal
that several paths share is approached by each of them, and only the distance is judged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.machines.machine import Machine, Start
from assay.environments.services.machines.search import Node, Reach, TooLarge, WaysBack, explore
from assay.environments.services.shortest_paths import only_machine
from assay.errors import TaskError
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, read_parameters, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput

ROUTE: Final = "route"
"""Kind of the check, and of its evidence."""
STOP: Final = "stop"
"""Skill that is lost by an attempt that reached the goal and then left it for good."""
LOST: Final = "lost_at_"
"""Beginning of the mark that names the skill at which an attempt was lost."""


class RouteParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `route`."""

    goal: Start
    """State to be brought about."""


class Course(NamedTuple):
    """The course of an attempt over a machine."""

    shortest: int
    steps: int
    """Steps that were taken."""
    left: int | None
    """Steps that were left at the end; None if there was no way any more."""
    nearest: int
    """Steps that were left at the nearest node."""
    lost: str
    """Skill of the step that was not taken, or `STOP`; empty at the goal."""
    astray: Mapping[str, int]
    """Steps that led away from the goal, by the skill of the step that was due."""
    needed: Mapping[str, int]
    """Steps of the shortest way by skill."""
    done: Mapping[str, int]
    """Those of them that the nearest node has behind it."""


class RouteCheck:
    """Judges how far the calls of an attempt led."""

    kind = ROUTE

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a workspace has no state machine."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        goal = read_parameters(given, RouteParameters).goal
        machine, start = _machine_of(given.task.environment.parameters)
        calls = given.facts.get("calls")
        if not isinstance(calls, list | tuple):
            ruling = Ruling("unknown", None, "the world does not report its calls")
        else:
            course = await asyncio.to_thread(follow, machine, start, goal, calls)  # the search may take seconds
            cited.add("audit", ROUTE, course._asdict())
            ruling = _rule(course)
        return make_result(given, ruling, cited, kind="process")


def _machine_of(parameters: Mapping[str, Any]) -> tuple[Machine, Start]:
    """Returns the only machine of a world, and its start. Raises `TaskError`."""
    try:
        only = only_machine(parameters)
    except ValueError as exc:
        raise TaskError(f"the check {ROUTE!r}: {exc}") from exc
    if only is None:
        raise TaskError(f"the check {ROUTE!r} is for worlds of one state machine")
    return only


def follow(machine: Machine, start: Start, goal: Start, calls: Iterable[Any]) -> Course:
    """Returns the course of the calls in a world's log.

    Raises:
        TaskError: The machine is too large, or its goal cannot be reached.
    """
    try:
        reach, wanted = explore(machine, start), machine.begin(goal)
    except (TooLarge, ValueError) as exc:
        raise TaskError(f"the check {ROUTE!r}: {exc}") from exc
    back = reach.ways_back(wanted)
    if reach.start not in back:
        raise TaskError(f"the check {ROUTE!r}: no way leads to its goal")
    nodes = [reach.start, *_nodes(reach, calls)]
    back = {**{node: (0, None) for node in nodes if node.state == wanted}, **back}  # some only a guess leads to
    nearest = min((node for node in nodes if node in back), key=lambda node: back[node][0])
    needed, rest = _skills(reach, back, reach.start), _skills(reach, back, nearest)
    astray: Counter[str] = Counter()
    for before, after in pairwise(nodes):
        due = back[before][1] if before in back else None
        if due is not None and (after not in back or back[after][0] >= back[before][0]):
            astray[due.transition.skill] += 1
    end = nodes[-1]
    lost = "" if end.state == wanted else _lost(back, nodes)
    done = {skill: max(count - rest[skill], 0) for skill, count in needed.items()}
    left = back[end][0] if end in back else None
    shortest, taken = back[reach.start][0], len(nodes) - 1
    return Course(shortest, taken, left, back[nearest][0], lost, dict(sorted(astray.items())), dict(needed), done)


def _lost(back: WaysBack, nodes: list[Node]) -> str:
    """Returns the skill of the step that was due where the attempt ended, or where its last way was cut off."""
    last = next(node for node in reversed(nodes) if node in back)
    due = back[last][1]
    return STOP if due is None else due.transition.skill


def _skills(reach: Reach, back: WaysBack, node: Node) -> Counter[str]:
    """Returns the steps of a shortest way from a node by skill."""
    found: Counter[str] = Counter()
    while (step := back[node][1]) is not None:
        found[step.transition.skill] += 1
        after = reach.follow(node, step)
        assert after is not None, "a step of a way is possible"
        node = after
    return found


def _nodes(reach: Reach, calls: Iterable[Any]) -> Iterator[Node]:
    """Yields the nodes after the steps that the calls of a log took."""
    node = reach.start
    for call in calls:
        if isinstance(call, Mapping) and call.get("code") is None:
            found = reach.follow_call(node, str(call.get("action")), call.get("arguments"))
            if found is not None:
                node = found[1]
                yield node


def _rule(course: Course) -> Ruling:
    if course.left == 0:
        return Ruling("pass", 1.0, f"the goal was reached in {course.steps} steps; {course.shortest} would do")
    at = f"lost at a step of the kind {course.lost}"
    come = 1 - course.nearest / course.shortest if course.shortest else 1.0
    end = "no way led to the goal any more" if course.left is None else f"{course.left} were left at the end"
    text = f"{course.nearest} of {course.shortest} steps were left at the nearest node, and {end}; {at}"
    return Ruling("fail", come, text, (LOST + course.lost,))
