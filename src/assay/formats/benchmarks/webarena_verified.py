"""Logs of WebArena-Verified: a folder a task with `agent_response.json`, the network trace, and upstream's own result.

The folder's name is the number of the task, whose definition is looked for in `webarena-verified.json` (or `.json.gz`)
beside the logs or above them. The response is judged as upstream's evaluator of responses judges it: type of the task,
status, and for a task that retrieves, the typed data, whose order counts only where the task says so.

Not covered: evaluators of network events, and data of types other than text, number, month and truth value. What
depends on them is `unknown`, unless something that is covered has failed already; upstream's recorded result stands
beside it, and where both are at hand and differ, the verdict is `unknown`.
"""

from __future__ import annotations

import calendar
import gzip
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import load_document, parse_time, warn_in
from assay.formats.shared.round_trip_builder import file_origin, get_path, load_optional_document, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, VerdictStatus

RESPONSE: Final = "agent_response.json"
TASKS: Final = ("webarena-verified.json", "webarena-verified.json.gz")
LARGEST: Final = 64 << 20
"""Bytes of a trace or of the tasks, once decompressed."""
_FIELDS: Final = ("task_type", "status", "retrieved_data")
_MOST_REQUESTS: Final = 500
_HYPHEN: Final = re.compile("(?<=[a-zA-Z])[-\u00ad\u2010-\u2015\u2212]|[-\u00ad\u2010-\u2015\u2212](?=[a-zA-Z])")
_MARKS: Final = "'\"`.,;:!?"


class Evaluator(msgspec.Struct, frozen=True):
    """An evaluator of a task."""

    evaluator: str
    expected: dict[str, Any]
    results_schema: dict[str, Any] | None = None
    ordered: bool = False


class WebArenaTask(msgspec.Struct, frozen=True):
    """A task."""

    task_id: int
    intent_template_id: int
    sites: tuple[str, ...]
    intent: str
    start_urls: tuple[str, ...]
    eval: tuple[Evaluator, ...]
    revision: int = 1


class Judged(NamedTuple):
    """Result of the evaluators that are covered."""

    status: VerdictStatus
    reasons: tuple[str, ...]


def read_tasks(path: Path) -> dict[int, WebArenaTask]:
    """Returns the tasks of a file by number. Raises `UserError` for another file."""
    try:
        tasks = msgspec.json.decode(_read(path), type=list[WebArenaTask])
    except (msgspec.DecodeError, UnicodeError, OSError, EOFError) as exc:
        raise UserError(f"{path.name} does not hold the tasks of WebArena-Verified: {exc}") from exc
    return {task.task_id: task for task in tasks}


def _read(path: Path) -> bytes:
    """Returns the bytes of a file, which may be compressed. Raises `UserError` if they are too many."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        raw = stream.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise UserError(f"{path.name} is larger than the {LARGEST:,} bytes that are read at most")
    return raw


class WebArenaVerifiedFormat(ReadOnlyFormat):
    name: ClassVar[str] = "webarena-verified"
    title: ClassVar[str] = "WebArena-Verified logs (agent_response.json and network trace)"
    provenance: ClassVar[Provenance] = "recorded"
    why_read_only: ClassVar[str] = "logs of WebArena-Verified are only read: its evaluators need its own sites"

    def recognises(self, path: Path) -> bool:
        return path.name == RESPONSE and sniff(path).has(*_FIELDS)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        response = load_document(path, bad)
        number = path.parent.name
        builder = TrajectoryBuilder(file_origin(self.name, path), reading)
        task = _find_task(path, number)
        if task is None:
            bad("", f"no task {number} was found: {TASKS[0]} is looked for beside the logs and above them")
        else:
            builder.add_step("user", task.intent)
        builder.add_step("agent", msgspec.json.encode(response).decode())
        at = _add_trace(builder, path.parent, bad)
        recorded = load_optional_document(path.parent / "eval_result.json")
        _judge(builder, task, response, recorded)
        yield builder.finish(
            f"task {number}", ended=AttemptEnded(ended="answered"), task=f"webarena-verified-{number}", at=at
        )


def _find_task(path: Path, number: str) -> WebArenaTask | None:
    for folder in list(path.parents)[:4]:
        for name in TASKS:
            if (folder / name).is_file() and number.isdecimal():
                return read_tasks(folder / name).get(int(number))
    return None


def _add_trace(builder: TrajectoryBuilder, folder: Path, bad: Any) -> float | None:
    """Adds the requests of the trace as evidence; returns when the first one was made."""
    found = next((folder / name for name in ("network.har", "network.har.gz") if (folder / name).is_file()), None)
    if found is None:
        return None
    try:
        entries = get_path(msgspec.json.decode(_read(found)), "log", "entries")
    except (msgspec.DecodeError, UnicodeError, OSError, EOFError, UserError) as exc:
        bad(found.name, f"the trace cannot be read: {exc}")
        return None
    listed = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    requests = [
        {
            "method": text_or_none(get_path(one, "request", "method")),
            "url": str(get_path(one, "request", "url"))[:500],
            "status": get_path(one, "response", "status"),
        }
        for one in listed[:_MOST_REQUESTS]
    ]
    builder.add_evidence("network", {"count": len(listed), "requests": requests}, channel="audit")
    return parse_time(listed[0].get("startedDateTime")) if listed else None


def _judge(builder: TrajectoryBuilder, task: WebArenaTask | None, response: Any, recorded: Any) -> None:
    known = {"success": "pass", "failure": "fail"}
    theirs = known.get(str(get_path(recorded, "status")))
    ours = Judged("unknown", ("the task is not known",)) if task is None else judge_response(task, response)
    data = {"judged": ours.status, "reasons": list(ours.reasons), "recorded": theirs}
    evidence = builder.add_evidence("response_check", data, channel="audit")
    status: VerdictStatus = ours.status
    why = "; ".join(ours.reasons) or "type, status and data are those of the task"
    if theirs is not None and status not in ("unknown", theirs):
        status, why = "unknown", f"recorded as {theirs}, and judged as {status}: {why}"
    elif theirs is not None and status == "unknown":
        status, why = ("pass" if theirs == "pass" else "fail"), f"as recorded by WebArena-Verified ({why})"
    score = {"pass": 1.0, "fail": 0.0}.get(status)
    builder.add_verdict(status, score, why[:1_000], (evidence,))


def judge_response(task: WebArenaTask, response: Any) -> Judged:
    """Judges a response as upstream's evaluators do, as far as they are covered."""
    failed: list[str] = []
    undecided: list[str] = []
    for one in task.eval:
        if one.evaluator != "AgentResponseEvaluator":
            undecided.append(f"{one.evaluator} is not covered")
        elif not isinstance(response, Mapping):
            failed.append("the response is no object")
        else:
            _judge_fields(one, response, failed, undecided)
    status: VerdictStatus = "fail" if failed else "unknown" if undecided else "pass"
    return Judged(status, tuple(failed or undecided))


