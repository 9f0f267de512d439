"""Logs of WebArena-Verified: a folder a task with `agent_response.json`, the network trace, and upstream's own result.

The folder's name is the number of the task, whose definition is looked for in `webarena-verified.json` (or `.json.gz`)
beside the logs or above them. The response is judged as upstream's evaluator of responses judges it: type of the task,
status, and for a task that retrieves, the typed data, whose order counts only where the task says so. Evaluators of
network events judge the trace (`network.har`, `.har.gz`), for which the addresses of the sites are looked for in
`config.json` like the tasks (`environments`, of which nothing but `urls` is read).

Not covered: some types of data, such as durations and places. What depends on them is `unknown`, unless something that
is covered has failed already; upstream's recorded result stands beside it, and where both are at hand and differ, the
verdict is `unknown`.
"""

from __future__ import annotations

import gzip
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

from .webarena_network import NetworkEvaluator, judge_network
from .webarena_patterns import Uncovered
from .webarena_trace import Trace, read_trace
from .webarena_values import TYPES, equal_lists, equal_texts, equal_values, kind_of

RESPONSE: Final = "agent_response.json"
TASKS: Final = ("webarena-verified.json", "webarena-verified.json.gz")
LARGEST: Final = 64 << 20
"""Bytes of a trace or of the tasks, once decompressed."""
_FIELDS: Final = ("task_type", "status", "retrieved_data")
_MOST_REQUESTS: Final = 500
CONFIG: Final = "config.json"


class Evaluator(msgspec.Struct, frozen=True, tag_field="evaluator", tag="AgentResponseEvaluator"):
    """An evaluator of responses."""

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
    eval: tuple[Evaluator | NetworkEvaluator, ...]
    revision: int = 1

    @property
    def navigates(self) -> bool:
        """True for a task that is done once a page is shown."""
        kinds = [str(one.expected.get("task_type")) for one in self.eval if isinstance(one, Evaluator)]
        return any(kind.lower() == "navigate" for kind in kinds)


class Recording(NamedTuple):
    """Requests of the browser to the sites."""

    trace: Trace
    bases: Mapping[str, Sequence[str]]
    """Addresses of each site, by its template."""


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
        entries = _read_entries(path.parent, bad)
        at = None if entries is None else _add_trace(builder, entries)
        recorded = load_optional_document(path.parent / "eval_result.json")
        recording = None if entries is None else Recording(read_trace(entries), _find_addresses(path, bad))
        _judge(builder, task, response, recorded, recording)
        yield builder.finish(
            f"task {number}", ended=AttemptEnded(ended="answered"), task=f"webarena-verified-{number}", at=at
        )


def _find_task(path: Path, number: str) -> WebArenaTask | None:
    for folder in list(path.parents)[:4]:
        for name in TASKS:
            if (folder / name).is_file() and number.isdecimal():
                return read_tasks(folder / name).get(int(number))
    return None


def _find_addresses(path: Path, bad: Any) -> dict[str, tuple[str, ...]]:
    """Returns the addresses of the sites from the configuration, of which nothing else is read."""
    for folder in list(path.parents)[:4]:
        if not (folder / CONFIG).is_file():
            continue
        try:
            found = get_path(msgspec.json.decode(_read(folder / CONFIG)), "environments")
        except (msgspec.DecodeError, UnicodeError, OSError, UserError) as exc:
            bad(CONFIG, f"the addresses of the sites cannot be read: {exc}")
            return {}
        listed = found.items() if isinstance(found, dict) else ()
        urls = {str(name): get_path(one, "urls") for name, one in listed}
        return {
            f"__{name.strip('_').upper()}__": tuple(str(one) for one in given)
            for name, given in urls.items()
            if isinstance(given, list)
        }
    return {}


def _read_entries(folder: Path, bad: Any) -> list[Any] | None:
    """Returns the entries of the trace; None without one."""
    found = next((folder / name for name in ("network.har", "network.har.gz") if (folder / name).is_file()), None)
    if found is None:
        return None
    try:
        entries = get_path(msgspec.json.decode(_read(found)), "log", "entries")
    except (msgspec.DecodeError, UnicodeError, OSError, EOFError, UserError) as exc:
        bad(found.name, f"the trace cannot be read: {exc}")
        return None
    return entries if isinstance(entries, list) else None


