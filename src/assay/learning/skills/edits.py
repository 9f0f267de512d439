"""Bounded edits of a skill's body, line by line."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from assay.errors import UserError

from .folder import SKILL_FILE, SkillFolder, split_text
from .records import Edit


def apply_edits(skill: SkillFolder, edits: Sequence[Edit]) -> SkillFolder:
    """Returns the skill with its body changed. Raises `UserError` for a line that is not there exactly once."""
    try:
        text = skill.files[SKILL_FILE].decode()
    except UnicodeDecodeError as exc:
        raise UserError(f"{SKILL_FILE} of {skill.name} is not UTF-8 text, so its lines cannot be edited") from exc
    body = split_text(skill).body
    front = text[: text.rfind(body)] if body else text.rstrip() + "\n\n"
    lines = body.splitlines()
    for edit in edits:
        _apply(lines, edit)
    data = (front + "\n".join(lines).strip() + "\n").encode()
    return msgspec.structs.replace(skill, files={**skill.files, SKILL_FILE: data})


def _apply(lines: list[str], edit: Edit) -> None:
    new = edit.text.splitlines()
    if edit.op == "add" and not edit.line:
        lines.extend(new)
        return
    places = [number for number, line in enumerate(lines) if line.strip() == edit.line.strip()]
    if len(places) != 1:
        raise UserError(
            f"the edit {edit.op} of {edit.line[:80]!r}: the body of {SKILL_FILE} has {len(places)} such lines; name "
            "one line in full (`assay skills show NAME` prints them)"
        )
    (place,) = places
    lines[place : place + 1] = [lines[place], *new] if edit.op == "add" else new
