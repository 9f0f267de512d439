"""Headlines of events: one line each, for scanning an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ._partial_events import MOST_PARSED, LightEvidence, LightStep, LightToolCall, one_line

_KEYS = (
    "command",
    "cmd",
    "code",
    "path",
    "file_path",
    "filename",
    "pattern",
    "query",
    "url",
    "text",
    "content",
)


def step_headline(step: LightStep) -> str:
    """Returns a headline of the first tool call, else the message, else the reasoning."""
    if step.tool_calls:
        detail = _call_headline(step.tool_calls[0])
        more = len(step.tool_calls) - 1
        return f"{detail} (+{more} more)" if more else detail
    return one_line(step.message or step.reasoning or "")


def _call_headline(call: LightToolCall) -> str:
    parsed = _parse_arguments(call.arguments)
    if isinstance(parsed, dict):
        named = [parsed[key] for key in _KEYS if key in parsed]
        shown = format_argv(named[0]) if named else _first_values(parsed)
    else:
        shown = call.arguments[:1000]
    return one_line(f"{call.name[:60]}: {shown}" if shown else call.name)


def _first_values(parsed: Mapping[str, Any]) -> str:
    """Returns the first arguments that are short values, such as an element's number and the text for it."""
    shown = [format_argv(value) for value in list(parsed.values())[:3]]
    return ", ".join(value for value in shown if value)


def _parse_arguments(arguments: str) -> Any:
    if len(arguments) > MOST_PARSED:
        return None
    try:
        return msgspec.json.decode(arguments.encode("utf-8", "replace"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def format_argv(value: object) -> str:
    """Formats a command as text."""
    if isinstance(value, list):
        return " ".join(str(part)[:300] for part in value[:20])
    return value[:1000] if isinstance(value, str) else str(value)[:300] if isinstance(value, int | float | bool) else ""


def evidence_headline(evidence: LightEvidence) -> str:
    """Returns the kind of a piece of evidence with a short detail."""
    return one_line(f"{evidence.kind}: {detail}" if (detail := _evidence_detail(evidence)) else evidence.kind)


def _evidence_detail(evidence: LightEvidence) -> str:
    data = evidence.data
    if data.argv is not None:
        code = f" → exit {data.exit_code}" if isinstance(data.exit_code, int) else ""
        return format_argv(data.argv)[:80] + code
    if isinstance(data.counts, Mapping):
        return _format_counts(data.counts)
    if isinstance(data.values, Mapping):
        return ", ".join(f"{key} {value}" for key, value in list(data.values.items())[:5])
    if evidence.kind == "snapshot" and isinstance(data.changes, int):
        return f"{data.changes} changed path{'' if data.changes == 1 else 's'}"
    if isinstance(data.changes, list):
        return f"{len(data.changes)} changed path{'' if len(data.changes) == 1 else 's'}"
    for value in (data.decision, data.path, data.name):
        if isinstance(value, str) and value:
            return f"{value} ({data.rule})" if isinstance(data.rule, str) and value is data.decision else value
    return str(data.count) if isinstance(data.count, int) else ""


def _format_counts(counts: Mapping[Any, Any]) -> str:
    known = [(str(key), value) for key, value in counts.items() if isinstance(value, int) and value]
    known.sort(key=lambda pair: (pair[0] not in ("failed", "error"), pair[0]))
    return ", ".join(f"{value} {key}" for key, value in known[:5])


def verdict_headline(check: str, status: str, reason: str) -> str:
    return one_line(f"{check}: {status}: {reason}")
