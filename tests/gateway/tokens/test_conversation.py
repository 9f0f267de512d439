"""The next prompt holds the sampled tokens; where it cannot, a branch begins with its cause."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.errors import ProviderError
from assay.gateway.tokens import ParsedCall, ParsedReply, TokenModel, build_token_rows

pytestmark = pytest.mark.newest
START = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Go."}]
ODD = '{ "content" : "x" ,"path":"a", "extra" : 1}'


def echoed(answer: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The answer as a client sends it back, with other arguments or fields."""
    calls = [{**call, "function": {**call["function"], **changed.get("function", {})}} for call in answer["tool_calls"]]
    return {"role": "assistant", "content": changed.get("content"), "tool_calls": calls}


async def two_turns(talk: Any, parts: Any, **changed: Any) -> Any:
    client = talk(parts.says("I write.", ODD, reasoning_content="Hm, so."), parts.says("Done."))
    first = await client.ask(START)
    await client.ask([*START, echoed(first, **changed), *parts.results(first)])
    return client


async def test_the_answer_is_what_was_written(talk: Any, parts: Any) -> None:
    client = talk(parts.says("I write.", ODD, ODD, reasoning_content="Hm, so."))
    answer = await client.ask(START)
    assert (answer["content"], answer["reasoning_content"]) == ("I write.", "Hm, so.")
    assert [call["function"]["arguments"] for call in answer["tool_calls"]] == [ODD, ODD]
    assert len({call["id"] for call in answer["tool_calls"]}) == 2
    reply = client.recorder.exchanges[0].reply
    assert reply.finish_reason == "tool_calls"
    assert reply.usage.prompt_tokens == len(reply.prompt_token_ids)
    assert reply.usage.completion_tokens == len(reply.completion_token_ids)


@pytest.mark.parametrize(
    "changed",
    [
        {"function": {"arguments": '{"path":"a","content":"x"}'}},
        {"function": {"name": "invalid", "arguments": "{}"}},
        {"content": "  I write. "},
        {},
    ],
)
async def test_a_respelled_echo_is_replaced_by_what_was_sampled(talk: Any, parts: Any, changed: Any) -> None:
    client = await two_turns(talk, parts, **changed)
    first, second = client.calls
    whole = len(first.prompt_token_ids) + len(first.completion_token_ids)
    assert (second.parent, second.cause, second.shared_tokens) == (first.id, None, whole)
    assert second.response["assay"]["prompt"] == "extended"
    assert second.response["assay"]["echoes"][0]["message"] == 2
    assert len(build_token_rows(client.calls).rows) == 1


async def test_an_edited_argument_begins_a_branch_at_the_first_token_that_differs(talk: Any, parts: Any) -> None:
    client = await two_turns(talk, parts, function={"arguments": '{"path":"b","content":"x"}'})
    first, second = client.calls
    assert (second.cause, second.branch, second.parent) == ("rewritten", second.id, first.id)
    assert second.differs_at == second.shared_tokens < len(first.prompt_token_ids) + len(first.completion_token_ids)
    assert second.certificate.certified
    assert len(build_token_rows(client.calls).rows) == 2


async def test_a_call_written_as_text_is_known_by_its_id(talk: Any, parts: Any) -> None:
    client = talk(parts.says("", ODD), parts.says("Done."))
    first = await client.ask(START)
    text = f"Calling tools:\n[{{'id': '{first['tool_calls'][0]['id']}', 'function': ...}}]"
    await client.ask([*START, {"role": "assistant", "content": text}, {"role": "user", "content": "Observation: ok"}])
    assert len(build_token_rows(client.calls).rows) == 1
    assert client.calls[1].response["assay"]["echoes"] == [{"message": 2, "changes": ("form",)}]


async def test_asking_again_makes_siblings_and_the_one_that_goes_on_is_trained(talk: Any, parts: Any) -> None:
    client = talk(parts.says("", ODD), parts.says("", '{"broken": '), parts.says("Fine."), parts.says("More."))
    first = await client.ask(START)
    longer = [*START, first, *parts.results(first)]
    await client.ask(longer)
    fine = await client.ask(longer)
    await client.ask([*longer, fine, {"role": "user", "content": "And?"}])
    assert [call.cause for call in client.calls] == ["root", None, "resample", None]
    rows = build_token_rows(client.calls).rows
    assert len(rows) == 2
    assert sum(sum(row.mask) for row in rows) == sum(len(call.completion_token_ids) for call in client.calls)


