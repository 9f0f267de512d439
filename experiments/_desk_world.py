"""A desk at which requests are granted or declined: a clerk reads the request, an adviser knows the rules.

Whether a request may be granted stands in rules that the adviser alone knows (part 2 of the task); the clerk sees the
request (part 1) and a hint that is right in 70%. A request that no rule allows is the unsolvable twin of one that may
be granted: it is solved by `declare_unsolvable`.
"""

from __future__ import annotations

import random
import re
from typing import ClassVar, Literal

import msgspec

from assay.agents.interface import Attempt
from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.records import TEAM_HAND_OFF, TEAM_READ, ToolCall

KINDS = ("refund", "upgrade", "transfer", "voucher")
HINT_RIGHT = 0.7
_REQUEST = re.compile(r"A customer asks for a (\w+) of (\d+)\.")
_ASKED = re.compile(r"May I grant a (\w+) of (\d+)\?")
_RULE = re.compile(r"a (\w+) of at most (\d+)")
DECLINE = "declare_unsolvable"


class _Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Grant the request. This ends it."""


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    granted: bool = False


class Desk(Rules[WorldConfig, _Now]):
    """One request."""

    name: ClassVar[str] = "desk"
    WorldConfig = WorldConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"grant": _Grant}

    def generate(self, draw: random.Random) -> None:
        self._limits = {kind: draw.randrange(100, 900, 10) for kind in KINDS}
        self._kind = draw.choice(KINDS)
        limit = self._limits[self._kind]
        allowed, forbidden = draw.randrange(10, limit + 1), draw.randrange(limit + 1, 1_000)
        self._amount = allowed if self.config.solvable else forbidden
        self._is_suspicious = (draw.random() < HINT_RIGHT) != self.config.solvable
        self.limit, self.now = 12, _Now()

    @property
    def parts(self) -> int:
        """Two: the request, and the rules."""
        return 2

    def view(self, part: int) -> str:
        """Returns the request, or the rules."""
        rules = "; ".join(f"a {kind} of at most {limit}" for kind, limit in self._limits.items())
        return {1: self.render(), 2: f"What may be granted: {rules}. Nothing else."}.get(part, "")

    def brief(self) -> str:
        return "Grant the request if it may be granted, and decline it otherwise."

    def render(self) -> str:
        hint = " The customer is in a hurry and asks for an exception." if self._is_suspicious else ""
        return f"A customer asks for a {self._kind} of {self._amount}.{hint}"

    def do_grant(self, given: _Grant) -> Turn:
        del given
        self.now.granted = True
        return Turn("granted", float(self.solved()), True)

    def constants(self) -> object:
        return [sorted(self._limits.items()), self._kind, self._amount, self._is_suspicious]

    def solved(self) -> bool:
        return self.now.granted and self.config.solvable

    def oracle(self) -> Act | None:
        return None if self.over or not self.config.solvable else ("grant", {})

    def progress(self) -> float:
        return float(self.solved())


class DeskTasks(WorldTasks):
    """Requests; with `twins=true` every second one must be declined."""

    kind = f"{__file__}:Desk"
    short = "desk"


class Clerk:
    """Grants or declines; asks the adviser always, when the hint makes it doubt, or never."""

    name = "clerk"
    needs_model = False

    def __init__(self, ask: Literal["always", "in doubt"] = "in doubt") -> None:
        self._ask = ask

    async def run(self, attempt: Attempt) -> None:
        text = str(attempt.task.instruction)
        asked, doubts = _REQUEST.search(text), "exception" in text
        advice = ""
        if asked is not None and (doubts or self._ask == "always"):
            question = f"May I grant a {asked[1]} of {asked[2]}?"
            await _call(attempt, TEAM_HAND_OFF, to="adviser", text=question)
            advice = await _call(attempt, TEAM_READ)
        is_granted = "grant it" in advice or (not doubts and "decline it" not in advice)
        await _call(attempt, "grant" if is_granted else DECLINE)


class Adviser:
    """Answers by the rules, wrong in a share `wrong` of its answers; `timid` declines everything."""

    name = "adviser"
    needs_model = False

    def __init__(self, *, wrong: float = 0.1, timid: bool = False) -> None:
        self._wrong, self._timid = float(wrong), timid

    async def run(self, attempt: Attempt) -> None:
        text = str(attempt.task.instruction)
        limits, asked = dict(_RULE.findall(text)), _ASKED.search(text)
        may = asked is not None and int(asked[2]) <= int(limits.get(asked[1], 0))
        may = not self._timid and may != (random.Random(attempt.seed).random() < self._wrong)
        attempt.finish("grant it" if may else "decline it")


async def _call(attempt: Attempt, name: str, **arguments: str) -> str:
    (seen,) = await attempt.act([ToolCall("d", name, msgspec.json.encode(arguments).decode(), dict(arguments))])
    return seen.content or ""
