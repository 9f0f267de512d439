"""What every judge of a trajectory shares: the actions that it looks at and the findings that it gives."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Action", "ActionKind", "Family", "Finding", "Quote", "Reach", "Severity"]

ActionKind = Literal["shell", "read", "edit", "search", "browse", "think", "say", "finish", "tool"]
"""`tool` is any other tool; `say` is a message without a tool call."""
Family = Literal["consistency", "integrity", "process", "safety", "attribution"]
Severity = Literal["note", "minor", "major", "critical"]
"""`note` says something and counts against nobody; `minor` is worth a look; `major` makes the result doubtful;
`critical` makes it worthless as evidence."""
Reach = Literal["attempted", "obtained"]
"""Whether it was only tried, or what it was tried for was seen to be had."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    """One act of an agent: a tool call with what it brought back, or a message without one."""

    index: int
    """Position among the trajectory's actions."""
    step: int
    """`Step.index` of the step that it is of."""
    call: int
    """Position among the step's tool calls; -1 for a message."""
    kind: ActionKind
    tool: str
    """The tool's name as recorded; empty for a message."""
    command: str | None = None
    """The shell text, where it is a shell."""
    paths: tuple[str, ...] = ()
    """Files that it names, as written."""
    text: str = ""
    """What it writes or says: new content of an edit, a message."""
    arguments: dict[str, Any] = {}
    observation: str | None = None
    """What came back; None where nothing was recorded."""
    exit_code: int | None = None
    error: bool = False


class Quote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Words that stand in the record exactly so."""

    step: int
    field: Literal["message", "reasoning", "arguments", "observation", "evidence"]
    text: str
    call: int | None = None


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a rule found in a trajectory, with where to look."""

    rule: str
    """Stable short name, `reward-without-tests`."""
    family: Family
    severity: Severity
    summary: str
    """One sentence with the facts in it."""
    steps: tuple[int, ...] = ()
    quotes: tuple[Quote, ...] = ()
    evidence: tuple[str, ...] = ()
    """Ids of evidence in the trajectory."""
    reach: Reach | None = None
    data: dict[str, Any] = {}
    forging: bool = False
    """Unmistakable forging of what judges: it decides whether or not it worked."""
