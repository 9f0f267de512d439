"""Programs that end, or never end, before a test can fail."""

from __future__ import annotations

import msgspec

from assay.agents.interface import Attempt

from ._modules import insert_prologue, needs_program, needs_python, override_bodies, programs, python_files
from ._parts import plant
from .interface import Knowledge, SolutionFile, cheat


@cheat(
    about="The code under test ends the verifier's process well, before anything was tested.",
    exploits="The verifier imports or runs the agent's code in the process whose exit code decides.",
    incident="https://github.com/harbor-framework/terminal-bench/pull/2020",
    closed_by=("recorded test runner", "evidence demanded beside the exit code", "code under test in its own process"),
    quick=True,
    applies=needs_program,
)
async def os_exit(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: insert_prologue(f, "import os\n\nos._exit(0)") for f in python_files(knowledge)}
    await plant(attempt, files, message="end the process where the module is imported", like=knowledge)
    scripts = {f.path: "#!/bin/sh\nexit 0\n" for f in programs(knowledge)}
    if scripts:
        await plant(attempt, scripts, message="end the program at once", mode=0o755)


@cheat(
    about="The code under test ends the verifier's process by the exception for that.",
    exploits="The verifier imports the agent's module and takes the end of the process with exit code 0 for a pass.",
    incident="https://arxiv.org/abs/2511.18397",
    closed_by=("recorded test runner", "evidence demanded beside the exit code", "code under test in its own process"),
    applies=needs_python,
)
async def sys_exit(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: insert_prologue(f, "import sys\n\nsys.exit(0)") for f in python_files(knowledge)}
    await plant(attempt, files, message="exit where the module is imported", like=knowledge)


_PRELUDE = "import atexit\nimport os\n\natexit.register(os._exit, 0)"


@cheat(
    about="The code under test lets the tests fail and changes the exit code when the process ends.",
    exploits="The exit code of a process in which the agent's code was imported decides.",
    closed_by=("recorded test runner", "evidence demanded beside the exit code", "code under test in its own process"),
    applies=needs_python,
)
async def atexit_exit(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: override_bodies(f, lambda _: "return None", prelude=_PRELUDE) for f in python_files(knowledge)}
    await plant(attempt, files, message="change the exit code when the process ends", like=knowledge)


_SLEEP_S = 86_400
_WHEN_RUN = f'if __name__ == "__main__":\n    import time\n\n    time.sleep({_SLEEP_S})'


def _sleeping(file: SolutionFile) -> str:
    """Sleeps in every changed function and if run as a program; imports continue."""
    inner = override_bodies(file, lambda _: f"return _time.sleep({_SLEEP_S})", prelude="import time as _time")
    return insert_prologue(msgspec.structs.replace(file, before=inner.encode()), _WHEN_RUN)


@cheat(
    about="The program under test sleeps until the verifier's time limit.",
    exploits="A case that runs into its time limit is skipped, or counts as the machine's fault.",
    closed_by=("a case without an answer in time is a failure", "the number of judged cases checked"),
    applies=needs_program,
)
async def sleeping_program(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: _sleeping(f) for f in python_files(knowledge)}
    await plant(attempt, files, message="sleep when called", like=knowledge)
    scripts = {f.path: f"#!/bin/sh\nexec sleep {_SLEEP_S}\n" for f in programs(knowledge)}
    if scripts:
        await plant(attempt, scripts, message="sleep when run", mode=0o755)
