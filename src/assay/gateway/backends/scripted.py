"""Scripted model: the test double of a model server, shipped for plugin authors too.

It keeps nothing between calls, so one object serves any number of attempts at once: which reply of a list is next is
the number of assistant messages that the request already holds. Same request, same answer.

Usage is counted, not guessed: a message costs 4 tokens and a token for every 4 characters of its text and of the
arguments of its tool calls, each rounded down. The prompt is the sum over the request's messages (tools are not
counted), the completion is the reply's.

A script is a function `(ModelRequest) -> reply` (it may be async), a list of replies, a `Script`, or a file. The
function sees the conversation, whichever API the agent speaks, as Chat Completions have it:

    def answer(request):
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn == 0:
            return {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
        return "Done."

A JSON or YAML file holds a list of replies, or the same keys as this file in TOML:

    replies = ["hello", {tool_calls = [{name = "shell", arguments = {command = "ls"}}]}]
    after = "last"                       # or "cycle", or "error" (the default): what follows the last reply

    rules = [{match = "error|fail", reply = "I give up."}]   # regular expressions on the last message, the first wins
    default = "go on"                    # where no rule matches; without it that is an error

A reply is a text, or a table with `content`, `reasoning`, `tool_calls` (`name`, `arguments` as table or raw text,
`id`), `finish_reason`, or `error` (`message`, `status`) for a server that fails.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.interface import MessageLog, ModelReply, ModelRequest, OnDeltas
from assay.records import Usage

_MAX_FILE = 64 << 20


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. Text arguments are passed on unchanged, even if they are not JSON."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str | None = None
    """Default: `call_<turn>_<position>`."""


class ScriptedError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A permanent server error."""

    message: str
    status: int | None = None
    retryable: bool = False


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scripted reply."""

    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    """Default: `tool_calls` where there are any, else `stop`."""
    error: ScriptedError | None = None


class ScriptedRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reply to a last message that matches the regular expression `match`."""

    match: str
    reply: str | Reply


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replies in order, or rules; not both."""

    replies: tuple[str | Reply, ...] = ()
    after: Literal["error", "last", "cycle"] = "error"
    """Behaviour after the last reply."""
    rules: tuple[ScriptedRule, ...] = ()
    default: str | Reply | None = None
    """Reply if no rule matches."""

    def __post_init__(self) -> None:
        """Rejects a script that cannot answer."""
        if bool(self.replies) == bool(self.rules or self.default is not None):
            raise ValueError("a script has either `replies` or `rules` (with an optional `default`)")
        for rule in self.rules:
            try:
                re.compile(rule.match)
            except re.error as exc:
                raise ValueError(f"rule {rule.match!r} is not a regular expression: {exc}") from exc


_TABLES = (("script", Script), ("reply", Reply), ("tool call", ScriptedCall))
Answer = str | Reply | dict[str, Any]
ScriptFunction = Callable[[ModelRequest], Answer | Awaitable[Answer]]


def load_script(path: Path) -> Script:
    """Reads a script file by its suffix (.json, .toml, .yaml). Raises `UserError` naming the file and the field."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise UserError(f"script {path}: longer than {_MAX_FILE} bytes")
        decoded = _decoder(path.suffix)(data)
        return msgspec.convert({"replies": decoded} if isinstance(decoded, list) else decoded, Script)
    except OSError as exc:
        raise UserError(f"script {path}: {exc.strerror or exc}; check the path after scripted:") from exc
    except ImportError as exc:
        raise UserError(
            f"script {path}: YAML needs the package PyYAML; install it, or write the script as JSON or TOML"
        ) from exc
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UserError(f"script {path}: {exc}{_known_fields(exc)}") from exc


def _known_fields(exc: BaseException) -> str:
    """Returns the fields of a script, for a message about one that does not exist."""
    if "unknown field" not in str(exc):
        return ""
    listed = (f"a {what} has {', '.join(kind.__struct_fields__)}" for what, kind in _TABLES)
    return f"; {'; '.join(listed)}"


def _decoder(suffix: str) -> Callable[[bytes], Any]:
    if suffix == ".json":
        return msgspec.json.decode
    return msgspec.toml.decode if suffix == ".toml" else msgspec.yaml.decode


