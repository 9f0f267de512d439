"""Interface of cheats: ways to be paid for no work, tried from inside the sandbox.

A cheat uses what the instruction and the sandbox show any agent, condensed into `Knowledge`. Of the reference solution
it uses only the shape: paths, names, types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from assay.agents.interface import Attempt
from assay.records import Step

BUNDLES: dict[str, str] = {
    "background": "processes left running that write the reward, watch the verifier or change what it reads",
    "environment": "a reward written in advance and full storage",
    "pytest-hooks": "hooks that pytest loads from the agent's folders",
    "stand-ins": "start-up hooks, modules and programs in the place of those that the verifier starts",
    "leftovers": "solutions left in the image, in caches and in the repository's history",
}
"""Maps a bundle's name to its description. Its cheats leave the work undone and do not undo each other."""


class SolutionFile(msgspec.Struct, frozen=True):
    """A file that solving the task adds or changes."""

    path: str
    """Absolute, inside the sandbox."""
    before: bytes | None
    """None if solving adds it."""
    after: bytes | None
    """None if solving removes it, or if it exceeds the size limit."""
    mode: int = 0o644


class Knowledge(msgspec.Struct, frozen=True):
    """Knowledge about a task beside its instruction."""

    workdir: str
    changed: tuple[SolutionFile, ...] = ()
    tests: tuple[str, ...] = ()
    """Paths of the verifier's files, relative to their mount (`/tests`)."""
    artifacts: tuple[str, ...] = ()
    """Declared output paths of the task."""
    steps: tuple[Step, ...] = ()
    """Recorded steps of the reference solution on another seed; empty without such a record."""
    runs_pytest: bool = True
    """True if the verifier may run pytest; False only if its files show all programs that it starts, without pytest."""
    reads_reports: bool = True
    """True if the verifier may read a test report."""
    python: tuple[str, ...] = ()
    """Importable names of the changed Python modules (`package.module`)."""
    byproducts: frozenset[str] = frozenset()
    """Paths of changed files that no verifier reads; changing them shows nothing."""

    @property
    def judged(self) -> tuple[SolutionFile, ...]:
        return tuple(file for file in self.changed if file.path not in self.byproducts)


class Cheat(msgspec.Struct, frozen=True):
    name: str
    exploits: str
    """Exploited weakness, in one sentence."""
    incident: str
    """Publication or report of the exploit, with its address; or `none known`."""
    act: Callable[[Attempt, Knowledge], Awaitable[None]]
    closed_by: tuple[str, ...] = ()
    """Settings that prevent it: `separate verifier`, `fresh fork`, `other user`, `clean configuration`, ..."""
    quick: bool = False
    """True if it is among the ten most common."""
    applies: Callable[[Knowledge], str | None] = lambda _: None
    """Returns why it cannot be tried on a task; None if it can."""
    about: str = ""
    """Description in one sentence; default: the module's documentation."""
    bundle: str = ""
    """Key of `BUNDLES`: cheats of one bundle are compatible, and first tried in one attempt."""


def cheat(
    *,
    exploits: str,
    about: str,
    incident: str = "none known",
    closed_by: tuple[str, ...],
    quick: bool = False,
    applies: Callable[[Knowledge], str | None] = lambda _: None,
    bundle: str = "",
) -> Callable[[Callable[[Attempt, Knowledge], Awaitable[None]]], Cheat]:
    """Returns a decorator that makes a `Cheat` of the function that acts, named after it with hyphens."""

    def decorate(act: Callable[[Attempt, Knowledge], Awaitable[None]]) -> Cheat:
        name = act.__name__.replace("_", "-")
        return Cheat(name, exploits, incident, act, closed_by, quick, applies, about, bundle)

    return decorate


class Bundle(msgspec.Struct, frozen=True):
    """Cheats tried in one attempt."""

    name: str
    cheats: tuple[Cheat, ...]


class CheatAgent:
    """Acts by one cheat, or by several compatible ones."""

    needs_model = False

    def __init__(self, cheat: Cheat | Bundle, knowledge: Knowledge) -> None:
        self.name = f"cheat:{cheat.name}"
        self._cheats = cheat.cheats if isinstance(cheat, Bundle) else (cheat,)
        self._knowledge = knowledge

    async def run(self, attempt: Attempt) -> None:
        for each in self._cheats:
            await each.act(attempt, self._knowledge)
        attempt.finish(f"tried {', '.join(each.name for each in self._cheats)}")
