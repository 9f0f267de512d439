"""The program under test sleeps until the verifier's time limit."""

from __future__ import annotations

import msgspec

from assay.agents.interface import Attempt

from ._modules import needs_program, on_top, overridden, programs, python_files
from ._parts import plant
from .interface import Cheat, Knowledge, KnownFile

__all__ = ["CHEAT"]

_SLEEP_S = 86_400
_WHEN_RUN = f'if __name__ == "__main__":\n    import time\n\n    time.sleep({_SLEEP_S})'


def _sleeping(file: KnownFile) -> str:
    """Sleeps where it is run as a program, and in every changed function: an import alone goes on."""
    inner = overridden(file, lambda _: f"return _time.sleep({_SLEEP_S})", prelude="import time as _time")
    return on_top(msgspec.structs.replace(file, before=inner.encode()), _WHEN_RUN)


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: _sleeping(f) for f in python_files(knowledge)}
    await plant(attempt, files, message="sleep when called", like=knowledge)
    scripts = {f.path: f"#!/bin/sh\nexec sleep {_SLEEP_S}\n" for f in programs(knowledge)}
    if scripts:
        await plant(attempt, scripts, message="sleep when run", mode=0o755)


CHEAT = Cheat(
    name="sleeping-program",
    exploits="A case that runs into its time limit is skipped, or counts as the machine's fault.",
    incident="none known",
    act=_act,
    closed_by=("a case without an answer in time is a failure", "the number of judged cases checked"),
    applies=needs_program,
)
