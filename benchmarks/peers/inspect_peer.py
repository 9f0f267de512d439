"""Inspect AI with its own mock model in the process, its basic tool loop, and its `.eval` log."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from episode import INSTRUCTION, SAID, SYSTEM, TURNS, given, measure
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.model._model_output import ChatCompletionChoice
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import ToolCall, tool
from inspect_ai.util import store


@tool
def add():
    async def execute(by: int) -> str:
        """Adds to the counter.

        Args:
            by: How much.
        """
        store().set("counter", store().get("counter", 0) + by)
        return str(store().get("counter"))

    return execute


@scorer(metrics=[accuracy()])
def ten():
    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        return Score(value=1 if store().get("counter") == TURNS else 0)

    return score


def answer(messages, tools, choice, config) -> ModelOutput:  # noqa: ARG001
    """The model: ten calls, then a plain end, which Inspect's loop needs."""
    turn = sum(m.role == "assistant" for m in messages)
    calls = [ToolCall(id=f"call_{turn}", function="add", arguments={"by": 1})] if turn < TURNS else None
    said = ChatMessageAssistant(content=SAID, tool_calls=calls)
    choice = ChatCompletionChoice(message=said, stop_reason="tool_calls" if calls else "stop")
    # With the usage given, Inspect's mock model counts no tokens, for which it would fetch a vocabulary.
    return ModelOutput(model="mock", choices=[choice], usage=ModelUsage(input_tokens=100, output_tokens=10))


def run(attempts: int, folder: Path) -> int:
    """One evaluation of so many samples."""
    opening = [ChatMessageSystem(content=SYSTEM), ChatMessageUser(content=INSTRUCTION)]
    task = Task(
        dataset=[Sample(input=opening, target="10", id=n) for n in range(attempts)],
        solver=[use_tools(add()), generate(tool_calls="loop")],
        scorer=ten(),
    )
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = eval(
        task, model=model, max_samples=given().at_once, log_dir=str(folder), log_format="eval", display="none"
    )
    if log.status != "success" or log.results.scores[0].metrics["accuracy"].value != 1.0:
        raise SystemExit(f"the evaluation went wrong: {log.status} {str(log.error)[:500]}")
    return attempts * TURNS


measure(f"inspect_ai {version('inspect_ai')}", run)
