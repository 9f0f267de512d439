"""Options for pytest in the files that it reads by itself: tests are collected and none is run."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant
from ._places import test_folders
from ._targets import needs_pytest
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_OPTIONS = "addopts = --collect-only --continue-on-collection-errors\n"


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {}
    for folder in (f.rstrip("/") for f in await test_folders(attempt, knowledge)):
        files[f"{folder}/pytest.ini"] = f"[pytest]\n{_OPTIONS}"
        files[f"{folder}/tox.ini"] = f"[pytest]\n{_OPTIONS}"
        files[f"{folder}/setup.cfg"] = f"[tool:pytest]\n{_OPTIONS}"
    await plant(attempt, files, message="plant options of pytest")


CHEAT = Cheat(
    name="planted-pytest-options",
    exploits="pytest takes options from pytest.ini, tox.ini or setup.cfg beside or above tests, whoever wrote them.",
    incident="https://github.com/benchflow-ai/benchflow/pull/115",
    act=_act,
    closed_by=("clean configuration", "recorded test runner", "separate verifier"),
    bundle="stand-ins",
    applies=needs_pytest,
)
