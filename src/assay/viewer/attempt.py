"""The views of one attempt: its outline, its lines by pieces, and whatever long text, blob, picture, call or token of
it is asked for. None of them is larger than a few megabytes, however large the attempt is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError
from assay.records import AttemptEnded, AttemptStarted
from assay.store import ADMISSION, RunStore, standing_of
from assay.store.chain import event_of
from assay.store.same_task import attempts_at
from assay.verdicts import assess

from . import attempt_names as names
from .chains import Chain, chain_of, opened
from .cited import findings_of, verdicts_of
from .exchanges import call_of, exchange, tokens_part
from .interface import Fields, View, json_bytes
from .outline import FLAGS, Outline, outline_of
from .pictures import picture_of_blob, picture_of_text
from .steps import AT_ONCE, call_summary, shown_lines
from .texts import blob_part, found_at, text_part, tree

__all__ = ["VIEWS"]

_HERE = "run/{run}/attempt/{chain}"
MOST_STEPS = 100_000
MOST_SIBLINGS = 100


def _number(text: str) -> int:
    """A whole number of a name. Raises `UserError` where it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise UserError(f"{text[:50]!r} is no number")
    return int(text)


def _outline(root: Path, fields: Fields) -> bytes:
    with opened(root, fields["run"], fields["chain"]) as chain:
        outline = outline_of(chain)
        return json_bytes(_head(chain, outline) | {"lines": _columns(outline)})


def _head(chain: Chain, outline: Outline) -> dict[str, Any]:
    """Who, what, how it went and how it was judged."""
    ends = {n: event_of(link).body for n, link in chain.some((0, *_last_lines(outline))).items()}
    began = ends.get(0)
    ended = next((body for body in ends.values() if isinstance(body, AttemptEnded)), None)
    row = chain.row
    trust = assess(standing_of(chain.store, [row])[row.chain], row)
    return {
        "row": msgspec.to_builtins(row),
        "outcome": trust.outcome_class,
        "headline": trust.headline,
        "separation": trust.separation,
        "final": row.final,
        "seq": None if chain.store.is_sealed else chain.store.live.last_seq(),
        "isolation": msgspec.to_builtins(began.isolation) if isinstance(began, AttemptStarted) else None,
        "config": tree(began.config, "/config") if isinstance(began, AttemptStarted) else None,
        "artifacts": _artifacts(ended),
        "verdicts": verdicts_of(chain, outline),
        "findings": findings_of(chain, outline),
        "models": outline.models[:20],
    }


def _last_lines(outline: Outline) -> list[int]:
    return [event for event, kind in zip(outline.events[-400:], outline.kinds[-400:], strict=True) if kind == "z"]


def _artifacts(ended: AttemptEnded | None) -> list[list[str]]:
    return [[path[:500], digest] for path, digest in list(ended.artifacts.items())[:200]] if ended is not None else []


def _columns(outline: Outline) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(outline)
    plain = {key: value for key, value in plain.items() if key not in ("verdicts", "audited", "models")}
    return plain | {"steps": _pairs(outline.steps), "at_once": AT_ONCE, "flag_bits": FLAGS}


def _pairs(found: dict[int, int]) -> list[list[int]]:
    return [[key, line] for key, line in found.items()][:MOST_STEPS]


def _steps(root: Path, fields: Fields) -> bytes:
    with opened(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(shown_lines(chain, outline_of(chain), _number(fields["start"])))


def _value(root: Path, fields: Fields) -> Any:
    """What a pointer leads to in an event."""
    with opened(root, fields["run"], fields["chain"]) as chain:
        body = msgspec.json.decode(chain.link(_number(fields["event"])).body)
    return found_at(body, fields["at"] if fields["at"].startswith("/") else "")


def _text(root: Path, fields: Fields) -> bytes:
    return json_bytes(text_part(_value(root, fields), _number(fields["part"])))


def _picture(root: Path, fields: Fields) -> bytes:
    value = _value(root, fields)
    return _shown(lambda: picture_of_text(value))


def _shown(make: Callable[[], dict[str, Any]]) -> bytes:
    """A picture, or `problem`: why it is not shown. Records often name pictures that are none."""
    try:
        return json_bytes(make())
    except UserError as exc:
        return json_bytes({"problem": str(exc)})


def _blob(root: Path, fields: Fields) -> bytes:
    with RunStore.open(root, fields["run"]) as store:
        return json_bytes(blob_part(store.blobs, fields["digest"], _number(fields["part"])))


def _blob_picture(root: Path, fields: Fields) -> bytes:
    with RunStore.open(root, fields["run"]) as store:
        return _shown(lambda: picture_of_blob(store.blobs, fields["digest"]))


def _call(root: Path, fields: Fields) -> bytes:
    number = _number(fields["event"])
    with opened(root, fields["run"], fields["chain"]) as chain:
        call = call_of(event_of(chain.link(number)).body)
    return json_bytes({"summary": call_summary(call, number, None), **exchange(call)})


def _tokens(root: Path, fields: Fields) -> bytes:
    with opened(root, fields["run"], fields["chain"]) as chain:
        call = call_of(event_of(chain.link(_number(fields["event"]))).body)
    return json_bytes(tokens_part(call, _number(fields["part"])))


def _siblings(root: Path, fields: Fields) -> bytes:
    """The attempts at the same task in the same run, this one among them."""
    with RunStore.open(root, fields["run"]) as store, store.snapshot():
        own = chain_of(store, fields["chain"]).row
        rows = [row for row in attempts_at(store, own.task, own.task_digest) if row.agent != ADMISSION]
        shown = rows[:MOST_SIBLINGS]
        stands = standing_of(store, shown)
    told = [
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
    return json_bytes({"attempts": told, "left_out": len(rows) - len(shown)})


VIEWS = (
    View(_HERE + "/outline", _outline, names.outlines),
    View(_HERE + "/siblings", _siblings, names.siblings),
    View(_HERE + "/lines/{start}", _steps, names.lines),
    View(_HERE + "/call/{event}", _call, names.calls),
    View(_HERE + "/tokens/{event}/{part}", _tokens, names.tokens),
    View(_HERE + "/text/{event}/{at}/{part}", _text, names.texts),
    View(_HERE + "/picture/{event}/{at}", _picture, names.pictures),
    View("run/{run}/blob/{digest}/{part}", _blob, names.blobs),
    View("run/{run}/shown/{digest}", _blob_picture, names.shown),
)
