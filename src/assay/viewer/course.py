"""The view of an attempt's course: the steps at which alarms rang, and the nodes of workflows that its steps belong to.

Alarms are those of `assay alarm` without contracts, judged from the prefix alone. Workflows are those that the agent of
the attempt carried out (evidence `workflow`) and those that `assay workflow follow --record` noted. Both are untrusted:
fields of other types than expected are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay.analysis.attribution import AlarmMonitor
from assay.records import AttemptStarted, EvidenceAdded, Noted, StepAdded
from assay.store.chain import decode_event

from . import attempt_names as names
from .chains import Chain, open_chain
from .interface import Fields, View, json_bytes
from .outline import MOST_LINES, WORKFLOW, outline_of

MOST_STEPS: Final = 5_000
"""Steps that alarms and nodes are shown of."""
_MOST_WORKFLOWS, _MOST_ALARMS, _MOST_TEXT = 10, 200, 400


def course_of(chain: Chain) -> dict[str, Any]:
    """Returns the course of an attempt.

    Returns:
        `alarms` (each with `step`, `who`, `raised_at`, `weight`, `error`, `reason`; the first is the attempt's alarm),
        `workflows` (each with `name`, `calls`, `followed`, `finished`, `deviated_at`, `expected`, `failed`, `by`, and
        `nodes`, pairs of a step and its node), `left_out` (steps that were not read).
    """
    outline = outline_of(chain)
    numbers = [event for event, kind in zip(outline.events, outline.kinds, strict=True) if kind in "as"]
    monitor, alarms, steps_of_calls = AlarmMonitor(), list[dict[str, Any]](), dict[str, int]()
    for link in chain.select_links(numbers[: MOST_STEPS + 1]):
        body = decode_event(link).body
        if isinstance(body, AttemptStarted):
            monitor = AlarmMonitor(started=body)
        elif isinstance(body, StepAdded):
            steps_of_calls |= {call.id: body.step.index for call in body.step.tool_calls}
            alarms += [
                {
                    "step": one.step,
                    "who": one.who[:_MOST_TEXT],
                    "raised_at": one.raised_at,
                    "weight": one.weight,
                    "error": f"{one.label.module}: {one.label.mode}",
                    "reason": one.reason[:_MOST_TEXT],
                }
                for one in monitor.see(body.step)
            ]
    return {
        "alarms": alarms[:_MOST_ALARMS],
        "workflows": list(_workflows(chain, outline.workflows, steps_of_calls))[-_MOST_WORKFLOWS:],
        "left_out": max(0, len(numbers) - MOST_STEPS - 1),
    }


def _workflows(chain: Chain, events: list[int], steps_of_calls: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yields one entry for each workflow and source, the newest note of each."""
    found = dict[tuple[str, str], dict[str, Any]]()
    for link in chain.select_links(events):
        match decode_event(link).body:
            case EvidenceAdded(evidence) if evidence.kind == WORKFLOW:
                data, by = evidence.data, "agent"
            case Noted(name, data) if name == WORKFLOW:
                by = "follow"
            case _:
                continue
        name = _text(data.get("workflow")) or "workflow"
        found[name, by] = {
            "name": name,
            "by": by,
            **{key: _count(data.get(key)) for key in ("calls", "followed", "deviated_at")},
            "finished": data.get("finished") if isinstance(data.get("finished"), bool) else None,
            "expected": _text(data.get("expected")),
            "failed": _text(data.get("failed")),
            "nodes": list(_nodes(data.get("nodes"), steps_of_calls)),
        }
    yield from found.values()


def _nodes(given: object, steps_of_calls: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Yields steps and their nodes; a step is named by its index, or by the id of its call."""
    for pair in given[:MOST_STEPS] if isinstance(given, list) else ():
        match pair:
            case [int(step), str(node)]:
                yield step, node[:_MOST_TEXT]
            case [str(call), str(node)] if call in steps_of_calls:
                yield steps_of_calls[call], node[:_MOST_TEXT]


def _text(value: object) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_LINES else None


def _course(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(course_of(chain))


VIEWS = (View("run/{run}/attempt/{chain}/course", _course, names.courses),)
