"""Rows of the query tables: trajectories, steps, calls, verdicts, evidence and events.

The column lists here are the public schema of the tables; docs and tests are checked against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.records import (
    Event,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Step,
    StepAdded,
    Verdict,
    VerdictAdded,
    canonical_bytes,
)

from .rows import AttemptRow

_KEYS = {"run": "string", "chain": "string", "attempt": "string", "task": "string", "agent": "string"}
TABLES: dict[str, dict[str, str]] = {
    "trajectories": {
        **_KEYS,
        "task_digest": "string",
        "model": "string",
        "seed": "int64",
        "number": "int64",
        "retry": "int64",
        "isolation": "string",
        "started": "double",
        "finished": "double",
        "ended": "string",
        "stopped": "string",
        "broke": "string",
        "error": "string",
        "outcome": "string",
        "score": "double",
        "final": "bool",
        "interrupted": "bool",
        "steps": "int64",
        "prompt_tokens": "double",
        "completion_tokens": "double",
        "cost_usd": "double",
        "wall_s": "double",
        "head": "string",
        "length": "int64",
        "row": "binary",
        "separation": "string",
    },
    "steps": {
        **_KEYS,
        "index": "int64",
        "actor": "string",
        "message": "string",
        "reasoning": "string",
        "tools": "list<string>",
        "arguments": "list<string>",
        "outputs": "list<string>",
        "errors": "list<string>",
        "exit_codes": "list<int64>",
        "failed": "bool",
        "call": "string",
        "state": "string",
        "started": "double",
        "ended": "double",
        "actor_name": "string",
    },
    "calls": {
        **_KEYS,
        "id": "string",
        "model": "string",
        "dialect": "string",
        "prompt_tokens": "int64",
        "completion_tokens": "int64",
        "cached_tokens": "int64",
        "cost_usd": "double",
        "prompt_token_ids": "list<int64>",
        "completion_token_ids": "list<int64>",
        "logprobs": "list<double>",
        "request": "string",
        "response": "string",
        "error": "string",
        "started": "double",
        "ended": "double",
        "actor_name": "string",
    },
    "verdicts": {
        **_KEYS,
        "check": "string",
        "kind": "string",
        "status": "string",
        "score": "double",
        "reason": "string",
        "evidence": "list<string>",
        "marks": "list<string>",
        "verifier": "string",
        "duration_s": "double",
        "separation": "string",
    },
    "evidence": {
        **_KEYS,
        "id": "string",
        "channel": "string",
        "kind": "string",
        "data": "string",
        "blobs": "list<string>",
        "at": "double",
    },
    "events": {
        "chain": "string",
        "index": "int64",
        "type": "string",
        "previous": "string",
        "body": "binary",
        "digest": "string",
    },
}

ADDED: dict[str, dict[str, str | None]] = {
    "trajectories": {"separation": "unknown"},
    "steps": {"actor_name": None},
    "calls": {"actor_name": None},
    "verdicts": {"separation": "unknown"},
}
"""Columns that older sealed runs lack, by table, with the value that their rows have; None leaves them empty."""

IN_QUERIES: dict[str, dict[str, str]] = {"verdicts": {"addendum": "int64"}, "evidence": {"addendum": "int64"}}
"""Columns that a query sees beside those of the files: the number of the addendum that a row stands in, else null."""

TIMES: dict[str, tuple[str, ...]] = {
    "trajectories": ("started", "finished"),
    "steps": ("started", "ended"),
    "calls": ("started", "ended"),
    "evidence": ("at",),
}
"""Columns that hold seconds since 1970 in the files, and that a query sees as timestamps in UTC."""
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Years 1 to 9999, as Python's `datetime` has them; a time beyond is null."""

_TEXT = ("kind", "severity", "probe", "verification", "text")
VIEWS: dict[str, dict[str, tuple[str, str]]] = {
    "certificates": {
        **{name: ("string", name) for name in ("run", "chain", "task")},
        "task_digest": ("string", "data ->> 'task_digest'"),
        "admitted": ("bool", "(data -> 'admitted' ->> 'default')::BOOLEAN"),
        "admitted_as_asked": ("bool", "(data -> 'admitted' ->> 'as_asked')::BOOLEAN"),
        "battery": ("string", "data ->> 'battery'"),
        "quick": ("bool", "(data ->> 'quick')::BOOLEAN"),
        "verification": ("string", "data ->> 'verification'"),
        "holes": ("int64", "(data -> 'findings' ->> 'hole')::BIGINT"),
        "broken": ("int64", "(data -> 'findings' ->> 'broken')::BIGINT"),
        "weak": ("int64", "(data -> 'findings' ->> 'weak')::BIGINT"),
        "accepted_wrongly": ("int64", "(data ->> 'accepted_wrongly')::BIGINT"),
        "separation": ("string", "data ->> 'separation'"),
        "rests_on": ("string", "data ->> 'rests_on'"),
        "made": ("timestamp", '"at"'),
    },
    "findings": {
        **{name: ("string", name) for name in ("run", "chain", "task")},
        **{name: ("string", f"data ->> '{name}'") for name in _TEXT},
        "heuristic": ("bool", "(data ->> 'heuristic')::BOOLEAN"),
        "closed_by": ("list<string>", "(data -> 'closed_by')::VARCHAR[]"),
        "evidence": ("list<string>", "(data -> 'evidence')::VARCHAR[]"),
    },
}
"""Views of queries over `evidence` of admissions: column to type and expression."""
VIEW_KINDS = {"certificates": "certificate", "findings": "finding"}


