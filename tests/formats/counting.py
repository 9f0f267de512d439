"""Counts of the files of a format: by its import, and the helpers of counts made without the importers' code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.formats.registry import load_format, matching_formats
from assay.records import AttemptEnded, ModelCalled
from tests.formats.agents import imported, steps_of


class Counts(NamedTuple):
    """What a file, or its import, holds."""

    attempts: int
    answers: int
    """Turns of the agent."""
    tool_calls: int
    prompt_tokens: int = 0
    completion_tokens: int = 0


Counter = Callable[[Sequence[Path]], Counts]


def stored(name: str, paths: Sequence[Path]) -> Counts:
    """Counts what the import of files stores, which no other format takes for its own.

    Calls of the environment are quoted in a prompt. Tokens of an attempt without model calls are those of its metrics.
    """
    assert {format.name for path in paths[:3] for format in matching_formats(path)} == {name}
    runs = [run for path in paths for run in imported(load_format(name), path)[0]]
    steps = [step for run in runs for step in steps_of(run)]
    tokens = [0, 0]
    for run in runs:
        usages = [body.call.usage for body in run.bodies if isinstance(body, ModelCalled)]
        ends = [body.metrics for body in run.bodies if isinstance(body, AttemptEnded)] if not usages else []
        tokens[0] += sum(usage.prompt_tokens or 0 for usage in usages)
        tokens[1] += sum(usage.completion_tokens or 0 for usage in usages)
        tokens[0] += sum(int(metrics.get("prompt_tokens", 0)) for metrics in ends)
        tokens[1] += sum(int(metrics.get("completion_tokens", 0)) for metrics in ends)
    answers = sum(step.actor == "agent" for step in steps)
    calls = sum(len(step.tool_calls) for step in steps if step.actor != "environment")
    return Counts(len(runs), answers, calls, *tokens)


def document(path: Path) -> Any:
    return json.loads(path.read_bytes())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def of_messages(messages: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Counts the assistant's messages and their tool calls."""
    answers = [message for message in messages if message["role"] == "assistant"]
    return len(answers), sum(len(message.get("tool_calls") or ()) for message in answers)


def sums(usages: Iterable[dict[str, Any] | None], prompt: str, completion: str) -> tuple[int, int]:
    """Adds up the tokens of model calls."""
    known = [usage for usage in usages if usage]
    return sum(usage.get(prompt) or 0 for usage in known), sum(usage.get(completion) or 0 for usage in known)
