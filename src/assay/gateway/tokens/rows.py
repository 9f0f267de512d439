"""From recorded calls to training rows, and the proof that a row shows what the model saw.

Pure, and over records alone: the gateway certifies each call with the same `context_of` with which an exporter
assembles rows later, so what is proved is what is exported. It lives in `gateway` because that is the lowest room
that needs it; `learning.export` may import it, and it imports nothing of ours but records and errors.

A call's tokens are stored after the first `shared_tokens` of its parent's (prompt and sampled). A call that shares all
of them goes on with its parent, and both stand in one row; a call that shares fewer begins a row. So there is one row
for each line of calls that ends somewhere, and a span that several rows hold as context is trained in one of them.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from assay.errors import UserError
from assay.records import Certificate, ModelCall

__all__ = ["BrokenChain", "Refusal", "Row", "Rows", "Span", "certify", "context_of", "rows_of", "strict_rows"]

_log = logging.getLogger(__name__)
Uncertified = Literal["refuse", "mask", "keep"]


class BrokenChain(UserError):
    """The stored tokens of a call cannot be put together: its parent is missing, or shorter than what is shared."""


class Span(NamedTuple):
    """What one call sampled, as positions `start` to `end` of its row."""

    call: str
    start: int
    end: int
    trained: bool
    """Whether the mask holds it; False for context that another row trains, and for uncertified spans left out."""
    certified: bool
    weight_version: str | None


class Row(NamedTuple):
    """One line of calls. `token_ids`, `mask` and `logprobs` are of one length."""

    branch: str
    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    """True where the token was sampled and is trained here."""
    logprobs: tuple[float | None, ...]
    """Of the sampling distribution; None where none is known, and for tokens that were not sampled."""
    spans: tuple[Span, ...]


class Refusal(NamedTuple):
    """A span that is not certified."""

    call: str
    tokens: int
    reason: str


class Rows(NamedTuple):
    """What `rows_of` gives."""

    rows: tuple[Row, ...]
    refused: tuple[Refusal, ...]
    """Spans without a certificate; empty unless the caller asked to go on without."""


def context_of(calls: Mapping[str, ModelCall], call_id: str) -> tuple[int, ...]:
    """The whole prompt of a call, put together from its own stored tokens and its ancestors'.

    Raises:
        BrokenChain: A link is missing or too short.
    """
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
            held = parent.shared_tokens + len(own)
            raise BrokenChain(f"call {call.id}: {needed} tokens are shared, and call {parent.id} has {held}")
        if needed > parent.shared_tokens:
            parts.append(own[: needed - parent.shared_tokens])
            needed = parent.shared_tokens
        call = parent
    return tuple(itertools.chain.from_iterable(reversed(parts)))


def certify(calls: Mapping[str, ModelCall], call_id: str, sent: Sequence[int]) -> Certificate:
    """Compares the context that `call_id` was sampled under, `sent`, with the one that its row would show."""
    try:
        exported = context_of(calls, call_id)
    except BrokenChain as exc:
        return Certificate(certified=False, reason=str(exc))
    if exported == tuple(sent):
        return Certificate(certified=True)
    position = next((i for i, pair in enumerate(zip(exported, sent, strict=False)) if pair[0] != pair[1]), None)
    position = min(len(exported), len(sent)) if position is None else position
    reason = f"sampled under {len(sent)} tokens, stored as {len(exported)}, which differ from position {position}"
    return Certificate(certified=False, reason=reason, position=position)


def rows_of(calls: Iterable[ModelCall], *, uncertified: Uncertified = "refuse") -> Rows:
    """One row for each line of calls.

    Args:
        calls: All calls of an attempt, in the order in which they began. Calls without tokens give no row.
        uncertified: What becomes of spans without a certificate: `refuse` raises, `mask` keeps them as context
            without training them, `keep` trains them all the same. The last two are logged and listed; what cannot
            be put together (tokens are withheld, or a parent is missing) is left out in both.

    Raises:
        UserError: A span is not certified and `uncertified` is `refuse`.
        BrokenChain: A call's row does not hold what it sampled.
    """
    everything = {call.id: call for call in calls}
    known = {call.id: call for call in everything.values() if call.prompt_token_ids is not None and _sampled(call)}
    broken = _broken(everything, known)
    refused = tuple(
        Refusal(c.id, len(_sampled(c)), broken.get(c.id) or _why(c))
        for c in everything.values()
        if c.id in broken
        or (c.certificate is not None and not c.certificate.certified)
        or (c.id in known and not _certified(c))
    )
    known = {call_id: call for call_id, call in known.items() if call_id not in broken}
    if refused:
        _complain(refused, uncertified)
    parents = {call.id: _goes_on_with(known, call) for call in known.values()}
    heirs = _heirs(known, parents)
    leaves = [call for call in known if call not in heirs]
    return Rows(tuple(_row(everything, leaf, parents, heirs, uncertified) for leaf in leaves), refused)


def _broken(everything: Mapping[str, ModelCall], known: Mapping[str, ModelCall]) -> dict[str, str]:
    """Calls whose context cannot be put together, and why."""
    found: dict[str, str] = {}
    for call_id in known:
        try:
            context_of(everything, call_id)
        except BrokenChain as exc:
            found[call_id] = str(exc)
    return found


def strict_rows(turns: Iterable[tuple[Sequence[int], Sequence[int]]]) -> int:
    """How many rows the peers' rule gives: a turn joins the row whose tokens its prompt begins with, exactly.

    Args:
        turns: (prompt, sampled) of each call in order, the prompt as rendered from what the client sent.
    """
    rows: list[list[int]] = []
    for prompt, sampled in turns:
        whole = [*prompt, *sampled]
        found = next((i for i, row in enumerate(rows) if row == whole[: len(row)] and len(row) <= len(prompt)), None)
        if found is None:
            rows.append(whole)
        else:
            rows[found] = whole
    return len(rows)


def _sampled(call: ModelCall) -> tuple[int, ...]:
    return call.completion_token_ids or ()


def _certified(call: ModelCall) -> bool:
    return call.certificate is not None and call.certificate.certified


def _why(call: ModelCall) -> str:
    return (call.certificate.reason or "no reason given") if call.certificate is not None else "it has no certificate"


def _length(call: ModelCall) -> int:
    return call.shared_tokens + len(call.prompt_token_ids or ()) + len(_sampled(call))


def _goes_on_with(known: Mapping[str, ModelCall], call: ModelCall) -> str | None:
    parent = known.get(call.parent) if call.parent is not None else None
    return parent.id if parent is not None and call.shared_tokens == _length(parent) else None


def _heirs(known: Mapping[str, ModelCall], parents: Mapping[str, str | None]) -> dict[str, str]:
    """For each call that others go on with, the one in whose row it is trained: of its own branch, else the last."""
    heirs: dict[str, str] = {}
    for call in known.values():
        parent = parents[call.id]
        if parent is None:
            continue
        held = heirs.get(parent)
        if held is None or known[held].branch != known[parent].branch:
            heirs[parent] = call.id
    return heirs


def _row(
    everything: Mapping[str, ModelCall],
    leaf: str,
    parents: Mapping[str, str | None],
    heirs: Mapping[str, str],
    uncertified: Uncertified,
) -> Row:
    last = everything[leaf]
    tokens = context_of(everything, leaf) + _sampled(last)
    mask = [False] * len(tokens)
    logprobs: list[float | None] = [None] * len(tokens)
    spans: list[Span] = []
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
        spans.append(Span(at, start, end, trained, _certified(call), call.weight_version))
        below, at = at, parents[at]
    return Row(last.branch or leaf, tokens, tuple(mask), tuple(logprobs), tuple(reversed(spans)))


def _complain(refused: Sequence[Refusal], uncertified: Uncertified) -> None:
    total = sum(one.tokens for one in refused)
    shown = "; ".join(f"call {one.call}: {one.reason}" for one in refused[:3])
    text = f"{len(refused)} spans ({total} sampled tokens) are not certified: {shown}"
    if uncertified == "refuse":
        raise UserError(
            f"{text}. Leave them out with uncertified='mask', or train them all the same with uncertified='keep'"
        )
    _log.warning("%s; %s", text, "they are trained all the same" if uncertified == "keep" else "they are not trained")