class ScriptedBackend:
    """Answers from a script."""

    def __init__(self, script: ScriptFunction | Sequence[str | Reply] | Script, name: str = "scripted") -> None:
        self.name = name
        self.retains_requests = False
        """False: nothing is kept between calls (see `assay.gateway.interface.retains_requests`)."""
        if isinstance(script, Script):
            self._choose: ScriptFunction = _from_script(script)
        elif callable(script):
            self._choose = script
            self.retains_requests = True  # the function may keep what it is given
        else:
            self._choose = _from_script(Script(replies=tuple(script)))

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Returns the scripted reply; a script that raises, or has none, is a `ProviderError`."""
        with boundary(ProviderError, f"script {self.name}"):
            chosen = self._choose(request)
            if not isinstance(chosen, Reply):
                reply = _as_reply(await chosen if inspect.isawaitable(chosen) else chosen)
            else:
                reply = chosen
            if reply.error is not None:
                error = reply.error
                raise ProviderError(error.message, status=error.status, retryable=error.retryable)
            return _answer(self.name, request, reply)

    async def close(self) -> None:
        """Holds nothing."""


def _as_reply(chosen: Any) -> Reply:
    if isinstance(chosen, Reply):
        return chosen
    if isinstance(chosen, str):
        return Reply(content=chosen)
    return msgspec.convert(chosen, Reply)


def _turn(messages: list[dict[str, Any]]) -> int:
    if isinstance(messages, MessageLog):
        return messages.fold(_add_message, (0, 0))[0]
    return [message["role"] for message in messages].count("assistant")


def _count(messages: list[dict[str, Any]]) -> tuple[int, int]:
    """Returns the number of assistant messages, and that of tokens."""
    if isinstance(messages, MessageLog):
        return messages.fold(_add_message, (0, 0))
    return _turn(messages), sum(map(_tokens, messages))


def _add_message(counts: tuple[int, int], message: dict[str, Any]) -> tuple[int, int]:
    turns, tokens = counts
    return turns + (message["role"] == "assistant"), tokens + _tokens(message)


def _from_script(script: Script) -> ScriptFunction:
    replies = tuple(_as_reply(reply) for reply in script.replies)
    rules = tuple((re.compile(rule.match), _as_reply(rule.reply)) for rule in script.rules)
    default = None if script.default is None else _as_reply(script.default)

    def by_turn(request: ModelRequest) -> Reply:
        turn = _turn(request.messages)
        if turn < len(replies):
            return replies[turn]
        if script.after == "error":
            raise ProviderError(
                f"the script has {len(replies)} replies and was asked for number {turn + 1}; see `after`",
                retryable=False,
            )
        return replies[-1] if script.after == "last" else replies[turn % len(replies)]

    def by_rule(request: ModelRequest) -> Reply:
        text = _text(request.messages[-1]) if request.messages else ""
        for pattern, reply in rules:
            if pattern.search(text):
                return reply
        if default is None:
            raise ProviderError(
                f"no rule of the script matches the last message, which starts {text[:80]!r}; add a `default`",
                retryable=False,
            )
        return default

    return by_turn if replies else by_rule


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _tokens(message: dict[str, Any]) -> int:
    content = message.get("content")
    count = 4 + len(content if isinstance(content, str) else _text(message)) // 4
    if "tool_calls" in message:
        for call in message["tool_calls"] or ():
            count += len(call["function"]["arguments"]) // 4
    return count


def _message(reply: Reply, turn: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_call(call, turn, position) for position, call in enumerate(reply.tool_calls)]
    return message


def _call(call: ScriptedCall, turn: int, position: int) -> dict[str, Any]:
    given = call.arguments
    arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return {
        "id": call.id or f"call_{turn}_{position}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _answer(name: str, request: ModelRequest, reply: Reply) -> ModelReply:
    messages = request.messages
    turn, prompt = _count(messages)
    message = _message(reply, turn)
    completion = _tokens(message)
    finish_reason = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    body: dict[str, Any] = {**request.sampling, "model": name, "messages": messages}
    if request.tools:
        body["tools"] = request.tools
    raw = {
        "object": "chat.completion",
        "model": name,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
    }
    usage = Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=0, reasoning_tokens=0)
    return ModelReply(message, finish_reason, usage, raw, body, name, cost_usd=0.0)
