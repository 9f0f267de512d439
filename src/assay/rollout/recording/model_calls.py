"""Converts finished model exchanges into call records, without the parent's content and without secrets.

Also locates calls made in this process in their conversation; calls through the gateway are placed by its session.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from assay.gateway.call_tree import CallTree, Placement
from assay.gateway.interface import Exchange, MessageLog, ModelReply, ModelRequest
from assay.gateway.json_equality import is_same_json
from assay.gateway.pictures import name_pictures
from assay.records import Actor, BranchCause, ModelCall, RawBody, SpanProof, Usage
from assay.rollout.recording.redaction import Redactor
from assay.store import BlobStore, BodyDeltaEncoder

_SHARED = ("tools", "passthrough")
_ENCODE, _DECODE = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class _Parts(msgspec.Struct, frozen=True, gc=False):
    """The redacted parts of an exchange other than its raw bodies."""

    request: dict[str, Any]
    response: dict[str, Any] | None
    error: str | None
    lineage: dict[str, str]
    names: tuple[str, ...] = ()


class _Tokens(msgspec.Struct, frozen=True, gc=False):
    """A call's stored tokens: prompt tokens beyond the parent's, and sampled tokens."""

    prompt: tuple[int, ...] | None
    sampled: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    certificate: SpanProof | None


class CallRecordBuilder:
    """Builds the records of one chain's calls, in the order in which they end."""

    def __init__(self, blobs: BlobStore, redactor: Redactor) -> None:
        self._bodies = BodyDeltaEncoder(blobs, redactor)
        self._blobs = blobs
        self._redactor = redactor
        self._fields: dict[str, dict[str, Any]] = {}
        """Fields of each call that its children may share; equal values are one object."""
        self._spelling: set[str] = set()
        """Calls whose tokens contain a secret."""

    def keep(self, exchange: Exchange, state: str | None = None, actor: Actor = "agent") -> ModelCall:
        """Returns the record of an exchange; `state` is the environment's digest just before it."""
        reply = exchange.reply
        own, shared = self._own_fields(exchange)
        parts = self._cleaned(exchange, own)
        raw_request, raw_response = self._raw(exchange, parts.names)
        tokens = self._tokens(exchange, parts.names)
        return ModelCall(
            id=exchange.id,
            dialect=exchange.request.dialect,
            model=reply.model if reply else exchange.model,
            request=parts.request,
            response=parts.response,
            usage=reply.usage if reply else Usage(),
            cost_usd=reply.cost_usd if reply else None,
            prompt_token_ids=tokens.prompt,
            completion_token_ids=tokens.sampled,
            logprobs=tokens.logprobs,
            sampling=exchange.request.sampling,
            parent=exchange.parent,
            error=parts.error,
            tries=reply.tries if reply else 1,
            started=exchange.started,
            ended=exchange.ended,
            shared_messages=exchange.shared_messages,
            shared_tokens=exchange.shared_tokens,
            shared_fields=shared,
            branch=exchange.branch,
            cause=exchange.cause,
            differs_at=exchange.differs_at,
            state=state,
            certificate=tokens.certificate,
            raw_request=raw_request,
            raw_response=raw_response,
            delivered=exchange.delivered,
            lineage=parts.lineage,
            redactions=parts.names,
            weight_version=reply.weight_version if reply else None,
            weight_spans=reply.weight_spans if reply else (),
            actor=actor,
        )

    def _own_fields(self, exchange: Exchange) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns the fields that differ from the parent's, and the names of the shared ones."""
        request = exchange.request
        known = self._fields.get(exchange.parent or "", {})
        if not request.passthrough and not request.tools and not known:
            return {}, ()  # without an entry a call has no fields
        if not request.passthrough and len(known) == 1 and known.get("tools") is request.tools:
            self._fields[exchange.id] = known
            return {}, ("tools",)
        given = {"tools": request.tools, "passthrough": request.passthrough}
        own = {name: given[name] for name in _SHARED if given[name]}
        own |= {name: known[name] for name in own if name in known and is_same_json(known[name], own[name])}
        same = own.keys() == known.keys() and all(own[name] is known[name] for name in own)
        self._fields[exchange.id] = known if same else own
        shared = tuple(name for name in own if name in known and own[name] is known[name])
        return {name: value for name, value in own.items() if name not in shared}, shared

    def _tokens(self, exchange: Exchange, names: tuple[str, ...]) -> _Tokens:
        """Returns the tokens; none if they spell a redacted secret."""
        reply = exchange.reply
        if reply is None or (reply.prompt_token_ids is None and reply.completion_token_ids is None):
            return _Tokens(None, None, reply.logprobs if reply else None, exchange.certificate)
        if names or exchange.parent in self._spelling:
            self._spelling.add(exchange.id)  # what goes on from here holds it too
            reason = "its tokens are withheld: they spell what was taken out of a text"
            return _Tokens(None, None, None, SpanProof(certified=False, reason=reason))
        prompt = reply.prompt_token_ids
        new = None if prompt is None else prompt[exchange.shared_tokens :]
        return _Tokens(new, reply.completion_token_ids, reply.logprobs, exchange.certificate)

    def _cleaned(self, exchange: Exchange, own: dict[str, Any]) -> _Parts:
        reply = exchange.reply
        model = reply.model if reply else exchange.model
        messages = name_pictures(exchange.request.messages[exchange.shared_messages :], self._blobs.put)
        request = {**exchange.request.sampling, "model": model, "messages": messages, **own}
        response = _response(reply) if reply else None
        names = self._redactor.names_in([request, response, exchange.error, exchange.lineage])
        if not names:
            return _Parts(request, response, exchange.error, exchange.lineage)
        clean = self._redactor.value
        return _Parts(clean(request), clean(response), clean(exchange.error), clean(exchange.lineage), names)

    def _raw(self, exchange: Exchange, names: tuple[str, ...]) -> tuple[RawBody | None, RawBody | None]:
        """Returns the raw bodies. A stream that may contain a secret in pieces is not stored."""
        request = self._raw_request(exchange, names) if exchange.raw_request else None
        data = exchange.raw_response
        if not data:
            return request, None
        if names and not data.startswith(b"{"):
            named = self._redactor.names_in([_response(exchange.reply) if exchange.reply else None, exchange.error])
            if named:
                return request, self._bodies.response(_withheld(named), named)
        # What the client was sent was written out of the answer, and of the request's own words, piece by piece.
        clean = not names and request is not None and not request.redactions
        return request, self._bodies.response(data, clean=clean)

    def _raw_request(self, exchange: Exchange, names: tuple[str, ...]) -> RawBody:
        kept = self._bodies.request(exchange.id, exchange.raw_request, exchange.parent)
        sent = exchange.request.messages[exchange.shared_messages :]
        if names and not kept.redactions and (named := self._redactor.names_in(sent)):
            # It is in what was understood and not in the bytes: it was written in a way that hid it.
            kept = replace(self._bodies.request(exchange.id, _withheld(named)), redactions=named)
        return kept


