"""The prompt by which a model writes a new version of an agent's program. Pure.

The model is shown the files that it may change, how the present version fails on tasks of the search (verdicts, reasons
and the evidence that they cite), and what came of earlier candidates. It sees nothing of the tasks of the gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .gepa_search import TaskFeedback

MOST_SHOWN = 60_000
"""Characters of files in a prompt; a file that does not fit is named only."""
_TASKS, _EARLIER, _DIFF = 3, 5, 2_000
_ASKED = (
    "You improve the program of an agent. Below are its files that you may change, tasks at which it was judged, and "
    "what came of earlier changes. Write one change that makes it pass more tasks of this kind. Name no task and no "
    "answer of one task: the change is decided on other tasks. The program runs in a sandbox without a network. Answer "
    "with a unified diff in a block that begins with ```diff, or with whole files, each in a block that begins with "
    "```file PATH. Each block ends with a line ```."
)


class TriedChange(NamedTuple):
    """An earlier candidate and its result."""

    diff: str
    """Empty where the answer was none that can be tried."""
    result: str


def write_prompt(
    files: Mapping[str, bytes], rate: float, feedback: Sequence[TaskFeedback], earlier: Sequence[TriedChange]
) -> str:
    """Returns the prompt.

    Args:
        files: The files that may change, by path.
        rate: Share of attempts that pass at present.
        feedback: Of all tasks of the search; the ones with the lowest scores are shown.
        earlier: Oldest first; the last ones are shown.
    """
    parts = [_ASKED, "# Files", *_show_files(files), f"# Tasks\nIt passes {rate:.3f} of its attempts."]
    for one in sorted(feedback, key=lambda one: (one.score, one.task))[:_TASKS]:
        parts.append(
            f"## A task, passed in {one.score:.2f}\nInputs:\n{one.instruction}\nOutputs:\n{one.outputs}\n"
            f"Feedback:\n{one.feedback}"
        )
    shown = earlier[-_EARLIER:]
    parts += ["# Earlier changes"] if shown else []
    parts += [f"{one.result}\n{one.diff[:_DIFF]}" for one in shown]
    return "\n\n".join(parts)


def _show_files(files: Mapping[str, bytes]) -> list[str]:
    shown, left = list[str](), MOST_SHOWN
    for path, data in sorted(files.items()):
        text = data.decode(errors="replace")
        if len(text) > left or "\0" in text:
            shown.append(f"{path}: {len(data):,} bytes, not shown")
            continue
        left -= len(text)
        shown.append(f"{path}:\n{text}")
    return shown
