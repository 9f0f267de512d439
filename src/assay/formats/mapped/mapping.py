"""A mapping: a short TOML file that says where runs, turns, roles and texts are in a file of an unknown format."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from assay.errors import UserError, describe_os_error

MappedRole = Literal["user", "assistant", "system", "tool"]


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Places of a run's data. A place is keys joined by dots (`meta.task.id`); a number is a position in an array."""

    turns: str
    """Array of a run's turns; empty where the rows themselves are the turns of one run."""
    rows: str = ""
    """Array of runs in a document; empty where each line, each item of the array, or the document is a run."""
    role: str = "role"
    """In a turn: its speaker."""
    text: str = "content"
    """In a turn: its text, or a list of content parts."""
    roles: dict[str, MappedRole] = {}
    """The file's names of speakers; names of Chat Completions need no entry."""
    reasoning: str = ""
    """In a turn: the reasoning."""
    time: str = ""
    """In a turn: its time, ISO 8601 or Unix."""
    calls: str = ""
    """In a turn: a list of tool calls, or one call."""
    call_name: str = "name"
    """In a call."""
    call_arguments: str = "arguments"
    """In a call: an object, or its JSON text."""
    call_id: str = "id"
    """In a call, and in a turn of role `tool` under `answers`."""
    answers: str = "tool_call_id"
    """In a turn of role `tool`: the id of its call; without one, results answer calls in order."""
    result: str = ""
    """In a turn that calls tools: the result."""
    task: str = ""
    """In a run: the task's id."""
    agent: str = ""
    """In a run: the agent's name."""
    model: str = ""
    """In a run: the model's name."""
    reward: str = ""
    """In a run: a number or true/false, the source's claim; 1 is a pass."""


def load_mapping(path: Path) -> Mapping:
    """Loads a mapping. Raises `UserError` that names the field where it is invalid."""
    try:
        data = path.read_bytes()
        _require_roles(path, msgspec.toml.decode(data))
        return msgspec.toml.decode(data, type=Mapping)
    except OSError as exc:
        raise UserError(f"the mapping cannot be read: {describe_os_error(exc, path)}") from exc
    except (msgspec.MsgspecError, ValueError) as exc:
        fields = ", ".join(field.name for field in msgspec.structs.fields(Mapping))
        raise UserError(f"the mapping {path} is invalid: {exc}; its keys are {fields}") from exc


def _require_roles(path: Path, data: dict[str, Any]) -> None:
    """Raises `UserError` where a speaker is mapped to a role that does not exist."""
    roles, known = data.get("roles"), get_args(MappedRole)
    for name, role in roles.items() if isinstance(roles, dict) else ():
        if role not in known:
            near = next(iter(difflib.get_close_matches(str(role), known, n=1)), None)
            hint = f"did you mean {near}? " if near else ""
            raise UserError(
                f"the mapping {path}: [roles] maps {name!r} to {role!r}, which is not a role; {hint}roles are "
                f"{', '.join(known)}"
            )
