"""Bounds of what requests may take together, without a hurry."""

from __future__ import annotations

import json
import socket
from typing import Any

import aiohttp
import pytest

from assay.errors import ProviderError
from assay.gateway.backends._reply import decode_reply
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.dialects import BadRequest
from assay.gateway.dialects._deltas import arguments_as_object
from assay.gateway.model import PlainModel
from assay.gateway.nesting import MAX_DEPTH, is_too_deep
from assay.gateway.request_reader import MemoryBudget, RequestBody
from assay.gateway.server import Gateway, GatewayOptions
from assay.gateway.session import CallRefused
from tests.gateway.test_server import ASKED, Hooks

pytestmark = pytest.mark.quick


def test_what_is_held_is_given_back() -> None:
    budget = MemoryBudget(100)
    one, two = (RequestBody(budget, 1000, 1000) for _ in range(2))
    one.reserve(60)
    with pytest.raises(CallRefused) as caught:
        two.reserve(60)
    assert caught.value.problem.kind == "rate_limited"
    one.release()
    two.reserve(100)


@pytest.mark.parametrize("said", ["a, b, c", "a, b, c. " * 20_000])
def test_values_are_counted_alike_in_short_and_long_bodies(said: str) -> None:
    raw = json.dumps({"messages": [{"content": said}], "n": [1, 2]}).encode()
    values = sum(map(raw.count, (b",", b"[", b"{")))
    for most in (values, values - 1):
        budget = MemoryBudget(10**9)
        body = RequestBody(budget, len(raw), most)
        body.feed(raw)
        if most == values:
            assert body.decode() == (json.loads(raw), raw)
            assert budget.reserved == len(raw) + 100 * values
            continue
        with pytest.raises(CallRefused) as caught:
            body.decode()
        assert caught.value.problem.kind == "too_large"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (GatewayOptions(max_bytes_at_once=3000), 429),
        (GatewayOptions(max_body_bytes=1000), 413),
        (GatewayOptions(max_body_values=20), 413),
    ],
)
async def test_what_is_too_much_is_refused_and_the_next_is_served(options: GatewayOptions, status: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with Gateway(options) as gateway, aiohttp.ClientSession() as client:
        await gateway.listen(listener)
        hooks = Hooks()
        session = gateway.open(PlainModel(ScriptedBackend(lambda request: "fine")), hooks)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/s/{session.id}/v1/chat/completions"
        statuses = []
        for body in (ASKED, ASKED | {"x": ["much"] * 1000}, ASKED):
            async with client.post(url, data=json.dumps(body), headers={"x-api-key": session.key}) as answer:
                statuses.append(answer.status)
    assert (statuses, len(hooks.ended)) == ([200, status, 200], 2)


def nested(levels: int) -> bytes:
    """An object of this many levels, with brackets in a text beside them."""
    return b'{"text":"]]]]","a":' * levels + b"1" + b"}" * levels


def decode_request(raw: bytes) -> None:
    body = RequestBody(MemoryBudget(1_000_000), 1_000_000, 10_000)
    body.feed(raw)
    body.decode()


def decode_arguments(raw: bytes) -> None:
    if "__unparsedToolInput" in arguments_as_object(raw.decode()):
        raise BadRequest("nested too deeply")


@pytest.mark.parametrize("decode", [decode_request, decode_arguments, lambda raw: decode_reply(raw, "a server")])
def test_requests_replies_and_arguments_have_one_bound_of_depth(decode: Any) -> None:
    decode(nested(MAX_DEPTH))
    with pytest.raises((BadRequest, ProviderError), match="nested too deeply"):
        decode(nested(MAX_DEPTH + 1))


def test_wide_values_are_shallow() -> None:
    assert not is_too_deep([{"a": [[], {}]}] * 1000)
    assert not is_too_deep("text")