def timestamp_of(column: str) -> str:
    """Returns an SQL expression that converts a column of seconds to a timestamp."""
    within = f'"{column}" BETWEEN {_FIRST_SECOND} AND {_LAST_SECOND}'
    return f'CASE WHEN {within} THEN make_timestamp(CAST(round("{column}" * 1e6) AS BIGINT)) END'


def view_statement(name: str) -> str:
    columns = ", ".join(f'{expression} AS "{column}"' for column, (_, expression) in VIEWS[name].items())
    return f"SELECT {columns} FROM evidence WHERE kind = '{VIEW_KINDS[name]}'"


def arrow_schema(name: str, *, in_queries: bool = False) -> Any:
    """Returns the Arrow schema of a table's file; optionally with the columns that only queries have."""
    import pyarrow as pa

    plain = {
        "string": pa.string(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "binary": pa.binary(),
    }
    types = plain | {f"list<{k}>": pa.list_(v) for k, v in plain.items()}
    columns = TABLES[name] | (IN_QUERIES.get(name, {}) if in_queries else {})
    return pa.schema([(column, types[kind]) for column, kind in columns.items()])


def event_rows(row: AttemptRow | None, event: Event, raw: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the rows of one event of the chain of `row` (None: of no chain): table and record.

    `raw` is its body as it is stored.
    """
    tag = event.body.__struct_config__.tag
    plain = {"chain": event.chain, "index": event.index, "type": tag, "previous": event.previous}
    yield "events", plain | {"body": raw, "digest": event.digest}
    keys = {name: getattr(row, name, None) for name in _KEYS}
    match event.body:
        case StepAdded(step):
            yield "steps", keys | _step_record(step)
        case ModelCalled(call):
            yield "calls", keys | _call_record(call)
        case VerdictAdded(verdict):
            yield "verdicts", keys | _verdict_record(verdict)
        case EvidenceAdded(evidence):
            yield "evidence", keys | _evidence_record(evidence)
        case _:
            pass


def trajectory_row(row: AttemptRow) -> dict[str, Any]:
    """Returns the record of one chain in `trajectories`, whose column `row` holds the whole row."""
    metrics = {name: row.metrics.get(name) for name in ("prompt_tokens", "completion_tokens", "cost_usd", "wall_s")}
    plain = {name: getattr(row, name) for name in TABLES["trajectories"] if name not in metrics and name != "row"}
    return plain | metrics | {"row": canonical_bytes(row)}


def _step_record(step: Step) -> dict[str, Any]:
    observations = step.observations
    return {
        "index": step.index,
        "actor": step.actor,
        "message": step.message,
        "reasoning": step.reasoning,
        "tools": [c.name for c in step.tool_calls],
        "arguments": [c.arguments for c in step.tool_calls],
        "outputs": [o.content for o in observations],
        "errors": [o.stderr for o in observations],
        "exit_codes": [o.exit_code for o in observations],
        "failed": any(o.error for o in observations),
        "call": step.call,
        "state": step.state,
        "started": step.started,
        "ended": step.ended,
        "actor_name": step.actor_name,
    }


def _call_record(call: ModelCall) -> dict[str, Any]:
    names = ("id", "model", "dialect", "cost_usd", "prompt_token_ids", "completion_token_ids", "logprobs", "error")
    usage = {name: getattr(call.usage, name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
    response = None if call.response is None else canonical_bytes(call.response).decode()
    request = call.request
    if call.shared_messages or call.shared_fields:
        # The parent's part is not repeated here; `assay.store.restore_request` adds it.
        shared = {"parent": call.parent, "messages": call.shared_messages, "fields": call.shared_fields}
        request = {**request, "shared": shared}
    bodies = {"request": canonical_bytes(request).decode(), "response": response}
    return {n: getattr(call, n) for n in (*names, "started", "ended", "actor_name")} | usage | bodies


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    names = ("check", "kind", "status", "score", "reason", "evidence", "marks", "verifier", "duration_s", "separation")
    return {name: getattr(verdict, name) for name in names}


def _evidence_record(evidence: Evidence) -> dict[str, Any]:
    data = canonical_bytes(evidence.data).decode()
    return {name: getattr(evidence, name) for name in ("id", "channel", "kind", "blobs", "at")} | {"data": data}
