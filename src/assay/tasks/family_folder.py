"""A folder that names tasks of a family instead of holding them: `family.json`.

Tasks in process worlds have no files of their own: their family makes the same ones again from its options, and the
digests in the file say that they are the same. The file may come from anybody, so it names installed families and plain
words alone, never code: a path or `module:attribute` in it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from assay.errors import UserError, add_filename
from assay.limited_file import parse_file
from assay.plugins import names_code
from assay.records import Task

from .families import family_tasks
from .load import LoadedTask

FAMILY_FILE: Final = "family.json"
MOST_BYTES: Final = 64 << 20
_WORD: Final = re.compile(r"(?!allow_code$)[\w+ -]*", re.ASCII)
"""Allowed texts in a file of options: no slash, colon or dot, so that it names no code and no path; nor the option
that permits code."""


class NamedTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task of the family."""

    id: str
    digest: str


class FamilyFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `family.json`."""

    family: str
    seed: Annotated[int, Meta(ge=0)]
    options: dict[str, Any]
    tasks: Annotated[tuple[NamedTask, ...], Meta(min_length=1)]
    version: Annotated[int, Meta(ge=1, le=1)] = 1


def write_family_folder(
    folder: Path, family: str, seed: int, options: Mapping[str, Any], tasks: Iterable[Task]
) -> Path:
    """Writes which tasks of a family a folder stands for, and returns the file's path.

    Raises:
        OSError: The folder cannot be written.
    """
    named = tuple(NamedTask(task.id, task.digest) for task in tasks)
    content = msgspec.json.encode(FamilyFolder(family, seed, dict(options), named))
    path, aside = folder / FAMILY_FILE, folder / f".{FAMILY_FILE}.part"
    with add_filename(path):
        folder.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(msgspec.json.format(content, indent=1) + b"\n")
        aside.rename(path)
    return path


def code_in(family: str, options: Mapping[str, Any]) -> str | None:
    """Returns the first name in options that may lead to code or files; None if all are plain words."""
    return family if names_code("tasks", family) else first_unplain(options)


def first_unplain(options: Mapping[str, Any]) -> str | None:
    """Returns the first text in options that may lead to code or files; None if all are plain words."""
    return next((text for text in _texts(options) if not _WORD.fullmatch(text)), None)


def read_family_folder(folder: Path) -> FamilyFolder:
    """Reads a folder's `family.json`.

    Raises:
        UserError: It cannot be read, is not valid, or names code.
    """
    path = folder / FAMILY_FILE
    decode = msgspec.json.Decoder(FamilyFolder).decode
    found = parse_file(path, decode, holding="names of tasks", limit=MOST_BYTES)
    code = code_in(found.family, found.options)
    if code is not None:
        raise UserError(
            f"{path} names {code[:80]!r}, which may run code of the folder's author, and is not opened: if you trust "
            "it, name the family yourself (family:NAME,option=value)"
        )
    return found


def load_family_folder(folder: Path) -> tuple[LoadedTask, ...]:
    """Makes the tasks that a folder names.

    Raises:
        UserError: As `read_family_folder`; or the family makes other tasks today.
        TaskError: The family itself failed.
    """
    named = read_family_folder(folder)
    made = family_tasks(named.family, len(named.tasks), named.seed, named.options)
    today = {one.task.id: one.task.digest for one in made}
    other = [task.id for task in named.tasks if today.get(task.id) != task.digest]
    if other or len(today) != len(named.tasks):
        raise UserError(
            f"{folder / FAMILY_FILE}: the family {named.family!r} makes other tasks today"
            f"{f', {other[0]} among them' if other else ''}: make the folder again, or use the version of Assay and "
            "of its applications that made it"
        )
    return made


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from (*_texts(key), *_texts(part))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
