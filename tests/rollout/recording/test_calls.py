"""From exchanges to records and back: whatever an agent does to its conversation, what it sent comes back."""

from __future__ import annotations

import base64
import copy
import json
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.gateway.call_tree import CallTree
from assay.gateway.interface import Exchange, MessageLog, ModelReply, ModelRequest
from assay.gateway.tokens import build_token_rows
from assay.learning.conversation import stored_pictures
from assay.records import ModelCall, SpanProof, Usage, digest_bytes
from assay.rollout.recording.model_calls import CallRecordBuilder, Conversation
from assay.rollout.recording.redaction import Redactor
from assay.store import BlobStore, restore_body, restore_messages, restore_request

pytestmark = pytest.mark.newest
SECRET = "upstream-secret-0123456789"
TOOLS = ([], [{"type": "function", "function": {"name": "a"}}], [{"type": "function", "function": {"name": "b"}}])
ACTS = st.sampled_from(
    ["say", "tool", "again", "fail", "echo differs", "drop", "edit in place", "edit the answer", "tools", "fresh"]
)


def reply(text: str, tool: str | None = None) -> ModelReply:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool is not None:
        message["tool_calls"] = [{"id": tool, "type": "function", "function": {"name": "a", "arguments": "{}"}}]
    return ModelReply(message, "stop", Usage(1, 1), {"choices": [{"index": 0, "message": message}]}, {}, "m")


def exchange(name: str, request: ModelRequest, answer: ModelReply | None, **more: Any) -> Exchange:
    given: dict[str, Any] = {"parent": None, "branch": name, "shared_messages": 0, "raw_request": b"", **more}
    given = {"raw_response": b"", "cause": None, "differs_at": None, "lineage": {}, **given}
    error = None if answer else "failed"
    return Exchange(
        name,
        request,
        answer,
        error,
        "m",
        started=1.0,
        ended=2.0,
        delivered=True,
        shared_tokens=0,
        certificate=None,
        **given,
    )


class Talk:
    """An agent's conversation, recorded as `LiveAttempt.ask` records it."""

    def __init__(self, folder: Path) -> None:
        self.blobs = BlobStore(folder)
        self.keeper, self.conversation = CallRecordBuilder(self.blobs, Redactor()), Conversation()
        self.calls: dict[str, ModelCall] = {}
        self.sent: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}]
        self.tools = TOOLS[0]

    def ask(self, *, fail: bool = False, tool: bool = False) -> None:
        name = f"c{len(self.calls)}"
        request = ModelRequest(self.messages.copy(), self.tools)
        self.sent[name] = (copy.deepcopy(self.messages), copy.deepcopy(self.tools))
        standing = self.conversation.locate(request)
        answer = None if fail else reply(f"answer {name}", f"t{name}" if tool else None)
        branch = self.conversation.add(name, standing, answer)
        links = {"parent": standing.parent, "branch": branch, "shared_messages": standing.shared}
        # Committed before the agent gets the answer.
        self.calls[name] = copy.deepcopy(self.keeper.keep(exchange(name, standing.request, answer, **links)))
        if answer is not None:
            self.messages.append(answer.message)
            self.messages.append({"role": "tool", "tool_call_id": f"t{name}", "content": "ok"} if tool else user(name))

    def act(self, what: str) -> None:
        if what == "echo differs" and len(self.messages) > 2:
            self.messages[-2] = {**self.messages[-2], "content": "trimmed"}
        elif what == "drop" and len(self.messages) > 3:
            del self.messages[1:3]
        elif what == "edit in place":
            self.messages[0]["content"] += "!"
        elif what == "edit the answer" and len(self.messages) > 2:
            self.messages[-2]["content"] = "trimmed"
        elif what == "tools":
            self.tools = TOOLS[(len(self.calls) + 1) % 3]
        elif what == "fresh":
            self.messages = [user("anew")]
        elif what == "again" and len(self.messages) > 2:
            del self.messages[-2:]
        self.ask(fail=what == "fail", tool=what == "tool")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@settings(max_examples=80, deadline=None)
@given(st.lists(ACTS, max_size=14))
def test_what_was_sent_comes_back(tmp_path_factory: pytest.TempPathFactory, acts: list[str]) -> None:
    talk = Talk(tmp_path_factory.getbasetemp())
    for act in acts:
        talk.act(act)
    for name, (messages, tools) in talk.sent.items():
        assert restore_messages(talk.calls, talk.calls[name]) == messages
        assert restore_request(talk.calls, talk.calls[name]).get("tools", []) == tools


