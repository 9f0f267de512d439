"""The views of one attempt: its outline, its lines in pieces, and single texts, blobs, pictures, calls and tokens. Each
is at most a few megabytes, however large the attempt is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError
from assay.records import DIGEST_PREFIX, AttemptEnded, AttemptStarted
from assay.store import ADMISSION, RunStore, current_verdicts_by_chain
from assay.store.chain import decode_event
from assay.verdicts import assess

from . import attempt_names as names
from .chains import Chain, find_chain, open_chain
from .changes import make_changes
from .cited import list_findings, list_verdicts
from .exchanges import describe_exchange, require_call, tokens_part
from .interface import Fields, View, json_bytes
from .outline import FLAGS, Outline, outline_of
from .pictures import picture_of_blob, picture_of_text
from .steps import AT_ONCE, call_summary, render_lines
from .task_text import describe_task
from .texts import blob_part, json_tree, resolve_pointer, text_part

_HERE = "run/{run}/attempt/{chain}"
MOST_STEPS = 100_000
_HEADER = frozenset(
    {"verdicts", "audited", "models", "task_event", "timeline", "annotations", "workflows", "screens", "branched"}
)
"""Fields of an outline that are not columns."""
MOST_SIBLINGS = 100


def _number(text: str) -> int:
    """Parses a number. Raises `UserError` where it is invalid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise UserError(f"{text[:50]!r} is not a number")
    return int(text)


def _outline(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        outline = outline_of(chain)
        return json_bytes(_header(chain, outline) | {"lines": _columns(outline)})


def _header(chain: Chain, outline: Outline) -> dict[str, Any]:
    """Returns the attempt's identity, end and verdicts."""
    ends = {n: decode_event(link).body for n, link in chain.links_by_number((0, *_last_lines(outline))).items()}
    first_body = ends.get(0)
    ended = next((body for body in ends.values() if isinstance(body, AttemptEnded)), None)
    row = chain.row
    trust = assess(current_verdicts_by_chain(chain.store, [row])[row.chain], row)
    return {
        "row": {**msgspec.to_builtins(row), "seed": str(row.seed)},
        "task": describe_task(chain, outline),
        "timeline": outline.timeline._asdict(),
        "outcome": trust.outcome_class,
        "headline": trust.headline,
        "separation": trust.separation,
        "final": row.final,
        "seq": None if chain.store.is_sealed else chain.store.live.last_seq(),
        "isolation": msgspec.to_builtins(first_body.isolation) if isinstance(first_body, AttemptStarted) else None,
        "config": json_tree(first_body.config, "/config") if isinstance(first_body, AttemptStarted) else None,
        "artifacts": _artifacts(ended),
        "verdicts": list_verdicts(chain, outline),
        "findings": list_findings(chain, outline),
        "models": outline.models[:20],
        "annotated": len(outline.annotations),
        "branched": outline.branched,
    }


def _last_lines(outline: Outline) -> list[int]:
    return [event for event, kind in zip(outline.events[-400:], outline.kinds[-400:], strict=True) if kind == "z"]


def _artifacts(ended: AttemptEnded | None) -> list[list[str]]:
    return [[path[:500], digest] for path, digest in list(ended.artifacts.items())[:200]] if ended is not None else []


def _columns(outline: Outline) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(outline)
    plain = {key: value for key, value in plain.items() if key not in _HEADER}
    return plain | {"steps": _pairs(outline.steps), "usage": _usage(outline), "at_once": AT_ONCE, "flag_bits": FLAGS}


def _usage(outline: Outline) -> list[list[Any]]:
    return [[line, *usage] for line, usage in outline.usage.items()]


def _pairs(lines_by_key: dict[int, int]) -> list[list[int]]:
    return [[key, line] for key, line in lines_by_key.items()][:MOST_STEPS]


def _steps(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(render_lines(chain, outline_of(chain), _number(fields["start"])))


def _value(root: Path, fields: Fields) -> Any:
    """Returns the value at a pointer in an event."""
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        body = msgspec.json.decode(chain.link(_number(fields["event"])).body)
    return resolve_pointer(body, fields["at"] if fields["at"].startswith("/") else "")


def _text(root: Path, fields: Fields) -> bytes:
    return json_bytes(text_part(_value(root, fields), _number(fields["part"])))


def _picture(root: Path, fields: Fields) -> bytes:
    value = _value(root, fields)
    if isinstance(value, str) and value.startswith(DIGEST_PREFIX):
        return _blob_picture(root, {**fields, "digest": value})
    return _picture_or_problem(lambda: picture_of_text(value))


def _picture_or_problem(make: Callable[[], dict[str, Any]]) -> bytes:
    """Returns a picture, or `problem`: the reason why it cannot be shown."""
    try:
        return json_bytes(make())
    except UserError as exc:
        return json_bytes({"problem": str(exc)})


def _blob(root: Path, fields: Fields) -> bytes:
    with RunStore.open(root, fields["run"]) as store:
        return json_bytes(blob_part(store.blobs, fields["digest"], _number(fields["part"])))


def _blob_picture(root: Path, fields: Fields) -> bytes:
    with RunStore.open(root, fields["run"]) as store:
        return _picture_or_problem(lambda: picture_of_blob(store.blobs, fields["digest"]))


def _call(root: Path, fields: Fields) -> bytes:
    number = _number(fields["event"])
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        call = require_call(decode_event(chain.link(number)).body)
    return json_bytes({"summary": call_summary(call, number, None), **describe_exchange(call)})


def _tokens(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        call = require_call(decode_event(chain.link(_number(fields["event"]))).body)
    return json_bytes(tokens_part(call, _number(fields["part"])))


def _siblings(root: Path, fields: Fields) -> bytes:
    """Returns the attempts at the same task in the same run, including this one."""
    with RunStore.open(root, fields["run"]) as store, store.snapshot():
        own = find_chain(store, fields["chain"]).row
        rows = [row for row in store.attempts_at(own.task, own.task_digest) if row.agent != ADMISSION]
        rows.sort(key=lambda row: (row.number, row.retry))
        shown = rows[:MOST_SIBLINGS]
        stands = current_verdicts_by_chain(store, shown)
    siblings = [
        {
            "chain": row.chain,
            "number": row.number,
            "retry": row.retry,
            "agent": row.agent[:200],
            "model": row.model and row.model[:200],
            "steps": row.steps,
            "score": row.score,
            "outcome": assess(stands[row.chain], row).outcome_class,
            "separation": assess(stands[row.chain], row).separation,
        }
        for row in shown
    ]
    return json_bytes({"attempts": siblings, "left_out": len(rows) - len(shown)})


VIEWS = (
    View(_HERE + "/outline", _outline, names.outlines),
    View(_HERE + "/siblings", _siblings, names.siblings),
    View(_HERE + "/lines/{start}", _steps, names.lines),
    View(_HERE + "/changes", make_changes, names.changes),
    View(_HERE + "/call/{event}", _call, names.calls),
    View(_HERE + "/tokens/{event}/{part}", _tokens, names.tokens),
    View(_HERE + "/text/{event}/{at}/{part}", _text, names.texts),
    View(_HERE + "/picture/{event}/{at}", _picture, names.pictures),
    View("run/{run}/blob/{digest}/{part}", _blob, names.blobs),
    View("run/{run}/shown/{digest}", _blob_picture, names.blob_pictures),
)
