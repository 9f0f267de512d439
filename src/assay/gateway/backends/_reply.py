"""Parses and validates Chat Completions replies: typed checks, token ids, log-probabilities, error bodies.

Pure: bytes in, values out. A malformed reply raises `ProviderError` naming the field; no value is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import Delta
from assay.gateway.nesting import is_too_deep, may_be_too_deep
from assay.records import Usage

from ._retry import is_retryable

CONTEXT_LENGTH = "context_length_exceeded"
Count = Annotated[int, msgspec.Meta(ge=0)]
_MAX_ERROR_TEXT = 500
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context (?:length|window|size)|too many (?:input |prompt )?tokens"
    r"|(?:prompt|input|request) is too long|exceeds? .{0,40}max_(?:model|seq)_len"
    r"|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Count | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _TokenLogprob(msgspec.Struct, gc=False):
    token: str
    logprob: float


class _Logprobs(msgspec.Struct, gc=False):
    content: list[_TokenLogprob] | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[Count] | None = None


class _Body(msgspec.Struct, gc=False):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    model: str | None = None
    usage: _Usage | None = None
    prompt_token_ids: list[Count] | None = None


class Completion(msgspec.Struct, frozen=True, gc=False):
    """A validated reply. `raw` is the server's whole body, `message` a part of it."""

    message: dict[str, Any]
    finish_reason: str | None
    usage: Usage
    raw: dict[str, Any]
    model: str | None
    prompt_token_ids: tuple[int, ...] | None
    completion_token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None


class ServerError(NamedTuple):
    """The parsed body of an error reply."""

    text: str
    code: str
    context_length: bool


def invalid_reply(message: str) -> ProviderError:
    """Returns the error for a reply with status 200 that breaks the protocol; not retryable."""
    return ProviderError(message, status=200, retryable=False)


def invalid_request(message: str) -> ProviderError:
    """Returns the error for a request that the model cannot answer; not retryable."""
    return ProviderError(message, status=400, retryable=False)


def read_completion(body: bytes, where: str) -> Completion:
    """Validates a reply with status 200.

    Raises:
        ProviderError: Not JSON, or a field is missing or of the wrong type; not retryable.
    """
    raw = decode_reply(body, where)
    if "choices" not in raw and raw.get("error"):
        raise error_in_reply(body, where)
    try:
        checked = msgspec.convert(raw, _Body)
    except msgspec.ValidationError as exc:
        raise invalid_reply(f"{where} gave a reply that is not a chat completion: {exc}") from exc
    choice = checked.choices[0]
    tokens = choice.logprobs.content if choice.logprobs is not None else None
    return Completion(
        message=raw["choices"][0]["message"],
        finish_reason=choice.finish_reason,
        usage=_usage(checked.usage),
        raw=raw,
        model=checked.model,
        prompt_token_ids=_as_tuple(checked.prompt_token_ids),
        completion_token_ids=_as_tuple(choice.token_ids) or _ids_in_tokens(tokens),
        logprobs=None if tokens is None else tuple(t.logprob for t in tokens),
    )


def decode_reply(body: bytes, where: str) -> dict[str, Any]:
    """Decodes a reply as a JSON object of bounded depth. Raises `ProviderError`."""
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        shown = body[:120].decode("utf-8", "replace")
        raise invalid_reply(
            f"{where} gave a reply that is not JSON ({type(exc).__name__}: {exc}); it starts {shown!r}"
        ) from exc
    if not isinstance(raw, dict):
        raise invalid_reply(
            f"{where} gave a reply that is not a JSON object: expected `object`, got `{type(raw).__name__}` - at `$`"
        )
    if may_be_too_deep(body) and is_too_deep(raw):
        raise invalid_reply(f"{where} gave a reply that is nested too deeply")
    return raw


def error_in_reply(body: bytes, where: str) -> ProviderError:
    """Returns the error that a server or a proxy sent with status 200, whole or as an event."""
    error = read_error(400, body)
    inner = int(error.code) if error.code.isascii() and error.code.isdigit() else None
    status = inner if isinstance(inner, int) and 400 <= inner < 600 else 200
    if error.context_length:
        return invalid_request(f"{CONTEXT_LENGTH}: {where}: {error.text}")
    message = f"{where} answered 200 with an error: {error.text}"
    return ProviderError(message, status=status, retryable=is_retryable(status, error.code))


def _as_tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _ids_in_tokens(tokens: list[_TokenLogprob] | None) -> tuple[int, ...] | None:
    """Returns token ids where every token is written as `token_id:N`, else None."""
    if not tokens:
        return None
    found = [t.token.removeprefix("token_id:") for t in tokens if t.token.startswith("token_id:")]
    if len(found) != len(tokens) or not all(text.isascii() and text.isdigit() and len(text) < 12 for text in found):
        return None
    return tuple(int(text) for text in found)


def _usage(reported: _Usage | None) -> Usage:
    if reported is None:
        return Usage()
    prompt, completion = reported.prompt_tokens_details, reported.completion_tokens_details
    return Usage(
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens,
        cached_tokens=prompt.cached_tokens if prompt is not None else None,
        reasoning_tokens=completion.reasoning_tokens if completion is not None else None,
    )


def read_error(status: int, body: bytes) -> ServerError:
    """Parses an error reply of any shape; never raises."""
    text, code = body[: 4 * _MAX_ERROR_TEXT].decode("utf-8", "replace"), ""
    try:
        decoded: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        decoded = None
    error = decoded.get("error", decoded) if isinstance(decoded, dict) else None
    if isinstance(error, dict):
        text = _scalar(error.get("message")) or text
        code = _scalar(error.get("code")) or _scalar(error.get("type"))
    elif isinstance(error, str):
        text = error
    too_long = status in {400, 413, 422} and bool(_TOO_LONG.search(f"{code} {text[:4000]}"))
    return ServerError(text[:_MAX_ERROR_TEXT], code[:100], too_long)


def _scalar(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def merge_deltas(deltas: Iterable[Delta]) -> list[Delta]:
    """The pieces, those that go on with the one before made one with it."""
    found: list[Delta] = []
    for delta in deltas:
        last = found[-1] if found else None
        if last is None or not _continues(last, delta):
            found.append(delta)
        elif delta.index is None:
            found[-1] = Delta(text=last.text + delta.text, reasoning=last.reasoning + delta.reasoning)
        else:
            found[-1] = msgspec.structs.replace(last, arguments=last.arguments + delta.arguments)
    return found


def _continues(last: Delta, delta: Delta) -> bool:
    if last.index != delta.index or delta.id is not None or delta.name is not None:
        return False
    plain = last.sealed is None is delta.sealed and last.prompt_tokens is None is delta.prompt_tokens
    return plain and bool(last.text) == bool(delta.text) and bool(last.reasoning) == bool(delta.reasoning)
