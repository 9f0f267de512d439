"""A recorded attempt as a model: the same program does the same again, or it is said where it did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from assay.agents.interface import Attempt
from assay.errors import UserError
from assay.gateway.backends.scripted import Script, ScriptedBackend
from assay.gateway.interface import ModelBackend
from assay.records import Trajectory
from assay.rollout.attempt.models import open_model, resolve_model_name
from assay.settings import Settings
from tests.rollout.programs import Program, run_program, write

pytestmark = pytest.mark.quick


def scripted(*replies: Any) -> ScriptedBackend:
    return ScriptedBackend(msgspec.convert({"replies": replies, "after": "last"}, Script))


async def recorded(folder: Path, agent: Program | None = None, *replies: Any) -> tuple[Trajectory, ModelBackend]:
    (first,) = await run_program(folder, agent or Program(), scripted(*(replies or (write("/a"), write("/b"), "done"))))
    return first, open_model("replay:count@0", Settings(cache=folder, store=folder))


async def test_the_same_program_reaches_the_same_state(tmp_path: Path) -> None:
    first, model = await recorded(tmp_path / "1")
    (second,) = await run_program(tmp_path / "2", Program(), model)
    assert [s.state for s in second.steps] == [s.state for s in first.steps]
    assert [s.tool_calls for s in second.steps] == [s.tool_calls for s in first.steps]
    assert second.finished is not None
    assert second.finished.ended == "done"
    assert second.model == "replay:r:count@0"
    assert [c.response["replay"] for c in second.calls if c.response] == [
        {"call": f"c{n}", "differs_at": None} for n in (1, 2, 3)
    ]


async def test_texts_may_differ_and_are_named(tmp_path: Path) -> None:
    class Chatty(Program):
        async def act(self, attempt: Attempt, call: dict[str, Any]) -> dict[str, Any]:
            return {**await super().act(attempt, call), "content": "done at 12:00"}

    _, model = await recorded(tmp_path / "1")
    (second,) = await run_program(tmp_path / "2", Chatty(), model)
    assert (second.finished and second.finished.ended) == "done"
    assert [(c.response or {})["replay"]["differs_at"] for c in second.calls] == [None, 2, 2]


async def test_a_client_that_says_something_else_has_diverged(tmp_path: Path) -> None:
    class Other(Program):
        async def act(self, attempt: Attempt, call: dict[str, Any]) -> dict[str, Any]:
            answer = await super().act(attempt, call)
            return {"role": "user", "content": "no"} if "/b" in answer["content"] else answer

    _, model = await recorded(tmp_path / "1")
    (second,) = await run_program(tmp_path / "2", Other(), model)
    assert second.finished is not None
    assert second.finished.broke == "provider"
    assert "diverged from the record at its call 3" in (second.finished.error or "")
    assert "message 4" in (second.finished.error or "")
    assert second.calls[-1].error == second.finished.error


async def test_a_client_that_goes_on_beyond_the_record_has_diverged(tmp_path: Path) -> None:
    class Longer(Program):
        async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
            messages = [{"role": "user", "content": "Write the files."}]
            for _ in range(2):
                async with client.post(url, json={"model": "m", "messages": messages}) as response:
                    body = await response.json()
                if response.status != 200:
                    return
                messages += [body["choices"][0]["message"], {"role": "user", "content": "more"}]

    _, model = await recorded(tmp_path / "1", None, "only this")
    (second,) = await run_program(tmp_path / "2", Longer(), model)
    assert "holds no reply there" in ((second.finished and second.finished.error) or "")


async def test_conversations_at_once_each_get_their_own_replies(tmp_path: Path) -> None:
    class Two(Program):
        order = ("one", "two")

        async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
            talks = {name: [{"role": "user", "content": name}] for name in self.order}
            for name in (*self.order, *self.order):
                async with client.post(url, json={"model": "m", "messages": talks[name]}) as response:
                    answer = (await response.json())["choices"][0]["message"]
                talks[name] += [answer, {"role": "user", "content": "again"}]
            attempt.finish("|".join(str(talks[name][n]["content"]) for name in ("one", "two") for n in (1, 3)))

    class Swapped(Two):
        order = ("two", "one")

    echo = ScriptedBackend(lambda r: f"{r.messages[0]['content']} {len(r.messages)}")
    (first,) = await run_program(tmp_path / "1", Two(), echo)
    model = open_model("replay:count@0", Settings(cache=tmp_path, store=tmp_path / "1"))
    (second,) = await run_program(tmp_path / "2", Swapped(), model)
    assert first.finished is not None
    assert second.finished is not None
    assert second.finished.ended == first.finished.ended == "one 1|one 3|two 1|two 3"


async def test_what_is_asked_again_is_answered_again(tmp_path: Path) -> None:
    class Twice(Program):
        async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
            for _ in range(2):
                await super().converse(attempt, client, url)

    _, model = await recorded(tmp_path / "1")
    (second,) = await run_program(tmp_path / "2", Twice(), model)
    assert (second.finished and second.finished.broke) is None
    assert len(second.calls) == 6


async def test_the_loop_agent_can_be_replayed_too(tmp_path: Path) -> None:
    from assay.agents.loop import LoopAgent

    add = {"tool_calls": [{"name": "add", "arguments": {"by": 10}}]}
    (first,) = await run_program(tmp_path / "1", LoopAgent(nudges=0), scripted(add, "done"))
    model = open_model("replay:r:count@0", Settings(cache=tmp_path, store=tmp_path / "1"))
    (second,) = await run_program(tmp_path / "2", LoopAgent(nudges=0), model)
    assert (first.outcome, second.outcome) == ("pass", "pass")
    assert [s.state for s in second.steps] == [s.state for s in first.steps]


async def test_names_of_attempts_are_settled_and_wrong_ones_refused(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path, store=tmp_path)
    await recorded(tmp_path)
    assert resolve_model_name("replay:count@0", settings) == "replay:r:count@0"
    assert resolve_model_name("replay:r:count@0", settings) == "replay:r:count@0"
    assert resolve_model_name("scripted:x", settings) == "scripted:x"
    for name in ("replay:", "replay:none@0", "replay:r:none"):
        with pytest.raises(UserError):
            open_model(name, settings)
