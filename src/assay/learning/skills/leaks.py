"""Scans a skill for what it may not hold: texts of tasks, of their tests and of their solutions.

Kinds: names of tests, assertion lines, literals of the verifier (numbers of at least four significant digits, quoted
texts that look like data, such values in the parameters of checks), lines of the reference solution, ids and folders
of tasks, and sentences of their instructions. Words that any skill of the field may hold are not findings: a literal
counts only if it is not in the instruction, which the agent reads anyway, and a line only if it is long. Texts are
compared in Unicode's NFKC form, in one letter case, without marks on letters and invisible characters, with spaces
joined; longer ones also by their letters and digits alone, so that what is cut into parts is found. What files hold in
other encodings is read (`decoding`), and so are their names.

Not covered: paraphrase, letters of other scripts that look alike, short values that are cut into parts, values in
another notation, encodings that `decoding` does not know, and files of tests or solutions over 1 MiB.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.tasks import LoadedTask

from .decoding import hidden_texts
from .folder import SkillFolder

LeakKind = Literal["test name", "assertion", "literal", "oracle line", "task id", "path", "instruction"]
_TEST_NAME = re.compile(r"\b(?:def\s+)?(test_[A-Za-z0-9_]{4,}|Test[A-Z][A-Za-z0-9_]{3,})")
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_QUOTED = re.compile(r"""(["'])((?:(?!\1)[^\\\n]){6,200})\1""")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_NO_LETTER = re.compile(r"[\W_]+")
_GRAM = 16
"""Letters and digits from which on a needle is found whatever stands between them."""
_PRIME = np.uint64(0x9E3779B97F4A7C15)
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
    """Texts of one task that a skill may not hold."""

    task: str
    needles: tuple[tuple[LeakKind, str], ...]


def secrets_of_task(loaded: LoadedTask) -> TaskSecrets:
    """Returns the secrets of a task: its id and instruction, and the texts of its tests and solution folders."""
    task = loaded.task
    instruction = task.instruction if isinstance(task.instruction, str) else ""
    found: list[tuple[LeakKind, str]] = [("task id", task.id)]
    found += [("instruction", line) for line in _long_lines(instruction, _SENTENCE)]
    for check in task.checks:
        found += [("literal", value) for value in _values(check.parameters) if value not in instruction]
    if loaded.folder is not None:
        found.append(("path", str(loaded.folder)))
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


def _values(params: object) -> list[str]:
    """Returns the texts that look like data, and the long numbers, in the parameters of a check."""
    if isinstance(params, dict):
        return [value for one in params.values() for value in _values(one)]
    if isinstance(params, list | tuple):
        return [value for one in params for value in _values(one)]
    if isinstance(params, bool) or not isinstance(params, str | int | float):
        return []
    text = _normal(str(params))
    if isinstance(params, str):
        return [text] if 6 <= len(text) <= 200 and any(letter.isdigit() for letter in text) else []
    return [text] if len(text.replace(".", "").lstrip("0-")) >= _DIGITS else []


def _long_lines(text: str, least: int) -> list[str]:
    lines = (_normal(line) for line in text.splitlines())
    return [line for line in lines if len(line) >= least and not line.startswith(("#!", "import ", "from "))]


def _normal(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text)
    return _SPACE.sub(" ", "".join(c for c in composed if unicodedata.category(c) != "Cf")).strip()


def _scan_form(text: str) -> str:
    """Returns a text in the form in which texts are compared."""
    if text.isascii():
        return _SPACE.sub(" ", text.casefold()).strip()
    letters = unicodedata.normalize("NFKD", _normal(text).casefold())
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def _letters(text: str) -> str:
    """Returns the letters and digits of a text in the form of `_scan_form`."""
    return _NO_LETTER.sub("", text)


def _texts(folder: Path) -> list[tuple[str, str]]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _READ:
            found.append((path.name, path.read_bytes().decode(errors="replace")))
    return found


def scan_leaks(skill: SkillFolder, tasks: Sequence[TaskSecrets]) -> list[Leak]:
    """Returns every secret of the tasks that the skill's files or their names hold."""
    texts = [_scan_form(text) for data in skill.files.values() for text in (_own_text(data), *hidden_texts(data))]
    whole = "\n".join([*map(_scan_form, skill.files), *texts])
    scanned = _Scanned(whole, set(_WORD.findall(whole)), _letters(whole))
    return [
        Leak(kind, secrets.task, needle)
        for secrets in tasks
        for kind, needle in secrets.needles
        if scanned.holds(_scan_form(needle), is_name=kind in ("test name", "task id", "literal"))
    ]


def _own_text(data: bytes) -> str:
    return data.decode(errors="replace")


class _Scanned:
    """The texts of a skill, with an index by which most needles are ruled out without reading them."""

    def __init__(self, whole: str, words: set[str], letters: str) -> None:
        self._whole, self._words = whole, words
        self._letters = letters.encode()
        self._starts = np.unique(_gram_hashes(self._letters))

    def holds(self, needle: str, *, is_name: bool) -> bool:
        """Returns whether the texts hold the needle as it is, or its letters and digits in this order with other
        characters between."""
        parts = _WORD.findall(needle)
        if all(word in self._words for word in (parts if is_name else parts[1:-1])):
            if not is_name:
                if needle in self._whole:
                    return True
            elif re.search(rf"(?<![a-z0-9_]){re.escape(needle)}(?![a-z0-9_])", self._whole) is not None:
                return True
        letters = _letters(needle).encode()
        if len(letters) < _GRAM:
            return False
        start = _gram_hashes(letters[:_GRAM])[0]
        at = int(np.searchsorted(self._starts, start))
        return at < len(self._starts) and self._starts[at] == start and letters in self._letters


def _gram_hashes(data: bytes) -> NDArray[np.uint64]:
    """Returns the hashes of all runs of `_GRAM` bytes."""
    codes = np.frombuffer(data, dtype=np.uint8)
    hashes = np.zeros(max(len(codes) - _GRAM + 1, 0), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for offset in range(_GRAM if len(hashes) else 0):
            hashes = hashes * _PRIME + codes[offset : offset + len(hashes)].astype(np.uint64)
    return hashes
