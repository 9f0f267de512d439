"""Steps: one turn of one actor each."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Actor = Literal["agent", "user", "environment", "other_agent"]


class Truncation(msgspec.Struct, frozen=True, gc=False):
    """Cut part of a shown text: total length in bytes and the digest of the whole."""

    length: int
    digest: str
    """Content address of the whole in the blob store."""
    complete: bool = True
    """False if the blob is incomplete too, because the output limit stopped the source."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A tool call. The raw argument text is kept beside the parsed value, None if it did not parse."""

    id: str
    name: str
    arguments: str
    parsed: dict[str, Any] | None = None
    error: str | None = None
    """Reason why the call was malformed."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Result of a tool call or an action."""

    content: str
    call_id: str | None = None
    exit_code: int | None = None
    error: bool = False
    stderr: str = ""
    truncated: Truncation | None = None
    stderr_truncated: Truncation | None = None
    timed_out: bool = False
    duration_s: float | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One turn of one actor."""

    index: int
    actor: Actor
    message: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    call: str | None = None
    """Id of the model call behind this turn."""
    state: str | None = None
    """Digest of the environment after the step; None where it was not observed."""
    started: float | None = None
    """Seconds since the Unix epoch."""
    ended: float | None = None
    extra: dict[str, Any] = {}
    """Further data of an imported record, unchanged; Assay adds nothing here."""
    actor_name: str | None = None
    """Name of the actor of a team whose turn this is, as the runner knows it; None outside teams."""