async def test_the_same_asked_twice_at_once_is_two_siblings(talk: Any, parts: Any) -> None:
    client = talk(parts.says("", ODD), parts.says("One."), parts.says("Two."), parts.says("Three."))
    first = await client.ask(START)
    longer = [*START, first, *parts.results(first)]
    _, two = await asyncio.gather(client.ask(longer), client.ask(longer))
    await client.ask([*longer, two, {"role": "user", "content": "And?"}])
    assert [call.cause for call in client.calls] == ["root", None, "resample", None]
    assert client.calls[2].branch == client.calls[3].branch == client.calls[2].id
    rows = build_token_rows(client.calls).rows
    assert sorted(len(row.spans) for row in rows) == [2, 3]


async def test_other_tools_replay_the_same_sampled_turns(talk: Any, parts: Any) -> None:
    client = talk(parts.says("", ODD), parts.says("Done."))
    first = await client.ask(START)
    await client.ask([*START, first, *parts.results(first)], tools=())
    before, after = client.calls
    assert (after.cause, after.response["assay"]["prompt"]) == ("tools", "replayed")
    sampled, prompt = before.completion_token_ids, client.recorder.exchanges[1].reply.prompt_token_ids
    assert any(prompt[i : i + len(sampled)] == sampled for i in range(len(prompt)))
    assert after.certificate.certified


async def test_compaction_and_sub_agents_begin_rows(talk: Any, parts: Any) -> None:
    client = talk(parts.says("", ODD), parts.says("Done."), parts.says("Yes."), parts.says("Sub."))
    first = await client.ask(START)
    second = await client.ask([*START, first, *parts.results(first)])
    await client.ask([START[0], {"role": "user", "content": "Summary: all done. Go on."}])
    await client.ask([{"role": "system", "content": "You help."}, {"role": "user", "content": "Find it."}])
    assert second["content"] == "Done."
    assert [call.cause for call in client.calls] == ["root", None, "compaction", "sub_agent"]
    assert all(call.differs_at > 0 for call in client.calls[2:])
    assert len(build_token_rows(client.calls).rows) == 3


async def test_what_is_streamed_is_what_is_said(talk: Any, parts: Any) -> None:
    text = "Größe 🙂 " * 9
    client = talk(parts.says(text, ODD, reasoning_content="Thinking of it. " * 5))
    answer = await client.ask(START)
    assert "".join(delta.text for delta in client.deltas) == answer["content"] == text.strip()
    assert "".join(delta.reasoning for delta in client.deltas) == answer["reasoning_content"]
    assert [delta.arguments for delta in client.deltas if delta.index is not None] == [ODD]
    assert len(client.deltas) > 6
    assert "\ufffd" not in "".join(delta.text for delta in client.deltas)


async def test_what_a_token_backend_cannot_do_is_said(talk: Any, parts: Any) -> None:
    client = talk(parts.says("Hm."))
    await client.ask(START, tools=[{"type": "web_search"}], tool_choice="required", temperature=0.5)
    assert client.calls[0].response["assay"]["ignored"] == ["tool_choice", "tools: web_search"]


async def test_a_conversation_that_no_template_takes_is_a_bad_request(talk: Any) -> None:
    with pytest.raises(ProviderError, match="cannot be put into the qwen3 template") as failed:
        await empty(talk())
    assert failed.value.status == 400


async def empty(client: Any) -> None:
    from assay.gateway.interface import ModelRequest

    request = ModelRequest(messages=[])
    await client.session.model.ask("c", request, client.session.call_tree.locate(request), client._hear)


class WithIds:
    """A renderer whose model gives its calls ids of its own; remembers the messages that it is given."""

    name = "with-ids"
    stop_ids: tuple[int, ...] = (0,)

    def __init__(self) -> None:
        self.given: list[Any] = []

    def render(self, messages: Any, tools: Any) -> list[int]:
        self.given.append(list(messages))
        return [1, 2]

    def extend(self, before: Any, sampled: Any, messages: Any, names: Any) -> list[int]:
        self.given.append([*messages, names])
        return [*before, *sampled, 3]

    def parse(self, sampled: Any, before: Any, tools: Any) -> ParsedReply:
        return ParsedReply("", "", (ParsedCall("bash", "{}", "functions.bash:0"),))

    def text(self, tokens: Any) -> str:
        return ""

    def is_plain(self, token: int) -> bool:
        return True


async def test_a_template_that_shows_ids_is_given_the_models_own(parts: Any) -> None:
    renderer = WithIds()
    client = parts.Talk(TokenModel(parts.Echoing([5]), renderer))
    first = await client.ask(START)
    assert first["tool_calls"][0]["id"].startswith("call_")
    await client.ask([*START, first, *parts.results(first)])
    assert renderer.given[1][0]["tool_call_id"] == "functions.bash:0"
    assert renderer.given[1][1] == {"functions.bash:0": "bash"}
    await client.ask([*START, first, *parts.results(first)], tools=())
    assert renderer.given[3][0]["tool_call_id"] == "functions.bash:0"
