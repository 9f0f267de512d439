"""Builds training rows from recorded calls, and proves that a row shows the context of each sampled span.

Pure, over records alone: the gateway certifies each call with the same `context_of` that exporters use, so the proof
covers what is exported.

A call stores its tokens after the first `shared_tokens` of its parent's (prompt and sampled). A call that shares all of
them continues its parent's row; one that shares fewer begins a row. So each leaf call gives one row, and a span that
several rows share as context is trained in one of them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from assay.errors import UserError
from assay.records import ModelCall, SpanProof, WeightSpan

_log = logging.getLogger(__name__)
Uncertified = Literal["refuse", "mask", "keep"]


class BrokenChain(UserError):
    """The stored tokens of a call cannot be put together: its parent is missing, or shorter than what is shared."""


class TokenSpan(NamedTuple):
    """Tokens sampled by one call: positions `start` to `end` of its row."""

    call: str
    start: int
    end: int
    trained: bool
    """True if in the mask; False for context trained in another row and for excluded uncertified spans."""
    certified: bool
    weight_version: str | None
    weight_spans: tuple[WeightSpan, ...] = ()
    """As in `ModelCall`."""


class TokenRow(NamedTuple):
    """One line of calls. All columns have the same length."""

    branch: str
    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    """True where the token was sampled and is trained here."""
    logprobs: tuple[float | None, ...]
    """Log-probability under the sampling distribution; None if unknown or not sampled."""
    spans: tuple[TokenSpan, ...]


class UncertifiedSpan(NamedTuple):
    """A span without a valid certificate."""

    call: str
    tokens: int
    reason: str


class TokenRows(NamedTuple):
    """Result of `build_token_rows`."""

    rows: tuple[TokenRow, ...]
    refused: tuple[UncertifiedSpan, ...]
    """Uncertified spans; empty with `refuse`."""


def context_of(calls: Mapping[str, ModelCall], call_id: str) -> tuple[int, ...]:
    """Returns the whole prompt of a call, from its own stored tokens and its ancestors'."""
    call = calls[call_id]
    parts = [call.prompt_token_ids or ()]
    needed = call.shared_tokens
    while needed > 0:
        parent = calls.get(call.parent) if call.parent is not None else None
        if parent is None:
            raise BrokenChain(
                f"call {call.id}: {needed} tokens are shared with call {call.parent}, which is not stored"
            )
        own = (parent.prompt_token_ids or ()) + (parent.completion_token_ids or ())
        if needed > parent.shared_tokens + len(own):
            continuation = parent.shared_tokens + len(own)
            raise BrokenChain(f"call {call.id}: {needed} tokens are shared, and call {parent.id} has {continuation}")
        if needed > parent.shared_tokens:
            parts.append(own[: needed - parent.shared_tokens])
            needed = parent.shared_tokens
        call = parent
    return tuple(itertools.chain.from_iterable(reversed(parts)))


def certify(calls: Mapping[str, ModelCall], call_id: str, sent: Sequence[int]) -> SpanProof:
    """Certifies that the prompt sent for `call_id` equals the context its row shows."""
    try:
        exported = context_of(calls, call_id)
    except BrokenChain as exc:
        return SpanProof(certified=False, reason=str(exc))
    if exported == tuple(sent):
        return SpanProof(certified=True)
    position = next((i for i, pair in enumerate(zip(exported, sent, strict=False)) if pair[0] != pair[1]), None)
    position = min(len(exported), len(sent)) if position is None else position
    reason = f"sampled under {len(sent)} tokens, stored as {len(exported)}, which differ from position {position}"
    return SpanProof(certified=False, reason=reason, position=position)


