"""Encodes lessons and pairs as conversations with a training mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.learning.conversation import Opening, Transcript, conversations
from assay.learning.reading import RunReader
from assay.records import Step, Trajectory

from .failures import Lesson, StepContrast
from .recover import RecoveryResult


def lesson_line(lesson: Lesson, failed: Trajectory, opening: Opening) -> dict[str, Any]:
    """Returns a line of `lessons.jsonl`; `learn` is False for messages that the agent did not write."""
    line = _conversation(failed, lesson.steps, opening)
    learn = dict(zip((step.index for step in lesson.steps), lesson.learn, strict=True))
    return {
        "kind": lesson.kind,
        "messages": line.messages,
        "tools": line.tools,
        "learn": [own and step is not None and learn[step] for own, step in zip(line.own, line.steps, strict=True)],
        "source": {"run": failed.run, "attempt": failed.attempt, "chain": failed.chain, "head": failed.head,
                   "task": failed.task, "prefix": lesson.prefix},
        "won": {"run": lesson.won_run, "chain": lesson.won, "head": lesson.won_head},
        "feedback": lesson.feedback,
        "why": lesson.why,
    }  # fmt: skip


def pair_line(contrast: StepContrast, failed: Trajectory, opening: Opening) -> dict[str, Any]:
    """Returns a line of `pairs.jsonl`: a winning and a losing message after the same conversation."""
    before = len(_conversation(failed, contrast.before, opening).messages)
    chosen, rejected = (
        _conversation(failed, (*contrast.before, step), opening) for step in (contrast.chosen, contrast.rejected)
    )
    return {
        "prompt": chosen.messages[:before],
        "chosen": [chosen.messages[before]],
        "rejected": [rejected.messages[before]],
        "tools": chosen.tools,
        "source": {"run": failed.run, "attempt": failed.attempt, "chain": failed.chain, "head": failed.head,
                   "task": failed.task, "prefix": len(contrast.before)},
    }  # fmt: skip


def recovered_line(found: RecoveryResult, *, written: bool = True) -> dict[str, Any]:
    """Returns a line of `recovered.jsonl`, which also says whether the lessons were written."""
    one = found.failed
    why = found.why if written or not found.lessons else f"{found.why}; its opening is unknown"
    return {
        "run": one.run,
        "attempt": one.attempt,
        "chain": one.chain,
        "head": one.head,
        "lessons": [lesson.kind for lesson in found.lessons if written],
        "pair": found.contrast is not None and written,
        "retry": found.instance,
        "why": why,
    }


def opening_for(reader: RunReader, failed: Trajectory) -> Opening:
    """Returns the messages before the agent's first step, recorded or reconstructed.

    Raises:
        UserError: The record does not hold them.
    """
    if failed.calls:
        first = next(conversations(failed))
        line = next((n for n, message in enumerate(first.messages) if message["role"] == "assistant"), 0)
        return Opening(first.messages[:line], first.tools)
    acted = next((n for n, step in enumerate(failed.steps) if step.actor == "agent"), len(failed.steps))
    if any(step.actor == "user" for step in failed.steps[:acted]):
        return Opening(_conversation(failed, failed.steps[:acted], Opening([], [])).messages, [])
    return reader.opening(failed) or Opening([], [])


def _conversation(failed: Trajectory, steps: Sequence[Step], opening: Opening) -> Transcript:
    return next(conversations(msgspec.structs.replace(failed, steps=tuple(steps), calls=()), opening))
