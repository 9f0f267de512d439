"""vLLM and SGLang clients against stand-ins: small servers that speak the documented wire format, with the tiny model
behind them. No real vLLM or SGLang runs here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from assay.errors import ProviderError
from assay.gateway.backends import open_backend
from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.sglang import SGLangBackend
from assay.gateway.backends.vllm import VLLMBackend, VLLMCompletions
from assay.gateway.interface import ModelRequest, TokenBackend
from assay.settings import Settings

PROMPT = list(range(40, 60))
KINDS: dict[str, Any] = {"vllm": VLLMBackend, "vllm-completions": VLLMCompletions, "sglang": SGLangBackend}
FAST = ClientOptions(max_tries=3, back_off_s=0.001, back_off_max_s=0.002)


class StandIn:
    """Answers as vLLM and SGLang do. `change` may alter an answer on its way; `fail` answers come before any other."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.asked: list[dict[str, Any]] = []
        self.fail: list[int] = []
        self.change: Any = None
        self.url = ""

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/inference/v1/generate", self._vllm)
        application.router.add_post("/v1/completions", self._completions)
        application.router.add_post("/generate", self._sglang)
        return application

    async def _sample(self, request: web.Request, prompt: str, parameters: Any, most: str) -> tuple[Any, Any]:
        body = await request.json()
        self.asked.append(body)
        if self.fail:
            raise _status(self.fail.pop(0))
        given = parameters(body)
        stops = given.get("stop_token_ids", ())
        seed = given.get("seed", given.get("sampling_seed", 0))
        sampling = {"max_tokens": given[most], "seed": seed, "temperature": given.get("temperature", 1.0)}
        return body, await self.engine.generate(body[prompt], sampling, stops)

    def _answer(self, body: dict[str, Any]) -> web.Response:
        if self.change is not None:
            self.change(body)
        return web.Response(text=json.dumps(body), content_type="application/json")

    async def _vllm(self, request: web.Request) -> web.Response:
        _, got = await self._sample(request, "token_ids", lambda body: body["sampling_params"], "max_tokens")
        content = [
            {"token_id": token, "logprob": logprob, "rank": 1}
            for token, logprob in zip(got.token_ids, got.logprobs, strict=True)
        ]
        choice = {"index": 0, "finish_reason": got.finish_reason, "token_ids": got.token_ids}
        choice |= {"logprobs": {"content": content}, "weight_versions": ["v7"]}
        return self._answer({"request_id": "r", "choices": [choice]})

    async def _completions(self, request: web.Request) -> web.Response:
        body, got = await self._sample(request, "prompt", lambda body: body, "max_tokens")
        choice = {"index": 0, "text": "", "finish_reason": got.finish_reason, "token_ids": got.token_ids}
        choice |= {"logprobs": {"token_logprobs": got.logprobs}, "prompt_token_ids": body["prompt"]}
        return self._answer({"id": "c", "object": "text_completion", "choices": [choice]})

    async def _sglang(self, request: web.Request) -> web.Response:
        body, got = await self._sample(request, "input_ids", lambda body: body["sampling_params"], "max_new_tokens")
        finish = {"type": got.finish_reason, "matched": got.token_ids[-1]}
        rows = [[logprob, token, None] for token, logprob in zip(got.token_ids, got.logprobs, strict=True)]
        meta = {"id": "r", "finish_reason": finish, "prompt_tokens": len(body["input_ids"]), "weight_version": "v7"}
        meta["output_token_logprobs"] = rows
        return self._answer({"text": "", "output_ids": list(got.token_ids), "meta_info": meta})


def _status(status: int) -> web.HTTPException:
    return {429: web.HTTPTooManyRequests, 500: web.HTTPInternalServerError, 400: web.HTTPBadRequest}[status](
        text=json.dumps({"error": {"message": "maximum context length is 9"}} if status == 400 else {}),
        headers={"Retry-After": "0"},
    )


