"""What is to be done, where, under which limits, and how it will be judged."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Check", "EnvironmentSpec", "Limits", "Message", "Oracle", "Task"]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation. `content` is text or a list of typed parts as JSON objects."""

    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one attempt; `None` means unlimited."""

    wall_s: float | None = None
    """Seconds from the first to the last act of the agent, waiting included."""
    working_s: float | None = None
    """Seconds without the time spent waiting for model servers and for a place in the queue."""
    turns: int | None = None
    """Steps of the agent."""
    calls: int | None = None
    """Calls of models, those that failed included."""
    tokens: int | None = None
    """Tokens of all model calls, prompt and completion."""
    cost_usd: float | None = None
    """Money for model calls; a call whose price is unknown stops an attempt that has this limit."""


class EnvironmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the agent acts: a kind of environment, its parameters (that kind documents them), and its seed."""

    kind: str
    parameters: dict[str, Any] = {}
    seed: int = 0


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the outcome is judged: a named kind of check (`script`, `pytest`, ...) and its parameters."""

    name: str
    kind: str
    parameters: dict[str, Any] = {}


class Oracle(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference solution: a command and the folder that it runs from (relative to the task's source folder)."""

    command: tuple[str, ...]
    folder: str | None = None
    env: dict[str, str] = {}


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task. `digest` is the content address of everything that defines it, files included."""

    id: str
    instruction: str | tuple[Message, ...]
    environment: EnvironmentSpec
    checks: tuple[Check, ...]
    digest: str
    limits: Limits = Limits()
    oracle: Oracle | None = None
    split: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    """Where it came from, in words a reader can follow; never an absolute path."""
    metadata: dict[str, Any] = {}
