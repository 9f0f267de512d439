"""A model call's new messages, its answer, and the probability of each token.

The page loads shared messages from `parent`: the size does not grow with the conversation.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Final

from assay.errors import UserError
from assay.records import DIGEST_PREFIX, Body, ModelCall, ModelCalled
from assay.store import assistant_message

from .texts import cut_text, json_tree, pointer

TOKENS_AT_ONCE: Final = 2048
MOST_MESSAGES = 60
MOST_PARTS = 20


def require_call(body: Body) -> ModelCall:
    """Returns the model call of an event. Raises `UserError` for other events."""
    if not isinstance(body, ModelCalled):
        raise UserError("this event is not a model call")
    return body.call


def describe_exchange(call: ModelCall) -> dict[str, Any]:
    """Returns a call's own messages and its answer.

    Returns:
        `shared` (messages that are the parent's), `messages`, `left_out` (in the middle of them), `tools` (names) and
        `answer`; a message is `role`, `parts` (each `{"text"}` as `texts.cut_text` or `{"picture": pointer}`) and
        `calls` (tool calls of an assistant's).
    """
    own = call.request.get("messages")
    messages = own if isinstance(own, list) else []
    ends = MOST_MESSAGES // 2
    shown = [n for n in range(len(messages)) if n < ends or n >= len(messages) - ends]
    answer = assistant_message(call)
    return {
        "id": call.id,
        "shared": call.shared_messages,
        "parent": call.parent,
        "messages": [_message(messages[n], pointer("call", "request", "messages", n)) for n in shown],
        "left_out": len(messages) - len(shown),
        "tools": _tools(call.request.get("tools")),
        "answer": None if answer is None else _message(answer, "/call/response/choices/0/message"),
        "told": json_tree(_prompt_facts(call), "/call/response/assay"),
    }


def _prompt_facts(call: ModelCall) -> Any:
    """Returns the gateway's facts about the prompt, without the whole text, which the answer shows."""
    recorded = (call.response or {}).get("assay")
    if not isinstance(recorded, dict):
        return {}
    return {key: value for key, value in recorded.items() if key not in ("text", "pieces")}


def _tools(tools: Any) -> list[str]:
    listed = tools if isinstance(tools, list) else []
    functions = [tool.get("function") for tool in listed[:100] if isinstance(tool, dict)]
    return [str(function.get("name"))[:100] for function in functions if isinstance(function, dict)]


def _message(message: Any, at: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        return {"role": "?", "parts": [{"text": "invalid message"}], "calls": []}
    content, parts = message.get("content"), []
    if isinstance(content, str) and content:
        parts.append(cut_text(content, at + "/content"))
    elif isinstance(content, list):
        parts += [_part(part, at + pointer("content", n)) for n, part in enumerate(content[:MOST_PARTS])]
    reasoning = message.get("reasoning_content") or None
    calls = message.get("tool_calls")
    return {
        "role": str(message.get("role"))[:40],
        "reasoning": cut_text(reasoning, at + "/reasoning_content")
        if isinstance(reasoning, str) and reasoning
        else None,
        "parts": parts,
        "answers": _short_text(message.get("tool_call_id")),
        "calls": [
            _call(each, at + pointer("tool_calls", n))
            for n, each in enumerate((calls if isinstance(calls, list) else [])[:MOST_PARTS])
        ],
    }


def _part(part: Any, at: str) -> dict[str, Any]:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return cut_text(part["text"], at + "/text")
    address = part.get("image_url") if isinstance(part, dict) else None
    url = address.get("url") if isinstance(address, dict) else address
    if isinstance(url, str):
        if url.startswith(("data:image/", DIGEST_PREFIX)):  # a digest is of a picture that the recorder stored
            return {"picture": at + ("/image_url/url" if isinstance(address, dict) else "/image_url")}
        return {"text": f"[external picture, not fetched: {url[:300]}]"}
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    return {"text": f"[content part of type {str(kind)[:60]!r}]", "at": at, "length": 0}


def _call(call: Any, at: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return {"name": "?", "arguments": {"text": ""}}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else ""
    return {"name": str(function.get("name"))[:200], "arguments": cut_text(text, at + "/function/arguments")}


def _short_text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None


def tokens_part(call: ModelCall, part: int) -> dict[str, Any]:
    """Returns sampled tokens from `part` times `TOKENS_AT_ONCE` on.

    Returns:
        `part`, `parts`, `count`, `ids`, `logprobs` (natural; null where unknown) and `words` (null where unknown).

    Raises:
        UserError: Its tokens are unknown, or it has no such part.
    """
    ids = call.completion_token_ids
    texts = _split_text(call) or _server_tokens(call)
    logprobs = call.logprobs
    count = len(ids) if ids is not None else len(logprobs) if logprobs is not None else None
    if count is None:
        raise UserError(f"the tokens of call {call.id} are unknown: its backend does not return them")
    parts = max(-(-count // TOKENS_AT_ONCE), 1)
    if not 0 <= part < parts:
        raise UserError(f"the tokens have {parts} parts, so part {part} does not exist")
    chosen = slice(part * TOKENS_AT_ONCE, (part + 1) * TOKENS_AT_ONCE)
    whole = logprobs is not None and len(logprobs) == count
    return {
        "part": part,
        "parts": parts,
        "count": count,
        "ids": None if ids is None else list(ids[chosen]),
        "logprobs": [_finite(p) for p in logprobs[chosen]] if whole and logprobs is not None else None,
        "words": list(texts[chosen]) if texts is not None and len(texts) == count else None,
    }


def _finite(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None


def _split_text(call: ModelCall) -> list[str] | None:
    """Returns the texts of sampled tokens, if the gateway recorded their ends (`gateway.tokens.ends`)."""
    recorded = (call.response or {}).get("assay")
    text, ends = (recorded.get("text"), recorded.get("ends")) if isinstance(recorded, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(ends, list) or not ends:
        return None
    if (
        not all(isinstance(end, int) for end in ends)
        or sorted(ends) != ends
        or not 0 <= ends[0] <= ends[-1] <= len(text)
    ):
        return None
    return [text[start:end] for start, end in pairwise([0, *ends])]


def _server_tokens(call: ModelCall) -> list[str] | None:
    """Returns the texts of sampled tokens, if the server gave them."""
    choices = (call.response or {}).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    recorded = first.get("logprobs") if isinstance(first, dict) else None
    content = recorded.get("content") if isinstance(recorded, dict) else None
    if not isinstance(content, list):
        return None
    words = [entry.get("token") if isinstance(entry, dict) else None for entry in content]
    plain = [word for word in words if isinstance(word, str)]
    known = len(plain) == len(words) and not all(word.startswith("token_id:") for word in plain)
    return plain if known and plain else None
