"""Mines recurring sequences of calls in verified attempts, and binds their arguments: pure.

A sequence is a run of consecutive successful calls of the same tools with the same argument names. An argument that has
one value in all occurrences becomes a constant; one that equals an earlier argument shares its parameter; one that
equals a value in the result of an earlier call is taken from there; any other one is a parameter. Each call after the
first must be linked to an earlier one, so that calls which merely follow each other make no tool.

Calls that change the state end a sequence or are left out, because an agent must see what it does before it goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from assay.agents.composites import ArgumentSource, CompositeCall, CompositeTool, RecordedCall, match_composite
from assay.records import canonical_bytes, digest_bytes

from .records import EvidenceRef

MOST_LENGTH = 4
"""Most calls of a mined sequence."""
_MOST_LEAVES, _DEPTH, _NAME = 400, 5, 64
_CONTAINED = 0.8
"""Share of a longer sequence's occurrences in those of a part of it at which the part is dropped."""


class CallAttempt(NamedTuple):
    """One judged attempt as its calls."""

    source: EvidenceRef
    """The attempt; its `steps` are empty."""
    task: str
    passed: bool
    calls: tuple[RecordedCall, ...]


class Occurrence(NamedTuple):
    """One place at which a sequence stands."""

    attempt: CallAttempt
    calls: tuple[RecordedCall, ...]


class MinedTool(NamedTuple):
    """A composite tool and where it was found."""

    tool: CompositeTool
    occurrences: tuple[Occurrence, ...]
    """In passing attempts."""
    passing: int
    """Passing attempts that hold it."""
    failing: int
    """Failing attempts that hold it."""

    @property
    def tasks(self) -> int:
        """Returns the number of tasks in whose passing attempts it stands."""
        return len({one.attempt.task for one in self.occurrences})

    @property
    def saved(self) -> int:
        """Returns the calls that it would have saved in the passing attempts."""
        return (len(self.tool.calls) - 1) * len(self.occurrences)


def find_readers(attempts: Sequence[tuple[Sequence[str], Sequence[str | None]]]) -> frozenset[str]:
    """Returns the tools that were called and never changed the state.

    Args:
        attempts: For each attempt the tool of each single-call step, and the state's digest after it; the state before
            the first step is unknown.
    """
    seen, writers = set[str](), set[str]()
    for tools, states in attempts:
        for tool, before, after in zip(tools[1:], states, states[1:], strict=False):
            seen.add(tool)
            if before is None or before != after:
                writers.add(tool)
    return frozenset(seen - writers)


def mine_sequences(
    attempts: Sequence[CallAttempt], *, least_tasks: int = 3, most: int = 8, writes: bool = False
) -> list[MinedTool]:
    """Returns composite tools that recur in passing attempts, the one that saves most calls first.

    Args:
        attempts: Passing and failing attempts.
        least_tasks: Tasks whose passing attempts must hold a sequence.
        most: Maximum number of tools.
        writes: True if the last call of a sequence may change the state.
    """
    passing = [one for one in attempts if one.passed]
    failing = [one for one in attempts if not one.passed]
    windows: dict[object, list[Occurrence]] = defaultdict(list)
    for attempt in passing:
        for part in _windows(attempt.calls, writes=writes):
            windows[tuple((call.tool, tuple(sorted(call.arguments))) for call in part)].append(
                Occurrence(attempt, part)
            )
    found: list[MinedTool] = []
    for occurrences in windows.values():
        tool = _bind(occurrences, least_tasks)
        if tool is None:
            continue
        fitting = tuple(one for one in occurrences if match_composite(tool, one.calls) is not None)
        holds = [sum(_holds(tool, one) for one in some) for some in (passing, failing)]
        mined = MinedTool(tool, fitting, *holds)
        if mined.tasks >= least_tasks and _is_contrast(mined, len(passing), len(failing)):
            found.append(mined)
    found.sort(key=lambda one: (-one.saved, one.tool.name))
    return _without_parts(found)[:most]


def _windows(calls: Sequence[RecordedCall], *, writes: bool) -> Iterator[tuple[RecordedCall, ...]]:
    for start in range(len(calls)):
        for end in range(start + 1, min(len(calls), start + MOST_LENGTH)):
            part = tuple(calls[start : end + 1])
            if any(call.is_error for call in part) or any(call.changed for call in part[:-1]):
                break
            if not part[-1].changed or writes:
                yield part


def _is_contrast(mined: MinedTool, passing: int, failing: int) -> bool:
    """Returns whether passing attempts hold it at least as often as failing ones."""
    return not failing or mined.passing / passing >= mined.failing / failing


def _holds(tool: CompositeTool, attempt: CallAttempt) -> bool:
    length = len(tool.calls)
    return any(
        match_composite(tool, attempt.calls[at : at + length]) is not None
        for at in range(len(attempt.calls) - length + 1)
    )