def test_a_conversation_that_grows_is_stored_once(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    for _ in range(50):
        talk.act("tool")
    assert [len(c.request["messages"]) for c in talk.calls.values()] == [1] * 50
    assert {c.branch for c in talk.calls.values()} == {"c0"}


def seen(url: str) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}],
    }


def test_a_picture_is_stored_once_and_named_by_its_digest(tmp_path: Path) -> None:
    talk, picture = Talk(tmp_path), b"RIFF....WEBP a picture"
    url = f"data:image/webp;base64,{base64.b64encode(picture).decode()}"
    for _ in range(2):
        talk.messages.append(seen(url))
        talk.ask()
    recorded = [call.request["messages"][-1] for call in talk.calls.values()]
    assert recorded == [seen(digest_bytes(picture))] * 2
    assert talk.blobs.get(digest_bytes(picture)) == picture
    assert [*talk.blobs.addresses()] == [digest_bytes(picture)]
    assert talk.messages[1] == seen(url)  # the agent's own messages stay as they are


@pytest.mark.parametrize("url", ["data:image/png;base64,%%%", "data:text/plain;base64,AAAA", "http://h/i.png", ""])
def test_what_is_no_picture_stays_as_it_was_sent(tmp_path: Path, url: str) -> None:
    talk = Talk(tmp_path)
    talk.messages.append(seen(url))
    talk.ask()
    assert talk.calls["c0"].request["messages"][-1] == seen(url)
    assert [*talk.blobs.addresses()] == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "DIGEST"}},
        {"type": "file", "image_url": {"url": "DIGEST"}},
        {"type": "input_file", "image_url": "DIGEST"},
        {"type": "text", "text": "see", "image_url": {"url": "DIGEST"}},
    ],
)
def test_a_client_cannot_name_a_stored_picture(tmp_path: Path, part: dict[str, Any]) -> None:
    talk, digest = Talk(tmp_path), digest_bytes(b"another attempt's")
    given = json.loads(json.dumps(part).replace("DIGEST", digest))
    talk.messages.append({"role": "user", "content": [given]})
    talk.ask()
    recorded = talk.calls["c0"].request["messages"]
    assert recorded[-1]["content"] == [json.loads(json.dumps(part).replace("DIGEST", f"external:{digest}"))]
    assert stored_pictures(recorded) == ()


def ask_in_log(conversation: Conversation, turns: int) -> None:
    """An agent that only appends, and asks with its log itself."""
    log = MessageLog([user("count")])
    for turn in range(turns):
        position = conversation.locate(ModelRequest(log))
        assert (position.parent, position.shared) == ((f"c{turn - 1}", len(log) - 1) if turn else (None, 0))
        conversation.add(f"c{turn}", position, reply(f"answer {turn}"))
        log += [{"role": "assistant", "content": f"answer {turn}"}, user(f"more {turn}")]


def test_memory_of_a_conversation_is_linear() -> None:
    held = []
    for turns in (400, 1_600):
        conversation = Conversation()
        tracemalloc.start()
        ask_in_log(conversation, turns)
        position = conversation.locate(ModelRequest([user("another")]))  # all calls are placed in the tree now
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert position.cause == "compaction"
    assert held[1] < 5 * held[0]


def test_two_calls_that_go_on_from_the_same_one_keep_their_own_messages() -> None:
    conversation, first = Conversation(), [user("begin")]
    conversation.add("c0", conversation.locate(ModelRequest(first)), reply("yes"))
    both = [[*first, {"role": "assistant", "content": "yes"}, user(text)] for text in ("left", "right")]
    positions = [conversation.locate(ModelRequest(messages)) for messages in both]
    for name, position in zip(("c1", "c2"), positions, strict=True):
        conversation.add(name, position, reply(name))
    assert [position.request.messages for position in positions] == both


def test_what_is_derived_from_a_log_is_counted_on() -> None:
    seen: list[str] = []

    def add(total: int, message: dict[str, Any]) -> int:
        seen.append(message["content"])
        return total + 1

    log = MessageLog([user("a"), user("b")])
    assert log.fold(add, 0) == 2
    log.append(user("c"))
    assert (log.fold(add, 0), seen) == (3, ["a", "b", "c"])


def kept(folder: Path, **more: Any) -> tuple[ModelCall, BlobStore]:
    blobs = BlobStore(folder)
    keeper = CallRecordBuilder(blobs, Redactor({"OPENAI_API_KEY": SECRET}))
    asked = ModelRequest([user(more.pop("said", "hi"))])
    return keeper.keep(exchange("c1", asked, reply(more.pop("answer", "hello")), **more)), blobs