def _judge_fields(one: Evaluator, response: Mapping[str, Any], failed: list[str], undecided: list[str]) -> None:
    expected = one.expected
    for name in ("task_type", "status"):
        given = response.get(name)
        if not isinstance(given, str) or not _equal_texts(str(expected.get(name)), given):
            failed.append(f"{name}: expected {expected.get(name)}, got {str(given)[:80]}")
    if str(expected.get("task_type")) != "retrieve":
        return
    wanted, given = (_as_tuple(value) for value in (expected.get("retrieved_data"), response.get("retrieved_data")))
    if not wanted or not given:
        if bool(wanted) != bool(given):
            failed.append("retrieved_data: expected " + ("some, got none" if wanted else "none, got some"))
        return
    schema = (one.results_schema or {}).get("items") or {}
    if unknown := _uncovered(schema):
        undecided.append(f"data of the type {unknown} is not covered")
    elif not _equal_lists(wanted, given, schema, ordered=one.ordered):
        failed.append(f"retrieved_data: expected {str(wanted)[:300]}, got {str(given)[:300]}")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if not value and not (isinstance(value, int | float) and value is not None):
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _uncovered(schema: Mapping[str, Any]) -> str:
    """Returns the first type of a schema that is not covered; empty without one."""
    if schema.get("type") == "object":
        return next((found for part in schema.get("properties", {}).values() if (found := _uncovered(part))), "")
    kind = str(schema.get("format") or schema.get("type") or "string")
    return "" if kind in _TYPES else kind


def _equal_lists(wanted: Sequence[Any], given: Sequence[Any], schema: Mapping[str, Any], *, ordered: bool) -> bool:
    if len(wanted) != len(given):
        return False
    if ordered:
        return all(_equal(one, other, schema) for one, other in zip(wanted, given, strict=True))
    left = list(given)
    for one in wanted:
        found = next((at for at, other in enumerate(left) if _equal(one, other, schema)), None)
        if found is None:
            return False
        del left[found]
    return True


def _equal(wanted: Any, given: Any, schema: Mapping[str, Any]) -> bool:
    if schema.get("type") == "object":
        if not isinstance(wanted, Mapping) or not isinstance(given, Mapping):
            return False
        parts = schema.get("properties", {})
        return all(_equal(wanted.get(name), given.get(name), part) for name, part in parts.items())
    kind = str(schema.get("format") or schema.get("type") or "string")
    alternatives = wanted if isinstance(wanted, list) else [wanted]
    return any(_equal_values(kind, one, given) for one in alternatives)


def _equal_values(kind: str, wanted: Any, given: Any) -> bool:
    if kind == "string":
        return isinstance(given, str | int | float) and _equal_texts(str(wanted), str(given))
    read = _TYPES[kind]
    one, other = read(wanted), read(given)
    return one is not None and one == other


def _equal_texts(wanted: str, given: str) -> bool:
    """Compares texts without regard to case, accents, hyphens between words, and marks at their ends."""
    if wanted.startswith("^") and wanted.endswith("$"):
        try:
            return re.fullmatch(wanted, given.strip(), re.IGNORECASE) is not None if len(given) < 10_000 else False
        except re.error:
            return False
    one, other = _plain(wanted), _plain(given)
    return one == other or one.strip(_MARKS) == other.strip(_MARKS)


def _plain(text: str) -> str:
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return " ".join(_HYPHEN.sub(" ", bare).lower().split())


def _read_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(str(value).replace(",", "").replace(" ", ""))
    except ValueError:
        return None


def _read_month(value: Any) -> int | None:
    text = str(value).strip().lower()
    if text.isdecimal() and len(text) <= 2:
        return int(text) if 1 <= int(text) <= 12 else None
    names = [name.lower() for name in calendar.month_name]
    return next((at for at, name in enumerate(names) if at and len(text) >= 3 and name.startswith(text)), None)


def _read_truth(value: Any) -> bool | None:
    known = {"true": True, "yes": True, "false": False, "no": False}
    return known.get(str(value).strip().lower())


_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "number": _read_number,
    "integer": _read_number,
    "month": _read_month,
    "boolean": _read_truth,
    "null": lambda _: None,
}
"""Readers of the types that are covered."""
