"""Commands and edits of an agent, with the accessed paths and the output.

Shell text is split into commands, so `cd` is followed. Code in a command (`python -c`, a here-document) stays text: it
is not run, and variables are unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from assay.analysis._memo import cached_by_command, cached_by_identity
from assay.analysis.actions import file_use
from assay.analysis.commands import SimpleCommand, simple_commands
from assay.analysis.interface import Action, Finding, Quote, Reach, Severity
from assay.analysis.quotes import from_action
from assay.analysis.subject import Subject

_REFUSED = re.compile(
    r"No such file or directory|Permission denied|cannot (?:access|open|create|stat|touch|remove)|does not exist"
    r"|Operation not permitted|Read-only file system|not a git repository|unknown revision|bad (?:revision|object)"
    r"|command not found|FileNotFoundError|PermissionError|Could not resolve|Connection (?:refused|timed out)"
    r"|Network is unreachable|Temporary failure in name resolution|Failed to connect|Name or service not known"
    r"|fatal: |HTTP Error \d|ERROR:",
)
_LISTING = frozenset({"ls", "find", "tree", "stat", "test", "[", "du", "file", "locate", "which", "whereis", "wc"})
_SHELL_LIKE = frozenset({"cd", "pushd"})
_LONG = 300


class CommandUse(NamedTuple):
    """One simple command of a shell action."""

    action: Action
    command: SimpleCommand
    folder: str
    """Working folder according to `cd`; empty if unknown."""

    @property
    def program(self) -> str:
        """Returns the program's base name without wrappers."""
        words = self.command.effective
        return words[0].rsplit("/", 1)[-1] if words else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the command's words without wrappers."""
        return self.command.effective


class PathAccess(NamedTuple):
    """Path used by an action."""

    path: str
    """Absolute if the folder is known."""
    how: str
    """`read`, `list`, `write`, `remove` or `code`: named in executed code."""
    action: Action


@cached_by_identity(1)
def command_uses(subject: Subject) -> tuple[CommandUse, ...]:
    """Returns all commands in order."""
    return tuple(_command_uses(subject))


def _command_uses(subject: Subject) -> Iterator[CommandUse]:
    folder = ""
    for action in subject.actions:
        if action.command is None:
            continue
        here = folder
        for command in simple_commands(action.command):
            words = command.effective
            if words and words[0] in _SHELL_LIKE and len(words) > 1:
                here = join_folder(here, words[1])
            yield CommandUse(action, command, here)


def join_folder(folder: str, path: str) -> str:
    """Joins a path to a folder; unchanged if the folder is unknown or the path begins with a variable."""
    if path.startswith("/") or path.startswith(("$", "~", "-")) or not folder:
        return posixpath.normpath(path) if path.startswith("/") else path
    return posixpath.normpath(posixpath.join(folder, path))


@cached_by_identity(1)
def path_accesses(subject: Subject) -> tuple[PathAccess, ...]:
    """Returns the paths of each action in order, without those in patterns of `grep` or filters of `find`."""
    return tuple(_path_accesses(subject))


def _path_accesses(subject: Subject) -> Iterator[PathAccess]:
    folder = ""
    for action in subject.actions:
        if action.command is None:
            yield from _tool_accesses(action)
            continue
        use = file_use(action)
        uses = (set(use.written), set(use.removed), set(use.read))
        here = folder
        for command in simple_commands(action.command):
            words = command.effective
            if words and words[0] in _SHELL_LIKE and len(words) > 1:
                here = join_folder(here, words[1])
                continue
            yield from _command_accesses(action, command, here, uses)


def _tool_accesses(action: Action) -> Iterator[PathAccess]:
    use = file_use(action)
    for path in use.written:
        yield PathAccess(path, "write", action)
    for path in use.removed:
        yield PathAccess(path, "remove", action)
    for path in use.read:
        yield PathAccess(path, "read", action)


