"""A text adventure in which things are stiff: each verb but `go` and `look` works in one of eight manners alone.

Which manner a verb wants is the same in every task and is said nowhere, so that errors repeat from task to task. The
agent `Reader` is made of rules: it draws acts as `rules-world` does, repeats a call that failed in manners that it did
not try, and keeps to one that worked until the attempt ends. It follows what it reads in a skill: the factors of acts,
and the manner that mended a failure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from assay.agents._skill_text import read_skill_text, skill_evidence
from assay.agents.interface import Attempt
from assay.agents.recoveries import failure_signature
from assay.agents.text_rules import TextMemory, choose_act, parse_rules
from assay.environments.worlds.adventure import Adventure, _Do
from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.records import ToolCall, canonical_bytes

Manner = Literal["", "firmly", "gently", "slowly", "twice", "sideways", "quickly", "askew", "backwards"]
MANNERS = ("firmly", "gently", "slowly", "twice", "sideways", "quickly", "askew", "backwards")
RULES = {"take": "gently", "drop": "askew", "unlock": "twice"}
_MENDED = re.compile(r"- When `do` fails with `([^`]+)`: call `do` again with `manner` = `\"(\w+)\"`")


class _DoSo(_Do, frozen=True, forbid_unknown_fields=True):
    """Do what a short command says in a manner, for example: take brass key, firmly."""

    manner: Manner = ""


class Stiff(Adventure):
    """An adventure whose verbs want a manner."""

    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"do": _DoSo}

    def do_do(self, given: _Do) -> Turn:
        verb, _, thing = given.command.partition(" ")
        if verb in RULES and getattr(given, "manner", "") != RULES[verb]:
            return Turn(f"to {verb} '{thing[:40]}' does not work in this manner", error=True)
        return super().do_do(given)

    def oracle(self) -> Act | None:
        found = super().oracle()
        return None if found is None else _in_manner(found)

    def choices(self) -> list[Act]:
        return list(map(_in_manner, super().choices()))


def _in_manner(act: Act) -> Act:
    tool, arguments = act
    return tool, {**arguments, "manner": RULES.get(str(arguments["command"]).partition(" ")[0], "")}


class StiffTasks(WorldTasks):
    """Tasks of this world: `family:experiments/_stiff_world.py:StiffTasks,n=40`."""

    kind = f"{__file__}:Stiff"
    short = "stiff"


def parse_mends(text: str) -> dict[str, str]:
    """Returns the manner that a skill's text gives for each failure of `do`, by the failure's words."""
    return dict(_MENDED.findall(text))


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skill: str = ""


class Reader:
    """Draws commands, and reads a skill about acts and failures. Option: `skill` (folder)."""

    name = "reader"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        skill = msgspec.convert(options, _Options).skill
        self._text = read_skill_text(Path(skill)) if skill else ""
        self._rules, self._mends = parse_rules(self._text), parse_mends(self._text)

    async def run(self, attempt: Attempt) -> None:
        if self._text:
            attempt.note(skill_evidence(self._text, len(self._rules) + len(self._mends)))
        player = _Player(attempt, self._mends)
        while attempt.ended is None:
            await player.do(choose_act(player.memory.possible_acts(), self._rules, player.draw).command)


class _Player:
    """One attempt."""

    def __init__(self, attempt: Attempt, mends: Mapping[str, str]) -> None:
        self._attempt, self._mends = attempt, mends
        self._worked = dict[str, str]()
        self._calls = 0
        self.memory, self.draw = TextMemory(str(attempt.task.instruction)), random.Random(attempt.seed)

    async def do(self, command: str) -> None:
        """Makes a command, in one manner after the other until one works."""
        verb = command.partition(" ")[0]
        left = self.draw.sample(MANNERS, len(MANNERS)) if verb in RULES else [""]
        manner = self._worked.get(verb, left[0])
        while self._attempt.ended is None:
            left.remove(manner)
            arguments = {"command": command, "manner": manner}
            call = ToolCall(f"r{self._calls}", "do", canonical_bytes(arguments).decode(), arguments)
            self._calls += 1
            (seen,) = await self._attempt.act([call])
            failed = failure_signature(call, seen)
            if failed is None:
                self._worked[verb] = manner
                self.memory.observe(command, seen.content)
                return
            advised = self._mends.get(failed.partition(": ")[2], "")
            manner = advised if advised in left else left[0]
