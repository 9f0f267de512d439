"""The task of an attempt as its agent got it: the instruction, the limits, the checks.

The text comes from the archived task, else from the first user message of the record.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from assay.errors import StoreError
from assay.records import Body, EvidenceAdded, ModelCalled, StepAdded
from assay.store import BlobStore
from assay.store.chain import decode_event

from .chains import Chain
from .outline import Outline

LONGEST: Final = 20_000
"""Characters of an instruction that are shown; the archived record holds the rest."""
MOST_RECORD: Final = 4 << 20
MOST_LISTED: Final = 60
_NEAR: Final = 400
"""Events in which the first message of a record without an archived task is sought."""


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


class _Check(msgspec.Struct):
    name: str = ""
    kind: str = ""
    parameters: dict[str, msgspec.Raw] = {}


class TaskRecord(msgspec.Struct):
    """The fields of an archived task that the pages show."""

    instruction: str | list[_Message] = ""
    limits: dict[str, Any] = {}
    checks: list[_Check] = []
    tags: list[str] = []
    split: str | None = None
    source: str | None = None


_RECORD = msgspec.json.Decoder(TaskRecord)


def describe_task(chain: Chain, outline: Outline) -> dict[str, Any] | None:
    """Returns the task's text and terms; None where the record holds neither.

    Returns:
        `text`, `left_out` (characters), `from` (`task` or `message`), and of an archived task `record` (its blob),
        `limits`, `checks` (name, kind and number of parameters), `tags`, `split`, `source`.
    """
    archived = _archived_task(chain, outline)
    if archived is not None:
        digest, record = archived
        return {
            **_cut(instruction_text(record)),
            "from": "task",
            "record": digest,
            "limits": {k[:60]: v for k, v in record.limits.items() if isinstance(v, int | float)},
            "checks": [[one.name[:200], one.kind[:60]] for one in record.checks[:MOST_LISTED]],
            "tags": [tag[:100] for tag in record.tags[:MOST_LISTED]],
            "split": record.split and record.split[:100],
            "source": record.source and record.source[:500],
        }
    text = _first_message(chain)
    return None if text is None else {**_cut(text), "from": "message"}


def instruction_text(record: TaskRecord) -> str:
    """Returns an instruction as text; several messages with their roles."""
    if isinstance(record.instruction, str):
        return record.instruction
    return "\n\n".join(f"{one.role}: {content_text(one.content)}" for one in record.instruction[:MOST_LISTED])


def content_text(content: Any) -> str:
    """Returns the text of a message's content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def read_task_record(blobs: BlobStore, digest: str) -> TaskRecord | None:
    """Returns an archived task; None where it is missing, too large or invalid."""
    try:
        return _RECORD.decode(blobs.get(digest, limit=MOST_RECORD))
    except (StoreError, msgspec.DecodeError, ValueError, RecursionError):
        return None


def task_evidence(chain: Chain, outline: Outline) -> dict[str, Any]:
    """Returns the data of the evidence that names the archived task; empty without one."""
    if outline.task_event < 0:
        return {}
    body = decode_event(chain.link(outline.task_event)).body
    return dict(body.evidence.data) if isinstance(body, EvidenceAdded) else {}


def _archived_task(chain: Chain, outline: Outline) -> tuple[str, TaskRecord] | None:
    digest = task_evidence(chain, outline).get("record")
    record = read_task_record(chain.store.blobs, digest) if isinstance(digest, str) else None
    return None if record is None else (str(digest), record)


def _first_message(chain: Chain) -> str | None:
    for link in chain.links(0, min(chain.length, _NEAR)):
        text = _user_text(decode_event(link).body)
        if text:
            return text
    return None


def _user_text(body: Body) -> str | None:
    """Returns what a user says in a step, or first in a model call."""
    if isinstance(body, StepAdded):
        return body.step.message if body.step.actor == "user" else None
    messages = body.call.request.get("messages") if isinstance(body, ModelCalled) else None
    for message in messages[:MOST_LISTED] if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            return content_text(message.get("content")) or None
    return None


def _cut(text: str) -> dict[str, Any]:
    return {"text": text[:LONGEST], "left_out": max(len(text) - LONGEST, 0)}
