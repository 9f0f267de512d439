"""Patches of a model's history in a semi-online replay: a recorded step takes the place of an act that diverged.

Three strategies, after UI-S1 (Advancing GUI Automation via Semi-online Reinforcement Learning): `thought-free`, the
recorded step alone; `off-policy`, with the thought that was recorded with it, which is another agent's; `on-policy`,
with a thought that the agent's own model is asked for, given the recorded step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from assay.records import Observation, ToolCall, canonical_bytes

from ._calls import assistant_message

if TYPE_CHECKING:
    from assay.environments.browser.recorded.site import Patch

_ASK: Final = (
    "The next act is not the one that you chose, but {acts}. Write, in one or two sentences and in the first person, "
    "the thought that leads to this act. Call no tool."
)
Ask = Callable[[list[dict[str, Any]]], Awaitable[str]]
"""Asks the model, given messages after the conversation, and returns its text."""


@runtime_checkable
class PatchesActs(Protocol):
    """World that may put a recorded step in the place of an act."""

    patches: list[Patch | None]
    """For each call, the recorded step that took its place; None where none did."""


class PatchedTurn(NamedTuple):
    """A turn of a model's history."""

    message: dict[str, Any]
    """The assistant's message."""
    calls: Sequence[ToolCall]
    observations: Sequence[Observation]


def recent_patches(tools: object, calls: Sequence[ToolCall]) -> list[Patch | None]:
    """Returns the patch of each of the calls that were executed last; None for each without one."""
    made = [call.error is None and call.parsed is not None for call in calls]
    if not isinstance(tools, PatchesActs) or not any(made):
        return [None] * len(calls)
    recent = iter(tools.patches[-sum(made) :])
    return [next(recent, None) if was_made else None for was_made in made]


async def patch_turn(tools: object, turn: PatchedTurn, ask: Ask) -> PatchedTurn:
    """Returns a turn with the recorded steps in place of the acts that diverged; the turn itself if none did."""
    patches = recent_patches(tools, turn.calls)
    if not any(patches):
        return turn
    calls, observations = list[ToolCall](), list[Observation]()
    for call, seen, patch in zip(turn.calls, turn.observations, patches, strict=True):
        if patch is None:
            calls.append(call)
            observations.append(seen)
        for number, recorded in enumerate(() if patch is None else patch.calls):
            call_id = f"{call.id}_p{number}"
            arguments = canonical_bytes(recorded.arguments).decode()
            calls.append(ToolCall(call_id, recorded.name, arguments, recorded.arguments))
            observations.append(Observation(recorded.page, call_id))
    first = next(patch for patch in patches if patch is not None)
    thought = first.thought
    if first.strategy == "on-policy":
        acts = " then ".join(f"`{one.name} {canonical_bytes(one.arguments).decode()}`" for one in first.calls)
        thought = await ask([{"role": "user", "content": _ASK.format(acts=acts)}])
    return PatchedTurn(assistant_message(thought or None, calls), calls, observations)
