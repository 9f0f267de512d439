"""smolagents: a run's result (`RunResult.dict()`, with `steps`), or the steps of an agent's memory in an array.

A step of a code agent calls `python_interpreter` with the code. Where a step failed, what the library told the model is
the result, marked as an error. The prompt of the first step gives the system prompt; later prompts repeat the steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.round_trip_builder import get_path, list_or_empty, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.shared.usage import read_usage
from assay.records import AttemptEnded

_STEP = ("model_input_messages", "observations", "action_output")


class SmolagentsFormat(ConversationFormat):
    name: ClassVar[str] = "smolagents"
    title: ClassVar[str] = "smolagents runs and memory (JSON)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any(paths >= {f"{at}[].{key}" for key in _STEP} for at in ("", "steps"))

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        steps = document if isinstance(document, list) else list_or_empty(get_path(document, "steps"))
        if not steps:
            raise UserError("the document has no steps")
        model: str | None = None
        for position, step in enumerate(steps):
            if not isinstance(step, dict):
                bad(f"steps[{position}]", f"expected a step, found {type(step).__name__}")
                continue
            _add_system_prompt(builder, step)
            model = model or text_or_none(get_path(step, "model_output_message", "raw", "model"))
            _add_step(builder, step, model)
        rest = document if isinstance(document, dict) else {}
        builder.fields = {key: value for key, value in rest.items() if key != "steps"}
        stopped = "turns" if rest.get("state") == "max_steps_error" else None
        ended = AttemptEnded(
            ended="final answer" if rest.get("state") == "success" else None,
            stopped=stopped,
            at=parse_time(get_path(rest, "timing", "end_time")),
        )
        return builder.finish(where, ended=ended, agent="smolagents", model=model, at=_start(rest, steps))


def _start(rest: dict[str, Any], steps: list[Any]) -> float | None:
    first = next((step["timing"] for step in objects_in(steps) if isinstance(step.get("timing"), dict)), None)
    return parse_time(get_path(rest, "timing", "start_time") or get_path(first, "start_time"))


def _add_system_prompt(builder: TrajectoryBuilder, step: dict[str, Any]) -> None:
    if any(made.extra.get("role") == "system" for made in builder.steps):
        return
    given = [m for m in objects_in(step.get("model_input_messages")) if m.get("role") == "system"]
    prompt = text_or_none(step.get("system_prompt"))
    messages = [{"role": "system", "content": prompt}] if prompt else given
    for message in to_chat_messages(messages[:1]):
        add_turn(builder, Turn(message))


def _add_step(builder: TrajectoryBuilder, step: dict[str, Any], model: str | None) -> None:
    if "task" in step:
        add_turn(
            builder, Turn({"role": "user", "content": as_text(step["task"])}, extra={"images": step.get("task_images")})
        )
        return
    if "step_number" not in step and "plan" not in step:
        return  # a system prompt, or the final answer again
    said = text_or_none(step.get("plan")) or text_or_none(step.get("model_output"))
    calls = objects_in(step.get("tool_calls")) or objects_in(get_path(step, "model_output_message", "tool_calls"))
    if said is None and not calls:
        said = text_or_none(step.get("action_output"))
    (message,) = to_chat_messages([{"role": "assistant", "content": said, "tool_calls": calls}])
    timing = step.get("timing")
    turn = Turn(
        message,
        model=model,
        usage=read_usage(step.get("token_usage"), "input_tokens", "output_tokens"),
        started=parse_time(get_path(timing, "start_time")),
        ended=parse_time(get_path(timing, "end_time")),
        extra={"kind": "plan" if "plan" in step else None, "error": step.get("error") if not calls else None},
    )
    add_turn(builder, turn)
    failure = text_or_none(get_path(step, "error", "message"))
    seen = "\n".join(text for text in (text_or_none(step.get("observations")), failure) if text)
    if calls and (seen or step.get("observations") is not None):
        builder.add_result(builder.make_observation(seen, error=failure is not None))
