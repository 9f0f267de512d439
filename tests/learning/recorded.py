"""Runs with tokens in a store: real sessions over a tiny tokenizer, whose model says a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from assay.gateway.interface import ModelRequest
from assay.gateway.tokens import TokenModel
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore
from tests.gateway.tokens.conftest import Echoing, Talk, says

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "move",
            "description": "Goes one field.",
            "parameters": {
                "type": "object",
                "properties": {"direction": {"type": "string", "enum": ["up", "down", "left", "right"]}},
                "required": ["direction"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "press",
            "description": "Presses a key.",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}, "n": {"type": "integer"}}},
        },
    },
]
OPENING = [{"role": "system", "content": "You walk."}, {"role": "user", "content": "Go to the goal."}]


class Script:
    """A model that says these turns and then one of its own.

    Args:
        renderer: Between messages and tokens.
        moves: What its turns do: a direction, `key:K` for the other tool, or `free` for what it samples by itself.
        backend: Samples; default: one whose log-probabilities are digests of the context.
    """

    def __init__(self, renderer: Any, moves: Sequence[str], backend: Any = None) -> None:
        self._renderer = renderer
        self._left = list(moves)
        plain = [token for token in range(400) if renderer.is_plain(token)]
        self.talk = Talk(TokenModel(backend or Echoing(plain), renderer, {"temperature": 1.0}, steer=self._steer))
        self.steps: list[Step] = []

    async def _steer(self, _: ModelRequest) -> Sequence[int] | None:
        move = self._left.pop(0)
        if move == "free":
            return None
        kind, _, key = move.partition(":")
        arguments = {"key": key, "n": 1} if key else {"direction": kind}
        name = "press" if key else "move"
        return list(self._renderer.render_reply(says("", json.dumps(arguments), name=name)))

    async def play(self) -> list[dict[str, Any]]:
        """All turns, each answered by its tool; the messages."""
        messages: list[dict[str, Any]] = list(OPENING)
        number = 0
        while self._left:
            answer = await self.talk.ask(messages, TOOLS)
            messages = [*messages, answer]
            made = tuple(_call(call) for call in answer.get("tool_calls") or ())
            seen = tuple(Observation(f"field {number}", call.id) for call in made)
            messages += [{"role": "tool", "tool_call_id": o.call_id, "content": o.content} for o in seen]
            if not made and self._left:
                messages.append({"role": "user", "content": "Call a tool."})
            call = self.talk.calls[-1].id
            state = f"state-{number}"
            self.steps.append(Step(number, "agent", answer["content"], None, made, seen, call=call, state=state))
            number += 1
        tools = {"tools": TOOLS}
        first, *others = self.talk.calls
        told = [
            replace(first, request={**first.request, **tools}),
            *(replace(c, shared_fields=("tools",)) for c in others),
        ]
        self.talk.recorder.calls = told
        return messages


def _call(call: dict[str, Any]) -> ToolCall:
    text = call["function"]["arguments"]
    return ToolCall(call["id"], call["function"]["name"], text, json.loads(text))


def bodies(
    chain: str, script: Script, outcome: str = "pass", integrity: str | None = "pass", number: int = 0, **started: Any
) -> list[Body]:
    """The events of an attempt that went so."""
    begun: dict[str, Any] = {"run": "r", "attempt": chain, "task": "walk", "task_digest": "blake3:" + "1" * 64}
    begun |= {"agent": "loop", "model": "digest", "seed": 7, "number": number} | started
    found: list[Body] = [AttemptStarted(**begun)]
    calls: dict[str, ModelCall] = {call.id: call for call in script.talk.calls}
    steps = {step.call: step for step in script.steps}
    for name, call in calls.items():
        found.append(ModelCalled(call))
        if name in steps:
            found.append(StepAdded(steps[name]))
    columns = {"steps": [s.index for s in script.steps], "rewards": [0.5 for _ in script.steps]}
    columns |= {"progress": [0.25 for _ in script.steps], "errors": [False for _ in script.steps]}
    found.append(EvidenceAdded(Evidence("episode", "state", "episode", columns)))
    score = {"pass": 1.0, "fail": 0.0}.get(outcome)
    found.append(VerdictAdded(Verdict("solved", "outcome", outcome, score, "it was looked at")))  # type: ignore[arg-type]
    if integrity is not None:
        found.append(VerdictAdded(Verdict("audit", "integrity", integrity, None, "audited")))  # type: ignore[arg-type]
    return [*found, AttemptEnded(ended="the goal")]


def store_run(root: Path, attempts: Sequence[list[Body]], run: str = "r", **manifest: Any) -> Path:
    """A live run of these attempts, each body list one chain; the store's folder."""
    with RunStore.create(root, run, manifest) as store:
        for events in attempts:
            first = events[0]
            assert isinstance(first, AttemptStarted)
            store.append(f"{first.attempt}.0", events)
    return root


def asked_again(events: Sequence[Body]) -> list[Body]:
    """The same attempt, whose last question was asked a second time: two lines of calls."""
    last = next(e.call for e in reversed(events) if isinstance(e, ModelCalled))
    again = ModelCalled(replace(last, id="again", branch="again", cause="resample"))
    return [*events[:-1], again, events[-1]]
