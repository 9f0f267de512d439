"""Stage of each act: exploring, implementing, verifying or orchestrating.

Source: the cascade of AgentLens (arXiv 2605.12925) as described there and seen in its data; its word lists are not
published, so ours are our own. The first rule that matches an act decides, with context: reading a source file explores
until that file was changed, and verifies afterwards.

Misleading: a script that reproduces a defect is written code, so it counts as implementing. Program text on the command
line (`python -c`) explores, even if it checks a change. Tools of services (`tool`) are judged by the verb that begins
their name (ours), else as published by whether they report an error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Literal

from ._files import command_files
from ._tests import is_test_file, test_commands
from .actions import written_paths
from .commands import SimpleCommand, simple_commands
from .interface import Action

Stage = Literal["explore", "implement", "verify", "orchestrate"]
STAGES: tuple[Stage, ...] = ("explore", "implement", "verify", "orchestrate")
"""Stages in the order of a plain solution."""
_NOTES = re.compile(r"(?:summary|readme|changelog|changes|notes?|report|todo|plan|progress)[^/]*$", re.IGNORECASE)
_DOCUMENT = re.compile(r"\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_TEST_WORDS = re.compile(r"(?:^|[/_.-])tests?(?=[/_.\d-]|$)|_test\b|\btest\w*\.py", re.IGNORECASE)
_VERIFYING = re.compile(r"\b(?:test|verif|valid|check|reproduc|repro|assert|demo|confirm|debug|example)", re.IGNORECASE)
_RUNNING = re.compile(
    r"^(?:python[\d.]*|node|ruby|perl|php|go|cargo|java|bash|sh|make|mypy|ruff|flake8|pylint|tsc|\./.*)$"
)
_LOOKING = frozenset(
    ["grep", "egrep", "rg", "ag", "find", "ls", "cat", "head", "tail", "less", "more", "tree", "pwd", "which", "wc",
     "file", "stat", "nl", "sed", "awk", "locate", "type", "du", "echo", "cd"]
)  # fmt: skip
_CLEANING = frozenset({"rm", "rmdir", "unlink", "pkill", "kill", "killall"})
_GIT_LOOKING = frozenset({"diff", "status"})
_TROUBLE = re.compile(r"\b(?:error|fail(?:ed|ure)?|exception)\b", re.IGNORECASE)
# Ours: what a tool of a service is for, by the verb that its name begins with.
_ASKING = re.compile(
    r"^(?:get|list|find|search|look_?up|read|query|fetch|show|view|describe|count|calculate|check)(?![a-z])"
)
_DOING = re.compile(
    r"^(?:create|update|book|cancel|modify|send|set|delete|return|exchange|write|add|remove|transfer|make|change|place"
    r"|insert|post|put|pay|refund|move|assign|enable|disable|reset|toggle|grant|revoke)(?![a-z])"
)
_PROVING = re.compile(r"^(?:verify|validate|test|assert|confirm|audit)(?![a-z])")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|-")
_NEAR_END = 0.8


class _Context:
    def __init__(self, total: int) -> None:
        self.total = total
        self.implemented = False
        self.changed: set[str] = set()

    def near_end(self, index: int) -> bool:
        return index >= _NEAR_END * self.total


def stages_of(actions: Sequence[Action]) -> tuple[Stage, ...]:
    """Returns the stage of each action of one attempt, in order."""
    context = _Context(len(actions))
    found: list[Stage] = []
    for position, action in enumerate(actions):
        stage = _stage(action, position, context)
        if stage == "implement":
            context.implemented = True
        context.changed.update(map(_plain, written_paths(action)))
        found.append(stage)
    return tuple(found)


def _plain(path: str) -> str:
    return posixpath.normpath(path).lstrip("/")


def _stage(action: Action, position: int, context: _Context) -> Stage:
    if action.kind in ("think", "say", "finish"):
        return "orchestrate"
    if action.kind in ("search", "browse"):
        return "explore"
    if action.kind == "edit":
        return _edit(action, context)
    if action.kind == "read":
        return _read(action, context)
    if action.kind == "shell":
        return _shell(action.command or "", position, context)
    return _tool(action)


def _tool(action: Action) -> Stage:
    name = _HUMP.sub("_", action.tool[:128]).lower()
    if _PROVING.match(name):
        return "verify"
    if _ASKING.match(name):
        return "explore"
    if _DOING.match(name):
        return "implement"
    return "verify" if action.error or _TROUBLE.search(action.observation or "") else "orchestrate"


def _is_test(path: str) -> bool:
    return is_test_file(path) or _TEST_WORDS.search(path.rsplit("/", 1)[-1]) is not None


def _edit(action: Action, context: _Context) -> Stage:
    path = action.paths[-1] if action.paths else ""
    if _is_test(path):
        return "verify" if context.implemented else "explore"
    return "orchestrate" if _is_note(path) else "implement"


def _is_note(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return _NOTES.search(name) is not None or (_DOCUMENT.search(name) is not None and "requirements" not in name)


def _read(action: Action, context: _Context) -> Stage:
    path = action.paths[-1] if action.paths else ""
    if _is_test(path):
        return "verify" if context.implemented else "explore"
    return "verify" if _plain(path) in context.changed else "explore"


def _shell(command: str, position: int, context: _Context) -> Stage:
    simple = [each for each in simple_commands(command) if each.effective]
    if test_commands(command):
        return "verify"
    acting = [each for each in simple if each.program not in ("cd", "export", "source", ".", "echo", "set", "true")]
    if acting and all(each.effective[0].rsplit("/", 1)[-1] in _CLEANING for each in acting):
        return "orchestrate"
    written = [path for path in command_files(command).written if not path.startswith("/tmp/")]
    if any(_writes_code(each) for each in simple) and written:
        return "implement"
    if context.implemented and _checks(acting):
        return "verify"
    if acting and all(each.effective[0].rsplit("/", 1)[-1] in _LOOKING for each in acting):
        return "explore"
    return "verify" if context.near_end(position) else "explore"


def _writes_code(simple: SimpleCommand) -> bool:
    return simple.stdin is not None or simple.program in ("sed", "perl", "echo", "printf", "tee", "patch", "cp", "mv")


def _checks(acting: Sequence[SimpleCommand]) -> bool:
    for each in acting:
        words = each.effective
        name = words[0].rsplit("/", 1)[-1]
        if name == "git" and any(word in _GIT_LOOKING for word in words[1:3]):
            return True
        inline = each.stdin is not None or any(word in ("-c", "-e") for word in words[1:])
        if (_RUNNING.match(name) and not inline) or _VERIFYING.search(name):
            return True
    return False
