"""Judges of a combinator: they score a finished try, to pick among several or to ask for another one.

`verdict` is the task's own verifier: privileged, so that what it picks is an upper bound. The others know no more than
the agent: a command in a fork of its sandbox, the run's model, or a Python function of the user's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from assay import plugins
from assay.agents._calls import instruction_of, text_of
from assay.agents.branches import Branch, Branches
from assay.errors import AgentError, OptionError, TaskError, boundary
from assay.gateway.interface import ModelRequest
from assay.records import Step

VERDICT, MODEL, COMMAND = "verdict", "model", "command:"
_FEEDBACK_CHARS = 2_000
_SHOWN_STEPS, _SHOWN_CHARS = 20, 600
_QUESTION = (
    "You judge the work of another agent. Read the task and what the agent did last. Answer with one word: YES if the "
    "task is done, NO if it is not. After NO you may add one sentence that says what is missing."
)


class FinishedTry(NamedTuple):
    """Argument of a judge that is a Python function."""

    instruction: str
    steps: Sequence[Step]
    ended: str | None
    """Why the agent stopped by itself; None if it did not."""
    stopped: str | None
    """The world's limit that stopped it; None if none did."""


class TryScore(NamedTuple):
    """A judge's answer."""

    score: float
    """In [0, 1]; 1 is done."""
    feedback: str = ""
    """Missing parts, in words."""


class Judge(Protocol):
    """Scores finished tries."""

    name: str
    is_privileged: bool
    needs_model: bool

    async def judge(self, branches: Branches, branch: Branch) -> TryScore:
        """Scores a branch. Raises `LimitReached` at a limit, `AgentError` for an invalid answer, and `TaskError` where
        the environment lacks what it needs."""


def read_judge(spelling: str, agent: str) -> Judge:
    """Returns the judge of a spelling. Raises `OptionError` without one, `PluginLoadError` for a missing function."""
    if not spelling:
        raise OptionError(
            f"agent {agent!r} needs a judge: --agent-option judge=verdict (the task's own verifier: an upper bound), "
            "judge=model, judge='command:...' (done if it exits with 0), or judge=path/to/file.py:function"
        )
    if spelling == VERDICT:
        return VerdictJudge()
    if spelling == MODEL:
        return ModelJudge()
    if spelling.startswith(COMMAND):
        return CommandJudge(spelling.removeprefix(COMMAND), agent)
    return FunctionJudge(spelling, plugins.load("judges", spelling))


class VerdictJudge:
    """The task's own checks."""

    name = VERDICT
    is_privileged = True
    needs_model = False

    async def judge(self, branches: Branches, branch: Branch) -> TryScore:
        verdict = await branches.verdict(branch)
        return TryScore(1.0 if verdict.passed else min(verdict.score, 1.0 - 1e-9))


class CommandJudge:
    """A command in a fork of the sandbox, such as the tests that the agent may see: done if it exits with 0."""

    is_privileged = False
    needs_model = False

    def __init__(self, command: str, agent: str) -> None:
        if not command.strip():
            raise OptionError(f"agent {agent!r}: judge=command: names no command")
        self.name = f"{COMMAND}{command}"
        self._command = command

    async def judge(self, branches: Branches, branch: Branch) -> TryScore:
        workspace = branch.attempt.workspace
        if workspace is None:
            raise TaskError("judge=command: needs a sandbox, and the environment has none: take judge=file.py:function")
        result = await branch.attempt.shell(self._command, fork=await workspace.fork())
        done = result.exit_code == 0 and not result.timed_out
        said = f"{result.stdout}\n{result.stderr}".strip()
        return TryScore(float(done), "" if done else f"`{self._command}` failed:\n{said[-_FEEDBACK_CHARS:]}")


class ModelJudge:
    """The run's model, asked whether the task is done; an answer other than YES is a no."""

    name = MODEL
    is_privileged = False
    needs_model = True

    async def judge(self, branches: Branches, branch: Branch) -> TryScore:
        shown = "\n".join(describe_step(step) for step in branch.steps[-_SHOWN_STEPS:])
        content = f"The task:\n{instruction_of(branch.attempt.task)}\n\nWhat the agent did last:\n{shown or 'nothing'}"
        messages = [{"role": "system", "content": _QUESTION}, {"role": "user", "content": content}]
        _, reply = await branch.attempt.ask(ModelRequest(messages, sampling={"temperature": 0.0}))
        answer = text_of(reply.message.get("content"))
        word, _, rest = answer.strip().partition(" ")
        done = word.strip(".,!:").upper() == "YES"
        return TryScore(float(done), "" if done else rest.strip()[:_FEEDBACK_CHARS])


class FunctionJudge:
    """A function of a `FinishedTry` that returns a score in [0, 1], a truth value, or a score and a text."""

    is_privileged = False
    needs_model = False

    def __init__(self, name: str, function: Any) -> None:
        if not inspect.isroutine(function):
            raise OptionError(f"judge={name} is not a function: write def {name.rpartition(':')[2]}(done) in it")
        self.name = name
        self._function = function

    async def judge(self, branches: Branches, branch: Branch) -> TryScore:
        ending = branch.ending
        finished = FinishedTry(instruction_of(branch.attempt.task), branch.steps, ending.ended, ending.stopped)
        with boundary(AgentError, f"judge {self.name}"):
            found = self._function(finished)
            if inspect.isawaitable(found):
                found = await found
        score, feedback = found if isinstance(found, tuple) and len(found) == 2 else (found, "")
        if not isinstance(score, int | float) or not math.isfinite(score) or not 0 <= score <= 1:
            raise AgentError(f"judge {self.name} returned {found!r:.100}: expected a number from 0 to 1")
        return TryScore(float(score), str(feedback)[:_FEEDBACK_CHARS])


def describe_step(step: Step) -> str:
    """Returns a step in one line, as a model that judges reads it."""
    calls = ", ".join(f"{call.name} {call.arguments[:_SHOWN_CHARS]}" for call in step.tool_calls)
    seen = " ".join(str(one.content)[:_SHOWN_CHARS] for one in step.observations)
    return one_line(f"- {calls or (step.message or '')[:_SHOWN_CHARS]}: {seen}")


def one_line(text: str) -> str:
    """Returns a text with line breaks and invisible characters escaped, so that what an agent wrote cannot pass for a
    further line: a step that was not made, or the summary of another try."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