def _add_trace(builder: TrajectoryBuilder, entries: Sequence[Any]) -> float | None:
    """Adds the requests of the trace as evidence; returns when the first one was made."""
    listed = [one for one in entries if isinstance(one, dict)]
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


def _judge(
    builder: TrajectoryBuilder, task: WebArenaTask | None, response: Any, recorded: Any, recording: Recording | None
) -> None:
    known = {"success": "pass", "failure": "fail"}
    theirs = known.get(str(get_path(recorded, "status")))
    unknown = Judged("unknown", ("the task is not known",))
    ours = unknown if task is None else judge_task(task, response, recording)
    data = {"judged": ours.status, "reasons": list(ours.reasons), "recorded": theirs}
    evidence = builder.add_evidence("response_check", data, channel="audit")
    status: VerdictStatus = ours.status
    why = "; ".join(ours.reasons) or "the response and what the browser asked for are those of the task"
    if theirs is not None and status not in ("unknown", theirs):
        status, why = "unknown", f"recorded as {theirs}, and judged as {status}: {why}"
    elif theirs is not None and status == "unknown":
        status, why = ("pass" if theirs == "pass" else "fail"), f"as recorded by WebArena-Verified ({why})"
    score = {"pass": 1.0, "fail": 0.0}.get(status)
    builder.add_verdict(status, score, why[:1_000], (evidence,))


def judge_task(task: WebArenaTask, response: Any, recording: Recording | None = None) -> Judged:
    """Judges a response, and what the browser asked for, as upstream's evaluators do, as far as they are covered."""
    failed: list[str] = []
    undecided: list[str] = []
    for one in task.eval:
        try:
            if isinstance(one, NetworkEvaluator):
                failed += _judge_events(one, task, recording)
            elif not isinstance(response, Mapping):
                failed.append("the response is no object")
            else:
                _judge_fields(one, response, failed, undecided)
        except Uncovered as exc:
            undecided.append(str(exc))
        except (AttributeError, TypeError, ValueError, LookupError, RecursionError) as exc:  # the task is a stranger's
            undecided.append(f"an evaluator is not as upstream writes them: {exc}"[:300])
    status: VerdictStatus = "fail" if failed else "unknown" if undecided else "pass"
    return Judged(status, tuple(failed or undecided))


def _judge_events(one: NetworkEvaluator, task: WebArenaTask, recording: Recording | None) -> list[str]:
    if recording is None:
        raise Uncovered("there is no network trace")
    templates = [f"__{site.upper()}__" for site in task.sites]
    if unknown := [template for template in templates if not recording.bases.get(template)]:
        raise Uncovered(f"the address of {unknown[0]} is not known: {CONFIG} is looked for like the tasks")
    bases = {template: recording.bases[template] for template in templates}
    reason = judge_network(one, recording.trace, bases, navigates=task.navigates)
    return [reason] if reason else []


def _judge_fields(one: Evaluator, response: Mapping[str, Any], failed: list[str], undecided: list[str]) -> None:
    expected = one.expected
    for name in ("task_type", "status"):
        given = response.get(name)
        if not isinstance(given, str) or not equal_texts(str(expected.get(name)), given):
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
    elif not equal_lists(wanted, given, lambda a, b: _equal(a, b, schema), ordered=one.ordered):
        failed.append(f"retrieved_data: expected {str(wanted)[:300]}, got {str(given)[:300]}")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if not value and not (isinstance(value, int | float) and value is not None):
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _uncovered(schema: Mapping[str, Any]) -> str:
    """Returns the first type of a schema that is not covered; empty without one."""
    if schema.get("type") == "object":
        return next((found for part in schema.get("properties", {}).values() if (found := _uncovered(part))), "")
    kind = kind_of(schema)
    return "" if kind in TYPES else kind


def _equal(wanted: Any, given: Any, schema: Mapping[str, Any]) -> bool:
    if schema.get("type") == "object":
        if not isinstance(wanted, Mapping) or not isinstance(given, Mapping):
            return False
        parts = schema.get("properties", {})
        return all(_equal(wanted.get(name), given.get(name), part) for name, part in parts.items())
    kind, alternatives = kind_of(schema), wanted if isinstance(wanted, list) else [wanted]
    if kind == "string" and not isinstance(given, str | int | float):
        return False
    return any(equal_values(kind, one, given) for one in alternatives)
