"""Agents and judges for tests of combinators: a first command or act depends on the attempt's seed."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from assay.agents.combinators.judges import FinishedTry
from assay.agents.combinators.routing import StepPrefix
from assay.agents.combinators.summaries import TrySummary
from assay.agents.interface import Attempt
from assay.gateway.interface import ModelRequest
from assay.records import Evidence, Limits, ToolCall


class Guesser:
    """Writes `done` or something else into the answer, by its seed; a share of `luck` is right."""

    name = "guesser"
    needs_model = False

    def __init__(self, luck: float = 0.5, text: str = "done") -> None:
        self._luck, self._text = float(luck), text

    async def run(self, attempt: Attempt) -> None:
        is_right = random.Random(attempt.seed).random() < self._luck
        await attempt.shell(f"echo {self._text if is_right else 'wrong'} > answer", timeout_s=30)
        attempt.finish("guessed")


class AdviceReader:
    """Adds what the task's text asks for, and what an advice in it asks for."""

    name = "advice-reader"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        by = 4 if "missing" in str(attempt.task.instruction) else 6
        await attempt.act([ToolCall("t", "add", f'{{"by": {by}}}', {"by": by})])
        attempt.finish("added")


class Forger:
    """Acts once, then adds evidence that only the runner adds."""

    name = "forger"
    needs_model = False

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([ToolCall("t", "add", '{"by": 6}', {"by": 6})])
        attempt.note(Evidence("x", "audit", self._kind, {"branch": 0, "at": 1}))


class LateAsker:
    """Declares that it asks for verdicts only once its attempt is under way."""

    name = "late-asker"
    needs_model = False
    uses_branches = True
    upper_bound = False

    async def run(self, attempt: Attempt) -> None:
        assert attempt.branches is not None
        self.upper_bound = True
        try:
            await attempt.branches.verdict(attempt.branches.first)
        finally:
            self.upper_bound = False


class LimitLifter:
    """Opens a branch with a task of its own that has no limits, and passes in five turns."""

    name = "limit-lifter"
    needs_model = False
    uses_branches = True
    tries = 5

    async def run(self, attempt: Attempt) -> None:
        assert attempt.branches is not None
        own = replace(attempt.task, instruction="Advice: add two.", limits=Limits(), checks=())
        branch = await attempt.branches.start(seed=1, task=own)
        for _ in range(5):
            await attempt.branches.act(branch, [ToolCall("t", "add", '{"by": 2}', {"by": 2})])
        attempt.branches.adopt(branch)


def content_judge(done: FinishedTry) -> tuple[float, str]:
    """Trusts what the last observation says."""
    total = done.steps[-1].observations[0].content
    return float("10" in total), f"missing: 10, and it says {total}"


def broken_judge(done: FinishedTry) -> float:
    """Returns no score."""
    return 7.0


def mover_and_judge(request: ModelRequest) -> dict[str, Any] | str:
    """Moves once, and takes a move to the left for done."""
    if request.messages[0]["content"].startswith("You judge"):
        return "YES." if '"left"' in request.messages[-1]["content"] else "No. Go left."
    asked = str(request.messages)
    direction = "left" if random.Random(asked + str(request.sampling)).random() < 0.5 else "up"
    return {"tool_calls": [{"name": "move", "arguments": {"direction": direction}}]}


def fewest_steps(summaries: list[TrySummary]) -> int:
    """Compares by the number of steps."""
    return min(range(len(summaries)), key=lambda one: (summaries[one].steps, summaries[one].branch))


def no_position(summaries: list[TrySummary]) -> int:
    """Returns no position of a try."""
    return len(summaries)


def mover_and_comparer(request: ModelRequest) -> dict[str, Any] | str:
    """Moves once; summarises, and prefers a try that its own summary says went to the left."""
    system, asked = request.messages[0]["content"], str(request.messages[-1]["content"])
    if system.startswith("You read one try"):
        return "FAILURES none. It went west." if '"left"' in asked else "FAILURES it did not go west."
    if system.startswith("You compare"):
        tries = asked.split("Try ")[1:]
        return next((f"Try {n}." for n, one in enumerate(tries, 1) if "It went west" in one), "neither")
    return mover_and_judge(request)


def short(done: FinishedTry) -> float:
    """The fewer steps the better, in thirds, so that there are ties."""
    return max(0, 3 - len(done.steps) // 4) / 3


def late(done: FinishedTry) -> float:
    """A score that tells all tries apart."""
    return (sum(len(one.content) for step in done.steps for one in step.observations) % 997) / 997


def every_third(prefix: StepPrefix) -> bool:
    """Routes the third step of each three to the expensive agent."""
    return len(prefix.steps) % 3 == 2


def undecided(prefix: StepPrefix) -> str:
    """Decides nothing."""
    return "expensive"


def mover_and_witness(request: ModelRequest) -> dict[str, Any]:
    """Moves, and says by which system prompt and after how many results."""
    results = sum(message["role"] == "tool" for message in request.messages)
    call = {"name": "move", "arguments": {"direction": ("left", "up", "right", "down")[results % 4]}}
    return {"content": f"{request.messages[0]['content']} {results}", "tool_calls": [call]}
