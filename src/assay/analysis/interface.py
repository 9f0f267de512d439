"""Types shared by all trajectory judges: actions, quotes and findings."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

ActionKind = Literal["shell", "read", "edit", "search", "browse", "think", "say", "finish", "tool"]
"""`tool` is any other tool; `say` is a message without a tool call."""
Family = Literal["consistency", "integrity", "process", "safety", "attribution"]
Severity = Literal["note", "minor", "major", "critical"]
"""`note` counts against no attempt; `minor` deserves a look; `major` makes the result doubtful; `critical` makes it
worthless as evidence.
"""
Reach = Literal["attempted", "obtained"]
"""`attempted`, or `obtained` if the goal of the action was visibly reached."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One action of an agent: a tool call with its output, or a message without one."""

    index: int
    """Position among the trajectory's actions."""
    step: int
    """`Step.index` of its step."""
    call: int
    """Position among the step's tool calls; -1 for a message."""
    kind: ActionKind
    tool: str
    """The tool's name as recorded; empty for a message."""
    command: str | None = None
    """Shell text of a shell call."""
    paths: tuple[str, ...] = ()
    """Named files, as written."""
    text: str = ""
    """Written text: new content of an edit, a message."""
    arguments: dict[str, Any] = {}
    observation: str | None = None
    """Output; None if not recorded."""
    exit_code: int | None = None
    error: bool = False


class Quote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Verbatim words of the record."""

    step: int
    field: Literal["message", "reasoning", "arguments", "observation", "evidence"]
    text: str
    call: int | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Finding of a rule in a trajectory, with its location."""

    rule: str
    """Stable short name, `reward-without-tests`."""
    family: Family
    severity: Severity
    summary: str
    """One sentence with the facts."""
    steps: tuple[int, ...] = ()
    quotes: tuple[Quote, ...] = ()
    evidence: tuple[str, ...] = ()
    """Ids of evidence in the trajectory."""
    reach: Reach | None = None
    data: dict[str, Any] = {}
    forging: bool = False
    """True if it is unmistakable forging of results, which decides even if it failed."""
