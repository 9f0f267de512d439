"""Composite tools: expansion into the environment's own calls, and what stops it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.composites import (
    ArgumentSource,
    CompositeCall,
    CompositeReplayAgent,
    CompositeTool,
    RecordedCall,
    encode_composites,
    fold_calls,
    match_composite,
    offer_composites,
    read_composites,
)
from assay.agents.interface import Prior
from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools
from assay.errors import UserError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.records import Observation, Step, ToolCall

pytestmark = pytest.mark.quick
FIND = CompositeTool(
    "find_then_read",
    (
        CompositeCall("find", {"text": ArgumentSource(parameter="text"), "limit": ArgumentSource(constant=5)}),
        CompositeCall("read", {"id": ArgumentSource(result=0, path=("[]", "id"))}),
    ),
)
PEOPLE = {"ann": [{"id": "p-1"}], "bo": [{"id": "p-2"}, {"id": "p-3"}], "cy": []}
SCHEMAS = {
    "find": {"type": "object", "properties": {"text": {"type": "string"}, "limit": {"type": "integer"}}},
    "read": {"type": "object", "properties": {"id": {"type": "string"}}},
}


def attempt(**fields: Any) -> FakeAttempt:
    tools = FakeTools(
        {"find": lambda a: json.dumps(PEOPLE[a["text"]]), "read": lambda a: json.dumps({"name": a["id"]})}, SCHEMAS
    )
    return FakeAttempt(tools=tools, **fields)


def call(name: str, arguments: dict[str, Any]) -> ToolCall:
    return ToolCall("x", name, json.dumps(arguments), arguments)


async def test_one_call_becomes_the_environments_own_and_its_results_are_returned() -> None:
    inner = attempt()
    offered = offer_composites(inner, [FIND])
    (seen,) = await offered.act([call("find_then_read", {"text": "ann"})], message="looking", call="m0")
    assert json.loads(seen.content) == [
        {"tool": "find", "result": [{"id": "p-1"}]},
        {"tool": "read", "result": {"name": "p-1"}},
    ]
    assert (seen.call_id, seen.error) == ("x", False)
    assert [(step.message, step.call, step.tool_calls[0].name) for step in inner.steps] == [
        ("looking", "m0", "find"),
        (None, "m0", "read"),
    ]
    assert inner.tools.calls == [("find", {"text": "ann", "limit": 5}), ("read", {"id": "p-1"})]  # type: ignore[attr-defined]
    assert inner.evidence[-1].data == {"tool": "find_then_read", "arguments": {"text": "ann"}, "done": 2, "of": 2}


@pytest.mark.parametrize(("text", "count"), [("bo", 2), ("cy", 0)])
async def test_a_list_that_has_not_exactly_one_element_stops_it(text: str, count: int) -> None:
    inner = attempt()
    (seen,) = await offer_composites(inner, [FIND]).act([call("find_then_read", {"text": text})])
    assert seen.error
    assert f"not called: read: the result has {count} elements, and exactly one is needed" in seen.content
    assert [step.tool_calls[0].name for step in inner.steps] == ["find"]
    assert inner.evidence[-1].data["done"] == 1


async def test_a_call_that_fails_stops_it() -> None:
    inner = attempt()
    (seen,) = await offer_composites(inner, [FIND]).act([call("find_then_read", {"text": "nobody there"})])
    assert seen.error
    assert seen.content.endswith("find failed")
    assert len(inner.steps) == 1


async def test_a_missing_argument_calls_nothing() -> None:
    inner = attempt()
    (seen,) = await offer_composites(inner, [FIND]).act([call("find_then_read", {})])
    assert (seen.error, inner.steps) == (True, [])


async def test_plain_and_composite_calls_of_one_message_keep_their_order() -> None:
    inner = attempt()
    calls = [call("read", {"id": "a"}), call("find_then_read", {"text": "ann"}), call("read", {"id": "b"})]
    seen = await offer_composites(inner, [FIND]).act(calls)
    assert [json.loads(one.content) for one in (seen[0], seen[2])] == [{"name": "a"}, {"name": "b"}]
    assert [one.parsed for step in inner.steps for one in step.tool_calls] == [
        {"id": "a"}, {"limit": 5, "text": "ann"}, {"id": "p-1"}, {"id": "b"},
    ]  # fmt: skip


def test_a_composite_of_an_unknown_tool_or_with_a_taken_name_is_not_offered() -> None:
    other = CompositeTool("other", (CompositeCall("nope", {}), CompositeCall("read", {})))
    taken = msgspec.structs.replace(FIND, name="read")
    inner = attempt()
    specs = offer_composites(inner, [FIND, other, taken]).tools.specs()
    assert [one.name for one in specs] == ["find", "read", "find_then_read"]
    assert specs[-1].parameters == {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert inner.evidence[0].data["offered"] == ["find_then_read"]


RECORDED = [
    RecordedCall(0, "find", {"text": "ann", "limit": 5}, [{"id": "p-1"}], is_error=False, changed=False),
    RecordedCall(1, "read", {"id": "p-1"}, {"name": "p-1"}, is_error=False, changed=False),
]


def test_recorded_calls_are_folded_only_where_the_composite_makes_the_same() -> None:
    assert [one.name for one in fold_calls([FIND], RECORDED)] == ["find_then_read"]
    assert match_composite(FIND, RECORDED) == {"text": "ann"}
    for changed in (
        RECORDED[0]._replace(arguments={"text": "ann", "limit": 6}),
        RECORDED[0]._replace(arguments={"text": "ann", "limit": True}),
        RECORDED[0]._replace(result=[{"id": "p-9"}]),
        RECORDED[0]._replace(is_error=True),
    ):
        assert [one.name for one in fold_calls([FIND], [changed, RECORDED[1]])] == ["find", "read"]


async def test_a_recorded_attempt_is_repeated_by_composites() -> None:
    steps = tuple(
        Step(one.step, "agent", tool_calls=(call(one.tool, one.arguments),), observations=(seen,))
        for one, seen in zip(
            RECORDED, (Observation('[{"id":"p-1"}]', "x"), Observation('{"name":"p-1"}', "x")), strict=True
        )
    )
    inner = attempt(prior=Prior(steps))
    await CompositeReplayAgent([FIND]).run(inner)
    assert [one.data["tool"] for one in inner.evidence if one.kind == "composite_call"] == ["find_then_read"]
    assert [one.tool_calls[0].name for one in inner.steps] == ["find", "read"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[" * 100_000, '[{"name": "a/b", "calls": []}]', '[{"name": "a", "calls": [{"tool": "x"}]}]',
        '[{"name":"a","calls":[{"tool":"x","arguments":{"y":{}}},{"tool":"x","arguments":{}}]}]',
        '[{"name":"a","calls":[{"tool":"x","arguments":{"y":{"result":0}}},{"tool":"x","arguments":{}}]}]',
        '[{"name":"a","calls":[{"tool":"x","arguments":{"y":{"parameter":"p","constant":1}}},{"tool":"x","arguments":{}}]}]',
    ],
)  # fmt: skip
def test_hostile_declarations_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tools.json").write_text(text)
    with pytest.raises(UserError, match="does not hold composite tools"):
        read_composites(tmp_path / "tools.json")


async def test_a_model_is_offered_the_tools_and_the_text_of_a_skill(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "SKILL.md").write_text("---\nname: x\ndescription: d\n---\nLook people up first.\n")
    (tmp_path / "assets" / "composite-tools.json").write_bytes(encode_composites([FIND]))
    assert read_composites(tmp_path) == (FIND,)
    inner = attempt(
        backend=ScriptedBackend([
            Reply(tool_calls=(ScriptedCall("find_then_read", {"text": "ann"}),)),
            Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),)),
        ])
    )  # fmt: skip
    await LoopAgent(skill=str(tmp_path)).run(inner)
    request = inner.calls[0].request
    assert "Look people up first." in request["messages"][0]["content"]
    assert "find_then_read" in [one["function"]["name"] for one in request["tools"]]
    assert (inner.ended, len(inner.calls), len(inner.steps)) == ("done", 2, 3)
    assert {one.kind for one in inner.evidence} == {"skill_loaded", "composites_offered", "composite_call"}


async def test_a_skill_takes_neither_a_tool_of_the_environment_nor_the_agents_own(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    (skill / "assets").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: Finds.\n---\n")
    tools = [CompositeTool(name, FIND.calls) for name in ("finish", "find", "find_then_read")]
    (skill / "assets" / "composite-tools.json").write_bytes(encode_composites(tools))
    inner = attempt(backend=ScriptedBackend([Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))]))
    await LoopAgent(skill=str(skill)).run(inner)
    offered = next(one.data for one in inner.evidence if one.kind == "composites_offered")
    assert (offered["offered"], inner.ended) == (["find_then_read"], "done")


def test_a_constant_that_is_nested_too_deeply_is_refused_with_its_file(tmp_path: Path) -> None:
    nested = '{"constant": ' + "[" * 500 + "]" * 500 + "}"
    calls = '[{"tool": "find", "arguments": {"text": ' + nested + '}}, {"tool": "find", "arguments": {}}]'
    (tmp_path / "tools.json").write_text('[{"name": "x", "calls": ' + calls + "}]")
    with pytest.raises(UserError, match="a constant is nested deeper than 100"):
        read_composites(tmp_path / "tools.json")
