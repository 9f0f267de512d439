"""What programs ask through the gateway: recorded, limited, and attributed to whom it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from assay.agents.interface import Attempt
from assay.agents.testing import FakeWorkspace
from assay.errors import EnvironmentFailure, ProviderError, StoreError
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.records import Limits, Trajectory
from assay.rollout.attempt.request_control import ASKED_AGAIN
from assay.rollout.recording.recorder import CALL_BEGUN
from assay.store import RunStore, assistant_message, restore_body, restore_messages
from tests.rollout.programs import Program, run_program, write
from tests.store.chains import verify_chain

pytestmark = pytest.mark.quick
PLAN = [write("/a"), write("/b"), "done"]


def scripted(replies: list[Any] | None = None) -> ScriptedBackend:
    import msgspec

    from assay.gateway.backends.scripted import Script

    return ScriptedBackend(msgspec.convert({"replies": replies or PLAN, "after": "last"}, Script))


async def only(folder: Path, agent: Program, backend: Any = None, **given: Any) -> Trajectory:
    (found,) = await run_program(folder, agent, backend or scripted(), **given)
    return found


async def test_each_call_is_a_step_with_the_state_before_and_after(tmp_path: Path) -> None:
    found = await only(tmp_path, Program())
    assert (found.finished and found.finished.ended) == "done"
    first, second, last = found.steps
    assert [c.state for c in found.calls][1:] == [first.state, second.state]
    assert len({c.state for c in found.calls}) == 3
    assert last.state == second.state
    assert first.observations[0].content == "wrote /a"
    assert first.tool_calls[0].parsed == {"path": "/a", "text": "x"}
    assert [s.call for s in found.steps] == ["c1", "c2", "c3"]
    assert (first.message, last.message) == ("I write /a.", "done")


async def test_calls_hold_what_is_new_and_their_bodies_come_back(tmp_path: Path) -> None:
    found = await only(tmp_path, Program())
    calls = {call.id: call for call in found.calls}
    assert [len(c.request["messages"]) for c in found.calls] == [1, 1, 1]
    assert [m["role"] for m in restore_messages(calls, found.calls[2])] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    with RunStore.open(tmp_path, "r") as store:
        sent = restore_body(calls, found.calls[2], "request", store.blobs)
        got = restore_body(calls, found.calls[2], "response", store.blobs)
        assert verify_chain(store.events(found.chain), head=found.head) is None
    assert sent is not None
    assert sent.startswith(b'{"model": "m", "messages": [{"role": "user"')
    assert sent.count(b"wrote /") == 2
    assert got is not None
    assert b'"done"' in got


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(calls=2), "calls"),
        (Limits(turns=2), "turns"),
        (Limits(tokens=20), "tokens"),
        (Limits(working_s=0.0), "working_s"),
    ],
)
async def test_a_spent_limit_is_said_to_the_client_and_ends_the_attempt(
    tmp_path: Path, limits: Limits, limit: str
) -> None:
    program = Program()
    found = await only(tmp_path, program, limits=limits)
    assert found.finished is not None
    assert (found.finished.stopped, found.finished.broke, found.finished.ended) == (limit, None, None)
    ((status, body),) = program.errors
    assert status == 429
    assert body["error"]["code"] == "insufficient_quota"
    assert limit in body["error"]["message"]
    assert found.outcome == "fail"


async def test_a_program_that_swallows_the_error_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.rollout.attempt.recorded_attempt.GRACE_S", 0.2)
    program = Program(stubborn=True)
    found = await only(tmp_path, program, limits=Limits(calls=1))
    assert (found.finished and found.finished.stopped) == "calls"
    assert len(program.errors) > 1
    assert len(found.calls) == 1


async def test_an_unknown_price_meets_a_cost_limit(tmp_path: Path) -> None:
    class Priceless(ScriptedBackend):
        async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
            import msgspec

            return msgspec.structs.replace(await super().complete(request, on_deltas), cost_usd=None)

    found = await only(tmp_path, Program(), Priceless(lambda _: write("/a")), limits=Limits(cost_usd=9.0))
    assert (found.finished and found.finished.stopped) == "cost_usd"


class Failing(ScriptedBackend):
    """Fails at its second call."""

    def __init__(self, *, status: int, retryable: bool, after: bool = False) -> None:
        super().__init__(lambda _: "never", "failing")
        self.error = ProviderError("the server is down", status=status, retryable=retryable)
        self.calls = 0

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        self.calls += 1
        if self.calls % 2 == 0:
            raise self.error
        return await scripted().complete(request, on_deltas)


async def test_a_server_that_failed_for_good_is_not_the_agents_failure(tmp_path: Path) -> None:
    tries = await run_program(tmp_path, Program(), Failing(status=503, retryable=True))
    assert [(t.finished and t.finished.broke, t.retry, t.outcome) for t in tries] == [
        ("provider", 0, None),
        ("provider", 1, None),
    ]
    assert tries[0].calls[-1].error == "the server is down"


class Poisoned(ScriptedBackend):
    """Fails at every request that holds the result of a step, and answers any other."""

    def __init__(self) -> None:
        super().__init__(lambda _: "never", "poisoned")

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        if len(request.messages) > 1:
            raise ProviderError("internal error", status=500)
        return await scripted().complete(request, on_deltas)


async def test_a_request_at_which_the_server_fails_whenever_it_is_asked_is_the_agents_failure(tmp_path: Path) -> None:
    found = await only(tmp_path, Program(), Poisoned())
    assert found.finished is not None
    assert (found.finished.broke, found.outcome, found.started.retry) == ("agent", "fail", 0)
    assert "answers other requests" in (found.finished.error or "")
    (note,) = (one.data for one in found.notes if one.name == ASKED_AGAIN)
    assert note == {"error": "internal error", "the_same": "internal error", "another": "answered"}


class Down(ScriptedBackend):
    """Answers once."""

    def __init__(self) -> None:
        super().__init__(lambda _: "never", "down")
        self.calls = 0

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        self.calls += 1
        if self.calls > 1:
            raise ProviderError("no connection")
        return await scripted().complete(request, on_deltas)


async def test_a_server_that_answers_nothing_any_more_is_not_the_agents_failure(tmp_path: Path) -> None:
    tries = await run_program(tmp_path, Program(), Down())
    assert {one.finished and one.finished.broke for one in tries} == {"provider"}


async def test_a_request_that_the_server_refuses_is_the_agents_business(tmp_path: Path) -> None:
    found = await only(tmp_path, Program(), Failing(status=400, retryable=False))
    assert found.finished is not None
    assert (found.finished.broke, found.outcome) == (None, "fail")


async def test_a_program_that_goes_on_after_a_failure_has_not_broken(tmp_path: Path) -> None:
    found = await only(tmp_path, Program(stubborn=True), Failing(status=503, retryable=True))
    assert (found.finished and found.finished.ended) == "done"
    assert [c.error is None for c in found.calls] == [True, False, True, False, True]


async def test_a_sandbox_that_goes_away_is_not_the_agents_failure(tmp_path: Path) -> None:
    class Gone(FakeWorkspace):
        async def digest(self) -> str:
            if "/a" in self.files:
                message = "the sandbox is gone"
                raise EnvironmentFailure(message)
            return await super().digest()

    tries = await run_program(tmp_path, Program(stubborn=True), scripted(), workspace=Gone())
    assert {t.finished and t.finished.broke for t in tries} == {"environment"}


async def test_a_store_that_cannot_be_written_ends_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RunStore.append_all

    def full(self: RunStore, batch: Any) -> list[str]:
        if any(type(body).__name__ == "ModelCalled" for _, bodies in batch for body in bodies):
            message = "the disk is full"
            raise StoreError(message)
        return real(self, batch)

    monkeypatch.setattr(RunStore, "append_all", full)
    with pytest.raises(StoreError, match="disk is full"):
        await run_program(tmp_path, Program(stubborn=True), scripted())


async def test_the_key_is_dead_when_the_agent_has_ended(tmp_path: Path) -> None:
    class Keeper(Program):
        async def run(self, attempt: Attempt) -> None:
            self.endpoint = await attempt.endpoint()
            assert await attempt.endpoint() == self.endpoint

    keeper = Keeper()
    await only(tmp_path, keeper)
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.post(f"{keeper.endpoint.url}/v1/chat/completions", json={})


async def test_a_call_under_way_when_the_agent_leaves_is_recorded_as_ended(tmp_path: Path) -> None:
    import asyncio

    class Leaver(Program):
        async def run(self, attempt: Attempt) -> None:
            with_timeout = asyncio.wait_for(super().run(attempt), 0.3)
            try:
                await with_timeout
            except TimeoutError:
                attempt.finish("left")

    async def never(_: ModelRequest) -> str:
        await asyncio.sleep(60)
        return ""

    found = await only(tmp_path, Leaver(), ScriptedBackend(never))
    assert (found.finished and found.finished.ended) == "left"
    assert [c.error for c in found.calls] == ["the attempt ended while the model was answering"]
    assert [n.data["call"] for n in found.notes if n.name == CALL_BEGUN] == ["c1"]


async def test_a_key_in_a_reply_is_taken_out_everywhere(tmp_path: Path) -> None:
    secret = "upstream-key-0123456789"
    found = await only(
        tmp_path, Program(), scripted([write("/a", secret), f"I used {secret}."]), secrets={"OPENAI_API_KEY": secret}
    )
    assert {name for call in found.calls for name in call.redactions} == {"OPENAI_API_KEY"}
    assert (assistant_message(found.calls[1]) or {})["content"] == "I used [redacted:OPENAI_API_KEY]."
    assert found.steps[1].message == "I used [redacted:OPENAI_API_KEY]."
    assert [f for f in tmp_path.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()] == []


CALLS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, ("error", "code")),
    "responses": ("/v1/responses", {"input": "hi"}, ("error", "code")),
    "anthropic": (
        "/v1/messages",
        {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
        ("error", "type"),
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        ("error", "status"),
    ),
}


@pytest.mark.parametrize("dialect", CALLS)
async def test_a_spent_limit_is_said_in_the_clients_own_words(tmp_path: Path, dialect: str) -> None:
    path, body, where = CALLS[dialect]

    class Client(Program):
        async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
            base = url.removesuffix("/v1/chat/completions")
            for _ in range(2):
                async with client.post(base + path, json={"model": "m", **body}) as response:
                    self.errors.append((response.status, await response.json()))

    client = Client()
    found = await only(tmp_path, client, limits=Limits(calls=1))
    assert (found.finished and found.finished.stopped) == "calls"
    (first, _), (second, error) = client.errors
    assert (first, second) == (200, {"anthropic": 402, "gemini": 403}.get(dialect, 429))
    assert error[where[0]][where[1]]
    assert "limit calls reached" in str(error)
    assert len(found.calls) == 1
