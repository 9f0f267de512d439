"""Model calls: request, response, tokens, and the position in the attempt's call tree.

Shared content is stored once. A request names the call that it extends (`parent`), the size of the shared part
(`shared_messages`, `shared_tokens`, `RawBody.prefix`), and stores only the rest; `assay.store.calls` reassembles it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ._step import Actor

BranchCause = Literal["root", "resample", "rewritten", "compaction", "tools", "sub_agent", "unjoined"]
"""Reason why a call does not continue another one: `root` is the first of its conversation; `resample` asks
again what was asked before; `rewritten` changed earlier messages; `compaction` replaced them by a summary; `tools`
changed what tools are offered; `sub_agent` belongs to an agent that the first one started; `unjoined` could be joined
to nothing."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Token counts as the server reported them; None where it did not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class RawBody(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The exact bytes of a request or a response, after redaction.

    They are the first `prefix` and the last `suffix` bytes of the body of `base` (the same side of that call) around
    what is held here: `text` where that is UTF-8 and short, else, as a zlib stream, the blob at `blob`.
    """

    digest: str
    """Content address of the whole."""
    length: int
    """Bytes of the whole."""
    base: str | None = None
    """Id of the call whose body is the base; None where nothing is shared."""
    prefix: int = 0
    suffix: int = 0
    text: str | None = None
    blob: str | None = None
    redactions: tuple[str, ...] = ()
    """Redacted before storage: names of known secrets and patterns of unknown ones."""


class SpanProof(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tells whether sampled tokens were drawn under the same context that a training row gives them."""

    certified: bool
    reason: str | None = None
    """Reason for a failed proof; None for a valid one."""
    position: int | None = None
    """First token position at which the contexts differ, if known."""


class WeightSpan(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Sampled tokens of one version of the weights, of a call during which the weights were replaced."""

    version: str
    end: int | None = None
    """Position after its last token, counted from the first sampled token; None if the server does not say."""


class ModelCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One exchange with a model."""

    id: str
    dialect: str
    model: str
    request: dict[str, Any]
    """The canonical request (Chat Completions shape); its `messages` begin after the first `shared_messages`."""
    response: dict[str, Any] | None
    """Response, with its message at `choices[0].message`; None without a response."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None where the price is unknown; never 0 for unknown."""
    prompt_token_ids: tuple[int, ...] | None = None
    """Tokens of the prompt after the first `shared_tokens`."""
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    sampling: dict[str, Any] = {}
    parent: str | None = None
    """Call whose conversation (and tokens, where known) this prompt extends."""
    error: str | None = None
    tries: int = 1
    started: float | None = None
    ended: float | None = None
    shared_messages: int = 0
    """Leading messages shared with the parent's request and response."""
    shared_tokens: int = 0
    """Leading prompt tokens shared with the parent's prompt and sampled tokens."""
    shared_fields: tuple[str, ...] = ()
    """Request fields beside `messages` that equal the parent's and are omitted here: `tools`."""
    branch: str | None = None
    """Sequence of calls that this one belongs to; within it, each call extends the one before."""
    cause: BranchCause | None = None
    """Cause of a new branch; None where the call continues its parent's branch."""
    differs_at: int | None = None
    """First message position (token position, where tokens are known) that differs from the previous branch."""
    state: str | None = None
    """Digest of the environment just before the call; None where it was not observed."""
    certificate: SpanProof | None = None
    """Proof of the sampled tokens' context; None without tokens."""
    raw_request: RawBody | None = None
    """Request bytes from the client, if it used the gateway."""
    raw_response: RawBody | None = None
    delivered: bool = True
    """False where the client disconnected before the response was complete."""
    lineage: dict[str, str] = {}
    """Ids that the client sent: session, thread, agent and parent."""
    redactions: tuple[str, ...] = ()
    """Redacted from request, response, error and lineage before storage, as in `RawBody`."""
    weight_version: str | None = None
    """Version of the weights that sampled the first token, if the backend reports it."""
    weight_spans: tuple[WeightSpan, ...] = ()
    """Versions of the weights in the order in which they sampled; empty if one version sampled every token."""
    actor: Actor = "agent"
    """Whose turn the call makes; `user` for a simulated person."""
    actor_name: str | None = None
    """Name of the actor of a team that asked, as the runner knows it; None outside teams."""