def _withheld(names: tuple[str, ...]) -> bytes:
    return f"[withheld: it held {', '.join(names)} in pieces]".encode()


def _response(reply: ModelReply) -> dict[str, Any]:
    """Returns the response in the record's common shape, whatever the server's."""
    raw = reply.raw
    choices = raw.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, dict) and first.get("message") == reply.message:
        known = reply.prompt_token_ids is not None
        return {key: value for key, value in raw.items() if key != "prompt_token_ids"} if known else raw
    choice = {"index": 0, "message": reply.message, "finish_reason": reply.finish_reason}
    return {"choices": [choice], "upstream": raw}


class CallPosition(msgspec.Struct, frozen=True, gc=False):
    """A call's position in its conversation, and a copy of its request that the agent cannot change."""

    request: ModelRequest
    """Its messages are a log, to which later calls append."""
    length: int
    """Number of messages of the request."""
    parent: str | None
    branch: str | None
    """None if the call begins a branch."""
    cause: BranchCause | None
    differs_at: int | None
    shared: int
    placement: Placement | None = None
    """None if the call plainly continues the newest one."""
    may_change: bool = True
    """True if the agent may change an answer in place before it resends it: all but those that ask with a log."""


class _Call(msgspec.Struct, gc=False):
    """A call whose answer the next request resends."""

    id: str
    branch: str
    log: MessageLog
    count: int
    """Number of messages of its request, which are the first of `log`."""
    tools: list[dict[str, Any]]
    answer: dict[str, Any] | None
    parent: str | None
    shared: int
    """Number of messages of its parent's request; 0 without one."""


