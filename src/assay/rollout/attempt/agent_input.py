"""Refuses what an agent passes to its attempt and a record cannot hold, in the agent's own frame.

Without this the event would fail in the store, which ends the run. Raised are `TypeError` and `ValueError`, so that the
attempt fails with the line of the agent's code. Lone surrogates are not refused but escaped, in calls before these
are executed and in other texts by the recorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from assay.analysis.contracts.trace import GUARD
from assay.analysis.judged_path import ADOPTED, BRANCH
from assay.records import HAND_OFF, TEAM, TEAM_MESSAGE, Evidence, ToolCall, canonical_bytes, require_finite
from assay.rollout.recording.recorder import escape_texts

RUNNERS_KINDS: Final = frozenset(
    {BRANCH, ADOPTED, GUARD, TEAM, TEAM_MESSAGE, HAND_OFF, "contract", "task", "place", "facts", "snapshot"}
)
"""Kinds of evidence that say which steps count, of which task and what state they led to: the runner's to add."""


def accept_tool_calls(calls: Any) -> Sequence[ToolCall]:
    """Returns the calls as they are recorded, which is what the environment executes: with lone surrogates escaped.

    Raises:
        TypeError: One is not a `ToolCall`, or an argument is no JSON data.
        ValueError: An argument is NaN or infinite.
    """
    if type(calls) is not list and (isinstance(calls, str | bytes) or not isinstance(calls, Sequence)):
        raise TypeError(
            f"act() takes a list of ToolCall, and this is {_name(calls)}: act([ToolCall(id, name, text, arguments)])"
        )
    for index, call in enumerate(calls):
        if not isinstance(call, ToolCall):
            raise TypeError(f"act() takes a list of ToolCall, and item {index} of it is {_name(call)}")
        if not _has_plain_fields(call):
            try:
                msgspec.convert(msgspec.structs.asdict(call), ToolCall)
            except msgspec.ValidationError as exc:
                raise TypeError(f"act(): the fields of tool call {index} have wrong types: {exc}") from None
        if call.parsed:
            require_finite(call.parsed, f"the arguments of tool call {call.id!r}")
    try:
        canonical_bytes(tuple(calls))
    except UnicodeEncodeError:
        return [msgspec.convert(escape_texts(msgspec.to_builtins(call)), ToolCall) for call in calls]
    return cast("Sequence[ToolCall]", calls)


def _has_plain_fields(call: ToolCall) -> bool:
    """Returns whether the fields have the very types of the record, which most have and which is quickly told."""
    if not (type(call.id) is type(call.name) is type(call.arguments) is str):
        return False
    parsed = call.parsed
    plain = parsed is None or (type(parsed) is dict and all(type(key) is str for key in parsed))
    return plain and (call.error is None or type(call.error) is str)


def require_text(name: str, value: object, *, optional: bool = False) -> None:
    """Raises `TypeError` where a value that is recorded as text has another type."""
    if not isinstance(value, str) and not (optional and value is None):
        raise TypeError(f"{name} is {_name(value)}: give a text")


def require_evidence(evidence: Any) -> None:
    """Raises `TypeError` where it is no `Evidence`, `ValueError` where its data hold NaN or an infinity, or its kind is
    one that only the runner adds."""
    if not isinstance(evidence, Evidence):
        raise TypeError(f"note() takes an Evidence, and this is {_name(evidence)}")
    if evidence.kind in RUNNERS_KINDS:
        raise ValueError(
            f"note(): evidence of the kind {evidence.kind!r} is added by the runner alone: name another kind"
        )
    require_finite(evidence.data, "the data of the evidence")


def _name(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
