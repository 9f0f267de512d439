"""A model in a semi-online replay: its own words stay in its history, and a recorded step replaces what diverged."""

from __future__ import annotations

from typing import Any

import pytest

from assay.agents._calls import render_observation
from assay.agents.loop import LoopAgent
from assay.agents.page_walker import PageWalkerAgent
from assay.agents.patched_attempt import PatchedAttempt
from assay.agents.testing import FakeAttempt, fake_task
from assay.environments.browser.recorded.site import RecordedSite
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.interface import ModelRequest
from assay.records import Observation
from tests.environments.recorded_pages import ASKED, CALLS, HALL

pytestmark = pytest.mark.quick
DONE = Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))


async def history(
    strategy: str, thought: str = "", call_id: str | None = None
) -> tuple[list[dict[str, Any]], FakeAttempt]:
    """Returns the messages of the last request after a wrong act, which a patch replaces."""
    turns = [
        Reply(content="I look.", tool_calls=(ScriptedCall("read_page", {}, call_id),)),
        Reply(content="The clock may help.", tool_calls=(ScriptedCall("click", {"bid": "3"}, call_id),)),
        DONE,
    ]

    def answer(request: ModelRequest) -> Reply | str:
        if "Write, in one or two sentences" in str(request.messages[-1]["content"]):
            return thought
        return turns[sum(message["role"] == "assistant" for message in request.messages)]

    site = RecordedSite({"calls": CALLS, "patches": 1, "strategy": strategy}, 1)
    attempt = FakeAttempt(backend=ScriptedBackend(answer), tools=site, task=fake_task("Go."))
    await LoopAgent().run(PatchedAttempt(attempt))
    messages: list[dict[str, Any]] = attempt.calls[-1].request["messages"]
    return messages, attempt


@pytest.mark.parametrize(
    ("strategy", "asked", "thought"),
    [
        ("thought-free", "", None),
        ("off-policy", "", "Into the hall."),
        ("on-policy", "The lamp is in the hall.", "The lamp is in the hall."),
    ],
)
async def test_the_history_holds_the_recorded_step(strategy: str, asked: str, thought: str | None) -> None:
    messages, attempt = await history(strategy, asked)
    look, _, acted, result = messages[-4:]
    assert look["content"] == "I look."
    assert acted["content"] == thought
    assert acted["tool_calls"][0]["function"] == {"name": "click", "arguments": '{"bid":"2"}'}
    assert (result["content"], result["tool_call_id"]) == (HALL, acted["tool_calls"][0]["id"])
    assert attempt.steps[1].message == "The clock may help."  # the record keeps what the agent did
    assert attempt.steps[1].tool_calls[0].parsed == {"bid": "3"}
    if asked:
        assert '`click {"bid":"2"}`' in attempt.calls[2].request["messages"][-1]["content"]


async def test_a_turn_whose_call_has_the_id_of_a_patched_one_stays() -> None:
    messages, _ = await history("thought-free", call_id="call_0")
    looked, page, acted, result = messages[-4:]
    assert (looked["content"], looked["tool_calls"][0]["function"]["name"]) == ("I look.", "read_page")
    assert page["tool_call_id"] == looked["tool_calls"][0]["id"] == "call_0"
    assert acted["tool_calls"][0]["function"] == {"name": "click", "arguments": '{"bid":"2"}'}
    assert (result["content"], result["tool_call_id"]) == (HALL, acted["tool_calls"][0]["id"])


@pytest.mark.parametrize("limit", [16_000, 100])
async def test_a_form_takes_the_place_with_all_its_calls(limit: int) -> None:
    long = f"{ASKED}\n  paragraph {'long ' * 100}"
    calls = [{**one, "page": long if one["page"] == ASKED else one["page"]} for one in CALLS]
    site = RecordedSite({"calls": calls, "patches": 1}, 1)
    replies = [
        Reply(tool_calls=(ScriptedCall("click", {"bid": "2"}), ScriptedCall("click", {"bid": "9"}))),
        DONE,
    ]
    attempt = FakeAttempt(backend=ScriptedBackend(replies), tools=site, task=fake_task("Go."))
    await LoopAgent(max_output_chars=limit).run(PatchedAttempt(attempt))
    messages: list[dict[str, Any]] = attempt.calls[-1].request["messages"]
    named = [one["function"]["name"] for one in messages[-6]["tool_calls"]]
    assert named == ["click", "click", "select_option", "fill", "click"]
    results = [one["content"] for one in messages[-5:] if one["role"] == "tool"]
    first, *between, last = results
    assert [first, last] == [render_observation(Observation(page), limit) for page in (HALL, long)]
    pages = [call.page for call in site.steps[1].calls[:-1]]
    assert between == (pages if last == long else ["[The page after the last of these calls follows.]"] * 3)
    assert site.facts()["outcomes"] == ["matched", "patched"]


async def test_a_walker_acts_on_recorded_pages() -> None:
    site = RecordedSite({"calls": CALLS, "patches": 9}, 1)
    await PageWalkerAgent(acts=2).run(FakeAttempt(tools=site, task=fake_task("Go."), seed=2))
    assert len(site.facts()["outcomes"]) >= 2
