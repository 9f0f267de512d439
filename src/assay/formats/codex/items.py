"""Parses how commands ended, from the texts and events of Codex's versions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from assay.formats.shared.json_stream import loads
from assay.formats.shared.messages import content_text
from assay.formats.shared.round_trip_builder import exit_code, number, text_or_none
from assay.records import Observation

_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]{0,64}\n)?Wall time: ([0-9.]{1,20}) seconds\n(?:Process exited with code (-?[0-9]{1,9})\n)?"
)
_OLD_HEADER = re.compile(r"Exit code: (-?[0-9]{1,9})\n(?:Wall time: ([0-9.]{1,20}) seconds\n)?")


class CommandEnd(NamedTuple):
    """Recorded end of a command."""

    exit_code: int | None = None
    duration_s: float | None = None


def command_end(payload: dict[str, Any]) -> tuple[str, CommandEnd] | None:
    """Returns the call that an event ends, and how it ended; None for other events."""
    kind = payload.get("type")
    item = payload if kind == "exec_command_end" else payload.get("item")
    if not isinstance(item, dict) or (item is not payload and item.get("type") != "CommandExecution"):
        return None
    call_id = text_or_none(item.get("call_id", item.get("id")))
    return (
        None
        if call_id is None
        else (call_id, CommandEnd(exit_code(item.get("exit_code")), _seconds(item.get("duration"))))
    )


def _seconds(value: Any) -> float | None:
    if isinstance(value, dict):
        whole, part = number(value.get("secs")), number(value.get("nanos"))
        return None if whole is None else whole + (part or 0.0) / 1e9
    return number(value)


def parse_output(output: Any, call_id: str | None) -> Observation:
    """Parses a call's output, as the model saw it."""
    text, error = content_text(output) or "", False
    if isinstance(output, dict):
        text = content_text(output.get("content", output.get("body"))) or ""
        error = output.get("success") is False
    ended = _parse_header(text)
    return Observation(text, call_id, exit_code=ended.exit_code, error=error, duration_s=ended.duration_s)


def _parse_header(text: str) -> CommandEnd:
    """Parses how a command ended from its text's header, or from the JSON around it."""
    if found := _HEADER.match(text):
        return CommandEnd(int(found[2]) if found[2] else None, _float(found[1]))
    if found := _OLD_HEADER.match(text):
        return CommandEnd(int(found[1]), _float(found[2]))
    if text.startswith('{"output"') and text.endswith("}"):
        try:
            told = loads(text)
        except ValueError:
            return CommandEnd()
        known = told.get("metadata") if isinstance(told, dict) else None
        if isinstance(known, dict):
            return CommandEnd(exit_code(known.get("exit_code")), number(known.get("duration_seconds")))
    return CommandEnd()


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def apply_end(obs: Observation, ended: CommandEnd | None) -> Observation:
    """Applies an event's values, which are more exact, to an observation."""
    if ended is None:
        return obs
    return msgspec.structs.replace(
        obs,
        exit_code=obs.exit_code if ended.exit_code is None else ended.exit_code,
        duration_s=obs.duration_s if ended.duration_s is None else ended.duration_s,
    )
