"""Calls taken apart and put together: bodies, messages, tokens; and records that somebody made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.errors import StoreError
from assay.records import ModelCall, RawBody, digest_bytes
from assay.store import (
    BlobStore,
    BodyDeltaEncoder,
    RedactedBytes,
    assistant_message,
    restore_body,
    restore_messages,
    restore_prompt_ids,
    restore_request,
)
from assay.store.calls import shared_prefix, shared_suffix

pytestmark = pytest.mark.quick
PIECES = st.lists(
    st.sampled_from([b"a", b"ab", "\u00e9".encode(), "\U0001f600".encode(), b"\xff", b"x" * 70]), max_size=40
)


def call(name: str, **fields: Any) -> ModelCall:
    given: dict[str, Any] = {"dialect": "openai-chat", "model": "m", "request": {}, "response": None, **fields}
    return ModelCall(name, **given)


def said(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def kept(folder: Path, bodies: list[bytes]) -> dict[str, ModelCall]:
    keeper = BodyDeltaEncoder(BlobStore(folder))
    names = [f"c{n}" for n in range(len(bodies))]
    before = [None, *names]
    return {
        n: call(n, raw_request=keeper.request(n, b, near)) for n, b, near in zip(names, bodies, before, strict=False)
    }


@given(st.lists(PIECES.map(b"".join), min_size=1, max_size=6))
def test_every_body_comes_back(tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("blobs")
    calls = kept(folder, bodies)
    assert [restore_body(calls, c, "request", BlobStore(folder)) for c in calls.values()] == bodies


def alike(one: bytes, other: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_shares_are_the_longest(begin: bytes, one: bytes, other: bytes, end: bytes) -> None:
    left, right = begin + one + end, begin + other + end
    prefix = shared_prefix(left, right)
    assert prefix == alike(left, right)
    limit = min(len(left), len(right)) - prefix
    assert shared_suffix(left, right, limit) == min(limit, alike(left[::-1], right[::-1]))


def test_a_growing_conversation_takes_what_is_new(tmp_path: Path) -> None:
    bodies = [b'{"messages":[' + b'"hello there",' * n + b'"end"],"tools":"' + b"t" * 50_000 + b'"}' for n in range(60)]
    calls = kept(tmp_path, bodies)
    own = [len(c.raw_request.text or "") for c in calls.values() if c.raw_request]
    assert own[0] > 50_000
    assert max(own[1:]) < 100
    assert restore_body(calls, calls["c59"], "request", BlobStore(tmp_path)) == bodies[59]


def test_long_and_binary_parts_are_compressed_blobs(tmp_path: Path) -> None:
    calls = kept(tmp_path, [b"long " * 40_000, b"\xff\xfe"])
    first = calls["c0"].raw_request
    assert first is not None
    assert first.text is None
    assert first.blob is not None
    assert BlobStore(tmp_path).path(first.blob).stat().st_size < 5_000
    assert restore_body(calls, calls["c1"], "request", BlobStore(tmp_path)) == b"\xff\xfe"


class Cleaner:
    """Takes out one word, and keeps count of what it looked through."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def clean(self, data: bytes) -> RedactedBytes:
        self.seen.append(len(data))
        return RedactedBytes(data.replace(b"SECRET", b"[s]"), ("s",) if b"SECRET" in data else ())

    def touches(self, data: bytes, start: int, end: int) -> bool:
        return bool(self.clean(data[max(0, start - 6) : end + 6]).names)


def test_what_is_cleaned_once_is_not_looked_through_again(tmp_path: Path) -> None:
    cleaner = Cleaner()
    keeper = BodyDeltaEncoder(BlobStore(tmp_path), cleaner)
    body = b"x" * 100_000
    keeper.request("c0", body)
    assert keeper.request("c1", body + b"more", "c0").redactions == ()
    assert cleaner.seen == [100_000, 10]
    assert keeper.request("c2", body + b"moreSECRET", "c1").redactions == ("s",)


