"""The code under test ends the verifier's process well, before anything was tested."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._modules import needs_program, on_top, programs, python_files
from ._parts import plant
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: on_top(f, "import os\n\nos._exit(0)") for f in python_files(knowledge)}
    await plant(attempt, files, message="end the process where the module is imported", like=knowledge)
    scripts = {f.path: "#!/bin/sh\nexit 0\n" for f in programs(knowledge)}
    if scripts:
        await plant(attempt, scripts, message="end the program at once", mode=0o755)


CHEAT = Cheat(
    name="os-exit",
    exploits="The verifier imports or runs the agent's code in the process whose exit code decides.",
    incident="https://github.com/harbor-framework/terminal-bench/pull/2020",
    act=_act,
    closed_by=("recorded test runner", "evidence demanded beside the exit code", "code under test in its own process"),
    quick=True,
    applies=needs_program,
)
