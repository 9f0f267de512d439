"""Decodes only the fields of events that the outline shows.

Records are untrusted: every shown field is truncated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.errors import StoreError
from assay.records import Verdict
from assay.store.chain import Link

MOST_PARSED = 32_768
"""Longer arguments are not parsed for a headline."""


class LightToolCall(msgspec.Struct):
    name: str = ""
    arguments: str = ""
    error: str | None = None


class LightObservation(msgspec.Struct):
    """An observation without its content."""

    exit_code: int | None = None
    error: bool = False
    timed_out: bool = False
    truncated: msgspec.Raw = msgspec.Raw()
    stderr_truncated: msgspec.Raw = msgspec.Raw()


class LightNames(msgspec.Struct):
    """The names of an imported step's actor (`assay.analysis.actors`)."""

    name: Any = None
    agent: Any = None
    agent_name: Any = None


class LightStep(msgspec.Struct):
    index: int = 0
    actor: str = ""
    message: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[LightToolCall, ...] = ()
    observations: tuple[LightObservation, ...] = ()
    call: str | None = None
    state: str | None = None
    started: float | None = None
    ended: float | None = None
    extra: LightNames = msgspec.field(default_factory=LightNames)
    actor_name: str | None = None


class LightUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class LightCertificate(msgspec.Struct):
    certified: bool = False


class LightCall(msgspec.Struct):
    """A model call without its messages."""

    id: str = ""
    model: str = ""
    usage: LightUsage = msgspec.field(default_factory=LightUsage)
    cost_usd: float | None = None
    completion_token_ids: msgspec.Raw = msgspec.Raw()
    parent: str | None = None
    branch: str | None = None
    cause: str | None = None
    state: str | None = None
    certificate: LightCertificate | None = None
    lineage: dict[str, str] = {}
    actor_name: str | None = None
    error: str | None = None
    started: float | None = None
    ended: float | None = None


class LightData(msgspec.Struct):
    """The fields of evidence that a headline may show, of any kind."""

    argv: Any = None
    exit_code: Any = None
    path: Any = None
    name: Any = None
    count: Any = None
    counts: Any = None
    values: Any = None
    changes: Any = None
    decision: Any = None
    rule: Any = None
    step: Any = None
    beside: Any = None
    duration_s: Any = None


class LightEvidence(msgspec.Struct):
    id: str = ""
    channel: str = ""
    kind: str = ""
    data: LightData = msgspec.field(default_factory=LightData)
    at: float | None = None


class LightEvent(msgspec.Struct):
    """An event: the field of its type, or a note's name."""

    type: str
    step: LightStep | None = None
    call: LightCall | None = None
    evidence: LightEvidence | None = None
    verdict: Verdict | None = None
    name: str = ""
    ended: str | None = None
    stopped: str | None = None
    broke: str | None = None
    at: float | None = None


_DECODER = msgspec.json.Decoder(LightEvent)


def decode_light(link: Link) -> LightEvent:
    """Decodes an event. Raises `StoreError` where its bytes are invalid."""
    try:
        return _DECODER.decode(link.body)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"event {link.index} of {link.chain} is damaged: {exc}") from exc


def has_value(raw: msgspec.Raw) -> bool:
    """Returns whether a raw field holds a value."""
    return bytes(raw) not in (b"", b"null")


def one_line(text: str, most: int = 100) -> str:
    """Returns the beginning of a text on one line."""
    words = " ".join(text[: 8 * most].split())
    return words if len(words) <= most else words[: most - 1] + "…"
