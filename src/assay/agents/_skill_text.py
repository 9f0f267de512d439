"""Reads the text of a skill whose rules an agent follows, and records which one it was."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from assay.errors import UserError
from assay.records import Evidence, digest_bytes

from .composites import COMPOSITES_FILE, CompositeTool, offer_composites, read_composites
from .interface import Attempt
from .text_rules import parse_rules

_SKILL_BYTES = 1 << 20


def skill_evidence(text: str, rules: int) -> Evidence:
    """Returns the fact that an agent loaded this SKILL.md, for its record."""
    return Evidence("skill", "audit", "skill_loaded", {"digest": digest_bytes(text.encode()), "rules": rules})


def read_skill_text(path: Path) -> str:
    """Returns the text of a skill's SKILL.md. Raises `UserError` if it cannot be read."""
    file = path / "SKILL.md" if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            data = opened.read(_SKILL_BYTES + 1)
        if len(data) > _SKILL_BYTES:
            raise UserError(f"{file} is larger than {_SKILL_BYTES >> 20} MiB, the limit for a skill's text")
        return data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise UserError(f"skill {file} cannot be read: {exc}; name a folder that holds a SKILL.md") from exc


class AgentSkill(NamedTuple):
    """A skill as an agent loads it."""

    text: str
    """SKILL.md."""
    tools: tuple[CompositeTool, ...]
    """Its composite tools; empty without any."""

    def offer(self, attempt: Attempt, *taken: str) -> Attempt:
        """Records that the skill was loaded, and returns the attempt with its composite tools; none has a `taken` name,
        that of a tool of the agent's own."""
        attempt.note(skill_evidence(self.text, len(parse_rules(self.text))))
        return offer_composites(attempt, self.tools, taken) if self.tools else attempt


def load_agent_skill(path: str) -> AgentSkill | None:
    """Returns the skill of a folder or SKILL.md; None for an empty path. Raises `UserError` if it cannot be read."""
    if not path:
        return None
    folder = Path(path)
    tools = read_composites(folder) if (folder / COMPOSITES_FILE).is_file() else ()
    return AgentSkill(read_skill_text(folder), tools)
