"""Who&When: runs of several agents that failed, each with the agent and the step that a person found decisive.

Position i of `history` is step i, so that `mistake_step` needs no mapping. Who spoke is in `Step.extra["name"]`; a
`Computer_terminal`, which runs the code that agents write, is the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, load_document, warn_in
from assay.formats.shared.messages import content_text
from assay.formats.shared.round_trip_builder import file_origin, is_object, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.records import Actor, VerdictStatus

_LABELS = ("mistake_agent", "mistake_step", "mistake_reason", "labels")
_EXIT = re.compile(r"exitcode: (-?\d{1,9}) \(")
_PEOPLE = {"human", "user"}


class WhoAndWhenFormat(ReadOnlyFormat):
    name: ClassVar[str] = "who-and-when"
    title: ClassVar[str] = "Who&When failure attribution"
    why_read_only: ClassVar[str] = "Who&When is a labelled data set and is only read"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return is_object(seen) and seen.has("history[].content") and seen.has("mistake_agent", "mistake_step")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        document = load_document(path, bad)
        history = document.get("history") if isinstance(document, dict) else None
        if not isinstance(history, list):
            bad("history", "expected a list of messages")
            return
        builder = TrajectoryBuilder(file_origin(self.name, path), reading)
        for position, message in enumerate(history):
            _add_turn(builder, message, bad, f"history[{position}]")
        builder.fields = {key: value for key, value in document.items() if key not in {"history", *_LABELS}}
        _add_labels(builder, document, bad)
        correct = document.get("is_correct", document.get("is_corrected"))
        if isinstance(correct, bool):
            status: VerdictStatus = "pass" if correct else "fail"
            builder.add_verdict(status, float(correct), "as recorded by Who&When")
        else:
            builder.add_verdict("unknown", None, "Who&When does not say whether the answer was correct")
        task = text_or_none(document.get("question_ID")) or path.stem
        yield builder.finish(task, task=task)


def _add_turn(builder: TrajectoryBuilder, message: Any, bad: WarnFunction, where: str) -> None:
    """Adds a message; an invalid one keeps its place, so that positions stay those of the labels."""
    if not isinstance(message, dict):
        bad(where, f"expected a message, found {type(message).__name__}")
        builder.add_step("environment", extra={"unreadable": True})
        return
    text = content_text(message.get("content")) or ""
    name = text_or_none(message.get("name")) or text_or_none(message.get("role")) or ""
    extra = {key: value for key, value in message.items() if key != "content"} | {"name": name}
    if name == "Computer_terminal":
        code = _EXIT.match(text)
        exit_code = int(code[1]) if code else None
        seen = builder.make_observation(text, None, exit_code=exit_code, error=bool(exit_code))
        builder.add_step("environment", None, observations=(seen,), extra=extra)
        return
    actor: Actor = "user" if name.lower() in _PEOPLE else "agent"
    builder.add_step(actor, text, extra=extra)


def _add_labels(builder: TrajectoryBuilder, document: dict[str, Any], bad: WarnFunction) -> None:
    labels = {key: document[key] for key in _LABELS if key in document}
    step = document.get("mistake_step")
    number = int(step) if isinstance(step, str) and step.isdecimal() and len(step) < 9 else step
    inside = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(builder.steps)
    if inside:
        labels |= {"steps": [number], "actor": document.get("mistake_agent")}
    else:
        bad("mistake_step", f"{step!r} is not a position in a history of {len(builder.steps)} messages")
    builder.add_label("who-and-when", labels)
