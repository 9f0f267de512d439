"""What known command-line agents make of a model's turns when they send them back, as measured on the real programs.

Each imitation speaks its agent's dialect over HTTP: it asks, runs nothing, and answers every tool call with a text.
They are imitations: the real programs are run by other tests.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

Message = dict[str, Any]
SYSTEM, TASK = "You are a careful agent.", "Write hello.txt."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
NAMES = ("write", "bash")


def parsed(raw: str) -> Message | None:
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def in_schema_order(value: Message) -> Message:
    order = {name: position for position, name in enumerate(SCHEMA["properties"])}
    return dict(sorted(value.items(), key=lambda item: order.get(item[0], 9)))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class Imitation:
    """One agent at work. `results` counts up, so that no two are alike."""

    path = "/v1/chat/completions"

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url + self.path, key
        self.results = 0
        self.changed = 0
        """Echoes that differ from what was said."""

    async def run(self, turns: int) -> None:
        history = self.first()
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.key}"}) as session:
            for _ in range(turns):
                async with session.post(self.url, json=self.body(history)) as response:
                    answer = await response.json()
                    assert response.status == 200, answer
                history = self.grown(history, answer)

    def result(self) -> str:
        self.results += 1
        return f"result {self.results}"

    def first(self) -> list[Message]:
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]

    def tools(self) -> list[Message]:
        return [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]

    def body(self, history: list[Message]) -> Message:
        return {"model": "m", "messages": history, "tools": self.tools()}

    def grown(self, history: list[Message], answer: Message) -> list[Message]:
        message = answer["choices"][0]["message"]
        echo = self.echo(message)
        self.changed += echo != message
        if echo is None:
            return self.dropped(history)
        calls = message.get("tool_calls") or []
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.result()} for call in calls]
        return [*history, echo, *results] if calls else [*history, echo, {"role": "user", "content": self.result()}]

    def dropped(self, history: list[Message]) -> list[Message]:
        """What is sent after a turn that was thrown away."""
        return history

    def echo(self, message: Message) -> Message | None:
        """The turn as it is sent back; None where it is thrown away."""
        calls = [self.call(call) for call in message.get("tool_calls") or ()]
        return {**message, "content": message.get("content") or "", **({"tool_calls": calls} if calls else {})}

    def call(self, call: Message) -> Message:
        name, raw = call["function"]["name"], call["function"]["arguments"]
        name, raw = self.respelled(name, raw)
        return {**call, "function": {"name": name, "arguments": raw}}

    def respelled(self, name: str, raw: str) -> tuple[str, str]:
        value = parsed(raw)
        return name, compact(value if value is not None else {"path": "x"})


class Pi(Imitation):
    """Writes arguments compactly; half-parses broken ones."""


class Opencode(Imitation):
    """Renames calls that it cannot run."""

    def respelled(self, name: str, raw: str) -> tuple[str, str]:
        value = parsed(raw)
        if value is None or name not in NAMES:
            return "invalid", compact({"tool": name, "error": "no"})
        return name, compact(value)


class QwenCode(Imitation):
    """Trims reasoning; throws a broken turn away and asks the same again."""

    def echo(self, message: Message) -> Message | None:
        if any(parsed(call["function"]["arguments"]) is None for call in message.get("tool_calls") or ()):
            return None
        echo = super().echo(message)
        assert echo is not None
        return echo | {"reasoning_content": (echo.get("reasoning_content") or "").strip()}


class MiniSweAgent(Imitation):
    """Echoes bytes; throws a broken turn away and complains to the model instead."""

    def echo(self, message: Message) -> Message | None:
        broken = any(parsed(call["function"]["arguments"]) is None for call in message.get("tool_calls") or ())
        return None if broken else message

    def dropped(self, history: list[Message]) -> list[Message]:
        return [*history, {"role": "user", "content": f"Tool call error. {self.result()}"}]


class OpenHands(Imitation):
    """Drops reasoning and keys that it does not know."""

    def echo(self, message: Message) -> Message | None:
        echo = super().echo(message)
        assert echo is not None
        echo.pop("reasoning_content", None)
        return echo

    def respelled(self, name: str, raw: str) -> tuple[str, str]:
        value = parsed(raw)
        if value is None:
            return name, compact({"_openhands_malformed_tool_call": True})
        return name, json.dumps({key: item for key, item in value.items() if key in SCHEMA["properties"]})


class OpenAIAgents(Imitation):
    """Echoes bytes, without the reasoning."""

    def echo(self, message: Message) -> Message | None:
        return {key: value for key, value in message.items() if key != "reasoning_content"}


class Smolagents(Imitation):
    """Writes calls as text, and results as the user's observations."""

    def grown(self, history: list[Message], answer: Message) -> list[Message]:
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        text = "Calling tools:\n" + repr(calls) if calls else (message.get("content") or "").strip()
        self.changed += 1
        observed = {"role": "user", "content": [{"type": "text", "text": f"Observation:\n{self.result()}"}]}
        return [*history, {"role": "assistant", "content": [{"type": "text", "text": text}]}, observed]