def build_token_rows(calls: Iterable[ModelCall], *, uncertified: Uncertified = "refuse") -> TokenRows:
    """Builds one row for each line of an attempt's calls, in the order in which they began; calls without tokens give
    none.

    Spans without a certificate: `refuse` raises, `mask` keeps them as context without training them, `keep` trains them
    all the same. The last two are logged and listed; what cannot be put together (tokens are withheld, or a parent is
    missing) is left out in both.

    Raises:
        UserError: A span is not certified and `uncertified` is `refuse`.
        BrokenChain: A call's row does not hold what it sampled.
    """
    everything = {call.id: call for call in calls}
    sampled_calls = {
        call.id: call for call in everything.values() if call.prompt_token_ids is not None and _sampled(call)
    }
    broken = _broken_chains(everything, sampled_calls)
    refused = tuple(
        UncertifiedSpan(c.id, len(_sampled(c)), broken.get(c.id) or _refusal_reason(c))
        for c in everything.values()
        if c.id in broken
        or (c.certificate is not None and not c.certificate.certified)
        or (c.id in sampled_calls and not _certified(c))
    )
    sampled_calls = {call_id: call for call_id, call in sampled_calls.items() if call_id not in broken}
    if refused:
        _report_uncertified(refused, uncertified)
    parents = {call.id: _continued_call(sampled_calls, call) for call in sampled_calls.values()}
    heirs = _continuations(sampled_calls, parents)
    leaves = [call for call in sampled_calls if call not in heirs]
    return TokenRows(tuple(_row(everything, leaf, parents, heirs, uncertified) for leaf in leaves), refused)


def _broken_chains(everything: Mapping[str, ModelCall], sampled_calls: Mapping[str, ModelCall]) -> dict[str, str]:
    found: dict[str, str] = {}
    for call_id in sampled_calls:
        try:
            context_of(everything, call_id)
        except BrokenChain as exc:
            found[call_id] = str(exc)
    return found


def _sampled(call: ModelCall) -> tuple[int, ...]:
    return call.completion_token_ids or ()


def _certified(call: ModelCall) -> bool:
    return call.certificate is not None and call.certificate.certified


def _refusal_reason(call: ModelCall) -> str:
    return (call.certificate.reason or "no reason given") if call.certificate is not None else "it has no certificate"


def _length(call: ModelCall) -> int:
    return call.shared_tokens + len(call.prompt_token_ids or ()) + len(_sampled(call))


def _continued_call(sampled_calls: Mapping[str, ModelCall], call: ModelCall) -> str | None:
    parent = sampled_calls.get(call.parent) if call.parent is not None else None
    return parent.id if parent is not None and call.shared_tokens == _length(parent) else None


def _continuations(sampled_calls: Mapping[str, ModelCall], parents: Mapping[str, str | None]) -> dict[str, str]:
    """Returns, for each continued call, the continuation whose row trains it: of its own branch, else the last."""
    heirs: dict[str, str] = {}
    for call in sampled_calls.values():
        parent = parents[call.id]
        if parent is None:
            continue
        continuation = heirs.get(parent)
        if continuation is None or sampled_calls[continuation].branch != sampled_calls[parent].branch:
            heirs[parent] = call.id
    return heirs


def _row(
    everything: Mapping[str, ModelCall],
    leaf: str,
    parents: Mapping[str, str | None],
    heirs: Mapping[str, str],
    uncertified: Uncertified,
) -> TokenRow:
    last = everything[leaf]
    tokens = context_of(everything, leaf) + _sampled(last)
    mask = [False] * len(tokens)
    logprobs: list[float | None] = [None] * len(tokens)
    spans: list[TokenSpan] = []
    at: str | None = leaf
    below, ours = leaf, True
    while at is not None:
        call = everything[at]
        end = _length(call)
        start = end - len(_sampled(call))
        if tokens[start:end] != _sampled(call):
            raise BrokenChain(f"call {at}: the row of call {leaf} does not hold what it sampled at {start}:{end}")
        ours = ours and (at == leaf or heirs[at] == below)
        trained = ours and (_certified(call) or uncertified == "keep")
        mask[start:end] = [trained] * (end - start)
        if call.logprobs is not None and len(call.logprobs) == end - start:
            logprobs[start:end] = call.logprobs
        spans.append(TokenSpan(at, start, end, trained, _certified(call), call.weight_version, call.weight_spans))
        below, at = at, parents[at]
    return TokenRow(last.branch or leaf, tokens, tuple(mask), tuple(logprobs), tuple(reversed(spans)))


def _report_uncertified(refused: Sequence[UncertifiedSpan], uncertified: Uncertified) -> None:
    total = sum(one.tokens for one in refused)
    examples = "; ".join(f"call {one.call}: {one.reason}" for one in refused[:3])
    text = f"{len(refused)} spans ({total} sampled tokens) are not certified: {examples}"
    if uncertified == "refuse":
        raise UserError(
            f"{text}. Leave them out with uncertified='mask', or train them all the same with uncertified='keep'"
        )
    _log.warning("%s; %s", text, "they are trained all the same" if uncertified == "keep" else "they are not trained")
