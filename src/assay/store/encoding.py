"""Encodes events for a chain: canonical bytes that decode to the same value, or an error.

Invariant: what is appended can be read again, and encoding what was read gives the same bytes.
"""

from __future__ import annotations

import msgspec

from assay.errors import StoreError
from assay.records import Body, Evidence, EvidenceAdded, ModelCalled, Step, StepAdded, canonical_bytes, require_finite

from .chain import decode_raw

_SHALLOW = 300
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")


class EncodedBody(msgspec.Struct, frozen=True, gc=False):
    """An event and its canonical bytes."""

    raw: bytes
    body: Body
    """From `encode`: the body that `raw` decodes to, the given one where that makes no difference."""


def encode_body(body: Body, chain: str) -> bytes:
    """Encodes an event's body in canonical bytes that decode to the same value: a float given as `1` is stored as
    `1.0`.

    NaN would silently become null, so it is rejected. The encoding is decoded again, except for a large, plain call.
    """
    return encode(body, chain).raw


def encode(given: Body | EncodedBody, chain: str) -> EncodedBody:
    """As `encode_body`; returns the body too. One that comes with its canonical bytes is not encoded for them."""
    try:
        known = given if isinstance(given, EncodedBody) else EncodedBody(canonical_bytes(given), given)
        raw, body = known.raw, known.body
        if b"null" in raw:
            if known is given:
                raw = canonical_bytes(body)  # of what is checked: it may have changed since it was encoded
                known = EncodedBody(raw, body)
            _require_finite(body)
        if isinstance(body, ModelCalled) and _is_plain(body, raw):
            return known
        decoded = decode_raw(chain, 0, raw)
        # The given body shares its texts with what the caller holds.
        if decoded == body and _has_float_times(body):
            return known
        again = canonical_bytes(decoded)
        return EncodedBody(again, body if again == raw and decoded == body else decoded)
    except (StoreError, ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise StoreError(f"an event of {chain} cannot be recorded: {exc}") from exc


def _require_finite(body: Body) -> None:
    """Raises `ValueError` for NaN and infinities. Of a call's many tokens only the sums are checked."""
    if isinstance(body, ModelCalled):
        tokens = {name: getattr(body.call, name) for name in _TOKENS}
        require_finite({name: sum(column or ()) for name, column in tokens.items()}, "the sum of the call's tokens")
        body = ModelCalled(msgspec.structs.replace(body.call, **dict.fromkeys(_TOKENS)))
    require_finite(msgspec.to_builtins(body), str(body.__struct_config__.tag))


def _is_plain(body: ModelCalled, raw: bytes) -> bool:
    """Returns whether a call's numbers are floats, and it has too few brackets to be nested deeply."""
    call = body.call
    logprobs = call.logprobs
    return (
        _is_float(call.started)
        and _is_float(call.ended)
        and _is_float(call.cost_usd)
        and (logprobs is None or all(type(number) is float for number in logprobs))
        # Brackets are searched by `replace`, which leaps over text; `bytes.count` looks at each byte on Python 3.11.
        and 2 * len(raw) - sum(len(raw.replace(bracket, b"", _SHALLOW)) for bracket in (b"[", b"{")) < _SHALLOW
    )


def _has_float_times(body: Body) -> bool:
    """Returns whether all fields of a step or of evidence that hold floats were given floats: an integer there would
    be read as a float, which is equal and has other bytes. False for other events."""
    if isinstance(body, StepAdded):
        step: Step = body.step
        for seen in step.observations:
            if not _is_float(seen.duration_s):
                return False
        return _is_float(step.started) and _is_float(step.ended)
    evidence: Evidence | None = body.evidence if isinstance(body, EvidenceAdded) else None
    return evidence is not None and _is_float(evidence.at)


def _is_float(value: float | None) -> bool:
    return type(value) is float or value is None
