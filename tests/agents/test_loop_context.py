"""The tool loop with a memory in its prompt, and with a conversation that is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents._context import MARKER, SUMMARY_PREFIX, SUMMARY_REQUEST
from assay.agents.loop import LoopAgent
from assay.agents.memory import MemoryItem, MemoryRecord
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.errors import UserError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.interface import ModelRequest
from assay.records import canonical_bytes

pytestmark = pytest.mark.quick
DONE = Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))


def remember(path: Path, *facts: tuple[str, str, str]) -> str:
    """Writes a memory of one passing attempt a fact: task, digest and text."""
    previous, lines = "", list[bytes]()
    for task, digest, text in facts:
        item = MemoryItem("success", f"The {task} is shut.", 'use {"tool": "saw"}', text, 0)
        record = MemoryRecord("r", f"{task}@0", f"head of {digest}", task, digest, True, (item,), previous)
        previous = record.digest
        lines.append(canonical_bytes(record) + b"\n")
    path.write_bytes(b"".join(lines))
    return str(path)


async def first_prompt(
    memory: str, task: tuple[str, str] = ("door", "d1"), **options: Any
) -> tuple[str, dict[str, Any]]:
    """Returns the first user message, and the evidence of what was recalled."""
    instruction = f"Open the {task[0]}."
    attempt = FakeAttempt(
        backend=ScriptedBackend([DONE]), tools=FakeTools({}), task=fake_task(instruction, id=task[0], digest=task[1])
    )
    await LoopAgent(system="", memory=memory, **options).run(attempt)
    (used,) = [item.data for item in attempt.evidence if item.kind == "memory_used"]
    return attempt.calls[0].request["messages"][0]["content"], used


async def test_items_stand_before_the_task_in_the_form_that_the_options_give(tmp_path: Path) -> None:
    memory = remember(tmp_path / "m", ("door", "d1", "It opens {task}."), ("gate", "d2", "The gate opens."))
    prompt, used = await first_prompt(memory)
    assert prompt == 'The door is shut.\nuse {"tool": "saw"}\nIt opens {task}.\n\nOpen the door.'
    assert (used["records"], used["refused"], used["stale"]) == (["head of d1"], 1, 0)
    assert [(one["head"], one["step"]) for one in used["items"]] == [("head of d1", 0)]
    form = {"memory_item": "- {what}", "memory_prompt": "Notes:\n{items}\nTask: {task}", "scope": "any"}
    prompt, used = await first_prompt(memory, **form)
    assert prompt == "Notes:\n- The gate opens.\n- It opens {task}.\nTask: Open the door."
    first, _ = await first_prompt(memory, **form, memory_order="best-first")
    assert first == "Notes:\n- It opens {task}.\n- The gate opens.\nTask: Open the door."
    assert (await first_prompt(memory, recall=1, **form))[0] == "Notes:\n- It opens {task}.\nTask: Open the door."


async def test_items_of_a_changed_task_are_dropped_also_where_any_task_is_used(tmp_path: Path) -> None:
    memory = remember(tmp_path / "m", ("door", "old", "The saw opens it."), ("gate", "g1", "a"), ("gate", "g2", "b"))
    for scope in ("same-task", "any"):
        prompt, used = await first_prompt(memory, ("door", "new"), scope=scope)
        assert "saw opens" not in prompt
        assert used["stale"] == 2
    prompt, used = await first_prompt(memory, ("door", "new"))
    assert (prompt, used["records"], used["refused"]) == ("Open the door.", [], 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"memory_item": "{tool}"}, "memory_item: no such placeholder: {tool}; known are {when}, {act}, {what}"),
        ({"memory_prompt": "{items}"}, "memory_prompt lacks {task}"),
        ({"recall": -1}, "recall"),
        ({"context": "forget"}, "context"),
        ({"memory": "none.jsonl"}, "assay memory add"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        LoopAgent(**options)
    assert says in str(caught.value)


def reading_attempt(*summaries: str) -> FakeAttempt:
    """An attempt that reads six long pages and finishes; summaries are given where they are asked for."""
    left = list(summaries)

    def answer(request: ModelRequest) -> Reply | str:
        if request.messages[-1]["content"] == SUMMARY_REQUEST:
            assert not request.tools
            return left.pop(0)
        read = sum(len(message.get("tool_calls") or ()) for message in request.messages)
        done = sum(message["content"].count("pages") for message in request.messages if message["role"] == "user")
        if read + 2 * done >= 6:
            return DONE
        return Reply(tool_calls=(ScriptedCall("read", {"page": read + 2 * done}, f"c{read + 2 * done}"),))

    tools = FakeTools({"read": lambda given: f"page {given['page']} " + "x" * 1000})
    return FakeAttempt(backend=ScriptedBackend(answer), tools=tools, task=fake_task("Read."))


def cuts(attempt: FakeAttempt) -> list[dict[str, Any]]:
    return [item.data for item in attempt.evidence if item.kind == "context_dropped"]


@pytest.mark.parametrize(("policy", "left"), [("drop", MARKER), ("trim", "page 0 " + "x" * 113)])
async def test_a_conversation_longer_than_its_budget_loses_old_outputs(policy: str, left: str) -> None:
    attempt = reading_attempt()
    await LoopAgent(system="", context=policy, context_chars=3_500, keep_outputs=1).run(attempt)
    last = attempt.calls[-1].request["messages"]
    outputs = [message["content"] for message in last if message["role"] == "tool"]
    assert outputs[0].startswith(left)
    assert outputs[-1].startswith("page 5 x")
    assert len(outputs[-1]) > 1_000
    assert sum(map(len, outputs)) < 3_500
    found = cuts(attempt)
    assert {data["policy"] for data in found} == {policy}
    assert found[0]["calls"][0] == "c0"
    assert "context_chars=3500" in found[0]["reason"]


async def test_a_summary_replaces_what_was_done_and_its_call_is_recorded() -> None:
    attempt = reading_attempt("pages: 0 and 1 hold x.", "pages pages: all hold x.")
    await LoopAgent(system="s", context="summarise", context_chars=2_500, keep_outputs=1).run(attempt)
    first = cuts(attempt)[0]
    (asked,) = [call for call in attempt.calls if call.id == first["summary"]]
    assert asked.request["messages"][-1]["content"] == SUMMARY_REQUEST
    after = attempt.calls[attempt.calls.index(asked) + 1].request["messages"]
    assert [message["role"] for message in after] == ["system", "user", "user", "assistant", "tool"]
    assert after[2]["content"] == f"{SUMMARY_PREFIX}pages: 0 and 1 hold x."
    assert after[-1]["content"].startswith("page 2")
    assert (first["policy"], first["calls"]) == ("summarise", ["c0", "c1"])
    assert attempt.ended == "done"
