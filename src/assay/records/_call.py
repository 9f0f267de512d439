"""Exchanges with a model: what was sent, what came back, its tokens, and where it stands among the attempt's calls.

What calls share is kept once. A request names the call that it extends (`parent`), how much of it is that call's
(`shared_messages`, `shared_tokens`, `RawBody.prefix`), and holds only the rest; `assay.store.calls` puts it together.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["BranchCause", "ModelCall", "RawBody", "SpanProof", "Usage"]

BranchCause = Literal["root", "resample", "rewritten", "compaction", "tools", "sub_agent", "unjoined"]
"""Why a call does not simply go on where another one ended: `root` is the first of its conversation; `resample` asks
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
    """The exact bytes of a request or a reply, after redaction.

    They are the first `prefix` and the last `suffix` bytes of the body of `base` (the same side of that call) around
    what is held here: `text` where that is UTF-8 and short, else, as a zlib stream, the blob at `blob`.
    """

    digest: str
    """Content address of the whole."""
    length: int
    """Bytes of the whole."""
    base: str | None = None
    """Id of the call whose body is built on; None where nothing is shared."""
    prefix: int = 0
    suffix: int = 0
    text: str | None = None
    blob: str | None = None
    redactions: tuple[str, ...] = ()
    """What was taken out before anything was stored: names of known secrets, and shapes of unknown ones."""


class SpanProof(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Whether the context that the sampled tokens were drawn under is the context that a row would train them under."""

    certified: bool
    reason: str | None = None
    """Why not; None where it is."""
    position: int | None = None
    """The first token position at which the two contexts differ, where known."""


class ModelCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One exchange with a model."""

    id: str
    dialect: str
    model: str
    request: dict[str, Any]
    """The canonical request (Chat Completions shape); its `messages` begin after the first `shared_messages`."""
    response: dict[str, Any] | None
    """The answer, its message at `choices[0].message`; None where none came."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None where the price is unknown; never 0 for unknown."""
    prompt_token_ids: tuple[int, ...] | None = None
    """Tokens of the prompt after the first `shared_tokens`."""
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    sampling: dict[str, Any] = {}
    parent: str | None = None
    """The call whose conversation (and, where tokens are known, whose tokens) this one's prompt extends."""
    error: str | None = None
    tries: int = 1
    started: float | None = None
    ended: float | None = None
    shared_messages: int = 0
    """How many leading messages are those of the parent's request and its answer."""
    shared_tokens: int = 0
    """How many leading prompt tokens are the parent's prompt and sampled tokens."""
    shared_fields: tuple[str, ...] = ()
    """Fields of the request beside `messages` that are the parent's, and left out here: `tools`."""
    branch: str | None = None
    """The line of calls that this one belongs to: within it, each call extends the one before."""
    cause: BranchCause | None = None
    """Why a branch begins here; None where the call goes on with its parent's."""
    differs_at: int | None = None
    """The first message position (token position, where tokens are known) that differs from the branch left."""
    state: str | None = None
    """Digest of the environment just before the call; None where it was not observed."""
    certificate: SpanProof | None = None
    """None where no tokens are known."""
    raw_request: RawBody | None = None
    """What the client sent, where it came through the gateway."""
    raw_response: RawBody | None = None
    delivered: bool = True
    """False where the client was gone before it got the whole answer."""
    lineage: dict[str, str] = {}
    """What the client said about itself: ids of its session, thread, agent and parent."""
    redactions: tuple[str, ...] = ()
    """What was taken out of request, response, error and lineage before anything was stored, as in `RawBody`."""
    weight_version: str | None = None
    """Which weights answered, where the backend says."""
