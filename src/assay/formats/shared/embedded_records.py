"""Assay's records inside a foreign document that has a free field for them (`extra` of ATIF, `metadata` of others).

They are stored under the name `assay`. Like the rest of the document they are claims when read back: verdicts are
marked as imported, and a blob is restored where its text is embedded too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from assay.errors import StoreError
from assay.formats.interface import ExportContext, Loss
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.output_files import prompt_tokens
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    EvidenceAdded,
    ModelCall,
    Noted,
    Trajectory,
    Verdict,
    VerdictAdded,
)
from assay.verdicts import IMPORTED, current_verdicts_of, is_imported, is_reverification

ASSAY = "assay"
WHOLE = 4 << 20
"""Characters of blobs that are embedded beside one trajectory's evidence."""
_STARTED = ("task", "task_digest", "seed", "number", "retry", "isolation", "at", "assay_version")
T = TypeVar("T")


def slim_call(call: ModelCall) -> dict[str, Any]:
    """Returns a call without request, response and tokens, which are stored elsewhere or nowhere."""
    slim = msgspec.structs.replace(
        call, request={}, response=None, raw_request=None, raw_response=None, prompt_token_ids=None,
        completion_token_ids=None, logprobs=None, shared_messages=0, shared_tokens=0, shared_fields=(),
    )  # fmt: skip
    found: dict[str, Any] = msgspec.to_builtins(slim)
    return found


class EmbeddedCalls:
    """The calls of a trajectory in a foreign document; reports what that cannot hold."""

    def __init__(self, trajectory: Trajectory, writing: ExportContext) -> None:
        self.by_id = {call.id: call for call in trajectory.calls}
        self.prompts = prompt_tokens(trajectory)
        attempt = trajectory.attempt
        exchanged = sum(1 for call in trajectory.calls if call.request or call.response)
        if exchanged:
            writing.report_loss(Loss(attempt, "calls.request", "requests and responses cannot be stored", exchanged))
        raw = sum(1 for call in trajectory.calls if call.raw_request or call.raw_response)
        if raw:
            writing.report_loss(Loss(attempt, "calls.raw_request", "exact bytes cannot be stored", raw))
        broken = sum(1 for c in trajectory.calls if c.prompt_token_ids is not None and c.id not in self.prompts)
        if broken:
            writing.report_loss(
                Loss(attempt, "calls.prompt_token_ids", "the tokens shared with their parent are missing", broken)
            )

    def tokens(self, call: ModelCall) -> dict[str, Any]:
        """Returns the tokens of a call, with those shared with its parent."""
        prompt = self.prompts.get(call.id)
        found = {"prompt_token_ids": prompt, "completion_token_ids": call.completion_token_ids}
        found |= {"logprobs": call.logprobs}  # type: ignore[dict-item]
        return {name: list(value) for name, value in found.items() if value is not None}


def started_fields(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the fields of `AttemptStarted` other than agent and model."""
    started: dict[str, Any] = msgspec.to_builtins(trajectory.started)
    config = {k: v for k, v in trajectory.started.config.items() if k != IMPORTED}
    kept = {name: started[name] for name in _STARTED if started.get(name) not in (None, "", 0)}
    return kept | ({"config": msgspec.to_builtins(config)} if config else {})


def embed_records(trajectory: Trajectory, writing: ExportContext, format_name: str) -> dict[str, Any]:
    """Returns a trajectory's data beside its turns, as JSON data."""
    words: dict[str, Any] = {"started": started_fields(trajectory)}
    words |= {"evidence": [_without_blobs(item) for item in trajectory.evidence]}
    words |= {"blobs": _blobs(trajectory, writing), "verdicts": trajectory.verdicts, "notes": trajectory.notes}
    if trajectory.finished is not None:
        words["finished"] = _without_artifacts(trajectory, writing)
    else:
        words["unfinished"] = True
    words["integrity"] = current_verdicts_of(trajectory).integrity
    before = trajectory.started.config.get(IMPORTED)
    if isinstance(before, dict):
        words[IMPORTED] = (
            before.get("fields", {}).get("imported_before") if before.get("format") == format_name else before
        )
    found: dict[str, Any] = msgspec.to_builtins(words)
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _without_blobs(item: Evidence) -> Evidence:
    return msgspec.structs.replace(item, blobs=()) if item.blobs else item


def _blobs(trajectory: Trajectory, writing: ExportContext) -> dict[str, list[str]]:
    """Returns the texts of blobs by the position of their evidence."""
    texts_by_index: dict[str, list[str]] = {}
    left, gone = WHOLE, 0
    for index, item in enumerate(trajectory.evidence):
        texts = [_text_of(digest, writing, left) for digest in item.blobs]
        if item.blobs and None not in texts:
            texts_by_index[str(index)] = [text for text in texts if text is not None]
            left -= sum(map(len, texts_by_index[str(index)]))
        else:
            gone += len(item.blobs)
    if gone:
        why = "binary or large content stays in the store"
        writing.report_loss(Loss(trajectory.attempt, "evidence.blobs", why, gone))
    return texts_by_index


def _text_of(digest: str, writing: ExportContext, largest: int) -> str | None:
    try:
        raw = writing.read_blob(digest)
        return raw.decode() if len(raw) <= largest else None
    except (StoreError, UnicodeDecodeError):
        return None


def _without_artifacts(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    finished = trajectory.finished
    assert finished is not None
    if finished.artifacts:
        why = "their content stays in the store"
        writing.report_loss(Loss(trajectory.attempt, "finished.artifacts", why, len(finished.artifacts)))
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(finished, artifacts={}))
    return {name: value for name, value in found.items() if name != "type"}


def read_started(words: Any, bad: WarnFunction, where: str) -> dict[str, Any]:
    """Reads fields of `AttemptStarted`, for `TrajectoryBuilder.finish`; warns of invalid ones."""
    found: dict[str, Any] = {}
    types = _started_types()
    given = words.get("started") if isinstance(words, dict) else None
    for name, value in (given if isinstance(given, dict) else {}).items():
        if name in (*_STARTED, "config"):
            try:
                found[name] = msgspec.convert(value, types[name])
            except (msgspec.ValidationError, RecursionError) as exc:
                bad(f"{where}.started.{name}", str(exc))
    return found


@cache
def _started_types() -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(AttemptStarted)}