class Codex(Imitation):
    """Speaks Responses and echoes bytes."""

    path = "/v1/responses"

    def first(self) -> list[Message]:
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}]

    def body(self, history: list[Message]) -> Message:
        tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
        return {"model": "m", "instructions": SYSTEM, "input": history, "tools": tools, "store": False}

    def grown(self, history: list[Message], answer: Message) -> list[Message]:
        items = answer["output"]
        calls = [item for item in items if item["type"] == "function_call"]
        more = [{"type": "function_call_output", "call_id": c["call_id"], "output": self.result()} for c in calls]
        user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": self.result()}]}
        return [*history, *items, *(more or [user])]


class ClaudeCode(Imitation):
    """Speaks Messages: arguments become objects in schema order; results of parallel calls come as they ended."""

    path = "/v1/messages"

    def first(self) -> list[Message]:
        return [{"role": "user", "content": [{"type": "text", "text": TASK}]}]

    def body(self, history: list[Message]) -> Message:
        tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
        system = [{"type": "text", "text": SYSTEM}]
        return {"model": "m", "max_tokens": 999, "system": system, "messages": history, "tools": tools}

    def grown(self, history: list[Message], answer: Message) -> list[Message]:
        blocks = []
        for block in answer["content"]:
            if block["type"] == "tool_use":
                block = {**block, "input": in_schema_order(block["input"])}
                self.changed += 1
            blocks.append(block)
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        more = [{"type": "tool_result", "tool_use_id": call, "content": self.result()} for call in reversed(calls)]
        user = [{"type": "text", "text": self.result()}]
        return [*history, {"role": "assistant", "content": blocks}, {"role": "user", "content": more or user}]


class GeminiCli(Imitation):
    """Speaks generateContent: arguments become objects, reasoning is dropped."""

    path = "/v1beta/models/m:generateContent"

    def first(self) -> list[Message]:
        return [{"role": "user", "parts": [{"text": TASK}]}]

    def body(self, history: list[Message]) -> Message:
        declared = [{"name": name, "parametersJsonSchema": SCHEMA} for name in NAMES]
        system = {"parts": [{"text": SYSTEM}]}
        return {"contents": history, "systemInstruction": system, "tools": [{"functionDeclarations": declared}]}

    def grown(self, history: list[Message], answer: Message) -> list[Message]:
        parts = [part for part in answer["candidates"][0]["content"]["parts"] if not part.get("thought")]
        self.changed += 1
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        more: list[Message] = [
            {"functionResponse": {"id": c.get("id"), "name": c["name"], "response": {"output": self.result()}}}
            for c in calls
        ]
        turn: Message = {"role": "model", "parts": parts or [{"text": ""}]}
        answers = more or [{"text": self.result()}]
        return [*history, turn, {"role": "user", "parts": answers}]


AGENTS: dict[str, type[Imitation]] = {
    "claude-code": ClaudeCode,
    "codex": Codex,
    "gemini-cli": GeminiCli,
    "mini-swe-agent": MiniSweAgent,
    "openai-agents": OpenAIAgents,
    "opencode": Opencode,
    "openhands": OpenHands,
    "pi": Pi,
    "qwen-code": QwenCode,
    "smolagents": Smolagents,
}
