"""Tasks: instruction, environment, limits and checks."""

from __future__ import annotations

from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation. `content` is text or a list of typed parts as JSON objects."""

    role: str
    content: str | list[dict[str, Any]]
    name: str | None = None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one attempt; `None` means unlimited."""

    wall_s: float | None = None
    """Seconds from the agent's first to its last action, including waiting."""
    working_s: float | None = None
    """Seconds without waiting for model servers or in the queue."""
    turns: int | None = None
    """Steps of the agent."""
    calls: int | None = None
    """Model calls, including failed ones."""
    tokens: int | None = None
    """Tokens of all model calls, prompt and completion."""
    cost_usd: float | None = None
    """Cost of model calls; a call with an unknown price stops an attempt with this limit."""


class EnvironmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The agent's environment: a kind, its parameters (documented by that kind), and its seed."""

    kind: str
    parameters: dict[str, Any] = {}
    seed: int = 0


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check of the outcome: a named kind (`script`, `pytest`, ...) and its parameters."""

    name: str
    kind: str
    parameters: dict[str, Any] = {}


class Oracle(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference solution: a command and its folder (relative to the task's source folder)."""

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
    """Origin as text; never an absolute path."""
    metadata: dict[str, Any] = {}
