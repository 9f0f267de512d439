"""Docent: agent runs as its SDK dumps them, one a line, in an array, or alone.

A run's transcripts become one trajectory, one after the other; which turn is of which stands in
`Step.extra["transcript"]` where there are several. Scores in the metadata are kept; one that is about success is the
claimed outcome.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.outcomes import is_outcome, status_of
from assay.formats.shared.round_trip_builder import get_path, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn


class DocentFormat(ConversationFormat):
    name: ClassVar[str] = "docent"
    title: ClassVar[str] = "Docent agent runs (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any(paths >= {f"{at}transcripts[].messages", f"{at}transcripts[].id"} for at in ("", "[]."))

    def is_one_conversation(self, path: Path) -> bool:
        return False

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        transcripts = objects_in(get_path(document, "transcripts"))
        if not transcripts:
            raise UserError(f"{where}: the run has no transcripts")
        models = [_add_transcript(builder, one, position, len(transcripts)) for position, one in enumerate(transcripts)]
        about = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
        builder.fields = {key: value for key, value in document.items() if key != "transcripts"}
        _add_scores(builder, about)
        named = {key: text_or_none(about.get(key)) for key in ("task_id", "model", "agent", "agent_name")}
        return builder.finish(
            f"run {text_or_none(document.get('id')) or where}",
            task=named["task_id"],
            agent=named["agent_name"] or named["agent"] or "unknown",
            model=named["model"] or next((model for model in models if model), None),
            at=parse_time(transcripts[0].get("created_at")),
        )


def _add_transcript(builder: TrajectoryBuilder, transcript: dict[str, Any], position: int, of: int) -> str | None:
    """Adds the turns of a transcript; returns its first model."""
    extra = {"transcript": text_or_none(transcript.get("name")) or position} if of > 1 else {}
    first = None
    for message in objects_in(transcript.get("messages")):
        model = text_or_none(message.get("model"))
        first = first or model
        for chat in to_chat_messages(message):
            add_turn(builder, Turn(chat, model=model, extra={**extra, "metadata": message.get("metadata") or None}))
    return first


def _add_scores(builder: TrajectoryBuilder, about: dict[str, Any]) -> None:
    scores = about["scores"] if isinstance(about.get("scores"), dict) else {}
    values = {name: float(value) for name, value in scores.items() if isinstance(value, bool | int | float)}
    if not values:
        return
    fact = builder.add_evidence("reward", {"values": values, "scores": scores})
    for name, value in values.items():
        if is_outcome(name):
            builder.add_verdict(
                status_of(value), value, f"`{name}` is {value:g} as recorded by Docent", (fact,), {name: value}
            )
