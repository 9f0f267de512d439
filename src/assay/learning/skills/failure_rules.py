"""Failure schemata with their mended step, as lines of a skill. Pure.

A schema is the signature of a failed call (`assay.agents.recoveries`: tool, kind of failure, the error's last line
without what differs from task to task) and the form of the call that mended it, in passing attempts alone: the next
call of the same tool that worked, or, where a failed attempt was continued from before the failing step and passed, the
step that took its place (`assay.learning.curation.failures`). Of a mending call, an argument is told only as a form
(`A-a 0` for letters and digits), or in full where it is the same in all cases. A schema becomes a rule if it was mended
in this way at three tasks or more, and in most of all cases in which it was mended.

Covered: the words of errors, tools and arguments stand between backticks, in one line, bounded and printable.

Not covered: whether the mending call caused the success, which the trial decides; what an environment says in its
errors, be it an instruction or a secret that the recorder does not know: read the lines before you share them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.agents.recoveries import FailedCall, failed_calls, failure_signature
from assay.learning.curation.failures import contrast_at, own_steps
from assay.records import ToolCall, Trajectory, canonical_bytes

from .folder import SKILL_FILE, SkillFolder
from .leaks import TaskSecrets, scan_leaks
from .records import Claim, EvidenceRef

LEAST_TASKS = 3
MOST_RULES = 20
_MESSAGE, _VALUE, _FORM = 160, 60, 24
_RUNS = (
    (re.compile(r"[A-Z]{2,}"), "A"),
    (re.compile(r"[A-Z][a-z]+"), "Aa"),
    (re.compile(r"[a-z]+"), "a"),
    (re.compile(r"\d+"), "0"),
)
_COMMANDS = frozenset({"command", "cmd"})


class FailureCase(NamedTuple):
    """One failed call of a judged attempt."""

    task: str
    passed: bool
    failed: FailedCall
    source: EvidenceRef | None
    """The steps of the failure and of its mending, in a passing attempt."""


class _Mend(NamedTuple):
    """The form of a mending call."""

    tool: str
    between: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]
    """Name and form of each argument that the failed call did not have so."""
    removed: tuple[str, ...]


def cases_of(trajectory: Trajectory, *, passed: bool) -> Iterator[FailureCase]:
    """Yields the failed calls of an attempt."""
    for one in failed_calls(trajectory.steps):
        steps = (one.step, one.mended_at) if one.mending is not None else (one.step,)
        yield FailureCase(trajectory.task, passed, one, _reference(trajectory, steps) if passed else None)


def cases_of_continuation(failed: Trajectory, won: Trajectory, prefix: int) -> Iterator[FailureCase]:
    """Yields the failed calls of the step that a passing continuation of a failed attempt made otherwise."""
    contrast, ending = contrast_at(failed, won, prefix), own_steps(won)
    if contrast is None or not contrast.chosen.tool_calls:
        return
    rejected = contrast.rejected
    for call, seen in zip(rejected.tool_calls, rejected.observations, strict=False):
        signature = failure_signature(call, seen)
        if signature is not None:
            made = FailedCall(signature, prefix, call, contrast.chosen.tool_calls[0], ending[0].index)
            yield FailureCase(won.task, True, made, _reference(won, (ending[0].index,)))


def _reference(trajectory: Trajectory, steps: Sequence[int]) -> EvidenceRef:
    chosen = tuple(sorted(set(steps)))
    return EvidenceRef(trajectory.run, trajectory.attempt, trajectory.chain, trajectory.head, chosen)


def failure_claims(cases: Iterable[FailureCase]) -> tuple[Claim, ...]:
    """Returns a claim for each schema that has support, the one of the most tasks first."""
    by_signature: dict[str, list[FailureCase]] = defaultdict(list)
    for case in cases:
        by_signature[case.failed.signature].append(case)
    found = [claim for some in by_signature.values() if (claim := _claim(some)) is not None]
    return tuple(sorted(found, key=lambda claim: (-claim.taken, claim.text)))[:MOST_RULES]


def without_leaks(claims: Sequence[Claim], secrets: Sequence[TaskSecrets]) -> tuple[Claim, ...]:
    """Returns the claims whose text holds no text of the tasks."""
    return tuple(
        claim
        for claim in claims
        if not scan_leaks(SkillFolder("rule", {SKILL_FILE: claim.text.encode(errors="replace")}), secrets)
    )


def with_earlier(claims: Sequence[Claim], known: Sequence[Claim]) -> tuple[Claim, ...]:
    """Returns the claims, and of an earlier version those about other failures."""
    new = {failure_of(claim.text) for claim in claims}
    earlier = [one for one in known if one.kind == "text" and (failure_of(one.text) or "") not in {*new, ""}]
    return (*claims, *earlier)


def failure_of(line: str) -> str | None:
    """Returns the beginning of a rule about a failure, before the mended step; None for another line."""
    head, separator, _ = line.partition("`: ")
    return head if separator and line.startswith("- When `") else None


def _claim(cases: Sequence[FailureCase]) -> Claim | None:
    mends: dict[_Mend, list[FailureCase]] = defaultdict(list)
    for case in cases:
        if case.passed and case.failed.mending is not None:
            mends[_mend_of(case.failed)].append(case)
    mended = sum(map(len, mends.values()))
    mend, some = max(mends.items(), key=lambda one: (len({c.task for c in one[1]}), one[0]), default=(None, []))
    tasks = len({case.task for case in some})
    if mend is None or tasks < LEAST_TASKS or 2 * len(some) <= mended:
        return None
    passing = sum(case.passed for case in cases)
    told = f"{len(some)} of {passing} times in passing attempts, at {tasks} tasks"
    failing = [case.failed for case in cases if not case.passed]
    if failing:
        alike = sum(one.mending is not None and _mend_of(one) == mend for one in failing)
        told += f"; {alike} of {len(failing)} in failing ones"
    tool, _, message = some[0].failed.signature.partition(": ")
    told_mend = _describe(mend, [one.failed for one in some])
    text = f"- When `{_plain(tool)}` fails with `{_plain(message)}`: {told_mend} ({told})"
    return Claim(text, "text", _joined([case.source for case in some]), taken=len(some))


def _mend_of(failed: FailedCall) -> _Mend:
    mending = failed.mending
    if mending is None:
        raise ValueError(f"the call at step {failed.step} was not mended")
    before, after = _arguments(failed.call), _arguments(mending)
    is_same_tool = mending.name == failed.call.name
    changed = [name for name in after if name not in before or before[name] != after[name]]
    removed = tuple(sorted(before.keys() - after.keys())) if is_same_tool else ()
    forms = tuple((name, _form(name, after[name])) for name in sorted(changed if is_same_tool else after))
    return _Mend(mending.name, failed.between[:3], forms, removed)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    return call.parsed or {}


def _form(name: str, value: Any) -> str:
    """Returns the form of an argument, without what it says."""
    if isinstance(value, str):
        if name in _COMMANDS:
            return f"{value.split(maxsplit=1)[0][:_FORM]} …" if value.strip() else "nothing"
        masked = value[:_VALUE]
        for pattern, mask in _RUNS:
            masked = pattern.sub(mask, masked)
        is_short = value and len(value) <= _VALUE and len(masked) <= _FORM and masked.isprintable()
        return masked if is_short else "a text"
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    return "a number" if isinstance(value, int | float) else "a list" if isinstance(value, list) else "a table"


def _describe(mend: _Mend, failed: Sequence[FailedCall]) -> str:
    """Returns the mended step in words."""
    first = f"after a call of {' and '.join(f'`{_plain(one)}`' for one in mend.between)}, " if mend.between else ""
    other = mend.tool != failed[0].call.name
    parts = [_describe_argument(name, form, failed) for name, form in mend.changed]
    parts += [f"without `{_plain(name)}`" for name in mend.removed]
    what = f"{first}call `{_plain(mend.tool)}`{' instead' if other else ' again'}"
    return f"{what} with {', '.join(parts)}" if parts else what


def _describe_argument(name: str, form: str, failed: Sequence[FailedCall]) -> str:
    """Returns one argument of the mending calls: its value if all have the same, else its form and the failed ones'."""
    values = Counter(canonical_bytes(_arguments(one.mending).get(name)) for one in failed if one.mending is not None)
    value = next(iter(values)).decode(errors="replace")
    if len(values) == 1 and len(value) <= _VALUE and name not in _COMMANDS:
        return f"`{_plain(name)}` = `{_plain(value)}`"
    before = sorted(
        {_form(name, _arguments(one.call)[name]) for one in failed if name in _arguments(one.call)} - {form}
    )
    told = f" (not {', '.join(f'`{_plain(one)}`' for one in before[:3])})" if before and form != "a text" else ""
    return f"`{_plain(name)}` like `{_plain(form)}`{told}"


def _plain(text: str) -> str:
    """Returns a text that can stand between backticks in a line."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text.replace("`", "'"))
    return shown if len(shown) <= _MESSAGE else f"{shown[:_MESSAGE]}…"


def _joined(references: Iterable[EvidenceRef | None]) -> tuple[EvidenceRef, ...]:
    """Returns one reference for each attempt."""
    found: dict[str, EvidenceRef] = {}
    for one in references:
        if one is not None:
            earlier = found.get(one.chain)
            steps = {*one.steps, *(earlier.steps if earlier else ())}
            found[one.chain] = EvidenceRef(one.run, one.attempt, one.chain, one.head, tuple(sorted(steps)))
    return tuple(found.values())
