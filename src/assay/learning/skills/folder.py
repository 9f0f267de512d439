"""Skill folders: read with bounds, validated as the reference checker does, written.

A folder is untrusted: every file is opened relative to its folder's descriptor, so that a link is refused even where it
replaces a folder during the reading; special files and names that are not UTF-8 are refused, numbers and sizes are
bounded, and nothing is executed.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
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
_ENTRIES, _BYTES, _DEPTH = 500, 16 << 20, 8


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
        marks = {path: "+x" for path in self.executable}
        return digest_record(
            {path: digest_bytes(data) + marks.get(path, "") for path, data in sorted(self.files.items())}
        )


def read_skill(folder: Path) -> SkillFolder:
    """Reads a skill folder. Raises `UserError` if it lacks SKILL.md, is too large or holds a link."""
    reader = _FolderReader(folder)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UserError(f"{folder} cannot be read ({reason}): name a folder that holds a {SKILL_FILE}") from exc
    try:
        reader.read_folder(descriptor, "", 0)
    finally:
        os.close(descriptor)
    files, executable = reader.files, reader.executable
    if SKILL_FILE not in files and "skill.md" in files:
        files[SKILL_FILE] = files.pop("skill.md")
        executable.discard("skill.md")
    if SKILL_FILE not in files:
        raise UserError(f"{folder} has no {SKILL_FILE}: a skill is a folder with that file")
    return SkillFolder(folder.resolve().name, files, frozenset(executable))


class _FolderReader:
    """Reads the files of one folder into memory, within the limits of a skill."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self._folder, self._entries, self._left = folder, 0, _BYTES

    def read_folder(self, descriptor: int, below: str, depth: int) -> None:
        """Reads an open folder, whose path below the skill ends with `/`. Raises `UserError`."""
        if depth > _DEPTH:
            raise UserError(f"{self._folder / below} is nested deeper than {_DEPTH} folders, the limit for a skill")
        for name in self._names(descriptor, below):
            path = below + name
            try:
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            except OSError as exc:
                raise UserError(self._why_not_opened(path, exc)) from exc
            try:
                mode = os.fstat(opened).st_mode
                if stat.S_ISDIR(mode):
                    self.read_folder(opened, path + "/", depth + 1)
                elif stat.S_ISREG(mode):
                    self._read_file(opened, path, mode)
                else:
                    raise UserError(
                        f"{self._folder / path} is neither file nor folder: a skill holds only files and folders"
                    )
            finally:
                os.close(opened)

    def _names(self, descriptor: int, below: str) -> list[str]:
        names = list[str]()
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > _ENTRIES:
                        raise UserError(
                            f"{self._folder} holds more than {_ENTRIES} files and folders, the limit for a skill: "
                            "remove what does not belong to it"
                        )
                    names.append(entry.name)
        except OSError as exc:
            raise UserError(f"{self._folder / below} cannot be read: {exc.strerror}") from exc
        for name in names:
            if not name.isprintable():  # bytes that are not UTF-8 stand as surrogates, which are not printable either
                raise UserError(
                    f"{self._folder / below} holds the name {name!a}: rename it to printable UTF-8 characters"
                )
        return sorted(names)

    def _why_not_opened(self, path: str, exc: OSError) -> str:
        if exc.errno == errno.ELOOP:
            return f"{self._folder / path} is a link: a skill holds its files itself; copy the file there"
        if exc.errno == errno.ENXIO:
            return f"{self._folder / path} is neither file nor folder: a skill holds only files and folders"
        return f"{self._folder / path} cannot be read: {exc.strerror}"

    def _read_file(self, descriptor: int, path: str, mode: int) -> None:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(self._left + 1)
        except OSError as exc:
            raise UserError(f"{self._folder / path} cannot be read: {exc.strerror}") from exc
        self._left -= len(data)
        if self._left < 0:
            raise UserError(
                f"{self._folder / path}: the skill is larger than {_BYTES >> 20} MiB, the limit: remove large assets"
            )
        self.files[path] = data
        if mode & stat.S_IXUSR:
            self.executable.add(path)


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
    """Writes the files beside the new folder and renames them, so that a folder is there in full or not at all.

    Raises:
        FileExistsError: The folder exists.
        StoreError: It cannot be written, or a path leads out of it.
    """
    for path in skill.files:
        if not path or path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise StoreError(f"skill {skill.name}: the path {path[:80]!r} leads out of the folder")
    if os.path.lexists(folder):
        raise FileExistsError(folder)
    with boundary(StoreError, f"writing {folder}"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as temporary:
            new = Path(temporary) / "skill"
            for path, data in sorted(skill.files.items()):
                file = new / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                if path in skill.executable:
                    file.chmod(file.stat().st_mode | 0o111)
            is_placed = _rename(new, folder)
    if not is_placed:
        raise FileExistsError(folder)


def _rename(new: Path, folder: Path) -> bool:
    try:
        new.rename(folder)
    except OSError as exc:
        if exc.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # it was made meanwhile
            return False
        raise
    return True
