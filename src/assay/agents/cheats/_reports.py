"""Forges reports of tests: from the module under test when its process ends, and from a process that is left behind."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._modules import overridden, python_files
from ._parts import inside, leave_behind, plant
from .interface import Knowledge

__all__ = ["forge"]

_PRELUDE = """
def _report():
    import atexit
    space = {{"__name__": "reports"}}
    exec({source!r}, space)
    atexit.register(space["forge_once"], {kind!r})


_report()
"""


async def forge(attempt: Attempt, knowledge: Knowledge, kind: str) -> None:
    """Forges one kind of report, `ctrf` or `junit`."""
    prelude = _PRELUDE.format(source=inside("reports"), kind=kind)
    modules = python_files(knowledge)
    files = {f.path: overridden(f, lambda _: "return None", prelude=prelude) for f in modules}
    if files:
        await plant(attempt, files, message="write the report when the tests' process ends", like=knowledge)
    await leave_behind(attempt, "reports", {"kind": kind, "lasts_s": 600}, message="wait for reports")
