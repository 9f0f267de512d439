"""Lessons and pairs as lines of files: conversations with a training mask, written by `assay curate`, read as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from assay.errors import UserError
from assay.gateway.tokens import AttributingRenderer
from assay.learning.conversation import Message, Opening, Transcript, conversations
from assay.learning.reading import RunReader
from assay.learning.rendered import rows_of_transcript
from assay.learning.rows import TrainingRow
from assay.records import Step, Trajectory

from .failures import Lesson, StepContrast, WinningAttempt

LESSONS, PAIRS = "lessons.jsonl", "pairs.jsonl"
OneMessage = Annotated[list[Message], msgspec.Meta(min_length=1, max_length=1)]


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The failed attempt of a line, and how many of its leading steps the line holds."""

    run: str
    attempt: str
    chain: str
    head: str
    task: str
    agent: str
    prefix: int


class LessonLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `lessons.jsonl`."""

    kind: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    learn: list[bool]
    """For each message, whether it is trained; False for messages that the agent did not write."""
    source: FailedAttempt
    won: WinningAttempt
    feedback: str | None = None
    why: str = ""

    def __post_init__(self) -> None:
        """Rejects a mask of another length."""
        if len(self.learn) != len(self.messages):
            raise ValueError(f"learn has {len(self.learn)} values for {len(self.messages)} messages")


class PairLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `pairs.jsonl`: a winning and a losing message after the same conversation."""

    prompt: list[Message]
    chosen: OneMessage
    rejected: OneMessage
    tools: list[dict[str, Any]]
    source: FailedAttempt
    won: WinningAttempt


def lesson_line(lesson: Lesson, failed: Trajectory, opening: Opening) -> LessonLine:
    """Encodes a lesson."""
    line = _conversation(failed, lesson.steps, opening)
    learn = dict(zip((step.index for step in lesson.steps), lesson.learn, strict=True))
    return LessonLine(
        kind=lesson.kind,
        messages=line.messages,
        tools=line.tools,
        learn=[own and step is not None and learn[step] for own, step in zip(line.own, line.steps, strict=True)],
        source=_failed_attempt(failed, lesson.prefix),
        won=lesson.won,
        feedback=lesson.feedback,
        why=lesson.why,
    )


def pair_line(contrast: StepContrast, failed: Trajectory, opening: Opening) -> PairLine:
    """Encodes a pair."""
    before = len(_conversation(failed, contrast.before, opening).messages)
    chosen, rejected = (
        _conversation(failed, (*contrast.before, step), opening) for step in (contrast.chosen, contrast.rejected)
    )
    return PairLine(
        prompt=chosen.messages[:before],
        chosen=[chosen.messages[before]],
        rejected=[rejected.messages[before]],
        tools=chosen.tools,
        source=_failed_attempt(failed, len(contrast.before)),
        won=contrast.won,
    )


def read_lessons(folder: Path, renderer: AttributingRenderer, tokenizer: str) -> Iterator[TrainingRow]:
    """Yields rendered rows of a folder's lessons, as passes of the attempts that won.

    Raises:
        UserError: The folder holds no lessons, a line is invalid, or the template cannot take it.
    """
    for number, line in enumerate(_read_lines(folder / LESSONS, LessonLine)):
        transcript = _transcript(f"{line.kind}-{number}", line.messages, line.tools, line.learn)
        fields = _winner_fields(line.won, line.source) | {"group": f"{line.source.chain}|{number}"}
        yield from rows_of_transcript(transcript, renderer, tokenizer=tokenizer, **fields)


def read_pairs(folder: Path, renderer: AttributingRenderer, tokenizer: str) -> Iterator[TrainingRow]:
    """Yields rendered rows of a folder's pairs: a passed and a failed one for each, which form a group and train one
    message. Raises as `read_lessons`."""
    for number, line in enumerate(_read_lines(folder / PAIRS, PairLine)):
        untrained = [False] * len(line.prompt)
        for message, fields in (
            (line.chosen, _winner_fields(line.won, line.source)),
            (line.rejected, _loser_fields(line.source)),
        ):
            transcript = _transcript(f"pair-{number}", [*line.prompt, *message], line.tools, [*untrained, True])
            group = f"{line.source.chain}|{number}"
            yield from rows_of_transcript(transcript, renderer, tokenizer=tokenizer, group=group, **fields)


def instruction_for(reader: RunReader, trajectory: Trajectory) -> str:
    """Returns the text of an attempt's task; for a record without the task, what was said before the first step.

    Raises:
        UserError: The record does not hold it.
    """
    known = reader.instruction(trajectory)
    if known is not None:
        return known
    opening = opening_for(reader, trajectory).messages
    return "\n".join(str(message["content"]) for message in opening if message["role"] == "user")


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


def _failed_attempt(failed: Trajectory, prefix: int) -> FailedAttempt:
    return FailedAttempt(
        run=failed.run,
        attempt=failed.attempt,
        chain=failed.chain,
        head=failed.head,
        task=failed.task,
        agent=failed.agent,
        prefix=prefix,
    )


def _winner_fields(won: WinningAttempt, source: FailedAttempt) -> dict[str, Any]:
    return {
        "run": won.run,
        "chain": won.chain,
        "attempt": source.attempt,
        "task": source.task,
        "agent": won.agent,
        "outcome": "pass",
        "score": 1.0,
        "separation": won.separation,
    }


def _loser_fields(source: FailedAttempt) -> dict[str, Any]:
    return {
        "run": source.run,
        "chain": source.chain,
        "attempt": source.attempt,
        "task": source.task,
        "agent": source.agent,
        "outcome": "fail",
        "score": 0.0,
    }


def _transcript(
    branch: str, messages: list[Message], tools: list[dict[str, Any]], trained: Sequence[bool]
) -> Transcript:
    calls, steps = [None] * len(messages), [None] * len(messages)
    return Transcript(branch, messages, tools, list(trained), [*calls], [*steps])


_Line = TypeVar("_Line", LessonLine, PairLine)


def _read_lines(path: Path, kind: type[_Line]) -> Iterator[_Line]:
    try:
        text = path.read_bytes()
    except OSError as exc:
        raise UserError(
            f"{path} cannot be read ({exc.strerror}): name a folder that `assay curate` made with --recover or "
            "--reattempt"
        ) from exc
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise UserError(f"{path}, line {number}, is not as `assay curate` writes it: {exc}") from exc
