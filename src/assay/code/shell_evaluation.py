"""Places where the scripts of a tests folder evaluate text that a judged program may have chosen.

A shell evaluates the text of `[[ $got -eq 7 ]]`, `((...))` or an array index again, and text that becomes part of a
program is code. Scripts are parsed, and all that is not known to treat text as data is reported: an allow-list of
commands and constructs over tainted variables. What a Python program of the folder does with text is looked at by the
names of the functions that it calls; programs in other languages are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from .python_evaluation import find_python_evaluations
from .shell.analysis import analyse_scripts

__all__ = ["Evaluation", "find_evaluations", "find_folder_evaluations", "is_script_file"]

MOST_SCRIPTS_TEXT = 1 << 20
_SHELLS = (".sh", ".bash", ".ksh", ".zsh", ".bats")
_SHELL_LINE = re.compile(rb"#!.*\b(?:ba|da|a|k|mk|z|c|tc|fi)?sh\b")
_PYTHON_LINE = re.compile(rb"#!.*\bpython")
_KORN = re.compile(rb"#!.*\b(?:k|mk|pdk|z)sh\b")


class Evaluation(NamedTuple):
    """A place where a script evaluates text."""

    line: int
    text: str
    reason: str = ""
    file: str = ""

    def describe(self) -> str:
        """Returns one line for a report."""
        return f"{self.file}:{self.line}: {self.text} ({self.reason})"


def find_evaluations(script: str, programs: Iterable[str] = ()) -> tuple[Evaluation, ...]:
    """Returns the places of one shell script that evaluate tainted text, in order.

    Args:
        script: Its text.
        programs: Paths of the judged programs, which may be handed any text.
    """
    is_korn = _KORN.match(script.encode(errors="replace")[:200]) is not None
    lines = script.split("\n")
    reports = analyse_scripts([("", script, is_korn)], programs)
    return tuple(Evaluation(one.line, _line_of(lines, one.line), one.reason) for one in reports)


def find_folder_evaluations(
    files: Mapping[str, bytes], programs: Iterable[str] = (), interpreter: str = ""
) -> tuple[Evaluation, ...]:
    """Returns the places of a folder's shell and Python files that evaluate tainted text.

    Args:
        files: Content by the path in the folder.
        programs: Paths of the judged programs.
        interpreter: Path of the program that the task starts its script with.
    """
    declared = tuple(programs)
    is_korn = _KORN.match(b"#!" + interpreter.encode()) is not None
    kinds = {path: _language_of(path, data) for path, data in files.items()}
    texts_of = {path: data.decode(errors="replace") for path, data in files.items() if kinds[path]}
    scripts = {path: text for path, text in texts_of.items() if kinds[path] == "shell"}
    python = {path: text for path, text in texts_of.items() if kinds[path] == "python"}
    if sum(map(len, scripts.values())) > MOST_SCRIPTS_TEXT:
        return (Evaluation(1, "", f"scripts of more than {MOST_SCRIPTS_TEXT} characters", "tests"),)
    languages = {PurePosixPath(path).name: kind for path, kind in kinds.items()}
    texts = [(path, text, is_korn or _is_korn(path, files[path])) for path, text in scripts.items()]
    is_called = any(PurePosixPath(path).name in text for path in scripts for text in python.values())
    found = []
    for one in analyse_scripts(texts, declared, languages, is_called=is_called):
        found.append(Evaluation(one.line, _line_of(scripts[one.script].split("\n"), one.line), one.reason, one.script))
    for path, text in python.items():
        for line, reason in find_python_evaluations(text, lambda text: not find_evaluations(text, declared)):
            found.append(Evaluation(line, _line_of(text.split("\n"), line), reason, path))
    return tuple(found)


def is_script_file(path: str, data: bytes) -> bool:
    """Returns whether a file of the tests folder is looked at; the first bytes of its content are enough."""
    return _language_of(path, data) in ("shell", "python")


def _language_of(path: str, data: bytes) -> str:
    """Returns `shell`, `python`, `program` for another interpreter's or a compiled one, or an empty text."""
    head, suffix = data[:200], PurePosixPath(path).suffix
    if suffix in (".py", ".pyw") or _PYTHON_LINE.match(head):
        return "python"
    if suffix in _SHELLS or _SHELL_LINE.match(head):
        return "shell"
    return "program" if head.startswith((b"#!", b"\x7fELF")) else ""


def _is_korn(path: str, data: bytes) -> bool:
    return path.endswith((".ksh", ".zsh")) or _KORN.match(data[:200]) is not None


def _line_of(lines: list[str], number: int) -> str:
    return lines[number - 1].strip()[:200] if 0 < number <= len(lines) else ""
