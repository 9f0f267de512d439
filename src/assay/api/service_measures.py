"""Process measures of stored attempts on services: the conversation with the person, and the use of tools.

They are computed from the recorded facts and the archived task, and never decide the outcome. A measure that cannot be
computed for an attempt is None, never 0. Covered: a record that another system wrote does not choose services that are
loaded here, and services that a task names as Python code are loaded by permission alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.conversation import GIVE_ANSWER, SEND, ConversationKnobs, conversation
from assay.environments.services.dialogue_measures import (
    Interview,
    follow_script,
    persona_consistency,
    recorded_turns,
    score_emotion,
    share_without_deviations,
    summarize_interview,
)
from assay.environments.services.faithfulness import Deviation, DialogueTurn, advance
from assay.environments.services.users import UserScript, UserState, begin
from assay.environments.services.world import LoggedCall
from assay.errors import StoreError
from assay.plugins import names_code
from assay.records import Task, Trajectory
from assay.rollout.attempt.model_user import USER_DEVIATIONS
from assay.rollout.recording.task_archive import read_task_record
from assay.store import RunStore, final_rows
from assay.store.blobs import BlobStore
from assay.verdicts.names import is_imported_record
from assay.verify.tool_use import (
    CallCount,
    Completeness,
    WriteCount,
    count_calls,
    count_requirements,
    count_writes,
    match_state,
)

_KINDS: Final = ("services", "sites")


class ConversationMeasures(NamedTuple):
    """The conversation of one attempt."""

    interview: Interview | None
    """None for an attempt that ended because the person left their script: its final facts are not recorded."""
    emotions: tuple[float, ...] = ()
    """Emotion of a rule-driven person at the first message and after each answer; empty for others."""
    has_left: bool = False
    consistency: float | None = None
    excess: int | None = None
    """Messages beyond the number that the task needs."""


class ProcessMeasures(NamedTuple):
    """Process measures of one attempt on services."""

    agent: str
    model: str | None
    task: str
    conversation: ConversationMeasures | None
    completeness: Completeness | None
    calls: CallCount | None
    writes: WriteCount | None


def read_process_measures(
    root: Path, runs: Sequence[str], *, allow_task_code: bool = False
) -> tuple[ProcessMeasures, ...]:
    """Returns the attempts on services whose task was recorded, with their final facts or what the person said
    against their script.

    Services that a task names as Python code are loaded only with `allow_task_code`.
    """
    found = []
    for run in runs:
        with RunStore.open(root, run) as store:
            for row in final_rows(store.attempts()):
                kinds = (b'"kind":"facts"', f'"kind":"{USER_DEVIATIONS}"'.encode())
                if all(next(iter(store.links(row.chain, kind)), None) is None for kind in kinds):
                    continue  # not a world: its trajectory may be large
                measured = _measure(store.trajectory(row.chain), store.layout.blobs, allow_task_code=allow_task_code)
                found += [] if measured is None else [measured]
    return tuple(found)


def _measure(attempt: Trajectory, blobs: BlobStore, *, allow_task_code: bool) -> ProcessMeasures | None:
    task = _task_of(attempt, blobs)
    sealed = (e.data.get("facts") for e in reversed(attempt.evidence) if e.kind == "facts" and "digest" in e.data)
    facts = next(sealed, None)
    if task is None or task.environment.kind not in _KINDS:
        return None
    if facts is None and (deviations := _deviations(attempt)):
        broken = ConversationMeasures(None, consistency=share_without_deviations(deviations, 0))
        return ProcessMeasures(attempt.agent, attempt.model, attempt.task, broken, None, None, None)
    if not isinstance(facts, Mapping):
        return None
    try:
        calls = msgspec.convert(facts.get("calls"), list[LoggedCall])
    except msgspec.ValidationError:
        return None
    match = match_state(task, facts)
    services = task.environment.parameters.get("services")
    may_load = not is_imported_record(attempt.started) and (allow_task_code or _names_installed(services))
    return ProcessMeasures(
        attempt.agent,
        attempt.model,
        attempt.task,
        _measure_conversation(task, calls, facts, attempt),
        None if match is None else count_requirements(match),
        count_calls(calls, task),
        count_writes(calls, task, match) if match is not None and may_load else None,
    )


def _names_installed(services: object) -> bool:
    """Returns whether services are named without Python code."""
    if not isinstance(services, list | tuple):
        return False
    return all(isinstance(name, str) and not names_code("services", name) for name in services)


def _task_of(attempt: Trajectory, blobs: BlobStore) -> Task | None:
    record = next((e.data.get("record") for e in attempt.evidence if e.kind == "task"), None)
    try:
        return read_task_record(blobs, record) if isinstance(record, str) else None
    except StoreError:
        return None


def _measure_conversation(
    task: Task, calls: Sequence[LoggedCall], facts: Mapping[str, Any], attempt: Trajectory
) -> ConversationMeasures | None:
    """Returns the conversation; None without one, or if the log does not lead to the recorded state of the person."""
    try:
        given = task.environment.parameters.get("knobs", {}).get(conversation.name)
        knobs = msgspec.convert(given, ConversationKnobs)
        turns = int(facts["summaries"][conversation.name]["turns"])
        needed = task.metadata.get("needs", {}).get("questions")
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError):
        return None
    script = knobs.script
    sent = [str(call.arguments.get("text", "")) for call in _served(calls, SEND, "agent")]
    excess = len(sent) - needed if type(needed) is int else None
    if knobs.driver == "model":
        answers = [str(call.arguments.get("text", "")) for call in _served(calls, GIVE_ANSWER, "user")]
        state = _follow_answers(script, sent, answers)
        consistency = share_without_deviations(_deviations(attempt), turns)
        interview = summarize_interview(script, state, len(sent))
        return ConversationMeasures(interview, (), state.left, consistency, excess) if state.turn == turns else None
    dialogue = follow_script(script, sent)
    state = dialogue.states[-1]
    if state.turn != turns:
        return None
    replies = _recorded_answers(facts, attempt, sent)
    consistency = None if replies is None else persona_consistency(script, recorded_turns(dialogue, replies))
    emotions = tuple(score_emotion(script, one) for one in dialogue.states)
    return ConversationMeasures(
        summarize_interview(script, state, len(sent)), emotions, state.left, consistency, excess
    )


def _served(calls: Iterable[LoggedCall], action: str, role: str) -> Iterator[LoggedCall]:
    return (call for call in calls if (call.action, call.role, call.code) == (action, role, None))


def _follow_answers(script: UserScript, sent: Sequence[str], answers: Sequence[str]) -> UserState:
    """Returns the state of a person whose answers a model gave, after the last message."""
    state, _ = begin(script)
    for question, answer in zip(sent, answers, strict=False):
        state = advance(script, state, DialogueTurn(question, answer))
    return state


def _deviations(attempt: Trajectory) -> list[Deviation]:
    """Returns what the runner recorded when it compared the answers of a model with the script."""
    found = (e.data.get("deviations") for e in attempt.evidence if e.kind == USER_DEVIATIONS)
    try:
        return msgspec.convert(next(found, []), list[Deviation])
    except msgspec.ValidationError:
        return []


def _recorded_answers(facts: Mapping[str, Any], attempt: Trajectory, sent: Sequence[str]) -> list[str] | None:
    """Returns what the agent was answered to each message that it sent; None if the record does not have all of it."""
    pairs: list[tuple[str, str]] = []
    if isinstance(facts.get("trace"), list):
        for call in facts["trace"]:
            if isinstance(call, Mapping) and call.get("action") == SEND and not call.get("error"):
                arguments = call.get("arguments")
                text = arguments.get("text") if isinstance(arguments, Mapping) else None
                pairs.append((str(text), str(call.get("content"))))
    else:
        for step in attempt.steps:
            for made, observation in zip(step.tool_calls, step.observations, strict=False):
                if step.actor == "agent" and made.name == SEND and not observation.error:
                    pairs.append((str((made.parsed or {}).get("text")), observation.content))
    if [text for text, _ in pairs] != list(sent):
        return None
    return [_parse_text(content) for _, content in pairs]


def _parse_text(content: str) -> str:
    try:
        return msgspec.json.decode(content, type=str)
    except msgspec.DecodeError:
        return content
