"""The signals written out in loops, one message at a time: what the columns are checked against."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from assay.analysis.signals import SIGNALS
from assay.analysis.signals.lexicon import EXHAUSTIONS, FAILURES, PHRASES, STOP_WORDS


class Line(NamedTuple):
    """A step: who, what was said, calls as (tool, arguments), what came back."""

    actor: str
    message: str | None
    calls: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ()


def slow_counts(lines: Sequence[Line]) -> dict[str, int]:
    messages: list[tuple[str, str, str]] = []
    for line in lines:
        if line.message:
            messages.append((line.actor, line.message, ""))
        messages += [("call", tool, arguments) for tool, arguments in line.calls]
        messages += [("result", output, "") for output in line.outputs]
    messages = messages[-100:]
    found = dict.fromkeys((signal.name for signal in SIGNALS), 0)
    users = [_cut(text) for who, text, _ in messages if who == "user"]
    _users(users, found)
    agents = [_cut(text).lower() for who, text, _ in messages if who in ("agent", "other_agent")]
    for at, text in enumerate(agents):
        found["interaction.stagnation.repetition"] += any(_near(text, other) for other in agents[max(0, at - 2) : at])
    calls = [(tool, arguments) for who, tool, arguments in messages if who == "call"]
    _loops(calls, found)
    for who, text, _ in messages:
        for patterns in (FAILURES, EXHAUSTIONS) if who == "result" else ():
            name = next((n for n, pattern in patterns if re.search(pattern, _cut(text), re.IGNORECASE)), None)
            if name is not None:
                found[name] += 1
    return found


def _cut(text: str) -> str:
    return text if len(text) <= 2000 else text[:400] + text[-1600:]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.replace("'", "").replace("\u2019", "").lower()))


def _grams(text: str) -> set[bytes]:
    data = text.lower().encode("utf-8", "replace")
    return {data[at : at + 3] for at in range(len(data) - 2)}


def _jaccard(one: set[bytes], other: set[bytes]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def _near(one: str, other: str) -> bool:
    long_enough = min(len(_plain(one).split()), len(_plain(other).split())) >= 5
    return long_enough and _jaccard(_grams(one), _grams(other)) >= 0.85


def _says(text: str, phrase: str) -> bool:
    told = _plain(text)
    words, parts = told.split(), phrase.split()
    if any(words[at : at + len(parts)] == parts for at in range(len(words))):
        return True
    if not words or len(words) > 12:
        return False
    mine, its = set(words), set(parts)
    cosine = len(mine & its) / (len(mine) * len(its)) ** 0.5
    return (len(its) >= 3 and cosine >= 0.6) or _jaccard(_grams(told), _grams(phrase)) >= 0.65


def _users(users: list[str], found: dict[str, int]) -> None:
    words = [set(_plain(text).split()) - STOP_WORDS for text in users]
    for at, text in enumerate(users):
        raised = {name for name, phrases in PHRASES.items() if any(_says(text, phrase) for phrase in phrases)}
        letters = [c for c in text if c.isascii() and c.isalpha()]
        if len(letters) >= 10 and sum(c.isupper() for c in letters) >= 0.8 * len(letters):
            raised.add("interaction.disengagement.negative_stance")
        for name in raised:
            found[name] += 1
        again = any(_again(words[earlier], words[at]) for earlier in range(max(0, at - 3), at))
        found["interaction.misalignment.rephrase"] += again
    efficiency = 1 / (1 + 0.25 * max(0, len(users) - 5))
    found["interaction.stagnation.dragging"] = int(efficiency < 0.5)


def _again(earlier: set[str], later: set[str]) -> bool:
    smaller = min(len(earlier), len(later))
    shared = len(earlier & later)
    return smaller >= 4 and shared >= 0.75 * smaller and len(later - earlier) <= 0.5 * len(later)


def _loops(calls: list[tuple[str, str]], found: dict[str, int]) -> None:
    for run in _groups([call for call in calls]):
        found["execution.loops.retry"] += len(run) >= 3
    at = 0
    for run in _groups([tool for tool, _ in calls]):
        arguments = {calls[at + step][1] for step in range(len(run))}
        found["execution.loops.parameter_drift"] += len(run) >= 3 and len(arguments) >= 2
        at += len(run)
    found["execution.loops.oscillation"] = _oscillations([tool for tool, _ in calls])


def _groups(values: list[object]) -> list[list[object]]:
    groups: list[list[object]] = []
    for value in values:
        if groups and groups[-1][-1] == value:
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def _oscillations(tools: list[str]) -> int:
    covered = [False] * len(tools)
    count = 0
    for period in (2, 3, 4, 5):
        stretches, at = [], period
        while at < len(tools):
            end = at
            while end < len(tools) and tools[end] == tools[end - period]:
                end += 1
            if end > at:
                stretches.append((at - period, end))
            at = max(end, at + 1)
        kept = [
            (begin, end)
            for begin, end in stretches
            if end - begin >= 3 * period and len(set(tools[begin:end])) >= 2 and not all(covered[begin:end])
        ]
        count += len(kept)
        for begin, end in kept:
            covered[begin:end] = [True] * (end - begin)
    return count
