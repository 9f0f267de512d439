"""The solution is left in caches: byte code, build folders, installed copies, archives, the caches of installers."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import run_inside
from ._places import look_around
from ._targets import needs_targets, targets
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    found = await look_around(attempt, knowledge)
    home = str(found.get("home") or "/home/agent")
    installed = [p for p in found.get("path", ()) if p.endswith("-packages")]
    places = [f"{home}/.cache", f"{home}/.local", "/root/.cache", "/var/cache", "/app", "/build", "/tmp", "/var/tmp"]
    given = {
        "mode": "caches",
        "workdir": knowledge.workdir,
        "roots": [knowledge.workdir, *places, *installed],
        "targets": targets(knowledge),
    }
    await run_inside(attempt, "leaks", given, message="look into caches")


CHEAT = Cheat(
    name="read-caches",
    exploits="Byte code, a build folder, an installed copy or an installer's cache still holds the solved version.",
    incident="https://github.com/LiveBench/LiveBench/pull/480",
    act=_act,
    closed_by=("no caches in the image", "suspicion of byte code"),
    applies=needs_targets,
    bundle="leftovers",
)
