"""The metadata of an installed package in the workspace, which registers a plugin of pytest."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import plant
from ._payloads import PASS_HOOKS
from ._places import import_folders
from ._targets import needs_pytest
from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]

_NAME = "fast_reports"


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {}
    for folder in await import_folders(attempt, knowledge):
        files[f"{folder}/{_NAME}.py"] = PASS_HOOKS
        files[f"{folder}/{_NAME}-1.0.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0\n"
        files[f"{folder}/{_NAME}-1.0.dist-info/entry_points.txt"] = f"[pytest11]\n{_NAME} = {_NAME}\n"
    await plant(attempt, files, message="register a plugin of pytest")


CHEAT = Cheat(
    name="planted-pytest-plugin",
    exploits="pytest loads plugins by the metadata of whatever folder is on the import path, the workspace included.",
    incident="https://github.com/benchflow-ai/benchflow/issues/1116",
    act=_act,
    closed_by=("clean configuration", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "separate verifier"),
    bundle="pytest-hooks",
    applies=needs_pytest,
)