def _bind(occurrences: Sequence[Occurrence], least_tasks: int) -> CompositeTool | None:
    """Returns the tool that the occurrences are calls of; None if its calls are not linked or too few tasks hold it."""
    left = list(occurrences)
    sources: list[dict[str, ArgumentSource]] = []
    for position, call in enumerate(occurrences[0].calls):
        sources.append({})
        for name in sorted(call.arguments):
            source, left = _source(left, position, name, sources, least_tasks)
            sources[-1][name] = source
        if position and call.arguments and not _is_linked(sources):
            return None
        if _count_tasks(left) < least_tasks:
            return None
    calls = tuple(CompositeCall(c.tool, s) for c, s in zip(occurrences[0].calls, sources, strict=True))
    return CompositeTool(_name(calls), calls)


def _is_linked(sources: Sequence[dict[str, ArgumentSource]]) -> bool:
    earlier = {one.parameter for before in sources[:-1] for one in before.values() if one.parameter}
    return any(one.result is not None or one.parameter in earlier for one in sources[-1].values())


def _source(
    occurrences: list[Occurrence],
    position: int,
    name: str,
    sources: Sequence[dict[str, ArgumentSource]],
    least_tasks: int,
) -> tuple[ArgumentSource, list[Occurrence]]:
    """Returns where an argument comes from, and the occurrences in which it does."""
    values = {canonical_bytes(one.calls[position].arguments[name]) for one in occurrences}
    if len(values) == 1:
        return ArgumentSource(constant=occurrences[0].calls[position].arguments[name]), occurrences
    held: dict[ArgumentSourceKey, list[Occurrence]] = defaultdict(list)
    for one in occurrences:
        for key in _possible(one.calls, position, name, sources):
            held[key].append(one)
    order = {key: (_count_tasks(some), len(some), key.parameter, -key.result) for key, some in held.items()}
    best = max(held, key=lambda key: order[key], default=None)
    if best is not None and _count_tasks(held[best]) >= least_tasks:
        if best.parameter:
            return ArgumentSource(parameter=best.parameter), held[best]
        return ArgumentSource(result=best.result, path=best.path), held[best]
    taken = {one.parameter for before in sources for one in before.values()}
    parameter = name if name not in taken else f"{name}_{position + 1}"
    return ArgumentSource(parameter=parameter), occurrences


class ArgumentSourceKey(NamedTuple):
    """A hashable `ArgumentSource` that is no constant."""

    parameter: str
    result: int
    path: tuple[str, ...]


def _possible(
    calls: Sequence[RecordedCall], position: int, name: str, sources: Sequence[dict[str, ArgumentSource]]
) -> Iterator[ArgumentSourceKey]:
    value = calls[position].arguments[name]
    if not _is_specific(value):
        return
    for earlier, before in enumerate(sources[:position]):
        for argument, source in before.items():
            if source.parameter and calls[earlier].arguments[argument] == value:
                yield ArgumentSourceKey(source.parameter, -1, ())
        for count, (path, leaf) in enumerate(_leaves(calls[earlier].result, ())):
            if count >= _MOST_LEAVES:
                break
            if type(leaf) is type(value) and leaf == value:
                yield ArgumentSourceKey("", earlier, path)


def _is_specific(value: Any) -> bool:
    """Returns whether a value is unlikely to equal another one by chance."""
    if isinstance(value, bool):
        return False
    return (isinstance(value, int) and abs(value) >= 10) or (isinstance(value, str) and len(value) >= 3)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and len(path) < _DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and len(path) < _DEPTH:
        if len(value) == 1:
            yield from _leaves(value[0], (*path, "[]"))
    else:
        yield path, value


def _count_tasks(occurrences: Sequence[Occurrence]) -> int:
    return len({one.attempt.task for one in occurrences})


def _name(calls: Sequence[CompositeCall]) -> str:
    name = "_then_".join(call.tool for call in calls)
    if len(name) <= _NAME:
        return name
    suffix = digest_bytes(canonical_bytes(tuple(calls)))[7:13]
    return f"{calls[0].tool[:24]}_to_{calls[-1].tool[:24]}_{suffix}"


def _without_parts(found: Sequence[MinedTool]) -> list[MinedTool]:
    """Returns the tools without those that nearly always stand inside a longer one, and one of each name."""
    kept: list[MinedTool] = []
    for one in found:
        names = [call.tool for call in one.tool.calls]
        inside = any(
            _is_part(names, [call.tool for call in other.tool.calls])
            and len(other.occurrences) >= _CONTAINED * len(one.occurrences)
            for other in found
            if len(other.tool.calls) > len(names)
        )
        if not inside and one.tool.name not in {other.tool.name for other in kept}:
            kept.append(one)
    return kept


def _is_part(short: Sequence[str], whole: Sequence[str]) -> bool:
    return any(list(whole[at : at + len(short)]) == list(short) for at in range(len(whole) - len(short) + 1))