@pytest.fixture
async def stand_in(engine: Any) -> AsyncIterator[StandIn]:
    made = StandIn(engine)
    runner = web.AppRunner(made.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture(params=sorted(KINDS))
async def client(request: pytest.FixtureRequest, stand_in: StandIn) -> AsyncIterator[Any]:
    backend = KINDS[request.param]("m", stand_in.url + "/v1", options=FAST)
    yield backend
    await backend.close()


async def test_a_server_samples_what_the_engine_samples(client: Any, stand_in: StandIn, engine: Any) -> None:
    assert isinstance(client, TokenBackend)
    own = await engine.generate(PROMPT, {"max_tokens": 8, "seed": 5})
    stops = [own.token_ids[5]]
    got = await client.generate(PROMPT, {"max_tokens": 8, "seed": 5, "top_p": 1.0}, stops)
    assert (got.token_ids, got.finish_reason) == (own.token_ids[:6], "stop")
    assert got.logprobs == pytest.approx(own.logprobs[:6], abs=1e-4)
    cut = await client.generate(PROMPT, {"max_tokens": 3, "seed": 5}, stops)
    assert (len(cut.token_ids), cut.finish_reason) == (3, "length")


async def test_busy_servers_are_asked_again(client: Any, stand_in: StandIn) -> None:
    stand_in.fail = [429, 500]
    assert (await client.generate(PROMPT, {"max_tokens": 2})).tries == 3
    stand_in.fail = [400]
    with pytest.raises(ProviderError, match="context_length_exceeded") as refused:
        await client.generate(PROMPT, {"max_tokens": 2})
    assert refused.value.status == 400


@pytest.mark.parametrize("missing", [None, -9999.0, float("nan")])
async def test_a_missing_log_probability_leaves_none(client: Any, stand_in: StandIn, missing: float | None) -> None:
    def change(body: dict[str, Any]) -> None:
        if "meta_info" in body:
            body["meta_info"]["output_token_logprobs"][1][0] = missing
        elif "content" in body["choices"][0]["logprobs"]:
            body["choices"][0]["logprobs"]["content"][1]["logprob"] = missing
        else:
            body["choices"][0]["logprobs"]["token_logprobs"] = [-1.0, missing, -1.0]

    stand_in.change = change
    got = await client.generate(PROMPT, {"max_tokens": 3, "seed": 1})
    assert (len(got.token_ids), got.logprobs) == (3, ())


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("vllm", lambda b: b["choices"][0].pop("token_ids"), "token_ids"),
        ("vllm", lambda b: b["choices"][0]["logprobs"]["content"][0].update(token_id=1), "other tokens"),
        ("vllm", lambda b: b["choices"][0].update(finish_reason="abort"), "abort"),
        ("vllm-completions", lambda b: b["choices"][0].update(prompt_token_ids=[1]), "another prompt"),
        ("sglang", lambda b: b["meta_info"].update(prompt_tokens=3), "3 prompt tokens"),
        ("sglang", lambda b: b.update(output_ids=[1, 2, 3]), "other tokens"),
        ("sglang", lambda b: b["meta_info"].update(finish_reason={"type": "abort", "message": "why"}), "abort.*why"),
    ],
)
async def test_an_answer_that_is_not_as_documented_is_an_error(
    stand_in: StandIn, kind: str, change: Any, told: str
) -> None:
    stand_in.change = change
    backend = KINDS[kind]("m", stand_in.url, options=ClientOptions(max_tries=1))
    with pytest.raises(ProviderError, match=told):
        await backend.generate(PROMPT, {"max_tokens": 3, "seed": 1})
    await backend.close()


async def test_a_stop_token_that_the_server_trimmed_is_kept(stand_in: StandIn) -> None:
    def trim(body: dict[str, Any]) -> None:
        body["output_ids"].pop()
        body["meta_info"]["output_token_logprobs"].pop()
        body["meta_info"]["finish_reason"] = {"type": "stop", "matched": 7}

    stand_in.change = trim
    backend = SGLangBackend("m", stand_in.url)
    try:
        got = await backend.generate(PROMPT, {"max_tokens": 3, "seed": 1}, [7])
    finally:
        await backend.close()
    assert (len(got.token_ids), got.token_ids[-1], got.logprobs) == (3, 7, ())


