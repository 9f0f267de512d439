"""Structured summaries of finished tries, made by rule from their steps, and judges that compare a few of them.

A summary is short whatever the length of its try, so that several fit one question to a model.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from assay import plugins
from assay.agents._calls import instruction_of, text_of
from assay.agents.branches import Branch, Branches
from assay.errors import AgentError, OptionError, boundary
from assay.gateway.interface import ModelRequest
from assay.records import Observation, Step, ToolCall

from .judges import COMMAND, MODEL, VERDICT, Judge, describe_step, one_line, read_judge

_LISTED, _CHARS, _REPORT_CHARS, _NOTE_CHARS = 8, 160, 600, 2_000
_SHOWN_STEPS = 40
_COMPARE = (
    "You compare several tries of another agent at one task by their summaries. Answer with the number of the try that "
    "most likely solved the task, and nothing else."
)
_SUMMARISE = (
    "You read one try of another agent at a task. Summarise it in at most 120 words under three headings: HYPOTHESES "
    "(what it took to be true), PROGRESS (what it changed and how it knows), FAILURES (what went wrong or stayed open)."
)


class TrySummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Summary of one try. Lists hold at most eight entries, the latest; the counts beside them are of all."""

    branch: int
    steps: int
    ended: str | None = None
    stopped: str | None = None
    tried: dict[str, int] = {}
    """Number of calls of each tool."""
    changed: tuple[str, ...] = ()
    """Calls after which the environment was in another state."""
    changes: int = 0
    failed: tuple[str, ...] = ()
    """Calls that failed, each with the end of its error."""
    failures: int = 0
    report: str = ""
    """The agent's last words, or the end of what it was shown last."""
    note: str = ""
    """A model's summary; empty for one by rule alone."""

    def render(self) -> str:
        """Returns the summary as text, a fact a line."""
        tried = ", ".join(f"{name} {count}x" for name, count in self.tried.items())
        lines = [
            f"tried: {tried or 'nothing'} in {self.steps} steps",
            f"changed ({self.changes}): {'; '.join(self.changed) or 'nothing that was seen'}",
            f"failed ({self.failures}): {'; '.join(self.failed) or 'nothing'}",
            f"ended: {self.ended or self.stopped or 'open'}",
            f"last: {self.report}",
        ]
        return "\n".join(map(one_line, [*lines, f"note: {self.note}"] if self.note else lines))


def has_failed(call: ToolCall, seen: Observation) -> bool:
    """Returns whether a call was invalid, or its execution returned an error, a non-zero exit code or a time-out."""
    return call.error is not None or seen.error or seen.timed_out or bool(seen.exit_code)


def summarise_try(branch: Branch) -> TrySummary:
    """Returns the summary of a finished branch by rule."""
    changed, failed, tried = list[str](), list[str](), Counter[str]()
    before: str | None = None
    for step in branch.steps:
        made = "; ".join(f"{call.name} {call.arguments}"[:_CHARS] for call in step.tool_calls)
        if made and step.state is not None and step.state != before:
            changed.append(made)
        before = step.state or before
        tried.update(call.name for call in step.tool_calls)
        for call, seen in zip(step.tool_calls, step.observations, strict=False):
            if has_failed(call, seen):
                error = (call.error or seen.stderr or seen.content).strip()[-_CHARS:]
                failed.append(f"{call.name} {call.arguments}"[:_CHARS] + f" -> {error}")
    ending = branch.ending
    return TrySummary(
        branch.number, len(branch.steps), ending.ended, ending.stopped, dict(tried), tuple(changed[-_LISTED:]),
        len(changed), tuple(failed[-_LISTED:]), len(failed), _last_words(branch.steps)[-_REPORT_CHARS:],
    )  # fmt: skip


def _last_words(steps: Sequence[Step]) -> str:
    for step in reversed(steps):
        if step.message:
            return step.message
        if step.observations:
            return step.observations[-1].content
    return ""


async def add_model_note(branch: Branch, summary: TrySummary) -> TrySummary:
    """Returns the summary with the run's model's own of the try. Raises `LimitReached` and `ProviderError`."""
    shown = "\n".join(describe_step(step) for step in branch.steps[-_SHOWN_STEPS:])
    content = f"The task:\n{instruction_of(branch.attempt.task)}\n\nThe try:\n{shown or 'nothing'}"
    messages = [{"role": "system", "content": _SUMMARISE}, {"role": "user", "content": content}]
    _, reply = await branch.attempt.ask(ModelRequest(messages, sampling={"temperature": 0.0}))
    return msgspec.structs.replace(summary, note=text_of(reply.message.get("content"))[:_NOTE_CHARS])


class Comparer(Protocol):
    """Compares a few tries by their summaries."""

    name: str
    is_privileged: bool
    needs_model: bool

    async def compare(self, branches: Branches, group: Sequence[tuple[Branch, TrySummary]]) -> int:
        """Returns the position of the best try of a group. Raises as `Judge.judge`."""


def read_comparer(spelling: str, agent: str) -> Comparer:
    """Returns the comparer of a spelling. Raises `OptionError` without one, `PluginLoadError` for a missing
    function."""
    if spelling == MODEL:
        return ModelComparer()
    if not spelling or spelling == VERDICT or spelling.startswith(COMMAND):
        return ScoreComparer(read_judge(spelling, agent))
    return FunctionComparer(spelling, plugins.load("judges", spelling))


class ModelComparer:
    """The run's model, which reads the task and the summaries. An answer without a valid number is for the first."""

    name = MODEL
    is_privileged = False
    needs_model = True

    async def compare(self, branches: Branches, group: Sequence[tuple[Branch, TrySummary]]) -> int:
        attempt = branches.first.attempt
        shown = "\n\n".join(f"Try {n}:\n{summary.render()}" for n, (_, summary) in enumerate(group, 1))
        content = f"The task:\n{instruction_of(attempt.task)}\n\n{shown}\n\nWhich try, 1 to {len(group)}?"
        messages = [{"role": "system", "content": _COMPARE}, {"role": "user", "content": content}]
        _, reply = await attempt.ask(ModelRequest(messages, sampling={"temperature": 0.0}))
        named = re.search(r"\d{1,4}", text_of(reply.message.get("content")))
        number = int(named[0]) if named else 1
        return number - 1 if 1 <= number <= len(group) else 0


class ScoreComparer:
    """A judge of single tries, which is asked of each: the best score of the group, the earliest of equals."""

    def __init__(self, judge: Judge) -> None:
        self.name, self.is_privileged, self.needs_model = judge.name, judge.is_privileged, judge.needs_model
        self._judge = judge

    async def compare(self, branches: Branches, group: Sequence[tuple[Branch, TrySummary]]) -> int:
        scores = [(await self._judge.judge(branches, branch)).score for branch, _ in group]
        return max(range(len(group)), key=lambda one: (scores[one], -group[one][0].number))


class FunctionComparer:
    """A function of a list of `TrySummary` that returns the position of the best one."""

    is_privileged = False
    needs_model = False

    def __init__(self, name: str, function: Any) -> None:
        if not inspect.isroutine(function):
            raise OptionError(f"judge={name} is not a function: write def {name.rpartition(':')[2]}(summaries) in it")
        self.name = name
        self._function = function

    async def compare(self, branches: Branches, group: Sequence[tuple[Branch, TrySummary]]) -> int:
        with boundary(AgentError, f"judge {self.name}"):
            found = self._function([summary for _, summary in group])
            if inspect.isawaitable(found):
                found = await found
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < len(group):
            raise AgentError(f"judge {self.name} returned {found!r:.100}: expected a position, 0 to {len(group) - 1}")
        return found
