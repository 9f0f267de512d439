"""Applies contracts to the tool calls of a model's reply before the program receives them.

A reply with a refused call is withheld. The model gets a tool result for each call and is asked again; the program gets
the first reply that violates nothing. Refused turns are recorded as steps and model calls with error observations; the
program's own call is recorded as asked, and evidence of kind `guard_turns` names the messages in between.

Not covered: the program's next request does not contain the refused turns, so the model is told only once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from assay.errors import LimitReached
from assay.gateway.call_tree import Placement, content_text
from assay.gateway.interface import Exchange, ModelReply, ModelRequest, OnDeltas
from assay.gateway.model import Model, ModelAnswer, discard_deltas
from assay.records import Observation, SpanProof, Step, ToolCall, Usage
from assay.rollout.limits.contract_guards import ContractGuard
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.observed_turns import reasoning_of, tool_calls_of
from assay.rollout.recording.recorder import Recorder

MOST_REFUSALS: Final = 3
"""Number of retries per call; then the refused calls are removed from the reply."""
NOT_MADE: Final = "Not made: another call of the same turn was refused. Make it again if it is still wanted."


class GuardedModel:
    """A session's `Model` under contracts; retries count against the trial's limits."""

    def __init__(self, model: Model, guard: ContractGuard, recorder: Recorder, meter: Meter) -> None:
        self.name = model.name
        self._model = model
        self._guard = guard
        self._recorder = recorder
        self._meter = meter
        self._answered_late: set[str] = set()
        """Calls whose reply was sampled from more than the program's own conversation."""

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        """Implements `Model.ask`. Nothing is streamed before the whole reply was judged."""
        del on_deltas  # the gateway writes the pieces of a reply that came whole
        asked = request
        if _parent(placement) in self._answered_late:  # its tokens are not those of the program's conversation
            placement = msgspec.structs.replace(placement, parent=None, cause="rewritten", shared_messages=0)
        for number in range(MOST_REFUSALS):
            begun = time.time()
            inner_id = f"{call_id}.{number}" if number else call_id
            answered = await self._model.ask(inner_id, asked, placement, discard_deltas)
            step = self._proposed(answered.reply, placement)
            refused = await self._guard.judge(step) if step.tool_calls else {}
            if not refused:
                self._tell(call_id, request, asked)
                return answered
            self._answered_late.add(call_id)
            own_id = self._recorder.begin_noted_call(_parent(placement), None)
            told = self._refuse(step, refused, own_id)
            self._meter.count(answered.reply.usage, answered.reply.cost_usd)
            await self._record(own_id, asked, answered, placement, begun)
            asked = msgspec.structs.replace(asked, messages=[*asked.messages, answered.reply.message, *told])
            if self._is_spent():  # the next call is told so
                return _stripped(answered, refused, Usage())
        answered = await self._model.ask(f"{call_id}.{MOST_REFUSALS}", asked, placement, discard_deltas)
        self._tell(call_id, request, asked)
        return await self._without_refused(answered, placement)

    def _proposed(self, reply: ModelReply, placement: Placement) -> Step:
        message, name = reply.message, placement.lineage.get("agent")
        return Step(
            index=self._recorder.steps,
            actor="agent",
            message=content_text(message.get("content")) or None,
            reasoning=reasoning_of(message),
            tool_calls=tool_calls_of(message),
            started=time.time(),
            extra={"name": name} if name else {},
        )

    def _refuse(self, step: Step, refused: Mapping[int, str], own_id: str) -> list[dict[str, Any]]:
        """Records the refused turn; returns a tool message for each of its calls."""
        texts = [refused.get(n, NOT_MADE) for n in range(len(step.tool_calls))]
        seen = tuple(Observation(text, c.id, error=True) for text, c in zip(texts, step.tool_calls, strict=True))
        self._guard.record_unmade_calls(step)
        index, now = self._recorder.steps, time.time()
        done = msgspec.structs.replace(step, index=index, observations=seen, call=own_id, ended=now, extra={})
        self._recorder.step(done)
        self._guard.record_step(done)
        return [_result(call, text) for call, text in zip(step.tool_calls, texts, strict=True)]

    async def _record(
        self, own_id: str, asked: ModelRequest, answered: ModelAnswer, placement: Placement, begun: float
    ) -> None:
        """Records the refused reply as a call of its own, not delivered to the program."""
        await self._recorder.end_call(
            Exchange(
                id=own_id,
                request=asked,
                reply=answered.reply,
                error=None,
                model=self.name,
                raw_request=b"",
                raw_response=b"",
                started=begun,
                ended=time.time(),
                delivered=False,
                parent=_parent(placement),
                branch=placement.branch or own_id,
                cause=answered.cause,
                differs_at=answered.differs_at,
                shared_messages=placement.shared_messages,
                shared_tokens=answered.shared_tokens,
                certificate=answered.certificate,
                lineage=dict(placement.lineage),
            )
        )

    def _tell(self, call_id: str, request: ModelRequest, asked: ModelRequest) -> None:
        between = asked.messages[len(request.messages) :]
        if between:
            self._recorder.evidence("gateway", "guard_turns", {"call": call_id, "messages": between})

    async def _without_refused(self, answered: ModelAnswer, placement: Placement) -> ModelAnswer:
        """Returns the last reply without the calls that are refused again."""
        proposed = self._proposed(answered.reply, placement)
        step = msgspec.structs.replace(proposed, extra={**proposed.extra, "beside": True})  # it will be in no step
        refused = await self._guard.judge(step) if step.tool_calls else {}
        return _stripped(answered, refused) if refused else answered

    def _is_spent(self) -> bool:
        try:
            self._meter.check_use()
        except LimitReached:
            return True
        return False


def _stripped(answered: ModelAnswer, refused: Mapping[int, str], usage: Usage | None = None) -> ModelAnswer:
    """Removes refused calls from a reply and adds the refusals to its text. Token ids are dropped, since they no longer
    match the text. `usage` replaces usage that was counted before."""
    message = answered.reply.message
    given: Sequence[Any] = message["tool_calls"]
    kept = [call for n, call in enumerate(given) if n not in refused]
    text = "\n".join([t for t in (content_text(message.get("content")), *refused.values()) if t])
    shortened = {k: v for k, v in message.items() if k != "tool_calls"} | {"content": text}
    finish = answered.reply.finish_reason if kept else "stop"
    changed: dict[str, Any] = shortened | ({"tool_calls": kept} if kept else {})
    reply = msgspec.structs.replace(
        answered.reply,
        message=changed,
        finish_reason=finish,
        usage=usage or answered.reply.usage,
        prompt_token_ids=None,
        completion_token_ids=None,
        logprobs=None,
    )
    tokens = answered.certificate is not None
    certificate = SpanProof(certified=False, reason="its refused calls were taken out of the answer")
    return msgspec.structs.replace(answered, reply=reply, shared_tokens=0, certificate=certificate if tokens else None)


def _parent(placement: Placement) -> str | None:
    return placement.parent.id if placement.parent is not None else None


def _result(call: ToolCall, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": text, "is_error": True}
