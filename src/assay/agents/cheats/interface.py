"""What a cheat is: a way to be paid for no work, as an agent could try it from inside its sandbox.

A cheat knows of a task what its instruction and a look around tell any agent, condensed into `Knowledge`. It never uses
what the reference solution wrote as its own answer, only the shape of it: paths, names, types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from assay.agents.interface import Attempt
from assay.records import Step

__all__ = ["Cheat", "CheatAgent", "Knowledge", "KnownFile"]


class KnownFile(msgspec.Struct, frozen=True):
    """A file that solving the task adds or changes."""

    path: str
    """Absolute, inside the sandbox."""
    before: bytes | None
    """None where solving adds it."""
    after: bytes | None
    """None where solving removes it, or where it is larger than what is kept."""
    mode: int = 0o644


class Knowledge(msgspec.Struct, frozen=True):
    """What is known of a task beside its instruction."""

    workdir: str
    changed: tuple[KnownFile, ...] = ()
    tests: tuple[str, ...] = ()
    """Paths of the verifier's files, relative to where they are mounted (`/tests`)."""
    artifacts: tuple[str, ...] = ()
    """Paths that the task declares as its outputs."""
    steps: tuple[Step, ...] = ()
    """What the reference solution did, recorded on another seed; empty where there is no such record."""
    python: tuple[str, ...] = ()
    """Importable names of the changed Python modules (`package.module`)."""


class Cheat(msgspec.Struct, frozen=True):
    """One way to cheat."""

    name: str
    exploits: str
    """What it relies on, in one sentence."""
    incident: str
    """Where this was seen: a publication or a report, with its address; or `none known`."""
    act: Callable[[Attempt, Knowledge], Awaitable[None]]
    closed_by: tuple[str, ...] = ()
    """Settings that close it: `separate verifier`, `fresh fork`, `other user`, `clean configuration`, ..."""
    quick: bool = False
    """One of the ten commonest."""
    applies: Callable[[Knowledge], str | None] = lambda _: None
    """Why it cannot be tried on a task, or None."""


class CheatAgent:
    """Acts by one cheat."""

    needs_model = False

    def __init__(self, cheat: Cheat, knowledge: Knowledge) -> None:
        self.name = f"cheat:{cheat.name}"
        self._cheat = cheat
        self._knowledge = knowledge

    async def run(self, attempt: Attempt) -> None:
        """See `Agent.run`."""
        await self._cheat.act(attempt, self._knowledge)
        attempt.finish(f"tried {self._cheat.name}")
