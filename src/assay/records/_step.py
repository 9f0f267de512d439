"""What was said, done and observed, one turn of one actor at a time."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Actor", "Observation", "Step", "ToolCall", "Truncation"]

Actor = Literal["agent", "user", "environment", "other_agent"]


class Truncation(msgspec.Struct, frozen=True, gc=False):
    """What was cut from a shown text: the whole length in bytes and where the whole is kept."""

    length: int
    digest: str
    """Content address of the whole in the blob store."""
    complete: bool = True
    """False when not even the blob holds all of it, because the source was stopped at the output limit."""


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A tool call. The raw argument text is kept beside the parsed value, which is None where it did not parse."""

    id: str
    name: str
    arguments: str
    parsed: dict[str, Any] | None = None
    error: str | None = None
    """Why the call was malformed, if it was."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a tool call or an act brought back."""

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
    """Id of the model call that this turn came from."""
    state: str | None = None
    """Digest of the environment after the step; None where it was not observed."""
    started: float | None = None
    """Seconds since the Unix epoch."""
    ended: float | None = None
    extra: dict[str, Any] = {}
    """What an imported record says beside this, in its own words; Assay writes nothing here itself."""
