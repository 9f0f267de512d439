"""An attempt in a semi-online replay: in a model's history, recorded steps take the place of acts that diverged.

Three strategies, after UI-S1 (Advancing GUI Automation via Semi-online Reinforcement Learning): `thought-free`, the
recorded step alone; `off-policy`, with the thought that was recorded with it, which is another agent's; `on-policy`,
with a thought that the agent's own model is asked for, given the recorded step.

The agent itself knows nothing of it: it keeps its conversation as on the live site, and the requests that it makes are
rewritten on their way to the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from msgspec.structs import replace

from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Observation, ToolCall, canonical_bytes

from ._calls import assistant_message, text_of
from .interface import Attempt, ForwardingAttempt

if TYPE_CHECKING:
    from assay.environments.browser.recorded.site import Patch

_ASK: Final = (
    "The next act is not the one that you chose, but {acts}. Write, in one or two sentences and in the first person, "
    "the thought that leads to this act. Call no tool."
)
_SHORTENED: Final = "[The page after the last of these calls follows.]"
"""Page between the calls of a recorded step whose last page the agent no longer sends whole."""


@runtime_checkable
class PatchesActs(Protocol):
    """World that may put a recorded step in the place of an act."""

    patches: list[Patch | None]
    """For each call, the recorded step that took its place; None where none did."""


def recent_patches(tools: object, calls: Sequence[ToolCall]) -> list[Patch | None]:
    """Returns the patch of each of the calls that were executed last; None for each without one."""
    made = [call.error is None and call.parsed is not None for call in calls]
    if not isinstance(tools, PatchesActs) or not any(made):
        return [None] * len(calls)
    recent = iter(tools.patches[-sum(made) :])
    return [next(recent, None) if was_made else None for was_made in made]


class _Repair(NamedTuple):
    """A recorded step in the place of a call."""

    patch: Patch
    thought: str
    """Thought beside the recorded steps of the turn."""


class PatchedAttempt(ForwardingAttempt):
    """An attempt whose requests hold the recorded steps."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._asked: ModelRequest | None = None
        """The last request."""
        self._repairs: dict[str, list[_Repair | None]] = {}
        """By the id of calls, for each turn that used it: some servers begin their ids anew in every reply."""

    async def act(self, calls: Sequence[ToolCall], **said: Any) -> tuple[Observation, ...]:
        """Executes calls, and remembers which of them recorded steps took the place of."""
        observations = await self._attempt.act(calls, **said)
        patches = recent_patches(self._attempt.tools, calls)
        first, thought = next((patch for patch in patches if patch is not None), None), None
        if first is not None and self._asked is not None:
            thought = await self._find_thought(first, self._asked)
        for call, patch in zip(calls, patches, strict=True):
            repair = None if patch is None or thought is None else _Repair(patch, thought)
            self._repairs.setdefault(call.id, []).append(repair)
        return observations

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """Queries the model with the history as the replay has it."""
        if any(repair is not None for uses in self._repairs.values() for repair in uses):
            request = replace(request, messages=self._rewrite(request.messages))
        self._asked = request
        return await self._attempt.ask(request)

    async def _find_thought(self, patch: Patch, asked: ModelRequest) -> str:
        if patch.strategy != "on-policy":
            return patch.thought
        acts = " then ".join(f"`{one.name} {canonical_bytes(one.arguments).decode()}`" for one in patch.calls)
        messages = [*asked.messages, {"role": "user", "content": _ASK.format(acts=acts)}]
        _, reply = await self._attempt.ask(ModelRequest(messages, [], asked.sampling))
        return text_of(reply.message.get("content"))

    def _rewrite(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the messages with the recorded steps. The uses of an id are counted from the end of the history,
        whose beginning may be recorded steps of another attempt, or a summary."""
        later: Counter[str] = Counter()
        reversed_messages: list[dict[str, Any]] = []
        for message in reversed([*messages]):
            answered = self._find_repair(message.get("tool_call_id", ""), later)
            if answered is not None:
                reversed_messages += reversed([*_results(message, answered.patch)])
                continue
            calls = [(one, self._find_repair(one["id"], later)) for one in message.get("tool_calls") or ()]
            is_patched = any(repair is not None for _, repair in calls)
            reversed_messages.append(_recorded_turn(calls) if is_patched else message)
            later.update(one["id"] for one, _ in calls)
        return reversed_messages[::-1]

    def _find_repair(self, call_id: str, later: Counter[str]) -> _Repair | None:
        """Returns the repair of a call whose id so many later turns use too."""
        uses = self._repairs.get(call_id, ())
        return uses[-1 - later[call_id]] if later[call_id] < len(uses) else None


def _recorded_turn(calls: Sequence[tuple[dict[str, Any], _Repair | None]]) -> dict[str, Any]:
    """Returns an assistant's message with recorded calls in place of those that diverged."""
    made: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for call, repair in calls:
        if repair is None:
            made.append(call)
        else:
            made += assistant_message(None, _recorded_calls(call["id"], repair.patch))["tool_calls"]
            thoughts.append(repair.thought)
    return {"role": "assistant", "content": thoughts[0] or None, "tool_calls": made}


def _recorded_calls(call_id: str, patch: Patch) -> list[ToolCall]:
    return [
        ToolCall(f"{call_id}_p{number}", one.name, canonical_bytes(one.arguments).decode(), one.arguments)
        for number, one in enumerate(patch.calls)
    ]


def _results(message: dict[str, Any], patch: Patch) -> Iterator[dict[str, Any]]:
    """Yields the results of recorded calls; the last of them is the one that the agent was shown and sends."""
    shown, last = message["content"], patch.calls[-1]
    for call, recorded in zip(_recorded_calls(message["tool_call_id"], patch), patch.calls, strict=True):
        between = recorded.page if shown == last.page else _SHORTENED
        yield {"role": "tool", "tool_call_id": call.id, "content": shown if recorded is last else between}
