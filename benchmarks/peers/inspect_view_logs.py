"""Two `.eval` logs for Inspect's viewer: many samples of few messages, and one sample of many long messages.

python inspect_view_logs.py FOLDER SAMPLES STEPS BYTES_A_STEP
"""

from __future__ import annotations

import random
import sys
from importlib.metadata import version
from pathlib import Path

from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall


def messages(steps: int, size: int, draw: random.Random) -> list[ChatMessageAssistant | ChatMessageTool]:
    """An act and what it brought back, so many times."""
    found: list[ChatMessageAssistant | ChatMessageTool] = []
    for step in range(steps):
        calls = [ToolCall(id=f"call_{step}", function="bash", arguments={"command": f"sed -n {step}p notes.txt"})]
        found.append(ChatMessageAssistant(content=f"I read part {step}.", tool_calls=calls))
        found.append(ChatMessageTool(content=text(step, size, draw), tool_call_id=f"call_{step}"))
    return found


def text(step: int, size: int, draw: random.Random) -> str:
    """Lines of hexadecimal digits; the same generator writes Assay's record."""
    lines = [f"part {step}", *(draw.randbytes(38).hex() for _ in range(size // 77 + 1))]
    return "\n".join(lines)[:size]


def sample(number: int, steps: int, size: int, draw: random.Random) -> EvalSample:
    """One attempt."""
    return EvalSample(
        id=f"task-{number // 20:04d}-{number % 20:02d}",
        epoch=1,
        input="Read the notes.",
        target="y",
        messages=messages(steps, size, draw),
        scores={"tests": Score(value="C" if number % 3 else "I")},
        metadata={"task": f"task-{number // 20:04d}"},
    )


def write(path: Path, samples: list[EvalSample]) -> None:
    """One log."""
    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="notes", dataset=EvalDataset(), model="m/m", config=EvalConfig()
    )
    write_eval_log(EvalLog(status="success", eval=spec, samples=samples), str(path))


def main() -> None:
    """See the module."""
    folder, count, steps, size = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    draw = random.Random(0)
    write(folder / "2026-01-01T00-00-00+00-00_notes_many.eval", [sample(n, 2, 200, draw) for n in range(count)])
    write(folder / "2026-01-02T00-00-00+00-00_notes_long.eval", [sample(0, steps, size, draw)])
    print(f"inspect_ai {version('inspect_ai')}")


if __name__ == "__main__":
    main()