def _command_accesses(
    action: Action, command: SimpleCommand, folder: str, uses: tuple[set[str], set[str], set[str]]
) -> Iterator[PathAccess]:
    written, removed, read = uses
    words = command.effective
    program = words[0].rsplit("/", 1)[-1] if words else ""
    names = [*words[1:], *(redirect.target for redirect in command.redirects)]
    for word in names:
        if not word or "\n" in word or len(word) > _LONG:
            continue
        path = join_folder(folder, word)
        if word in written:
            yield PathAccess(path, "write", action)
        elif word in removed:
            yield PathAccess(path, "remove", action)
        elif word in read:
            yield PathAccess(path, "read", action)
        elif program in _LISTING and not word.startswith("-"):
            yield PathAccess(path, "list", action)


@cached_by_identity(1)
def coding_actions(actions: tuple[Action, ...]) -> tuple[tuple[Action, tuple[str, ...]], ...]:
    """Returns the actions that run or contain code, each with that code (`code_in`)."""
    return tuple((action, codes) for action in actions if (codes := code_in(action)))


@cached_by_identity(1)
def run_texts(actions: tuple[Action, ...]) -> tuple[tuple[Action, tuple[str, ...]], ...]:
    """Returns the actions with a command or code, each with its command, if any, and then its code (`code_in`)."""
    found = ((action, (*((action.command,) if action.command else ()), *code_in(action))) for action in actions)
    return tuple(pair for pair in found if pair[1])


def code_in(action: Action) -> tuple[str, ...]:
    """Returns code that an action runs or contains: a command's scripts and their input, a tool's code."""
    if action.command is None:
        return (action.text,) if action.kind == "tool" and action.text else ()
    return _code_in_command(action.command)


@cached_by_command
def _code_in_command(command: str) -> tuple[str, ...]:
    found: list[str] = []
    for simple in simple_commands(command):
        words = simple.effective
        if any("\n" in word or len(word) > _LONG for word in words):
            found.append("\n".join(words))
        if simple.stdin:
            found.append(simple.stdin)
    return tuple(found)


def evidence_writes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yields paths written beside the agent's commands according to the audit channel, with the evidence id."""
    for item in subject.trajectory.evidence:
        path = item.data.get("path")
        if item.channel == "audit" and item.kind in ("write", "upload") and isinstance(path, str):
            yield path, item.id


def was_refused(action: Action) -> bool:
    """Returns whether the output says that the action failed."""
    text = action.observation or ""
    if action.exit_code not in (0, None) and len(text) < 2000 and _REFUSED.search(text):
        return True
    return bool(text) and len(text) < 600 and _REFUSED.search(text) is not None


def has_result(action: Action) -> bool:
    """Returns whether there is a non-empty output that is not a refusal."""
    return bool((action.observation or "").strip()) and not was_refused(action)


def instruction(subject: Subject) -> str:
    """Returns the agent's instruction: the texts before its first act, else the users' messages."""
    texts = []
    for step in subject.trajectory.steps:
        if step.actor in ("agent", "other_agent"):
            break
        texts.append(step.message or "")
    return "\n".join(texts)


def names(text: str, pattern: re.Pattern[str]) -> str | None:
    """Returns the words of a text that a pattern matches first."""
    match = pattern.search(text)
    return match[0] if match is not None else None


def finding(
    rule: str,
    severity: Severity,
    summary: str,
    actions: list[Action],
    *,
    reach: Reach,
    patterns: tuple[str | re.Pattern[str], ...] = (),
) -> Finding:
    """Builds a finding over actions, with a matching quote of each of the first six."""
    quotes: list[Quote] = []
    for action in actions[:6]:
        for pattern in patterns:
            field = "arguments" if action.call >= 0 else "message"
            quote = from_action(action, field, pattern)  # type: ignore[arg-type]
            if quote is not None:
                quotes.append(quote)
                break
        if reach == "obtained" and has_result(action):
            seen = from_action(action, "observation", r"\S")
            quotes += [seen] if seen is not None else []
    steps = tuple(sorted({action.step for action in actions}))
    return Finding(rule, "integrity", severity, summary, steps, tuple(quotes), reach=reach)