def test_a_secret_on_the_border_of_what_is_new_is_found(tmp_path: Path) -> None:
    keeper = BodyDeltaEncoder(BlobStore(tmp_path), Cleaner())
    keeper.request("c0", b"y" * 9_000 + b"SEC" + b"z" * 9_000)
    assert keeper.request("c1", b"y" * 9_000 + b"SECRET" + b"z" * 9_000, "c0").redactions == ("s",)


def conversation() -> dict[str, ModelCall]:
    user = {"role": "user", "content": "hi"}
    tool = {"role": "tool", "tool_call_id": "t", "content": "done"}
    tools = [{"type": "function"}]
    one = call("c1", request={"messages": [user], "tools": tools}, response=said("a"), prompt_token_ids=(1, 2))
    one = replace(one, completion_token_ids=(3,))
    two = call("c2", request={"messages": [tool]}, response=said("b"), parent="c1", shared_messages=2)
    two = replace(two, shared_fields=("tools",), prompt_token_ids=(4,), shared_tokens=3, completion_token_ids=(5, 6))
    three = call("c3", request={"messages": [user]}, parent="c2", shared_messages=1)
    three = replace(three, prompt_token_ids=(9,), shared_tokens=2, shared_fields=("tools",))
    return {"c1": one, "c2": two, "c3": three}


def test_messages_are_put_together_along_the_parents() -> None:
    calls = conversation()
    assert [m["content"] for m in restore_messages(calls, calls["c2"])] == ["hi", "a", "done"]
    assert [m["content"] for m in restore_messages(calls, calls["c3"])] == ["hi", "hi"]
    assert assistant_message(calls["c3"]) is None


def test_tokens_and_fields_are_put_together_along_the_parents() -> None:
    calls = conversation()
    assert restore_prompt_ids(calls, calls["c2"]) == (1, 2, 3, 4)
    assert restore_prompt_ids(calls, calls["c3"]) == (1, 2, 9)
    assert restore_request(calls, calls["c3"])["tools"] == [{"type": "function"}]
    assert restore_prompt_ids({}, call("c")) is None


@pytest.mark.parametrize(
    "made_up",
    [
        {"parent": "c9", "shared_messages": 1},
        {"parent": "c9", "shared_messages": -1},
        {"parent": "gone", "shared_messages": 1},
        {"shared_messages": 1},
        {"request": {"messages": 3}},
    ],
)
def test_made_up_links_are_errors_and_never_loop(made_up: dict[str, Any]) -> None:
    one = call("c9", **made_up)
    with pytest.raises(StoreError, match="c9"):
        restore_messages({"c9": one}, one)


@pytest.mark.parametrize(
    "body",
    [
        RawBody("blake3:x", 5, base="c9", prefix=1, text="abcd"),
        RawBody("blake3:x", 5, base="gone", prefix=1, text="abcd"),
        RawBody("blake3:x", 4, text="abcd"),
        RawBody(digest_bytes(b"abcd"), 9, text="abcd"),
        RawBody(digest_bytes(b"abcd"), 4, prefix=-1, text="abcd"),
        RawBody(digest_bytes(b"abcd"), 4, blob="blake3:" + "0" * 64),
        RawBody(digest_bytes(b"abcd"), 1 << 60, prefix=1 << 60, text="abcd"),
    ],
)
def test_made_up_bodies_are_errors_and_never_loop(tmp_path: Path, body: RawBody) -> None:
    one = call("c9", raw_request=body)
    with pytest.raises(StoreError):
        restore_body({"c9": one}, one, "request", BlobStore(tmp_path))


def test_a_compressed_bomb_takes_no_memory(tmp_path: Path) -> None:
    import zlib

    blob = BlobStore(tmp_path).put(zlib.compress(bytes(50_000_000)))
    one = call("c9", raw_request=RawBody(digest_bytes(b""), 4, blob=blob))
    with pytest.raises(StoreError, match="has 5 new bytes instead of 4"):
        restore_body({"c9": one}, one, "request", BlobStore(tmp_path))
