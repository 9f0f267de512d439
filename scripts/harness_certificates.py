"""The certificate rate of a harness: a model that takes tokens, steered to say what a scenario says, in twelve turns
with odd spacing, keys in odd order, reasoning and malformed arguments, which clients rewrite when they send them back.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.environments.interface import Backend, ResourceLimits, WorkspaceSpec
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.interface import Exchange, ModelRequest, TokenReply

from .driving import Drive, drive
from .harness_scenarios import HANDS, Cell, Hand, agent_of

__all__ = ["TURNS", "Digest", "certificate_cell"]

TURNS = 12
ODD = 2
"""Every how many turns the arguments are written oddly."""


class Digest:
    """A token backend that samples what it is steered to; its log-probabilities follow from the whole context."""

    name = "digest"

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        ids = list(sampling["steered"])
        if on_tokens is not None:
            await on_tokens(ids)
        seed = hashlib.blake2b(repr(list(prompt)).encode(), digest_size=4).digest()
        level = math.log((int.from_bytes(seed, "little") + 1) / (1 << 32))
        return TokenReply(tuple(ids), (level,) * len(ids), "stop" if ids[-1] in stop_ids else "length", "w0")

    async def close(self) -> None:
        """Holds nothing."""


class Oddly:
    """Says twelve turns, whatever becomes of them; every second one's arguments are written as no client would."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self.turn = 0

    def __call__(self, request: ModelRequest) -> Reply:
        if not request.tools:
            return Reply(content="A title.")
        turn, self.turn = self.turn, self.turn + 1
        if turn >= TURNS:
            end = self._hand.end
            return Reply(content="Done.", tool_calls=(ScriptedCall(*end),) if end is not None else ())
        name, arguments = self._hand.shell(f"echo turn-{turn} >> log.txt")
        text: str | dict[str, Any] = arguments
        if turn % ODD:
            pairs = [f'"{key}" :  {msgspec.json.encode(value).decode()}' for key, value in reversed(arguments.items())]
            text = "{ " + " , ".join(pairs) + " }"
        return Reply(
            content=f"  Turn {turn}. ", reasoning=f" thinking of {turn} \n", tool_calls=(ScriptedCall(name, text),)
        )


async def certificate_cell(backend: Backend, harness: str, dialect: str) -> Cell:
    """Drives the harness; `pass` where every sampled token is certified."""
    try:
        from assay.gateway.backends._open_tokens import steer_with
        from assay.gateway.tokens import TokenModel
        from assay.gateway.tokens.library import open_renderer

        from .tiny_model import write_tiny_tokenizer

        folder = write_tiny_tokenizer(Path(tempfile.gettempdir()) / "assay-tiny-tokenizer")
        renderer = open_renderer(folder)
    except ImportError as exc:
        return Cell(harness, dialect, "certificate", "not run", f"needs assay[local]: {exc.name} is not installed")
    hand = HANDS[harness]
    model = TokenModel(Digest(), renderer, steer=steer_with(renderer, ScriptedBackend(Oddly(hand))))
    what = Drive(
        "Write the lines.",
        spec=WorkspaceSpec(limits=ResourceLimits(memory_mib=256, processes=32, tmp_mib=64)),
        timeout_s=240.0,
    )
    driven = await drive(agent_of(harness, dialect, {}), model, backend, what)
    sampled = sum(len(e.reply.completion_token_ids or ()) for e in driven.answered if e.reply is not None)
    certified = sum(
        len(e.reply.completion_token_ids or ())
        for e in driven.answered
        if e.reply is not None and e.certificate is not None and e.certificate.certified
    )
    branches = len({e.branch for e in driven.answered})
    rewritten = sum(_rewritten(e) for e in driven.answered)
    told = f"{len(driven.answered)} calls in {_counted(branches, 'branch')}, {_counted(rewritten, 'echo')} rewritten"
    note = f"{certified / sampled:.0%}; {told}" if sampled else "no call"
    good = driven.error is None and sampled > 0 and certified == sampled and len(driven.answered) > TURNS
    return Cell(
        harness=harness,
        dialect=dialect,
        scenario="certificate",
        status="pass" if good else "fail",
        note=note if driven.error is None else driven.error,
        seconds=round(driven.seconds, 1),
        calls=len(driven.exchanges),
        causes=tuple(e.cause for e in driven.exchanges if e.cause is not None),
    )


def _rewritten(exchange: Exchange) -> int:
    """How many of the model's own turns came back in this call in other words than were sampled."""
    told = exchange.reply.raw.get("assay", {}) if exchange.reply is not None else {}
    return sum(bool(echo["changes"]) for echo in told.get("echoes", ()))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "es")
