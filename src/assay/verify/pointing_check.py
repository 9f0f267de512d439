"""The check `pointing`: a score of the acts of an attempt on pages, from what they aimed at, the way and their form.

    score = (target + path + form) / 3

`target` is the share of clicks and fills that aimed at an element which a shortest way may use next; a click at
coordinates does if its point lies in the element's box. `path` is how like the nearest shortest way the calls of the
attempt are: 2 x longest common subsequence / (shortest way + calls). `form` is the share of acts that are well formed:
a known tool with valid arguments. After VLA-R1's verifiable rewards for regions, trajectories and format; the formula
is ours.

It is a process verdict and passes at 1 alone, which takes a shortest way without a wrong act; the outcome is decided by
others. Covered and not covered: as `environments.browser.aims` says; the world noted the aims, and they are noted again
where the attempt is replayed. An attempt that aims at nothing is `unknown`, so doing nothing has no score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.environments.services.shortest_paths import read_ways, similarity
from assay.errors import TaskError
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput

POINTING: Final = "pointing"
"""Kind of the check, and of its evidence."""


class Pointing(NamedTuple):
    """Acts of an attempt, and the parts of its score."""

    acts: int
    """Acts, those that are not well formed among them."""
    malformed: int
    aimed: int
    """Acts that aim at an element."""
    right: int
    """Those that aimed at a target."""
    path: float

    @property
    def score(self) -> float | None:
        """Mean of the three parts; None where nothing was aimed at."""
        if not self.aimed:
            return None
        return (self.right / self.aimed + self.path + (self.acts - self.malformed) / self.acts) / 3


class PointingCheck:
    """Scores what the acts of an attempt aimed at."""

    kind = POINTING

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a workspace has no pages."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        browser, calls = given.facts.get("browser"), given.facts.get("calls")
        aims = browser.get("aims") if isinstance(browser, Mapping) else None
        if not isinstance(aims, list | tuple) or not isinstance(calls, list | tuple):
            ruling = Ruling("unknown", None, "the world notes no aims (its option aims)")
        else:
            path = await asyncio.to_thread(_path, given.task.environment.parameters, calls)  # the search takes a moment
            found = _count(aims, _refused(given), path)
            cited.add("audit", POINTING, found._asdict())
            ruling = _rule(found)
        return make_result(given, ruling, cited, kind="process")


def _path(parameters: Mapping[str, Any], calls: Sequence[Any]) -> float:
    """Returns how like a shortest way the agent's calls are that succeeded. Raises `TaskError` without a plan."""
    try:
        ways = read_ways(parameters)
    except ValueError as exc:
        raise TaskError(f"the check {POINTING!r}: {exc}") from exc
    if ways is None:
        raise TaskError(f"the check {POINTING!r} is for tasks with a plan")
    place, taken = ways.start, []
    for call in calls:
        if isinstance(call, Mapping) and call.get("code") is None and call.get("role") == "agent":
            found = ways.advance(place, str(call.get("action")), call.get("arguments"))
            if found is not None:
                taken.append(found[0])
                place = found[1]
    return similarity(ways, taken)


def _refused(given: WorldInput) -> int:
    """Returns the number of calls that never reached the world: no JSON object, no known tool, or invalid arguments."""
    if given.transcript is None:
        return 0
    return sum(
        call.parsed is None or call.error is not None for step in given.transcript().steps for call in step.tool_calls
    )


def _count(aims: Sequence[Any], refused: int, path: float) -> Pointing:
    known = [one for one in aims if isinstance(one, Mapping)]
    malformed = refused + sum(one.get("valid") is not True for one in known)
    aimed = [one["right"] for one in known if isinstance(one.get("right"), bool)]
    return Pointing(len(known) + refused, malformed, len(aimed), sum(aimed), path)


def _rule(found: Pointing) -> Ruling:
    text = (
        f"{found.right} of {found.aimed} clicks and fills aimed at what a shortest way means, the way is "
        f"{found.path:.2f} like one, and {found.malformed} of {found.acts} acts are not well formed"
    )
    if found.score is None:
        return Ruling("unknown", None, text)
    return Ruling("pass" if found.score == 1 else "fail", found.score, text)
