"""SGLang, asked with token prompts: `POST /generate` with `input_ids` and `return_logprob`.

With `top_p` 1 and no `top_k` its log-probabilities are those of the sampling distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import TokenReply
from assay.records import WeightSpan

from ._reply import invalid_reply
from ._token_client import ReportedSpan, TokenClient, complete_logprobs, convert_answer, weight_spans

Id = Annotated[int, msgspec.Meta(ge=0)]
_FORWARDED = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "stop": "stop"}


class _Finish(msgspec.Struct, gc=False):
    type: str
    matched: int | str | list[int | str] | None = None
    message: str | None = None


class _Meta(msgspec.Struct, gc=False):
    finish_reason: _Finish
    output_token_logprobs: list[tuple[float | None, Id, Any]]
    prompt_tokens: int | None = None
    weight_version: str | int | None = None
    weight_versions: list[str | int | ReportedSpan] | None = None
    """Given if the weights were replaced meanwhile."""


class _Generation(msgspec.Struct, gc=False):
    meta_info: _Meta
    output_ids: list[Id] | None = None


class SGLangBackend(TokenClient):
    """Client of SGLang's generate route; the model name is not sent, because a server has one model."""

    path = "/generate"

    def _prompt_body(
        self, prompt: list[int], most: int, sampling: dict[str, Any], stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        parameters: dict[str, Any] = {theirs: sampling[own] for own, theirs in _FORWARDED.items() if own in sampling}
        if parameters.get("top_k") == 0:
            parameters["top_k"] = -1
        if "seed" in sampling:
            parameters["sampling_seed"] = sampling["seed"]
        parameters |= {
            "max_new_tokens": most,
            "stop_token_ids": list(stop_ids),
            "skip_special_tokens": False,
            "no_stop_trim": True,
        }
        return {"input_ids": prompt, "sampling_params": parameters, "return_logprob": True, "stream": False}

    def _token_reply(self, raw: dict[str, Any], prompt: list[int], stop_ids: Sequence[int]) -> TokenReply:
        whole = convert_answer(raw, _Generation, self.name)
        meta = whole.meta_info
        finish = meta.finish_reason
        if finish.type not in {"stop", "length"}:
            raise ProviderError(
                f"{self.name}: an answer that ended with {finish.type!r}: {(finish.message or '')[:200]}", status=200
            )
        if meta.prompt_tokens is not None and meta.prompt_tokens != len(prompt):
            raise invalid_reply(
                f"{self.name}: the server counts {meta.prompt_tokens} prompt tokens of {len(prompt)} that were sent"
            )
        ids: list[int] = [token for _, token, _ in meta.output_token_logprobs]
        version, spans = weight_spans(self.name, meta.weight_versions or meta.weight_version, len(ids))
        given = [logprob for logprob, _, _ in meta.output_token_logprobs]
        if whole.output_ids is not None and whole.output_ids != ids[: len(whole.output_ids)]:
            raise invalid_reply(f"{self.name}: output_ids and meta_info.output_token_logprobs tell of other tokens")
        matched = finish.matched if isinstance(finish.matched, int) else None
        if matched is not None and matched in stop_ids and ids[-1:] != [matched]:
            ids, given = [*ids, matched], [*given, None]  # trimmed by the server, yet sampled
            spans = (*spans[:-1], WeightSpan(spans[-1].version, len(ids))) if spans else ()
        logprobs = complete_logprobs(given, len(ids))
        return TokenReply(tuple(ids), logprobs, finish.type, version, spans)
