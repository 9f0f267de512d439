"""Agent that acts in a text adventure by what it reads, with or without the rules of a skill.

It reads the instruction and the observations, never the world's state. Without a skill it draws among the commands that
the text offers with equal chances; a skill's rules make some of them more likely.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.errors import TaskError, UserError
from assay.records import ToolCall, canonical_bytes

from ._options import read_options
from ._skill_text import read_skill_text, skill_evidence
from .interface import Attempt
from .text_rules import TextMemory, choose_act, parse_rules


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skill: str = ""
    """Folder of an Agent Skill, or its SKILL.md, whose rules are followed; empty for none."""
    steps: Annotated[int, msgspec.Meta(ge=0)] = 1000
    """Maximum number of acts; the limits of world and run also apply."""


class RulesWorldAgent:
    """Draws commands of a text adventure by the rules of a skill. Options: `skill` (folder), `steps` (most acts)."""

    name = "rules-world"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)
        self._text = read_skill_text(Path(self._options.skill)) if self._options.skill else ""
        self._rules = parse_rules(self._text)
        if self._text and not self._rules:
            raise UserError(
                f"{self._options.skill} holds no rule that the agent {self.name!r} can follow: a rule is a line such "
                "as '- take a key: 4.0000 times as likely as a random act', as `assay skills distil` writes it"
            )

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the task is not a text adventure."""
        instruction = attempt.task.instruction
        try:
            memory = TextMemory(instruction if isinstance(instruction, str) else "")
        except ValueError as exc:
            raise TaskError(
                f"agent {self.name!r} acts in tasks of the family adventure alone, and task {attempt.task.id!r} is "
                f"another: {exc}"
            ) from exc
        draw = random.Random(attempt.seed)
        if self._text:
            attempt.note(skill_evidence(self._text, len(self._rules)))
        for number in range(self._options.steps):
            acts = memory.possible_acts()
            if not acts:
                break
            command = choose_act(acts, self._rules, draw).command
            arguments = {"command": command}
            call = ToolCall(f"r{number}", "do", canonical_bytes(arguments).decode(), arguments)
            (observation,) = await attempt.act([call])
            memory.observe(command, observation.content)
            if attempt.ended is not None:
                return
        attempt.finish("the acts of the option `steps` are used up, or the text offers none")
