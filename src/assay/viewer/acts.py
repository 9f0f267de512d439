"""The actions of one attempt's agents, read with bounds.

Invariant: texts are truncated on reading, so that memory grows with the number of actions, which is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from assay.analysis.actions import actions_of_step
from assay.analysis.interface import Action
from assay.records import Observation, Step, StepAdded, ToolCall
from assay.store.chain import Link, decode_event

from .chains import Chain
from .interface import json_bytes

MOST_ACTS: Final = 2000
LONGEST_TEXT = 6000
MOST_CHARACTERS: Final = 16 << 20
"""Characters of an attempt's steps in memory."""
MOST_OBSERVATIONS: Final = 40
"""Outputs of a step that are read, unless it made more calls."""


class _Type(msgspec.Struct):
    type: str = ""


_TYPE = msgspec.json.Decoder(_Type)


def read_steps(chain: Chain) -> tuple[list[Step], int]:
    """Returns the steps of an attempt's agents with truncated texts, and the number of further ones."""
    return read_steps_of(chain.links(0, chain.length))


def read_steps_of(links: Iterable[Link]) -> tuple[list[Step], int]:
    """Returns what `read_steps` returns, from the events of an attempt."""
    found: list[Step] = []
    acts = left_out = size = 0
    for link in links:
        if _TYPE.decode(link.body).type != "step":
            continue
        if acts >= MOST_ACTS or size >= MOST_CHARACTERS:
            left_out += 1
            continue
        body = decode_event(link).body
        if isinstance(body, StepAdded) and body.step.actor in ("agent", "other_agent"):
            short = _shorten_step(body.step)
            found.append(short)
            acts += max(len(short.tool_calls), 1)
            size += sum(len(seen.content) + len(seen.stderr) for seen in short.observations)
            size += sum(len(call.arguments) for call in short.tool_calls)
    return found, left_out


def _shorten_step(step: Step) -> Step:
    seen = tuple(
        Observation(_cut_text(s.content), s.call_id, s.exit_code, s.error, _cut_text(s.stderr), None, None, s.timed_out)
        for s in step.observations[: max(MOST_OBSERVATIONS, 2 * len(step.tool_calls))]
    )
    calls = tuple(
        call if _is_small(call) else msgspec.structs.replace(call, arguments="", parsed=None)
        for call in step.tool_calls[:MOST_ACTS]
    )
    message = _cut_text(step.message or "") or None
    return msgspec.structs.replace(step, message=message, reasoning=None, tool_calls=calls, observations=seen, extra={})


def _is_small(call: ToolCall) -> bool:
    """Returns whether its arguments, raw and parsed, fit into memory."""
    most = 8 * LONGEST_TEXT
    return len(call.arguments) <= most and (call.parsed is None or len(json_bytes(call.parsed)) <= most)


def _cut_text(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT // 2] + "\n" + text[-LONGEST_TEXT // 2 :]


def list_actions(steps: Sequence[Step]) -> Iterator[Action]:
    """Yields the actions of steps, as `actions_of` does for a trajectory."""
    opened_file: str | None = None
    index = 0
    for step in steps:
        for action in actions_of_step(step, opened_file):
            if action.kind in ("read", "edit") and action.paths:
                opened_file = action.paths[-1]
            yield msgspec.structs.replace(action, index=index)
            index += 1
