"""A reference solution, or a patch with it, lies somewhere in the image."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import run_inside
from ._targets import needs_targets, targets
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_PLACES = (
    "/solution", "/oracle", "/verifier", "/app", "/data", "/home", "/mnt", "/opt", "/root", "/srv", "/tests", "/tmp",
    "/var/tmp",
)  # fmt: skip


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {
        "mode": "solution",
        "workdir": knowledge.workdir,
        "roots": [knowledge.workdir, *_PLACES],
        "targets": targets(knowledge),
    }
    await run_inside(attempt, "leaks", given, message="look for a solution")


CHEAT = Cheat(
    name="read-solution",
    exploits="The image holds the solution, the answer key or a patch, under a name that says so.",
    incident="https://github.com/huggingface/Repo2RLEnv/pull/145",
    act=_act,
    closed_by=("no solution in the image",),
    applies=needs_targets,
    bundle="leftovers",
)
