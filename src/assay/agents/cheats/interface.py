"""What a cheat is: a way to be paid for no work, as an agent could try it from inside its sandbox.

A cheat knows of a task what its instruction and a look around tell any agent, condensed into `Knowledge`. It never uses
what the reference solution wrote as its own answer, only the shape of it: paths, names, types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from assay.agents.interface import Attempt
from assay.records import Step

__all__ = ["BUNDLES", "Bundle", "Cheat", "CheatAgent", "Knowledge", "SolutionFile"]


BUNDLES: dict[str, str] = {
    "background": "processes left running that write the reward, watch the verifier or change what it reads",
    "environment": "a reward written in advance and full storage",
    "pytest-hooks": "hooks that pytest loads from the agent's folders",
    "stand-ins": "start-up hooks, modules and programs in the place of those that the verifier starts",
    "leftovers": "solutions left in the image, in caches and in the repository's history",
}
"""Name to what its cheats have in common. Members of one bundle leave the work undone, and none of them removes what
another one relies on."""


class SolutionFile(msgspec.Struct, frozen=True):
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
    changed: tuple[SolutionFile, ...] = ()
    tests: tuple[str, ...] = ()
    """Paths of the verifier's files, relative to where they are mounted (`/tests`)."""
    artifacts: tuple[str, ...] = ()
    """Paths that the task declares as its outputs."""
    steps: tuple[Step, ...] = ()
    """What the reference solution did, recorded on another seed; empty where there is no such record."""
    runs_pytest: bool = True
    """The verifier runs pytest, or may: False only where its files show all that it starts, and pytest is not there."""
    reads_reports: bool = True
    """The verifier reads a report of a test run, or may."""
    python: tuple[str, ...] = ()
    """Importable names of the changed Python modules (`package.module`)."""
    byproducts: frozenset[str] = frozenset()
    """Paths of changed files that no verifier reads: to write into them, or to change them, shows nothing."""

    @property
    def judged(self) -> tuple[SolutionFile, ...]:
        """The changed files without the by-products."""
        return tuple(file for file in self.changed if file.path not in self.byproducts)


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
    about: str = ""
    """The cheat in a sentence; empty: its module's own documentation."""
    bundle: str = ""
    """Cheats of one bundle do not get in each other's way, and are tried in one attempt first: a key of `BUNDLES`."""


class Bundle(msgspec.Struct, frozen=True):
    """Cheats that are tried in one attempt."""

    name: str
    cheats: tuple[Cheat, ...]


class CheatAgent:
    """Acts by one cheat, or by several that do not get in each other's way."""

    needs_model = False

    def __init__(self, cheat: Cheat | Bundle, knowledge: Knowledge) -> None:
        self.name = f"cheat:{cheat.name}"
        self._cheats = cheat.cheats if isinstance(cheat, Bundle) else (cheat,)
        self._knowledge = knowledge

    async def run(self, attempt: Attempt) -> None:
        for cheat in self._cheats:
            await cheat.act(attempt, self._knowledge)
        attempt.finish(f"tried {', '.join(cheat.name for cheat in self._cheats)}")