class Conversation:
    """The calls of an in-process agent, each stored as its difference from the parent.

    Most calls resend the newest one, its answer as it came, and more. Those are recognised without the `CallTree`, to
    which they are added when another kind of call comes. Time and memory of a call are those of its new messages; a
    request that is not a `MessageLog` is compared with the one before it as well, message by message.
    """

    def __init__(self) -> None:
        self._call_tree = CallTree()
        self._newest: _Call | None = None
        self._unindexed: list[_Call] = []

    def locate(self, request: ModelRequest) -> CallPosition:
        """Returns the position of a request."""
        newest = self._newest
        if newest is not None and request.tools == newest.tools:
            log = _continued_log(newest, request.messages)
            if log is not None:
                kept = ModelRequest(log, newest.tools, request.sampling, passthrough=request.passthrough)
                may_change = log is not request.messages
                return CallPosition(
                    kept, len(log), newest.id, newest.branch, None, None, newest.count + 1, may_change=may_change
                )
        return self._locate_in_tree(request)

    def placement(self, position: CallPosition) -> Placement:
        """Returns the placement, for a model that keeps its own conversations."""
        if position.placement is not None:
            return position.placement
        self._index_calls()
        return self._call_tree.locate(position.request)

    def _index_calls(self) -> None:
        for call in self._unindexed:
            new = call.log[call.shared : call.count]
            placement = None if call.parent is None else self._call_tree.locate_next(call.parent, call.shared, new)
            if placement is not None:
                self._call_tree.add_next(call.id, placement, new, call.answer)
                continue
            request = ModelRequest(call.log[: call.count], call.tools)
            self._call_tree.add(call.id, self._call_tree.locate(request), request, call.answer)
        self._unindexed.clear()

    def _locate_in_tree(self, request: ModelRequest) -> CallPosition:
        self._index_calls()
        found = self._call_tree.locate(request)
        shared, parent = found.shared_messages, found.parent
        if isinstance(request.messages, MessageLog):
            log, tools = request.messages, _copied(request.tools)
        else:
            messages, tools = _copied([request.messages[shared:], request.tools])
            known = [] if parent is None else parent.messages
            if parent is not None and parent.answer is not None:
                known.append(parent.answer)
            log = MessageLog(known[:shared] + messages)
        if parent is not None and parent.tool_list == tools:
            tools = parent.tool_list
        kept = replace(request, messages=log, tools=tools)
        name = parent.id if parent is not None else None
        may_change = log is not request.messages
        return CallPosition(
            kept, len(log), name, found.branch, found.cause, found.differs_at, shared, found, may_change
        )

    def add(self, call_id: str, position: CallPosition, reply: ModelReply | None) -> str:
        """Adds an ended call; returns its branch."""
        branch, answer = position.branch or call_id, reply.message if reply else None
        if position.may_change and answer is not None:
            answer = _copied(answer)
        log = position.request.messages
        assert isinstance(log, MessageLog)
        shared = position.shared - 1 if position.placement is None else 0
        call = _Call(call_id, branch, log, position.length, position.request.tools, answer, position.parent, shared)
        if position.placement is None:
            self._unindexed.append(call)
        else:
            request = replace(position.request, messages=log[: position.length])
            self._call_tree.add(call_id, position.placement, request, answer)
        # What follows a call without an answer asks again, which the tree knows.
        self._newest = call if answer is not None else None
        return branch


def _continued_log(newest: _Call, messages: list[dict[str, Any]]) -> MessageLog | None:
    """Returns the messages of a request as a log if they go on from the newest call and its answer, else None."""
    count = newest.count
    if len(messages) <= count or messages[count] != newest.answer:
        return None
    log = newest.log
    if log is messages:  # nothing in it ever changes
        newest.answer = messages[count]  # the same value, held once
        return log
    if len(log) != count:  # another call goes on from the same one
        log = MessageLog(log[:count])
    if log != messages[:count]:
        return None
    if isinstance(messages, MessageLog):
        return messages
    assert newest.answer is not None
    log.append(newest.answer)
    log += _copied(messages[count + 1 :])
    return log


def _copied(value: Any) -> Any:
    """Returns a deep copy of plain JSON data; other values are returned unchanged, for the store to reject.

    Its texts are the given objects where that is possible, so that comparing it with the original later does not read
    them.
    """
    try:
        decoded = _DECODE(_ENCODE(value))
        return _with_own_texts(decoded, value)
    except (TypeError, ValueError, RecursionError):
        return value


def _with_own_texts(copy: Any, value: Any) -> Any:
    """Returns `copy` with its texts replaced by the equal ones of `value`."""
    kind = type(value)
    if kind is str:
        return value
    if kind is dict and type(copy) is dict and copy.keys() == value.keys():
        return {key: _with_own_texts(copy[key], inner) for key, inner in value.items()}
    if kind is list and type(copy) is list:
        return [_with_own_texts(one, inner) for one, inner in zip(copy, value, strict=True)]
    return copy
