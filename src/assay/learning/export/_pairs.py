"""Message preferences: two attempts at one task diverge, and only one continuation leads to a pass.

Attempts are merged into a tree of messages (without call ids, which differ between attempts). After each prompt with
different continuations, the message of most undoubted passes is chosen, and the message of most failures and no pass is
rejected: at most one pair per prompt.

The prompt includes tool results, and chosen and rejected are one message each. So a trainer that trains everything
after the prompt trains no tool output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from assay.errors import UserError
from assay.gateway.tokens.messages import content_text, decode_arguments
from assay.learning.conversation import Transcript
from assay.learning.sampled import group_name
from assay.records import Trajectory, canonical_bytes

from .interface import ExportSource


class PairSide(NamedTuple):
    """A message and its position."""

    attempt: str
    conversation: Transcript
    position: int
    """Index of the message; the messages before it are the prompt."""


class MessagePair(NamedTuple):
    """Two messages after the same prompt."""

    group: str
    chosen: PairSide
    rejected: PairSide


class _MessageRef(NamedTuple):
    attempt: str
    branch: str
    position: int


class _MessageOutcomes:
    def __init__(self) -> None:
        self.passes: list[_MessageRef] = []
        self.failures: list[_MessageRef] = []


def find_message_pairs(source: ExportSource) -> Iterator[MessagePair]:
    """Yields the pairs of a run, in the order of their prompts."""
    chosen = _choose_pairs(_outcomes_by_prompt(source))
    if not chosen:
        raise UserError(
            "no two attempts at one task part so that one way led to a pass and the other to failures alone: "
            "preferences need several attempts at a task, some of which passed"
        )
    wanted = {(reference.attempt, reference.branch) for _, *both in chosen for reference in both}
    conversations = {
        (item.trajectory.attempt, item.conversation.branch): item.conversation
        for item in source.conversations()
        if (item.trajectory.attempt, item.conversation.branch) in wanted
    }
    for group, good, bad in chosen:
        found = MessagePair(
            group,
            *(
                PairSide(reference.attempt, conversations[reference.attempt, reference.branch], reference.position)
                for reference in (good, bad)
            ),
        )
        if _normalized(found.chosen) == _normalized(found.rejected):
            source.record_loss(good.attempt, "pair", "its two messages differ in how they are spelled alone")
        else:
            yield found


def _normalized(side: PairSide) -> dict[str, Any]:
    plain = _without_ids(side.conversation.messages[side.position])
    return plain | {"calls": [(name, decode_arguments(arguments)) for name, arguments in plain["calls"]]}


def _outcomes_by_prompt(source: ExportSource) -> dict[tuple[str, str], dict[str, _MessageOutcomes]]:
    """Returns, by group and prompt digest, the messages and their outcomes."""
    found: dict[tuple[str, str], dict[str, _MessageOutcomes]] = {}
    for trajectory, item in source.conversations():
        group = group_name(trajectory)
        hasher = blake3(canonical_bytes(item.tools))
        for position, message in enumerate(item.messages):
            plain = canonical_bytes(_without_ids(message))
            if item.own[position]:
                outcomes_by_message = found.setdefault((group, hasher.hexdigest()), {})
                outcomes = outcomes_by_message.setdefault(blake3(plain).hexdigest(), _MessageOutcomes())
                outcome_list = _outcome_list(trajectory, outcomes)
                if outcome_list is not None:
                    outcome_list.append(_MessageRef(trajectory.attempt, item.branch, position))
            hasher.update(plain)
    return found


def _outcome_list(trajectory: Trajectory, outcomes: _MessageOutcomes) -> list[_MessageRef] | None:
    if trajectory.finished is not None and trajectory.finished.broke is not None:
        return None
    return {"pass": outcomes.passes, "fail": outcomes.failures}.get(trajectory.outcome or "")


def _choose_pairs(
    found: dict[tuple[str, str], dict[str, _MessageOutcomes]],
) -> list[tuple[str, _MessageRef, _MessageRef]]:
    chosen: list[tuple[str, _MessageRef, _MessageRef]] = []
    for (group, _), outcomes_by_message in found.items():
        good = max(outcomes_by_message.values(), key=lambda outcomes: len(outcomes.passes))
        bad = max(
            (outcomes for outcomes in outcomes_by_message.values() if not outcomes.passes),
            key=lambda outcomes: len(outcomes.failures),
            default=None,
        )
        if good.passes and bad is not None and bad.failures:
            chosen.append((group, good.passes[0], bad.failures[0]))
    return chosen


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
    return {
        "role": message.get("role"),
        "content": content_text(message.get("content")),
        "reasoning": message.get("reasoning_content"),
        "calls": [(f.get("name"), f.get("arguments")) for f in calls if isinstance(f, dict)],
    }