def test_a_stream_that_may_hold_a_secret_in_pieces_is_withheld(tmp_path: Path) -> None:
    stream = b'data: {"delta": "upstream-secret"}\n\ndata: {"delta": "-0123456789"}\n\n'
    call, blobs = kept(tmp_path, answer=f"it is {SECRET}", raw_response=stream)
    assert call.raw_response is not None
    assert call.raw_response.redactions == ("OPENAI_API_KEY",)
    assert restore_body({}, call, "response", blobs) == b"[withheld: it held OPENAI_API_KEY in pieces]"


def test_a_stream_without_secrets_is_kept(tmp_path: Path) -> None:
    call, blobs = kept(tmp_path, said=f"my key: {SECRET}", raw_response=b"data: {}\n\n")
    assert restore_body({}, call, "response", blobs) == b"data: {}\n\n"
    assert call.redactions == ("OPENAI_API_KEY",)


def test_a_request_that_hides_a_secret_is_withheld(tmp_path: Path) -> None:
    call, blobs = kept(tmp_path, said=f"my key: {SECRET}", raw_request=b'{"messages": "dXBzdHJlYW0"}')
    assert call.raw_request is not None
    assert call.raw_request.redactions == ("OPENAI_API_KEY",)
    assert b"dXBz" not in (restore_body({}, call, "request", blobs) or b"")


def test_errors_and_lineage_are_cleaned_too(tmp_path: Path) -> None:
    call, _ = kept(tmp_path, lineage={"session": SECRET})
    assert call.lineage == {"session": "[redacted:OPENAI_API_KEY]"}


def sampled(text: str) -> ModelReply:
    told = {"prompt_token_ids": (1, 2, 3), "completion_token_ids": (4,), "logprobs": (-0.5,)}
    return msgspec.structs.replace(reply(text), **told)


def test_tokens_that_spell_a_secret_are_withheld_and_make_no_row(tmp_path: Path) -> None:
    keeper = CallRecordBuilder(BlobStore(tmp_path), Redactor({"KEY": SECRET}))
    plain = keeper.keep(exchange("a", ModelRequest([user("hello")]), sampled("fine")))
    spelt = keeper.keep(exchange("b", ModelRequest([user(f"it is {SECRET}")]), sampled("thanks")))
    after = keeper.keep(exchange("c", ModelRequest([user("go on")]), sampled("yes"), parent="b"))
    assert (plain.prompt_token_ids, plain.completion_token_ids) == ((1, 2, 3), (4,))
    for call in (spelt, after):
        assert (call.prompt_token_ids, call.completion_token_ids, call.logprobs) == (None, None, None)
        assert call.certificate is not None
        assert "withheld" in str(call.certificate.reason)
    kept = build_token_rows(
        [msgspec.structs.replace(plain, certificate=SpanProof(certified=True)), spelt, after], uncertified="mask"
    )
    assert [row.token_ids for row in kept.rows] == [(1, 2, 3, 4)]
    assert [one.call for one in kept.refused] == ["b", "c"]


def request_with(number: Any, place: str) -> ModelRequest:
    """A request with a number in one place, and 7 in all others."""
    own = {name: number if name == place else 7 for name in ("user", "assistant", "tool", "passthrough")}
    messages = [{"role": role, "content": "go", "n": own[role]} for role in ("user", "assistant")]
    return ModelRequest([*messages, user("on")], [{"name": own["tool"]}], passthrough={"n": own["passthrough"]})


@pytest.mark.parametrize("numbers", [(1, True), (1, 1.0), (False, 0), (0.0, -0.0)], ids=str)
@pytest.mark.parametrize("place", ["user", "assistant", "tool", "passthrough"])
def test_numbers_that_python_calls_equal_come_back_as_they_were_sent(
    tmp_path: Path, numbers: tuple[Any, Any], place: str
) -> None:
    tree, builder = CallTree(), CallRecordBuilder(BlobStore(tmp_path), Redactor())
    first, second = (request_with(number, place) for number in numbers)
    asked = {"c1": msgspec.structs.replace(first, messages=first.messages[:1]), "c2": second}
    answer = msgspec.structs.replace(reply("go"), message=first.messages[1])
    calls: dict[str, ModelCall] = {}
    for name, request in asked.items():
        found = tree.locate(request)
        tree.add(name, found, request, answer.message)
        links = {"parent": found.parent and found.parent.id, "shared_messages": found.shared_messages}
        calls[name] = builder.keep(exchange(name, request, answer, **links))
        restored = restore_request(calls, calls[name])
        sent = {"messages": request.messages, "tools": request.tools, "passthrough": request.passthrough}
        assert {key: json.dumps(restored[key]) for key in sent} == {
            key: json.dumps(value) for key, value in sent.items()
        }
    assert calls["c2"].parent == "c1"
