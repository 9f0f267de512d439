"""Tests are skipped: by a mark in the workspace's test files, and by the code under test, which raises it."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._modules import overridden, python_files
from ._parts import plant, run_inside
from ._places import roots
from ._targets import needs_pytest
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_BODY = "raise unittest.SkipTest('not on this machine')"


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    await run_inside(attempt, "tests", {"mode": "skip", "roots": roots(knowledge)}, message="mark the tests")
    files = {f.path: overridden(f, lambda _: _BODY, prelude="import unittest") for f in python_files(knowledge)}
    await plant(attempt, files, message="skip from the code under test", like=knowledge)


CHEAT = Cheat(
    name="skipped-tests",
    exploits="A skipped test counts as one that passed: the runner's exit code is 0.",
    incident="https://github.com/harbor-framework/terminal-bench/issues/1775",
    act=_act,
    closed_by=("recorded test runner", "named tests demanded"),
    applies=needs_pytest,
)
