"""Sessions of Gemini CLI: JSON lines of messages and changes to them, or, of earlier versions, one document.

A line with the id of an earlier one replaces it, which is how the results of calls arrive. Turns that the session went
back behind, or that a shorter history replaced, happened all the same: they stay, marked as left
(`Step.extra["branch"] = "left"`). Output tokens count thoughts, which the session counts apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.sessions.reading import ConversationFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, json_objects, parse_time, warn_in
from assay.formats.shared.repeated_lines import unrepeated_lines
from assay.formats.shared.round_trip_builder import count_or_none, file_origin, get_path, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.records import AttemptEnded, Observation, Usage

_HEAD = {"sessionId", "projectHash", "startTime"}
_EXIT = re.compile(r"^Exit Code: (\d{1,9})$", re.MULTILINE)
_SHELL = "run_shell_command"
_LEFT = "$left"
"""Key that marks a message of ours; those of the program begin with `$` for changes alone."""


def _is_named(line: dict[str, Any]) -> bool:
    return isinstance(line.get("id"), str) or "$set" in line


class GeminiCliFormat(ConversationFormat):
    name: ClassVar[str] = "gemini-cli"
    title: ClassVar[str] = "Gemini CLI session (.json, .jsonl)"

    def recognises(self, path: Path) -> bool:
        return sniff(path).paths >= _HEAD

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        if sniff(path).shape != "lines":
            yield from super().read(path, reading)
            return
        bad = warn_in(reading, path.name)
        history = _History()
        for line in json_objects(path, bad, lambda lines: unrepeated_lines(lines, reading, path.name, _is_named)):
            history.apply_line(line)
        builder = TrajectoryBuilder(file_origin(self.name, path), reading)
        yield self.read_conversation(history.document(), path.stem, builder, bad)

    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        messages = get_path(document, "messages")
        if not isinstance(messages, list):
            bad("messages", "expected a list of messages")
        known: set[str] = set()
        model: str | None = None
        for message in objects_in(messages):
            model = model or text_or_none(message.get("model"))
            known |= {str(call.get("id")) for call in objects_in(message.get("toolCalls"))}
            for turn in _turns(message, known):
                extra = {**turn.extra, "branch": "left"} if _LEFT in message else turn.extra
                add_turn(builder, msgspec.structs.replace(turn, extra=extra))
        fields = document if isinstance(document, dict) else {}
        builder.fields = {key: value for key, value in fields.items() if key != "messages"}
        return builder.finish(
            f"session {text_or_none(fields.get('sessionId')) or where}",
            ended=AttemptEnded(at=parse_time(fields.get("lastUpdated"))),
            agent="gemini-cli",
            model=model,
            at=parse_time(fields.get("startTime")),
        )


class _History:
    """Messages of a session in the order of the file, those that it left among them; linear in the file's size."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._messages: list[dict[str, Any] | None] = []
        """None where a message stands further down now."""
        self._current: dict[str, int] = {}
        """Position of each message of the conversation as it stands, by id."""

    def document(self) -> dict[str, Any]:
        """Returns the session as earlier versions wrote it, in one document."""
        return self._head | {"messages": [message for message in self._messages if message is not None]}

    def apply_line(self, line: dict[str, Any]) -> None:
        if "type" in line and isinstance(line.get("id"), str):
            self._set(line["id"], line)
        elif isinstance(target := line.get("$rewindTo"), str):
            self._rewind(target)
        else:
            changed = line["$set"] if isinstance(line.get("$set"), dict) else line
            self._head |= {key: value for key, value in changed.items() if key != "messages"}
            if "messages" in changed:
                self._replace({str(message.get("id")): message for message in objects_in(changed["messages"])})

    def _set(self, id_: str, message: dict[str, Any]) -> None:
        if id_ in self._current:
            self._messages[self._current[id_]] = message
        else:
            self._current[id_] = len(self._messages)
            self._messages.append(message)

    def _rewind(self, target: str) -> None:
        """Leaves the messages from `target` on; all of them where it is unknown."""
        while self._current:
            id_, position = self._current.popitem()
            self._leave(position)
            if id_ == target:
                return

    def _replace(self, kept: dict[str, dict[str, Any]]) -> None:
        for id_, position in self._current.items():
            if id_ in kept:
                self._messages[position] = None
            else:
                self._leave(position)
        self._current = {}
        for id_, message in kept.items():
            self._set(id_, message)

    def _leave(self, position: int) -> None:
        """Marks a message as no longer part of the conversation."""
        self._messages[position] = {**(self._messages[position] or {}), _LEFT: True}


def _turns(message: dict[str, Any], known: set[str]) -> Iterator[Turn]:
    at, kind = parse_time(message.get("timestamp")), message.get("type")
    if kind in ("gemini", "model"):
        yield _answer(message, at)
        return
    role = "user" if kind == "user" and not _is_context(message) else "system"
    for chat in to_chat_messages({"role": role, "content": message.get("content")}):
        if chat["role"] != "tool" or chat["tool_call_id"] not in known:
            yield Turn(chat, started=at, extra={"kind": kind if role == "system" else None})


def _is_context(message: dict[str, Any]) -> bool:
    """Returns whether the program wrote a user's message: the first of a session tells the date and the folder."""
    return as_text(message.get("content")).startswith("<session_context>")


def _answer(message: dict[str, Any], at: float | None) -> Turn:
    thoughts = [f"{t.get('subject', '')}: {t.get('description', '')}" for t in objects_in(message.get("thoughts"))]
    calls = objects_in(message.get("toolCalls"))
    named = [{"id": c.get("id"), "name": c.get("name"), "arguments": c.get("args")} for c in calls]
    text = as_text(message.get("content")) or None
    (chat,) = to_chat_messages([{"role": "assistant", "content": text, "tool_calls": named}])
    chat |= {"reasoning_content": "\n".join(thoughts)} if thoughts else {}
    return Turn(
        chat,
        model=text_or_none(message.get("model")),
        dialect="gemini",
        usage=_usage(message.get("tokens")),
        started=at,
        results=tuple(seen for call in calls for seen in _results(call)),
    )


def _usage(tokens: Any) -> Usage | None:
    if not isinstance(tokens, dict):
        return None
    prompt, output, cached, thoughts = (
        count_or_none(tokens.get(key)) for key in ("input", "output", "cached", "thoughts")
    )
    return Usage(prompt, None if output is None else output + (thoughts or 0), cached, thoughts)


def _results(call: dict[str, Any]) -> Iterator[Observation]:
    failed = call.get("status") in ("error", "cancelled")
    for part in objects_in(call.get("result")):
        response = get_path(part, "functionResponse", "response")
        inner = next((get_path(response, key) for key in ("output", "error") if get_path(response, key)), response)
        text = as_text(inner)
        found = _EXIT.search(text) if call.get("name") == _SHELL else None
        yield Observation(
            text,
            text_or_none(call.get("id")),
            exit_code=int(found[1]) if found else None,
            error=failed or get_path(response, "error") is not None,
        )
