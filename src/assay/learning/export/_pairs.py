"""Preferences between single messages: where two attempts at one task part, and only one of the ways led to a pass.

Attempts are laid over one another as a tree of messages (without the ids of calls, which every attempt has its own of).
At each place where what was told is the same and what was said is not, a message is chosen that a plain pass went
through, and one is rejected that failures alone went through: one pair a place, of the ways that most attempts took.

The prompt is all that was told, results of tools among it, and chosen and rejected are one message each. So no trainer
that trains "all after the prompt" trains what a tool said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from assay.errors import UserError
from assay.gateway.tokens.messages import content_text, decode_arguments
from assay.learning.conversation import Conversation
from assay.learning.sampled import group_of
from assay.records import Trajectory, canonical_bytes

from .interface import Source

__all__ = ["Pair", "Side", "pairs"]


class Side(NamedTuple):
    """A message, where it was said."""

    attempt: str
    conversation: Conversation
    place: int
    """Of the message; those before it are what was told."""


class Pair(NamedTuple):
    """Two messages said after the same."""

    group: str
    chosen: Side
    rejected: Side


class _Said(NamedTuple):
    attempt: str
    branch: str
    place: int


class _Way:
    """One thing that was said at one place, and how the attempts ended that said it."""

    def __init__(self) -> None:
        self.passes: list[_Said] = []
        self.failures: list[_Said] = []


def pairs(source: Source) -> Iterator[Pair]:
    """The pairs of a run, in the order in which their places were met.

    Raises:
        UserError: No two attempts part in this way.
    """
    chosen = _chosen(_ways(source))
    if not chosen:
        raise UserError(
            "no two attempts at one task part so that one way led to a pass and the other to failures alone: "
            "preferences need several attempts at a task, some of which passed"
        )
    wanted = {(said.attempt, said.branch) for _, *both in chosen for said in both}
    kept = {
        (told.trajectory.attempt, told.conversation.branch): told.conversation
        for told in source.conversations()
        if (told.trajectory.attempt, told.conversation.branch) in wanted
    }
    for group, good, bad in chosen:
        found = Pair(group, *(Side(said.attempt, kept[said.attempt, said.branch], said.place) for said in (good, bad)))
        if _means(found.chosen) == _means(found.rejected):
            source.lost(good.attempt, "pair", "its two messages differ in how they are spelled alone")
        else:
            yield found


def _means(side: Side) -> dict[str, Any]:
    """What a message says, however its arguments are spaced."""
    plain = _plain(side.conversation.messages[side.place])
    return plain | {"calls": [(name, decode_arguments(arguments)) for name, arguments in plain["calls"]]}


def _ways(source: Source) -> dict[tuple[str, str], dict[str, _Way]]:
    """By group and digest of what was told: what was said."""
    found: dict[tuple[str, str], dict[str, _Way]] = {}
    for trajectory, told in source.conversations():
        group = group_of(trajectory)
        hasher = blake3(canonical_bytes(told.tools))
        for place, message in enumerate(told.messages):
            plain = canonical_bytes(_plain(message))
            if told.own[place]:
                ways = found.setdefault((group, hasher.hexdigest()), {})
                way = ways.setdefault(blake3(plain).hexdigest(), _Way())
                ended = _ended(trajectory, way)
                if ended is not None:
                    ended.append(_Said(trajectory.attempt, told.branch, place))
            hasher.update(plain)
    return found


def _ended(trajectory: Trajectory, way: _Way) -> list[_Said] | None:
    """Where an attempt counts; nowhere if nobody could judge it, or the infrastructure broke."""
    if trajectory.finished is not None and trajectory.finished.broke is not None:
        return None
    return {"pass": way.passes, "fail": way.failures}.get(trajectory.outcome or "")


def _chosen(found: dict[tuple[str, str], dict[str, _Way]]) -> list[tuple[str, _Said, _Said]]:
    chosen: list[tuple[str, _Said, _Said]] = []
    for (group, _), ways in found.items():
        good = max(ways.values(), key=lambda way: len(way.passes))
        bad = max((way for way in ways.values() if not way.passes), key=lambda way: len(way.failures), default=None)
        if good.passes and bad is not None and bad.failures:
            chosen.append((group, good.passes[0], bad.failures[0]))
    return chosen


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """What a message says, without the ids that its attempt gave its calls."""
    calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
    return {
        "role": message.get("role"),
        "content": content_text(message.get("content")),
        "reasoning": message.get("reasoning_content"),
        "calls": [(f.get("name"), f.get("arguments")) for f in calls if isinstance(f, dict)],
    }
