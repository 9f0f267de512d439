"""Skill folders: read with bounds, validated as the reference checker does, written.

A folder is untrusted: links and special files are refused, sizes are bounded, nothing in it is executed, and names
are taken from the folder's listing, never joined from a text.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError, UserError, boundary
from assay.records import digest_bytes, digest_record

from .front_matter import FrontMatterError, SkillText, parse_skill_text

SKILL_FILE = "SKILL.md"
FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
NAME_LENGTH, DESCRIPTION_LENGTH, COMPATIBILITY_LENGTH = 64, 1024, 500
_FILES, _BYTES, _DEPTH = 500, 16 << 20, 8


class SkillFolder(msgspec.Struct, frozen=True):
    """A skill as files; `files` always holds SKILL.md."""

    name: str
    """The folder's name."""
    files: dict[str, bytes]
    """Content by path below the folder, with `/`."""

    @property
    def text(self) -> str:
        """Returns the text of SKILL.md; bytes that are not UTF-8 are replaced."""
        return self.files[SKILL_FILE].decode(errors="replace")

    @property
    def digest(self) -> str:
        """Returns the content address of all files."""
        return digest_record({path: digest_bytes(data) for path, data in sorted(self.files.items())})


def read_skill(folder: Path) -> SkillFolder:
    """Reads a skill folder. Raises `UserError` for one that is no skill folder, too large, or holds a link."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name a folder that holds a {SKILL_FILE}")
    files: dict[str, bytes] = {}
    left = _BYTES
    for path in _list_files(folder, 0):
        data = _read_regular(path, left)
        left -= len(data)
        files[path.relative_to(folder).as_posix()] = data
        if len(files) > _FILES:
            raise UserError(f"{folder} holds more than {_FILES} files, the limit for a skill: take out what is no part")
    if SKILL_FILE not in files and "skill.md" in files:
        files[SKILL_FILE] = files.pop("skill.md")
    if SKILL_FILE not in files:
        raise UserError(f"{folder} has no {SKILL_FILE}: a skill is a folder with that file")
    return SkillFolder(folder.resolve().name, files)


def _list_files(folder: Path, depth: int) -> list[Path]:
    if depth > _DEPTH:
        raise UserError(f"{folder} is nested deeper than {_DEPTH} folders, the limit for a skill")
    found = []
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.is_symlink():
            raise UserError(f"{entry.path} is a link: a skill holds its files itself; copy the file there")
        found += _list_files(Path(entry.path), depth + 1) if entry.is_dir() else [Path(entry.path)]
    return found


def _read_regular(path: Path, limit: int) -> bytes:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(opened, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path} is not a regular file: a skill holds files and folders alone")
            data = file.read(limit + 1)
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror}") from exc
    if len(data) > limit:
        raise UserError(f"{path}: the skill is larger than {_BYTES >> 20} MiB, the limit: take out large assets")
    return data


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
    problems = [f"unknown fields in the front matter: {', '.join(unknown)}; allowed: {', '.join(sorted(FIELDS))}"]
    problems = problems if unknown else []
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
        folder.mkdir(parents=True)
    except FileExistsError as exc:
        raise UserError(f"{folder} exists: name a folder that does not, or move it away") from exc
    except OSError as exc:
        raise StoreError(f"{folder} cannot be made: {exc.strerror}") from exc
    with boundary(StoreError, f"writing {folder}"):
        for path, data in sorted(skill.files.items()):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
