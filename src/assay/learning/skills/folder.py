"""Skill folders: read with bounds, validated as the reference checker does, written.

A folder is untrusted (`assay.learning.file_tree` says how it is read), and nothing of it is executed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError
from assay.learning.file_tree import FileTree, TreeLimits, place_tree, read_tree

from .front_matter import FrontMatterError, SkillText, parse_skill_text

SKILL_FILE = "SKILL.md"
FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
NAME_LENGTH, DESCRIPTION_LENGTH, COMPATIBILITY_LENGTH = 64, 1024, 500
_LIMITS = TreeLimits("a skill", 500, 16 << 20)


class SkillFolder(msgspec.Struct, frozen=True):
    """A skill as files; `files` always holds SKILL.md."""

    name: str
    """The folder's name."""
    files: dict[str, bytes]
    """Content by path below the folder, with `/`."""
    executable: frozenset[str] = frozenset()
    """Paths of the files that are executable."""

    @property
    def text(self) -> str:
        """Returns the text of SKILL.md; bytes that are not UTF-8 are replaced."""
        return self.files[SKILL_FILE].decode(errors="replace")

    @property
    def digest(self) -> str:
        """Returns the content address of all files."""
        return FileTree(self.files, self.executable).digest


def read_skill(folder: Path) -> SkillFolder:
    """Reads a skill folder. Raises `UserError` if it lacks SKILL.md, is too large or holds a link."""
    tree = read_tree(folder, _LIMITS, f"name a folder that holds a {SKILL_FILE}")
    files, executable = dict(tree.files), set(tree.executable)
    if SKILL_FILE not in files and "skill.md" in files:
        files[SKILL_FILE] = files.pop("skill.md")
        executable.discard("skill.md")
    if SKILL_FILE not in files:
        raise UserError(f"{folder} has no {SKILL_FILE}: a skill is a folder with that file")
    return SkillFolder(folder.resolve().name, files, frozenset(executable))


def validate_skill(skill: SkillFolder) -> tuple[str, ...]:
    """Returns what the reference checker of Agent Skills objects to, each with its fix; empty for a valid skill."""
    try:
        text = skill.files[SKILL_FILE].decode()
        fields = parse_skill_text(text).fields
    except UnicodeDecodeError as exc:
        return (f"{SKILL_FILE} is not UTF-8 text: {exc.reason} at byte {exc.start}",)
    except FrontMatterError as exc:
        return (str(exc),)
    unknown = sorted(set(fields) - FIELDS)
    problems = list[str]()
    if unknown:
        problems.append(
            f"unknown fields in the front matter: {', '.join(unknown)}; allowed: {', '.join(sorted(FIELDS))}"
        )
    problems += _name_problems(fields, skill.name) + _description_problems(fields)
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str):
        problems.append("field compatibility is not text")
    elif len(compatibility) > COMPATIBILITY_LENGTH:
        problems.append(f"compatibility has {len(compatibility)} characters; at most {COMPATIBILITY_LENGTH}")
    return tuple(problems)


def _name_problems(fields: Mapping[str, Any], folder: str) -> list[str]:
    if "name" not in fields:
        return ["field name is missing: write the folder's name"]
    name = fields["name"]
    if not isinstance(name, str) or not name.strip():
        return ["field name is empty or not text: write the folder's name"]
    name = unicodedata.normalize("NFKC", name.strip())
    problems = []
    if len(name) > NAME_LENGTH:
        problems.append(f"name has {len(name)} characters; at most {NAME_LENGTH}")
    if name != name.lower():
        problems.append(f"name {name!r} is not in lower case")
    if name.startswith("-") or name.endswith("-"):
        problems.append(f"name {name!r} begins or ends with a hyphen")
    if "--" in name:
        problems.append(f"name {name!r} has two hyphens in a row")
    if not all(letter.isalnum() or letter == "-" for letter in name):
        problems.append(f"name {name!r} holds other characters than letters, digits and hyphens")
    if unicodedata.normalize("NFKC", folder) != name:
        problems.append(f"name {name!r} is not the name of the folder, {folder!r}: rename one of them")
    return problems


def _description_problems(fields: Mapping[str, Any]) -> list[str]:
    if "description" not in fields:
        return ["field description is missing: write what the skill does and when to use it"]
    description = fields["description"]
    if not isinstance(description, str) or not description.strip():
        return ["field description is empty or not text: write what the skill does and when to use it"]
    if len(description) > DESCRIPTION_LENGTH:
        return [f"description has {len(description)} characters; at most {DESCRIPTION_LENGTH}"]
    return []


def split_text(skill: SkillFolder) -> SkillText:
    """Returns the fields and the body; where the front matter cannot be read, no fields and the whole text."""
    try:
        return parse_skill_text(skill.text)
    except FrontMatterError:
        return SkillText({}, skill.text)


def write_skill(skill: SkillFolder, folder: Path) -> None:
    """Writes the files to a new folder. Raises `UserError` if it exists, `StoreError` if it cannot be written."""
    try:
        place_skill(skill, folder)
    except FileExistsError as exc:
        raise UserError(f"{folder} exists: name a folder that does not, or move it away") from exc


def place_skill(skill: SkillFolder, folder: Path) -> None:
    """Writes the files as a whole to a new folder. Raises as `place_tree`."""
    place_tree(FileTree(skill.files, skill.executable), folder)
