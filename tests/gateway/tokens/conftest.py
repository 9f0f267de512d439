"""A tiny real model, its renderer, and a session that records its calls as a store would."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.gateway.dialects import ParsedRequest
from assay.gateway.interface import Exchange, ModelRequest, TokenReply
from assay.gateway.session import GatewaySession
from assay.gateway.tokens import TokenModel
from assay.records import ModelCall

TOOLS = [
    {"type": "function", "function": {"name": name, "description": "It acts.", "parameters": {"type": "object"}}}
    for name in ("write", "bash")
]
Message = dict[str, Any]


def as_stored(exchange: Exchange) -> ModelCall:
    """The exchange as it is kept: messages and tokens after what is shared."""
    reply = exchange.reply
    prompt = reply.prompt_token_ids if reply is not None else None
    return ModelCall(
        id=exchange.id,
        dialect=exchange.request.dialect,
        model=exchange.model,
        request={"messages": exchange.request.messages[exchange.shared_messages :]},
        response=reply.raw if reply is not None else None,
        prompt_token_ids=None if prompt is None else prompt[exchange.shared_tokens :],
        completion_token_ids=reply.completion_token_ids if reply is not None else None,
        logprobs=reply.logprobs if reply is not None else None,
        sampling=exchange.request.sampling,
        parent=exchange.parent,
        error=exchange.error,
        shared_messages=exchange.shared_messages,
        shared_tokens=exchange.shared_tokens,
        branch=exchange.branch,
        cause=exchange.cause,
        differs_at=exchange.differs_at,
        certificate=exchange.certificate,
        weight_version=reply.weight_version if reply is not None else None,
    )


class Recorder:
    """Hooks that keep every exchange."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self.exchanges: list[Exchange] = []
        self._begun = 0

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        self._begun += 1
        return f"c{self._begun}"

    async def after(self, exchange: Exchange) -> None:
        self.calls.append(as_stored(exchange))
        self.exchanges.append(exchange)


class Talk:
    """A client without a wire: asks through a real session, and keeps what it was answered."""

    def __init__(self, model: TokenModel) -> None:
        self.recorder = Recorder()
        self.session = GatewaySession(model, self.recorder, 1 << 30)
        self.deltas: list[Any] = []

    @property
    def calls(self) -> list[ModelCall]:
        return self.recorder.calls

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[Message] = tuple(TOOLS), **sampling: Any
    ) -> Message:
        request = ModelRequest(messages=list(messages), tools=list(tools), sampling=sampling)
        begun = await self.session.begin(ParsedRequest(request, "m"), b"{}", {})
        answered = await self.session.ask(begun, self._hear)
        await self.session.finish(begun, answered, b"{}", delivered=True)
        return answered.reply.message

    async def _hear(self, deltas: Sequence[Any]) -> None:
        self.deltas += deltas


class Echoing:
    """A token backend whose log-probabilities are a digest of the whole context, so that any change of it shows.

    It samples what it is steered to, else ids that follow from the context and the seed.
    """

    name = "digest"

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = list(ids)

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        ids = list(sampling.get("steered") or self._free(prompt, sampling, stop_ids))
        finish = "stop" if ids[-1] in stop_ids else "length"
        if on_tokens is not None:
            for token in ids:
                await on_tokens([token])
        return TokenReply(tuple(ids), self.score(prompt, ids), finish, "w0")

    def _free(self, prompt: Sequence[int], sampling: dict[str, Any], stop_ids: Sequence[int]) -> list[int]:
        drawn = [self._number(prompt, sampling.get("seed", 0) + i) for i in range(int(sampling.get("max_tokens", 6)))]
        return [self._ids[number % len(self._ids)] for number in drawn] + list(stop_ids[:1])

    def score(self, prompt: Sequence[int], completion: Sequence[int], sampling: Any = None) -> tuple[float, ...]:
        whole = [*prompt, *completion]
        begin = len(prompt)
        numbers = [self._number(whole[: begin + i], whole[begin + i]) for i in range(len(completion))]
        return tuple(math.log((number + 1) / (1 << 32)) for number in numbers)

    def _number(self, context: Sequence[int], more: int) -> int:
        digest = hashlib.blake2b(repr((list(context), more)).encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little")

    async def close(self) -> None:
        """Holds nothing."""


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Needs no PyTorch: a tokenizer and a template are enough."""
    pytest.importorskip("renderers")
    from assay.gateway.tokens.library import open_renderer
    from scripts.tiny_model import write_tiny_tokenizer

    return open_renderer(write_tiny_tokenizer(tmp_path_factory.getbasetemp() / "tiny-tokenizer"))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from scripts.tiny_model import write_tiny_model

    return write_tiny_model(tmp_path_factory.getbasetemp() / "tiny")


@pytest.fixture
async def engine(tiny_folder: Path) -> AsyncIterator[Any]:
    from assay.gateway.backends.local import open_local

    backend = open_local(tiny_folder, "local:tiny", device="cpu")
    yield backend
    await backend.close()


@pytest.fixture
def digests(renderer: Any) -> Echoing:
    """A backend whose log-probabilities tell any two contexts apart; needs no PyTorch."""
    return Echoing([token for token in range(400) if renderer.is_plain(token)])


@pytest.fixture
def talk(renderer: Any) -> Callable[..., Talk]:
    """A session whose model says these messages in turn, then what it likes."""

    def make(*replies: Message, backend: Any = None) -> Talk:
        left = list(replies)

        async def steer(_: ModelRequest) -> Sequence[int] | None:
            return renderer.render_reply(left.pop(0)) if left else None

        plain = [token for token in range(400) if renderer.is_plain(token)]
        return Talk(TokenModel(backend or Echoing(plain), renderer, steer=steer))

    return make


def says(text: str = "", *calls: str, name: str = "write", **more: Any) -> Message:
    """A turn as a model may write it: `calls` are raw argument texts."""
    made = [{"function": {"name": name, "arguments": arguments}} for arguments in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **more}


def results(answer: Message, text: str = "done") -> list[Message]:
    """A result for each call of an answer."""
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in answer.get("tool_calls") or ()]


@pytest.fixture(scope="session")
def parts() -> Any:
    """The helpers, for tests that cannot import this file by name."""

    class Parts:
        pass

    for item in (says, results, Recorder, Echoing, Talk, as_stored):
        setattr(Parts, item.__name__, staticmethod(item))
    Parts.TOOLS = TOOLS  # type: ignore[attr-defined]
    return Parts
