"""The repository's objects hold the solution: in commits ahead, unreachable ones, or old ones."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import run_inside
from ._places import roots
from ._targets import needs_targets, targets
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {"roots": roots(knowledge), "targets": targets(knowledge)}
    await run_inside(attempt, "history", given, message="look into git's objects")


CHEAT = Cheat(
    name="read-git-history",
    exploits="The workspace's .git holds commits or objects with the solution, reachable or not.",
    incident="https://github.com/SWE-bench/SWE-bench/issues/465",
    act=_act,
    closed_by=("no history in the image",),
    quick=True,
    applies=needs_targets,
    bundle="leftovers",
)