async def test_a_context_is_kept_to_without_asking(stand_in: StandIn) -> None:
    backend = VLLMBackend("m", stand_in.url, context=24)
    await backend.generate(PROMPT, {})
    assert stand_in.asked[0]["sampling_params"]["max_tokens"] == 4
    with pytest.raises(ProviderError, match="context_length_exceeded"):
        await backend.generate([1] * 24, {})
    await backend.close()


def _report(kind: str, spans: Any) -> Any:
    """Returns a change of a reply: the server reports these versions of its weights."""

    def change(body: dict[str, Any]) -> None:
        (body["meta_info"] if kind == "sglang" else body["choices"][0])["weight_versions"] = spans

    return change


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_spans_of_weight_versions_are_read_and_those_that_leave_a_gap_are_refused(
    stand_in: StandIn, kind: str
) -> None:
    backend = KINDS[kind]("m", stand_in.url, options=FAST)
    spans = [{"version": 3, "start": 0, "end": 2}, {"version": 4, "start": 2, "end": 5}]
    stand_in.change = _report(kind, spans)
    reply = await backend.generate([5, 6, 7], {"max_tokens": 5, "seed": 1})
    assert reply.weight_version == "3"
    assert [(span.version, span.end) for span in reply.weight_spans] == [("3", 2), ("4", 5)]
    for broken in ([spans[1]], [spans[0]], [spans[0], {"version": 4, "start": 3, "end": 5}], spans[::-1]):
        stand_in.change = _report(kind, broken)
        with pytest.raises(ProviderError, match="do not cover the 5 sampled tokens"):
            await backend.generate([5, 6, 7], {"max_tokens": 5, "seed": 1})
    stand_in.change = _report(kind, [{"version": "a", "start": 0, "end": 2}, {"version": "a", "start": 2, "end": 5}])
    reply = await backend.generate([5, 6, 7], {"max_tokens": 5, "seed": 1})
    assert (reply.weight_version, reply.weight_spans) == ("a", ())
    await backend.close()


async def test_versions_without_positions_begin_with_the_oldest(stand_in: StandIn) -> None:
    backend = KINDS["vllm"]("m", stand_in.url, options=FAST)
    stand_in.change = _report("vllm", ["step-3", "step-4"])
    reply = await backend.generate([5, 6, 7], {"max_tokens": 5, "seed": 1})
    assert reply.weight_version == "step-3"
    assert [(span.version, span.end) for span in reply.weight_spans] == [("step-3", None), ("step-4", None)]
    await backend.close()


@pytest.mark.parametrize("spans", [["v" * 201], [f"v{n}" for n in range(40)], "v" * 201])
async def test_names_of_weights_that_would_fill_every_record_are_refused(stand_in: StandIn, spans: Any) -> None:
    backend = KINDS["vllm"]("m", stand_in.url, options=FAST)
    stand_in.change = _report("vllm", spans)
    with pytest.raises(ProviderError, match="weight versions of 5 sampled tokens, or one whose name"):
        await backend.generate([5, 6, 7], {"max_tokens": 5, "seed": 1})
    await backend.close()


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_server_is_opened_by_name_with_its_renderer(stand_in: StandIn, tiny_folder: Path, kind: str) -> None:
    name = f"{kind}:{stand_in.url}#m?tokenizer={tiny_folder}&max_tokens=4&seed=2"
    backend = open_backend(name, Settings.from_environment({}))
    reply = await backend.complete(ModelRequest([{"role": "user", "content": "Hi"}], sampling={"max_tokens": 99}))
    await backend.close()
    assert len(reply.completion_token_ids or ()) == 4
    assert (reply.weight_version, reply.finish_reason) == ("v7", "length")
    assert reply.usage.prompt_tokens == len(reply.prompt_token_ids or ())
