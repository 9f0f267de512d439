"""Computes the text that a recorded call leaves in a file: replacements, whole writes, and `cat > FILE <<EOF`.

A result is a claim of the call's arguments alone. The caller compares it with a recorded digest before it shows it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from assay.analysis.commands import simple_commands
from assay.analysis.interface import Action

LONGEST_FILE: Final = 256 << 10
"""Characters of a file whose text is computed."""
_OLD: Final = ("old_string", "old_str", "oldString", "oldText", "old", "search")
_NEW: Final = ("new_string", "new_str", "newString", "newText", "new", "replace")
_WHOLE: Final = ("content", "contents", "file_text", "fileText")
_LISTS: Final = ("edits", "replacements", "changes")
_EXPANDED: Final = frozenset("$`\\")


class WrittenText(NamedTuple):
    """A file's text after a call."""

    text: str | None
    """None where the call does not determine it."""
    is_whole: bool = False
    """True where the text does not depend on the text before."""


_UNKNOWN: Final = WrittenText(None)


def written_text(action: Action, path: str, before: str | None) -> WrittenText:
    """Returns the text of `path`, as the action names it, after the action.

    Args:
        action: One that names `path` among its written files.
        path: The file.
        before: Its text before; None for unknown, "" for a file that did not exist.
    """
    if action.command is not None and action.kind == "shell":
        return _here_document(action.command, path)
    if action.kind != "edit" or len(set(action.paths)) != 1:
        return _UNKNOWN
    arguments = action.arguments
    replaced = list(_replacements(arguments))
    if not replaced:
        whole = _first_text(arguments, _WHOLE)
        return WrittenText(whole, is_whole=True) if _fits(whole) else _UNKNOWN
    if len(replaced) == 1 and replaced[0][0] == "" and not before:
        return WrittenText(replaced[0][1], is_whole=True) if _fits(replaced[0][1]) else _UNKNOWN
    text = before
    for old, new, every in replaced:
        if text is None or not old or not text.count(old) or (text.count(old) > 1 and not every):
            return _UNKNOWN
        text = text.replace(old, new)
    return WrittenText(text) if _fits(text) else _UNKNOWN


def _fits(text: str | None) -> bool:
    return text is not None and len(text) <= LONGEST_FILE


def _replacements(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yields the replacements of an edit as old text, new text, and whether every place is replaced."""
    for one in _parts(arguments):
        old, new = _first_text(one, _OLD), _first_text(one, _NEW)
        if old is not None and new is not None:
            yield old, new, bool(one.get("replace_all") or one.get("replaceAll"))


def _parts(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = next((arguments[name] for name in _LISTS if isinstance(arguments.get(name), list)), None)
    if listed is None:
        yield arguments
        return
    for one in listed[:100]:
        if isinstance(one, dict):
            yield one


def _first_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


def _here_document(command: str, path: str) -> WrittenText:
    """Returns the text of `cat > path <<EOF` unless the shell expands something in it."""
    writers = [one for one in simple_commands(command) if any(each.target == path for each in one.redirects)]
    if len(writers) != 1 or writers[0].words != ("cat",) or writers[0].stdin is None:
        return _UNKNOWN
    text, operators = writers[0].stdin, [each.operator for each in writers[0].redirects if each.target == path]
    is_literal = "<<'" in command or '<<"' in command or not _EXPANDED & set(text)
    if operators != [">"] or not is_literal or not _fits(text):
        return _UNKNOWN
    return WrittenText(text if text.endswith("\n") or not text else text + "\n", is_whole=True)


def resolve_path(named: str, paths: Collection[str]) -> str | None:
    """Returns the one of `paths` (absolute) that a call names; None for none or several."""
    normal = posixpath.normpath(named)
    if normal in paths:
        return normal
    if normal.startswith("/"):
        return None
    found = [path for path in paths if path.endswith("/" + normal)]
    return found[0] if len(found) == 1 else None
