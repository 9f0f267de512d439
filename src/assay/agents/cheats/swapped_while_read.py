"""Files take turns with other contents whenever somebody has read them: what is checked is not what is used."""

from __future__ import annotations

from typing import Any

from assay.agents.interface import Attempt

from ._answers import Confusion, answer_files, confused
from ._modules import on_top, python_files
from ._parts import leave_behind, workspace_of
from ._payloads import TAKE_OVER
from ._places import look_around
from ._targets import verifiers_own
from .interface import Cheat, Knowledge
from .payload.tests import emptied

__all__ = ["CHEAT"]

_MOST_FILES, _MOST_BYTES = 20, 1 << 20
_PLAIN = Confusion(text="0", json="0")


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    files: dict[str, list[Any]] = {}
    for file in python_files(knowledge):
        files[file.path] = [on_top(file, ""), on_top(file, TAKE_OVER)]
    for file in answer_files(knowledge):
        files[file.path] = [confused(file, _PLAIN).decode(), {"copy": verifiers_own(knowledge, file.path)}]
    found = await look_around(attempt, knowledge)
    for path in list(found.get("test_files", ()))[:_MOST_FILES]:
        try:
            text = (await workspace_of(attempt).read(path, limit=_MOST_BYTES)).decode()
            files[path] = [text, emptied(text)]
        except (OSError, ValueError, SyntaxError):
            continue
    await leave_behind(attempt, "watching", {"mode": "swap", "files": files}, message="swap files while they are read")


CHEAT = Cheat(
    name="swapped-while-read",
    exploits="The verifier reads a file twice, to check it and to use it, while a process of the agent's still lives.",
    incident="https://github.com/NVIDIA-NeMo/nemo-platform/pull/1089",
    act=_act,
    closed_by=("no agent process alive", "fresh fork", "one reading alone", "separate verifier"),
    bundle="background",
)