def restore_records(words: Any, builder: TrajectoryBuilder, bad: WarnFunction, where: str) -> AttemptEnded | None:
    """Adds a document's verdicts, evidence and notes; returns how the attempt ended, or None."""
    if not isinstance(words, dict):
        return None
    if words.get(IMPORTED):
        builder.fields["imported_before"] = words[IMPORTED]
    for index, item in enumerate(_list(words, "evidence", bad, where)):
        fact = _convert(item, Evidence, bad, f"{where}.evidence[{index}]")
        if fact is not None:
            builder.add(EvidenceAdded(msgspec.structs.replace(fact, blobs=_restore_blobs(words, index, builder))))
    for index, item in enumerate(_list(words, "verdicts", bad, where)):
        verdict = _convert(item, Verdict, bad, f"{where}.verdicts[{index}]")
        if verdict is not None:
            given = VerdictAdded(_mark_imported(verdict))
            if is_reverification(verdict.check):
                builder.later.append(given)
            else:
                builder.add(given)
    for index, item in enumerate(_list(words, "notes", bad, where)):
        note = _convert(item, Noted, bad, f"{where}.notes[{index}]")
        if note is not None:
            builder.add(note)
    finished = words.get("finished")
    return _convert(finished, AttemptEnded, bad, f"{where}.finished") if finished is not None else None


def _restore_blobs(words: dict[str, Any], index: int, builder: TrajectoryBuilder) -> tuple[str, ...]:
    """Stores the embedded blobs of a piece of evidence again."""
    texts_by_index = words.get("blobs")
    texts = texts_by_index.get(str(index)) if isinstance(texts_by_index, dict) else None
    return tuple(builder.keep_text(text) for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()


def _mark_imported(verdict: Verdict) -> Verdict:
    marks = verdict.marks if is_imported(verdict.marks) else (*verdict.marks, IMPORTED)
    return msgspec.structs.replace(verdict, marks=marks)


def read_call(words: Any, bad: WarnFunction, where: str) -> ModelCall | None:
    """Reads a call that `slim_call` made."""
    return _convert(words, ModelCall, bad, where)


def restore_calls(words: Any, builder: TrajectoryBuilder, bad: WarnFunction, where: str) -> None:
    """Adds the calls that belong to no turn."""
    for index, item in enumerate(_list(words, "calls", bad, where) if isinstance(words, dict) else []):
        call = _convert(item, ModelCall, bad, f"{where}.calls[{index}]")
        if call is not None:
            builder.add_call(call)


def _list(words: dict[str, Any], name: str, bad: WarnFunction, where: str) -> list[Any]:
    found = words.get(name, [])
    if isinstance(found, list):
        return found
    bad(f"{where}.{name}", "expected an array")
    return []


def _convert(value: Any, kind: type[T], bad: WarnFunction, where: str) -> T | None:
    try:
        if isinstance(value, dict) and kind in _TAGGED:
            value = {**value, "type": _TAGGED[kind]}
        found: T = msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as exc:
        bad(where, str(exc))
        return None
    return found


_TAGGED: dict[Any, str] = {AttemptEnded: "attempt_ended", Noted: "note"}
