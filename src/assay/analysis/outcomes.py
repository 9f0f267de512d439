"""Outcome of an act in a word: nothing recorded, fine, or an error kind.

Coarse on purpose: it identifies observations in a graph of many attempts. Misleading: a failing test run is an error
here, but may be wanted.
"""

from __future__ import annotations

import re

from .actions import is_test_run
from .interface import Action

_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))\b(?=:|\s*$)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_SHELL_ERRORS = re.compile(
    r"(?:command not found|No such file or directory|Permission denied|fatal: |syntax error near|cannot access )"
)
_TOOL_ERRORS = re.compile(r"^\s*(?:ERROR\b|Error\b|error:|<error>|Invalid |No replacement was performed)")
_TESTS_FAILED = re.compile(
    r"\b[1-9]\d{0,8} (?:failed|errors?)\b[^\n]{0,200}? in \d"
    r"|^FAILED \((?:failures|errors)=|^Tests:[^\n]{0,100}? failed",
    re.MULTILINE,
)
_LOOKED_AT = 20_000


def outcome_of(action: Action) -> str:
    """`none`, `ok`, `error`, or `error:` with a kind: the exception's name, `tests`, `exit 2`."""
    text = (action.observation or "")[-_LOOKED_AT:]
    if action.observation is None and not action.error and action.exit_code is None:
        return "none"
    if _TRACEBACK in text and (raised := _RAISED.findall(text[text.rindex(_TRACEBACK) :])):
        return f"error:{raised[0]}"
    # Piped through `tail`, a test run that fails has the exit code 0.
    if is_test_run(action) and _TESTS_FAILED.search(text):
        return "error:tests"
    if action.exit_code not in (None, 0):
        return f"error:exit {action.exit_code}"
    if action.error:
        return "error"
    if action.kind == "shell" and action.exit_code is None and len(text) < 400 and _SHELL_ERRORS.search(text):
        return "error:shell"
    if action.kind in ("read", "edit", "search", "browse", "tool") and _TOOL_ERRORS.match(text):
        return "error:tool"
    return "ok"


def is_error(action: Action) -> bool:
    """Returns whether the act ended in an error."""
    return outcome_of(action).startswith("error")
