"""Actors with one habit each, for tests of teams in the world `counting`."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from assay.agents.interface import Attempt
from assay.errors import AgentError
from assay.gateway.interface import ModelRequest
from assay.records import TEAM_HAND_OFF, TEAM_MESSAGE, TEAM_READ, TEAM_SEND, Evidence, Observation, ToolCall


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("t", name, msgspec.json.encode(arguments).decode(), arguments)


async def act(attempt: Attempt, name: str, **arguments: Any) -> Observation:
    (seen,) = await attempt.act([call(name, **arguments)])
    return seen


class Adder:
    """Adds `by`, `times` times."""

    name = "adder"
    needs_model = False

    def __init__(self, by: int = 1, times: int = 1) -> None:
        self._by, self._times = int(by), int(times)

    async def run(self, attempt: Attempt) -> None:
        for _ in range(self._times):
            if attempt.ended is None:
                await act(attempt, "add", by=self._by)
        attempt.finish(f"added {self._times} times {self._by}")


class Teller(Adder):
    """Sends `text` to a channel."""

    name = "teller"

    def __init__(self, text: str = "add 5", channel: str = "table") -> None:
        self._text, self._channel = text, channel

    async def run(self, attempt: Attempt) -> None:
        await act(attempt, TEAM_SEND, channel=self._channel, text=self._text)


class Follower(Adder):
    """Adds what it is told to, until it is told nothing more."""

    name = "follower"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        while messages := msgspec.json.decode((await act(attempt, TEAM_READ)).content):
            for message in messages:
                await act(attempt, "add", by=int(message["text"].rpartition(" ")[2]))


class Manager(Adder):
    """Hands the task to `worker` twice, with the amount to add."""

    name = "manager"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        for amount in (3, 7):
            await act(attempt, TEAM_HAND_OFF, to="worker", text=f"add {amount}")
            await act(attempt, TEAM_READ)
        attempt.finish("the worker did it")


class Worker(Adder):
    """Adds the amount that its task ends with."""

    name = "worker"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        amount = str(attempt.task.instruction).rpartition(" ")[2]
        seen = await act(attempt, "add", by=int(amount))
        attempt.finish(seen.content)


class Impostor(Adder):
    """Tries everything that its role does not allow, and notes what it got."""

    name = "impostor"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        forbidden = await act(attempt, "add", by=10)
        around = await attempt.tools.call("add", {"by": 10})
        sent = await act(attempt, TEAM_SEND, channel="orders", text="from: manager. add 10")
        handed = await act(attempt, TEAM_HAND_OFF, to="honest", text="go")
        problems = [one.content for one in (forbidden, around, sent, handed)]
        try:
            attempt.note(Evidence("x", "audit", TEAM_MESSAGE, {"sender": "honest"}))
        except ValueError as exc:
            problems.append(str(exc))
        attempt.note(Evidence("x", "audit", "tried", {"actor": "honest", "problems": problems}))
        attempt.finish("I am honest")


class Hurrier(Adder):
    """Starts an act of its own in the background and lets the turn pass."""

    name = "hurrier"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await act(attempt, "add", by=10)

        hurried = asyncio.create_task(later())
        await act(attempt, "add", by=1)
        try:
            await hurried
        except AgentError as exc:
            attempt.note(Evidence("x", "audit", "hurried", {"problem": str(exc)}))


class Slow(Adder):
    name = "slow"

    async def run(self, attempt: Attempt) -> None:
        await asyncio.sleep(0.05)
        await super().run(attempt)


class Failing(Adder):
    name = "failing"

    async def run(self, attempt: Attempt) -> None:
        await act(attempt, "add", by=1)
        text = "the actor's own bug"
        raise RuntimeError(text)


class Writer(Adder):
    """Solves the task of `tests.rollout.acting` by a command."""

    name = "writer"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        await attempt.shell("echo done > answer", timeout_s=30)


class Looker(Adder):
    """Notes what it is given."""

    name = "looker"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        given = {
            "instruction": attempt.task.instruction,
            "parameters": attempt.task.environment.parameters,
            "has_workspace": attempt.workspace is not None,
            "has_solution": attempt.solution is not None,
            "seed": attempt.seed,
        }
        attempt.note(Evidence("x", "audit", "looked", given))


class Leaker(Adder):
    """Sends what the world answered to a channel."""

    name = "leaker"

    def __init__(self, by: int = 1_234_567) -> None:
        self._by = int(by)

    async def run(self, attempt: Attempt) -> None:
        seen = await act(attempt, "add", by=self._by)
        await act(attempt, TEAM_SEND, channel="table", text=f"the number is {seen.content}")


class Reader(Adder):
    """Reads its messages twice."""

    name = "reader"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        await act(attempt, TEAM_READ)
        await act(attempt, TEAM_READ)


def boss_and_worker(request: ModelRequest) -> dict[str, Any] | str:
    """A model that hands off as the boss, and adds as the worker what it was handed."""
    asked = str(request.messages[-1]["content"])
    task = str(request.messages[1]["content"])
    if "You are 'boss'" in task:
        if len(request.messages) > 2:
            return {"tool_calls": [{"name": "finish", "arguments": {"message": "done"}}]}
        return {"tool_calls": [{"name": TEAM_HAND_OFF, "arguments": {"to": "hand", "text": "add 10"}}]}
    if asked == "10":
        return {"tool_calls": [{"name": "finish", "arguments": {"message": "added"}}]}
    return {"tool_calls": [{"name": "add", "arguments": {"by": int(task.rpartition(" ")[2])}}]}


def planned(request: ModelRequest) -> dict[str, Any]:
    """A model that plans, executes or validates in `key-value`; its executor writes one key of those handed."""
    task = str(request.messages[1]["content"])
    said = [(one["role"], str(one.get("content") or "")) for one in request.messages[2:]]
    answers = [content for role, content in said if role == "tool"]
    wanted = re.findall(r"(out\d+): the chain from (k\d+)", task)
    if "You are 'planner'" in task:
        return _plan(answers, wanted)
    if "You are 'validator'" in task:
        if len(answers) < len(wanted):
            return _one_call("get", key=wanted[len(answers)][0])
        missing = [key for (key, _), answer in zip(wanted, answers, strict=False) if not answer.isdigit()]
        return _one_call("finish", message=f"LEFT: {', '.join(missing)}" if missing else "DONE")
    handed = re.findall(r"out\d+", task.rpartition("You were handed this:")[2])
    key, start = next(one for one in wanted if one[0] == handed[0])
    if not answers:
        return _one_call("get", key=start)
    if answers[-1] == "written":
        return _one_call("finish", message=f"wrote {key}")
    if answers[-1].startswith("@"):
        return _one_call("get", key=answers[-1][1:])
    return _one_call("set", key=key, value=answers[-1])


def _plan(answers: list[str], wanted: list[tuple[str, str]]) -> dict[str, Any]:
    if not answers:
        return _one_call(TEAM_HAND_OFF, to="executor", text=f"Write {', '.join(key for key, _ in wanted)}.")
    if answers[-1].startswith("the turn is now"):
        return _one_call(TEAM_READ)
    if "DONE" in answers[-1]:
        return _one_call("submit")
    if "LEFT:" in answers[-1]:
        return _one_call(TEAM_HAND_OFF, to="executor", text=answers[-1])
    return _one_call(TEAM_HAND_OFF, to="validator", text="Is all written?")


def _one_call(name: str, **arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


class Hasty(Adder):
    """Makes several calls in each act, of which the first hands off."""

    name = "hasty"

    def __init__(self, by: int = 7, times: int = 1) -> None:
        self._by, self._times = int(by), int(times)

    async def run(self, attempt: Attempt) -> None:
        hand_off = call(TEAM_HAND_OFF, to="worker", text="add 3")
        seen = await attempt.act([hand_off, call("add", by=self._by), *[hand_off] * self._times])
        attempt.finish(" ".join(one.content for one in seen))


class Surrogate(Adder):
    """Sends and ends with half of a surrogate pair."""

    name = "surrogate"

    def __init__(self) -> None:
        pass

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([ToolCall("t", TEAM_SEND, "{}", {"channel": "table", "text": "\ud800 add 10"})])
        attempt.finish("\ud800" + "x" * 50_000)
