"""The built-in engine on a tiny real model: what it says it sampled is what the model gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ProviderError, UserError
from assay.gateway.backends import open_backend
from assay.gateway.interface import ModelRequest, TokenBackend
from assay.gateway.model import open_session_model
from assay.gateway.tokens import TokenModel
from assay.settings import Settings

PROMPT = list(range(40, 90))
SETTINGS = Settings.from_environment({})


def far(one: Any, other: Any) -> float:
    return float(max(abs(a - b) for a, b in zip(one, other, strict=True)))


@pytest.mark.long
async def test_a_seeded_request_draws_the_same_whatever_runs_beside_it(engine: Any) -> None:
    assert isinstance(engine, TokenBackend)
    alone = await engine.generate(PROMPT, {"seed": 3, "max_tokens": 12})
    crowd = await asyncio.gather(
        *(engine.generate(PROMPT[: 5 + 7 * i], {"seed": i, "max_tokens": 6 + 3 * i}) for i in range(5)),
        engine.generate(PROMPT, {"seed": 3, "max_tokens": 12}),
        engine.generate(PROMPT, {"max_tokens": 12}),
    )
    assert crowd[-2].token_ids == alone.token_ids
    assert far(crowd[-2].logprobs, alone.logprobs) < 1e-4
    assert crowd[-1].token_ids != alone.token_ids
    assert [len(reply.token_ids) for reply in crowd[:5]] == [6, 9, 12, 15, 18]
    assert str(alone.weight_version).startswith("blake3:")


@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 0.7, "top_p": 0.8}, {"top_k": 5}, {"min_p": 0.01, "temperature": 2}, {"temperature": 0}],
)
async def test_log_probabilities_are_those_of_the_sampling_distribution(engine: Any, sampling: Any) -> None:
    reply = await engine.generate(PROMPT, {**sampling, "seed": 1, "max_tokens": 10})
    assert far(engine.score(PROMPT, reply.token_ids, sampling), reply.logprobs) < 1e-4
    other = engine.score([PROMPT[0] + 1, *PROMPT[1:]], reply.token_ids, sampling)
    assert far([max(one, -99.0) for one in other], reply.logprobs) > 1e-3


async def test_it_stops_at_tokens_and_at_texts(engine: Any, renderer: Any) -> None:
    free = await engine.generate(PROMPT, {"seed": 3, "max_tokens": 12})
    stopped = await engine.generate(PROMPT, {"seed": 3, "max_tokens": 12}, [free.token_ids[4]])
    assert (stopped.token_ids, stopped.finish_reason) == (free.token_ids[:5], "stop")
    text = renderer.text(free.token_ids[5:6])
    at_text = await engine.generate(PROMPT, {"seed": 3, "max_tokens": 12, "stop": [text]})
    assert at_text.finish_reason == "stop"
    assert text in renderer.text(at_text.token_ids[-1:])


@pytest.mark.parametrize(
    ("prompt", "sampling", "told"),
    [
        ([], {}, "one or more token ids"),
        ([99999], {}, "from 0 to 4095"),
        ([1] * 65536, {}, "context_length_exceeded"),
        ([1], {"temperature": -1}, "temperature must be"),
        ([1], {"seed": "x"}, "seed must be"),
        ([1], {"max_tokens": 0}, "max_tokens must be"),
    ],
)
async def test_what_cannot_be_asked_is_refused(engine: Any, prompt: Any, sampling: Any, told: str) -> None:
    with pytest.raises(ProviderError, match=told) as refused:
        await engine.generate(prompt, sampling)
    assert (refused.value.status, refused.value.retryable) == (400, False)


async def test_a_client_that_leaves_and_a_close_end_what_is_under_way(engine: Any) -> None:
    left = asyncio.create_task(engine.generate(PROMPT, {"max_tokens": 50000}))
    stays = asyncio.create_task(engine.generate(PROMPT, {"max_tokens": 50000}))
    await asyncio.sleep(0.2)
    left.cancel()
    await engine.close()
    with pytest.raises(ProviderError, match="closed"):
        await stays
    with pytest.raises(ProviderError, match="closed"):
        await engine.generate(PROMPT, {})


async def test_what_breaks_in_the_model_ends_those_requests_only(engine: Any, monkeypatch: Any) -> None:
    forward = type(engine._model).forward

    def fails(model: Any, *args: Any, input_ids: Any, **more: Any) -> Any:
        if input_ids.shape[1] == 3:
            raise RuntimeError("out of memory")
        return forward(model, *args, input_ids=input_ids, **more)

    monkeypatch.setattr(type(engine._model), "forward", fails)
    with pytest.raises(ProviderError, match="out of memory"):
        await engine.generate([1, 2, 3], {"max_tokens": 2})
    assert len((await engine.generate([1, 2, 3, 4], {"max_tokens": 2})).token_ids) == 2


async def test_it_is_opened_by_name_and_steered_by_a_script(tiny_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["Hello.", {"tool_calls": [{"name": "bash", "arguments": "{ \\"a\\" : 1 }"}]}]')
    backend = open_backend(f"local:{tiny_folder}?device=cpu&temperature=0.5&steer={script}", SETTINGS)
    assert isinstance(open_session_model(backend), TokenModel)
    first = await backend.complete(ModelRequest([{"role": "user", "content": "Hi"}]))
    again = [{"role": "user", "content": "Hi"}, first.message, {"role": "user", "content": "Go"}]
    second = await backend.complete(ModelRequest(again))
    await backend.close()
    assert first.message["content"] == "Hello."
    assert second.message["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{ "a" : 1 }'}
    assert len(first.logprobs or ()) == len(first.completion_token_ids or ()) > 0
    assert first.request["temperature"] == 0.5


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("local:/nowhere", "no tokenizer.json"),
        ("local:{}?renderer=nothing", "known:"),
        ("local:{}?colour=red", "no such option: colour"),
        ("local:{}?temperature=hot", "temperature must be a number"),
        ("local:{}?thinking=maybe", "true or false"),
        ("local:{}?dtype=float99", "cannot load"),
        ("vllm:http://127.0.0.1:1#m", "where is its tokenizer"),
        ("vllm:http://127.0.0.1:1#m?tokenizer={}&route=x", "no such route"),
        ("sglang:ftp://x#m?tokenizer={}", "not a valid URL"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(tiny_folder: Path, name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        open_backend(name.format(tiny_folder), SETTINGS)
