"""Scans a skill for what it may not hold: texts of tasks, of their tests and of their solutions.

Kinds: names of tests, assertion lines, literals of the verifier (numbers of at least four significant digits, quoted
texts that look like data), lines of the reference solution, ids of tasks, and sentences of their instructions. Words
that any skill of the field may hold are not findings: a literal counts only if it is not in the instruction, which the
agent reads anyway, and a line only if it is long.

Not covered: paraphrase, and values that are written in another notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from assay.tasks import LoadedTask

from .folder import SkillFolder

LeakKind = Literal["test name", "assertion", "literal", "oracle line", "task id", "instruction"]
_TEST_NAME = re.compile(r"\b(?:def\s+)?(test_[A-Za-z0-9_]{4,}|Test[A-Z][A-Za-z0-9_]{3,})")
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_QUOTED = re.compile(r"""(["'])((?:(?!\1)[^\\\n]){6,200})\1""")
_SPACE = re.compile(r"\s+")
_LINE, _SENTENCE, _DIGITS, _READ = 24, 60, 4, 1 << 20
_PUBLIC = frozenset({"test_outputs", "test_solution", "test_main"})
"""File stems of tests that everyone uses."""


class Leak(NamedTuple):
    """One finding."""

    kind: LeakKind
    task: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} of task {self.task}: {self.text[:100]!r}"


class TaskSecrets(NamedTuple):
    """What a skill may not hold of one task."""

    task: str
    needles: tuple[tuple[LeakKind, str], ...]


def secrets_of_task(loaded: LoadedTask) -> TaskSecrets:
    """Returns the secrets of a task: its id and instruction, and the texts of its tests and solution folders."""
    task = loaded.task
    instruction = task.instruction if isinstance(task.instruction, str) else ""
    found: list[tuple[LeakKind, str]] = [("task id", task.id)]
    found += [("instruction", line) for line in _long_lines(instruction, _SENTENCE)]
    if loaded.folder is not None:
        found += secrets_of_tests(_texts(loaded.folder / "tests"), instruction)
        solution = [text for _, text in _texts(loaded.folder / "solution")]
        found += [("oracle line", line) for text in solution for line in _long_lines(text, _LINE)]
    return TaskSecrets(task.id, tuple(dict.fromkeys(found)))


def secrets_of_tests(files: Iterable[tuple[str, str]], instruction: str) -> list[tuple[LeakKind, str]]:
    """Returns names, assertions and literals of test files, given as (name, text)."""
    found: list[tuple[LeakKind, str]] = []
    for _, text in files:
        names = {match[1] for match in _TEST_NAME.finditer(text)} - _PUBLIC
        found += [("test name", name) for name in sorted(names)]
        for line in text.splitlines():
            stripped = line.strip()
            if stripped.startswith("assert ") and len(stripped) >= _LINE:
                found.append(("assertion", _normal(stripped)))
                found += [("literal", value) for value in _literals(stripped) if value not in instruction]
    return found


def _literals(text: str) -> list[str]:
    numbers = [n for n in _NUMBER.findall(text) if len(n.replace("_", "").replace(".", "").lstrip("0")) >= _DIGITS]
    texts = [match[2] for match in _QUOTED.finditer(text) if any(letter.isdigit() for letter in match[2])]
    return [*numbers, *texts]


def _long_lines(text: str, least: int) -> list[str]:
    lines = (_normal(line) for line in text.splitlines())
    return [line for line in lines if len(line) >= least and not line.startswith(("#!", "import ", "from "))]


def _normal(line: str) -> str:
    return _SPACE.sub(" ", line.strip())


def _texts(folder: Path) -> list[tuple[str, str]]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _READ:
            found.append((path.name, path.read_bytes().decode(errors="replace")))
    return found


def scan_leaks(skill: SkillFolder, tasks: Sequence[TaskSecrets]) -> list[Leak]:
    """Returns every secret of the tasks that the skill's files hold."""
    texts = [_SPACE.sub(" ", data.decode(errors="replace")) for data in skill.files.values()]
    whole = "\n".join(texts)
    words = set(re.findall(r"[A-Za-z0-9_.\-]+", whole)) | set(re.findall(r"[A-Za-z0-9_]+", whole))
    found = []
    for secrets in tasks:
        for kind, needle in secrets.needles:
            is_word = kind in ("test name", "task id") or (kind == "literal" and " " not in needle)
            present = needle in words if is_word and re.fullmatch(r"[A-Za-z0-9_.\-]+", needle) else needle in whole
            if present:
                found.append(Leak(kind, secrets.task, needle))
    return found
