"""vLLM, asked with token prompts: `POST /inference/v1/generate`, or `/v1/completions` for servers without it.

Start it so that log-probabilities are those of the sampling distribution: `vllm serve MODEL --logprobs-mode
processed_logprobs` (newer servers want `--enable-scale-out` for the first route).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import TokenReply

from ._reply import invalid_reply
from ._token_client import ReportedVersions, TokenClient, complete_logprobs, convert_answer, weight_spans

Id = Annotated[int, msgspec.Meta(ge=0)]
_FORWARDED = ("temperature", "top_p", "top_k", "min_p", "seed", "stop")


class _Entry(msgspec.Struct, gc=False):
    logprob: float | None = None
    token_id: int | None = None
    token: str | None = None


class _Content(msgspec.Struct, gc=False):
    content: list[_Entry] | None = None


class _Generated(msgspec.Struct, gc=False):
    token_ids: list[Id]
    finish_reason: str | None = None
    logprobs: _Content | None = None
    weight_versions: ReportedVersions = None


class _Generation(msgspec.Struct, gc=False):
    choices: Annotated[list[_Generated], msgspec.Meta(min_length=1, max_length=1)]
    prompt_token_ids: list[Id] | None = None


class _Lists(msgspec.Struct, gc=False):
    token_logprobs: list[float | None] | None = None


class _Completed(msgspec.Struct, gc=False):
    token_ids: list[Id]
    finish_reason: str | None = None
    logprobs: _Lists | None = None
    prompt_token_ids: list[Id] | None = None
    weight_versions: ReportedVersions = None


class _Completion(msgspec.Struct, gc=False):
    choices: Annotated[list[_Completed], msgspec.Meta(min_length=1, max_length=1)]


class VLLMBackend(TokenClient):
    """Client of vLLM's generate route."""

    path = "/inference/v1/generate"

    def _prompt_body(
        self, prompt: list[int], most: int, sampling: dict[str, Any], stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        parameters = {key: sampling[key] for key in _FORWARDED if key in sampling}
        parameters |= {
            "max_tokens": most,
            "stop_token_ids": list(stop_ids),
            "logprobs": 1,
            "skip_special_tokens": False,
        }
        return {"model": self._model, "token_ids": prompt, "sampling_params": parameters}

    def _token_reply(self, raw: dict[str, Any], prompt: list[int], stop_ids: Sequence[int]) -> TokenReply:
        whole = convert_answer(raw, _Generation, self.name)
        choice = whole.choices[0]
        _require_same_prompt(self.name, whole.prompt_token_ids, prompt)
        entries = (choice.logprobs.content if choice.logprobs is not None else None) or []
        named = [_id_of(entry) for entry in entries]
        if any(one is not None and one != other for one, other in zip(named, choice.token_ids, strict=False)):
            raise invalid_reply(
                f"{self.name}: log-probabilities of other tokens than were sampled (choices[0].logprobs.content)"
            )
        logprobs = complete_logprobs([entry.logprob for entry in entries], len(choice.token_ids))
        finish = _finish(self.name, choice.finish_reason)
        version, spans = weight_spans(self.name, choice.weight_versions, len(choice.token_ids))
        return TokenReply(tuple(choice.token_ids), logprobs, finish, version, spans)


class VLLMCompletions(TokenClient):
    """The same by way of the completions route, which takes a list of token ids as the prompt."""

    path = "/v1/completions"

    def _prompt_body(
        self, prompt: list[int], most: int, sampling: dict[str, Any], stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        body = {key: sampling[key] for key in _FORWARDED if key in sampling}
        return body | {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": most,
            "stop_token_ids": list(stop_ids),
            "logprobs": 1,
            "return_token_ids": True,
            "skip_special_tokens": False,
            "add_special_tokens": False,
        }

    def _token_reply(self, raw: dict[str, Any], prompt: list[int], stop_ids: Sequence[int]) -> TokenReply:
        choice = convert_answer(raw, _Completion, self.name).choices[0]
        _require_same_prompt(self.name, choice.prompt_token_ids, prompt)
        reported = (choice.logprobs.token_logprobs if choice.logprobs is not None else None) or []
        finish = _finish(self.name, choice.finish_reason)
        logprobs = complete_logprobs(reported, len(choice.token_ids))
        version, spans = weight_spans(self.name, choice.weight_versions, len(choice.token_ids))
        return TokenReply(tuple(choice.token_ids), logprobs, finish, version, spans)


def _require_same_prompt(name: str, prompt_seen: list[int] | None, sent: list[int]) -> None:
    if prompt_seen is not None and prompt_seen != sent:
        raise invalid_reply(
            f"{name}: the server sampled under another prompt ({len(prompt_seen)} tokens) than was sent ({len(sent)})"
        )


def _finish(name: str, reason: str | None) -> str:
    if reason not in {"stop", "length"}:
        raise ProviderError(f"{name}: an answer that ended for the reason {reason!r}", status=200)
    return reason


def _id_of(entry: _Entry) -> int | None:
    """The token that a log-probability is of, where it says so."""
    if entry.token_id is not None:
        return entry.token_id
    text = (entry.token or "").removeprefix("token_id:")
    return int(text) if (entry.token or "").startswith("token_id:") and text.isdecimal() and len(text) < 12 else None
