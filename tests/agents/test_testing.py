from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assay.agents.testing import FakeAttempt, FakeTools, FakeWorkspace, fake_task
from assay.environments.interface import Tools, Workspace
from assay.errors import LimitReached, UserError
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Limits, ToolCall

pytestmark = pytest.mark.quick
HI = ModelRequest(messages=[{"role": "user", "content": "x" * 40}])


async def test_tokens_are_limited() -> None:
    attempt = FakeAttempt(task=fake_task(limits=Limits(tokens=20)), backend=ScriptedBackend(["y"]))
    await attempt.ask(HI)
    with pytest.raises(LimitReached, match="tokens"):
        await attempt.ask(HI)
    assert len(attempt.calls) == 2


async def test_a_cost_that_nobody_knows_stops_an_attempt_with_a_cost_limit() -> None:
    class Unpriced(ScriptedBackend):
        async def complete(self, request: ModelRequest, on_deltas: object = None) -> ModelReply:
            return msgspec.structs.replace(await super().complete(request), cost_usd=None)

    attempt = FakeAttempt(task=fake_task(limits=Limits(cost_usd=9)), backend=Unpriced(["y"]))
    with pytest.raises(LimitReached, match="cost_usd"):
        await attempt.ask(HI)


async def test_a_command_is_a_step() -> None:
    attempt = FakeAttempt(workspace=FakeWorkspace())
    await attempt.shell(["ls", "-l"], message="look")
    call = attempt.steps[0].tool_calls[0]
    assert (call.name, call.parsed, attempt.steps[0].state) == (
        "shell",
        {"command": ["ls", "-l"]},
        attempt.steps[0].state,
    )
    with pytest.raises(UserError, match="no shell"):
        await FakeAttempt().shell("ls")


async def test_calls_are_answered_under_their_ids() -> None:
    attempt = FakeAttempt(tools=FakeTools({"f": lambda a: "yes"}))
    calls = [ToolCall("a", "f", "{}", {}), ToolCall("b", "g", "{}", {}), ToolCall("c", "f", "{", None)]
    seen = await attempt.act(calls)
    assert [(o.call_id, o.error) for o in seen] == [("a", False), ("b", True), ("c", True)]
    assert isinstance(attempt.tools, FakeTools)
    assert attempt.tools.calls == [("f", {}), ("g", {})]


async def test_the_fake_workspace_names_its_state(tmp_path: Path) -> None:
    workspace = FakeWorkspace(files={"/w/a": b"1", "/w/b": b"2"})
    empty = await workspace.digest()
    await workspace.write("/w/a", b"3")
    workspace.files.pop("/w/b")
    assert [(c.path, c.kind) for c in await workspace.diff()] == [("/w/a", "changed"), ("/w/b", "removed")]
    assert await workspace.digest() != empty
    await workspace.write("/w/a", b"1")
    await workspace.write("/w/b", b"2")
    assert await workspace.digest() == empty
    assert isinstance(workspace, Workspace)
    await workspace.download("/w", tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


async def test_the_fake_workspace_reads_with_a_limit() -> None:
    workspace = FakeWorkspace(files={"/a": b"12345"})
    assert await workspace.read("/a") == b"12345"
    with pytest.raises(ValueError, match="longer than 3"):
        await workspace.read("/a", limit=3)
    with pytest.raises(FileNotFoundError):
        await workspace.read("/b")
    fork = await workspace.fork()
    assert (await fork.read("/a"), (await workspace.snapshot()).digest) == (b"12345", await workspace.digest())
    tools: Tools = FakeTools({})
    assert await tools.digest() is None
