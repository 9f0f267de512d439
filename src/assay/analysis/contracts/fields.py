"""Names available to expressions at a step: the roots, their fields, and errors for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Final


class _Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


MISSING: Final = _Absent("MISSING")
"""The record lacks it, permanently."""
PENDING: Final = _Absent("PENDING")
"""Not known yet: the call has not been made."""
NOTHING: Final = _Absent("NOTHING")
"""Known to be absent: the call of a turn without calls."""

ROOTS: Final[dict[str, dict[str, str]]] = {
    "call": {
        "name": "the tool's name",
        "id": "the call's id",
        "arguments": "the parsed arguments, with the tool's own fields",
        "raw": "the arguments as they were written",
        "malformed": "whether the arguments did not parse",
        "role": "who called, by the log of a world of services: agent, user, other or system; missing elsewhere",
        "at": "the time of that world's clock before the call, as 2026-03-02T09:00; missing elsewhere",
        "minutes": "the minutes of that clock since the first call of the log; missing elsewhere",
    },
    "act": {
        "kind": "shell, read, edit, search, browse, think, say, finish or tool",
        "command": "the shell text, where it is a shell",
        "paths": "the files that it names",
        "text": "what it writes or says",
    },
    "result": {
        "content": "what came back",
        "stderr": "what came back beside it",
        "exit_code": "of a command",
        "error": "whether it is an error",
        "ok": "whether it is not an error and its exit code, if any, is 0",
        "timed_out": "whether it was cut by its time",
        "data": "the content parsed as JSON, if possible, with its own fields",
    },
    "actor": {},
    "who": {},
    "message": {},
    "reasoning": {},
    "step": {},
    "seconds": {},
    "state": {"digest": "of the environment after the step", "changed": "whether it differs from the one before"},
    "run": {
        "task": "the task's id",
        "agent": "the agent's name",
        "model": "the model's name",
        "attempt": "the attempt's number",
    },
    "final": {
        "ended": "what the agent said at the end",
        "stopped": "which limit stopped it",
        "broke": "whose boundary failed",
        "facts": "the world's final facts, if it reports them, with its own fields",
        "changed": "the paths that differ at the end",
        "outcome": "how it was judged",
    },
}
"""Root names and their fields; a root without fields is a value itself."""
_OPEN: Final = {("call", "arguments"), ("result", "data"), ("final", "facts")}


def problem_of_path(keys: Sequence[str | int], definitions: Iterable[str] = ()) -> str | None:
    """Returns the error of a path; None if it is valid."""
    root = str(keys[0])
    if root not in ROOTS:
        known = [*ROOTS, *definitions]
        near = difflib.get_close_matches(root, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
        return f"there is nothing called {root!r}{hint}"
    fields = ROOTS[root]
    if not fields:
        return None if len(keys) == 1 else f"{root} is a value and has nothing below it"
    if len(keys) == 1:
        return f"{root} is not a value; name one of {', '.join(f'{root}.{name}' for name in fields)}"
    field = str(keys[1])
    if field not in fields:
        near = difflib.get_close_matches(field, fields, n=1)
        hint = f"; did you mean {root}.{near[0]}?" if near else f"; {root} has {', '.join(fields)}"
        return f"{root} has no field {field!r}{hint}"
    if len(keys) > 2 and (root, field) not in _OPEN and not isinstance(keys[2], int):
        return f"{root}.{field} is a value and has nothing called {keys[2]!r} below it"
    return None


def value_at(fields: dict[str, Any], keys: Sequence[str | int]) -> Any:
    """Returns the value of a path; `MISSING`, `PENDING` or `NOTHING` without one."""
    found: Any = fields
    for key in keys:
        if isinstance(found, dict):
            found = found.get(str(key), MISSING)
        elif isinstance(found, list | tuple) and isinstance(key, int):
            found = found[key] if key < len(found) else MISSING
        else:
            return MISSING
        if isinstance(found, _Absent):
            return found
    return MISSING if found is None else found
