"""Errors that verified attempts met, and the calls that worked after them, recognised again in a running attempt.

After the error schemata of CORRECT, by rule: an error's signature is the tool, the kind of failure and the error's last
line without what differs from task to task (quoted texts, paths, addresses, long numbers). Signatures are compared as
they are. A recovery is the next call of the same tool that did not fail, in an attempt that passed; it may owe its
success to something else, so that a recognised error is answered with what was done and not with what to do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from assay.records import Observation, Step, ToolCall

from .memory import MemoryItem, MemoryRecord

_WITHIN, _SHOWN, _CHARS = 10, 2, 1_000
_MASKS = (
    (re.compile(r"'[^'\n]{0,400}'|\"[^\"\n]{0,400}\"|`[^`\n]{0,400}`"), "'…'"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://\S+|(?:\.{0,2}/)[^\s:,;)]+"), "<path>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"), "#"),
    (re.compile(r"(?<=\bline )\d+"), "#"),
    (re.compile(r"\d+(?:[.,:-]\d+)+|\d{4,}"), "#"),
)


def failure_signature(call: ToolCall, seen: Observation) -> str | None:
    """Returns the signature of a failed call; None for one that did not fail."""
    if call.error is not None:
        kind, text = "invalid call", call.error
    elif seen.timed_out:
        kind, text = "timed out", ""
    elif seen.exit_code or seen.error:
        kind, text = f"exit {seen.exit_code}" if seen.exit_code else "error", seen.stderr.strip() or seen.content
    else:
        return None
    line = next((line.strip() for line in reversed(text[-4_000:].splitlines()) if line.strip()), "")[:400].lower()
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return f"{call.name}: {kind}: {line[:400]}"


class FailedCall(NamedTuple):
    """A call of an agent that failed, and the one that worked after it."""

    signature: str
    step: int
    """`Step.index`."""
    call: ToolCall
    mending: ToolCall | None = None
    """The next call of the same tool that did not fail, if one of the next ten calls is."""
    mended_at: int = -1
    """The index of its step; -1 without one."""
    between: tuple[str, ...] = ()
    """Tools of the calls between the two that did not fail."""


def failed_calls(steps: Sequence[Step]) -> Iterator[FailedCall]:
    """Yields the failed calls of an agent; of several that failed alike before the same mending call the last one."""
    made = [
        (step.index, call, seen)
        for step in steps
        if step.actor == "agent"
        for call, seen in zip(step.tool_calls, step.observations, strict=False)
    ]
    found = dict[tuple[str, int], FailedCall]()
    for at, (index, failed, seen) in enumerate(made):
        signature = failure_signature(failed, seen)
        if signature is not None:
            one = _mended(FailedCall(signature, index, failed), made[at + 1 : at + 1 + _WITHIN])
            found[signature, one.mended_at if one.mending is not None else -2 - at] = one
    yield from found.values()


def _mended(failed: FailedCall, later: Sequence[tuple[int, ToolCall, Observation]]) -> FailedCall:
    between = list[str]()
    for index, call, answer in later:
        if failure_signature(call, answer) is not None:
            continue
        if call.name == failed.call.name:
            return failed._replace(mending=call, mended_at=index, between=tuple(dict.fromkeys(between)))
        between.append(call.name)
    return failed


def find_recoveries(steps: Sequence[Step]) -> Iterator[MemoryItem]:
    """Yields the failed calls that were mended, as items of a memory."""
    for one in failed_calls(steps):
        if one.mending is not None:
            yield MemoryItem("recovery", one.signature, _show(one.call), _show(one.mending), one.mended_at)


class RecoveryIndex:
    """Recoveries by signature, and which of them an attempt was shown already."""

    def __init__(self, records: Iterable[MemoryRecord]) -> None:
        self._found: dict[str, list[tuple[MemoryItem, MemoryRecord]]] = defaultdict(list)
        for record in records:
            for item in record.items:
                if item.kind == "recovery":
                    self._found[item.when].append((item, record))

    def recognise(self, call: ToolCall, seen: Observation) -> tuple[str, dict[str, Any]] | None:
        """Returns what a model is told after a failed call, and the data of its evidence; None for an unknown error,
        and for one whose recoveries were all shown. The latest ones come first."""
        signature = failure_signature(call, seen)
        known = self._found.get(signature or "")
        if signature is None or not known:
            return None
        shown = [known.pop() for _ in range(min(_SHOWN, len(known)))]
        lines = [f"- {item.act} failed so; then {item.what} worked." for item, _ in shown]
        text = "Earlier attempts that passed met the same error:\n" + "\n".join(lines)
        sources = [{"head": record.head, "step": item.step} for item, record in shown]
        return text, {"signature": signature, "items": sources}


def _show(call: ToolCall) -> str:
    return f"{call.name} {call.arguments}"[:_CHARS]
