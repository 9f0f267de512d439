"""Finds the same task under another name: by what it holds, whatever its digest.

A task's digest changes with a byte of a file, a default that is spelt out, or an option that changes its check alone.
For a holdout that is the same task still. Tasks share a key here if, apart from white space, letter case, comments, and
the names of files:

- they have no folder, and the same kind of environment, seed and words (numbers, too, where the seed is 0);
- they have folders, and all but one of instruction, tests, environment and solution are the same.

Not covered: a task of which two of these parts were rewritten, or translated.
"""

from __future__ import annotations

import ast
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

from assay.environments.task_digest import name_task_by_content
from assay.records import digest_bytes, digest_record
from assay.tasks import LoadedTask

_TEXT_BYTES = 1 << 20
_PARTS = ("tests", "environment", "solution")
_NUMBER = re.compile(r"\d+")
_COMMENT = re.compile(r"^\s*(#|//).*$", re.MULTILINE)
_LEAST_PARTS = 3


def kinship_keys(tasks: Iterable[LoadedTask]) -> frozenset[str]:
    """Returns the keys of all tasks; two tasks that share one are the same for a holdout."""
    return frozenset(key for one in tasks for key in keys_of_task(one))


def keys_of_task(loaded: LoadedTask) -> tuple[str, ...]:
    """Returns the keys of one task, without its digest."""
    task = loaded.task
    words = (
        task.instruction if isinstance(task.instruction, str) else " ".join(str(m.content) for m in task.instruction)
    )
    if loaded.folder is None:
        environment = name_task_by_content(task).environment
        said = _NUMBER.sub("0", words) if environment.seed else words
        contents = None if environment.seed else environment.parameters
        return (digest_record(["world", environment.kind, environment.seed, contents, _plain(said)]),)
    parts = _parts_of_folder(loaded.folder)
    parts["instruction"] = digest_record(_plain(words))
    names = sorted(parts)
    if len(names) < _LEAST_PARTS:
        return (digest_record(["folder", *(parts[name] for name in names)]),)
    return tuple(
        digest_record(["folder", *((name, parts[name]) for name in some)])
        for some in combinations(names, len(names) - 1)
        if "tests" in some or len(names) > _LEAST_PARTS
    )


def _parts_of_folder(folder: Path) -> dict[str, str]:
    """Returns the digest of the contents of each part that has files, in whatever files these are."""
    found: dict[str, list[str]] = {}
    for path in _files(folder):
        below = path.relative_to(folder).parts[:-1]
        part = next((name for name in below if name in _PARTS), None)
        if part is not None and (content := _content(path)) is not None:
            found.setdefault(part, []).append(content)
    return {part: digest_record(sorted(contents)) for part, contents in found.items()}


def _files(folder: Path) -> Iterator[Path]:
    for below, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(below) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _content(path: Path) -> str | None:
    """Returns the digest of a file's content; None for one that says nothing."""
    if path.stat().st_size > _TEXT_BYTES:
        with path.open("rb") as file:
            return digest_bytes(file.read(_TEXT_BYTES))
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return digest_bytes(data)
    plain = _plain_code(text) if path.suffix == ".py" else _plain(_COMMENT.sub("", text))
    return digest_record(plain) if plain else None


def _plain_code(text: str) -> str:
    try:
        tree = ast.parse(text)
        return ast.dump(tree) if tree.body else ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _plain(_COMMENT.sub("", text))


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text)
    return " ".join("".join(c for c in composed if unicodedata.category(c) != "Cf").casefold().split())
