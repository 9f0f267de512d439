"""Permissions and flow of labelled data in multi-agent runs.

A label's data are texts of its source's results. They reached a holder if such a text occurs verbatim in its later
calls or messages, or in what an actor of a team reads from others. That is *obtained*, with the words as evidence;
paraphrases and parts are not detected. The agent that obtained the data is permitted.

Permissions are also enforced online (`monitor`); data flow is judged afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from assay.analysis.interface import Finding
from assay.records import TEAM_READ

from .contract import Contract, Label
from .evaluation import evaluate
from .temporal import TRUE
from .trace import RecordedTrace

LEAST: Final = 6
"""Minimum characters of a tracked text; shorter ones occur anywhere."""
MOST_VALUES: Final = 2_000
MOST_TEXT: Final = 65_536
MOST_LOOKS: Final = 1_000_000
"""Maximum number of text searches per label."""
_WORDS: Final = re.compile(r"[^\s\"'`,;(){}\[\]<>]{6,200}")


class FlowHit(NamedTuple):
    """Labelled data at a holder."""

    label: str
    who: str
    """An agent's name, or `tool:NAME`."""
    step: int
    call: int
    text: str
    """Data as found."""
    source: int
    """Step that produced the data."""


def fits(pattern: str, name: str) -> bool:
    """Returns whether a name matches a pattern in which `*` stands for any characters. Linear in both together."""
    parts = pattern.split("*")
    if len(parts) == 1:
        return pattern == name
    if not name.startswith(parts[0]) or not name[len(parts[0]) :].endswith(parts[-1]):
        return False
    at, end = len(parts[0]), len(name) - len(parts[-1])
    for part in parts[1:-1]:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return at <= end


def may_call(contract: Contract, who: str, tool: str) -> str | None:
    """Returns why an agent may not call a tool; None if it may."""
    for agent in contract.table.agents:
        if not fits(agent.name, who):
            continue
        if any(fits(pattern, tool) for pattern in agent.may_not_call):
            return f"{who!r} may not call {tool!r}"
        if not any(fits(pattern, tool) for pattern in agent.may_call):
            return f"{who!r} may call {', '.join(agent.may_call) or 'nothing'}, not {tool!r}"
        return None
    return None


def flow_findings(contract: Contract, recorded: RecordedTrace) -> Iterator[Finding]:
    """Yields forbidden calls and labelled data at forbidden holders."""
    yield from _permissions(contract, recorded)
    for label in contract.labels:
        table = label.table
        reached, is_whole = flows(label, recorded)
        if not is_whole:
            yield Finding(
                rule=f"{contract.name}.{table.name}",
                family="safety",
                severity="minor",
                summary=f"{table.name} data could not be followed to the end: there is too much of it",
                data={"followed": MOST_LOOKS},
            )
        for found in reached:
            if any(fits(pattern, found.who) for pattern in table.may_reach):
                continue
            yield Finding(
                rule=f"{contract.name}.{table.name}",
                family="safety",
                severity=table.severity,
                summary=f"{table.name} data of step {found.source} reached {found.who} at step {found.step}",
                steps=(found.source, found.step),
                reach="obtained",
                data={"who": found.who, "text": found.text[:80], "call": found.call},
            )


def _permissions(contract: Contract, recorded: RecordedTrace) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for at, fields in enumerate(recorded.trace.positions):
        call = fields.get("call")
        if not isinstance(call, dict):
            continue
        who, tool = str(fields.get("who")), str(call.get("name"))
        problem = may_call(contract, who, tool)
        if problem is None or (who, tool) in seen:
            continue
        seen.add((who, tool))
        yield Finding(
            rule=f"{contract.name}.permission",
            family="safety",
            severity="major",
            summary=f"{problem}, and did at step {recorded.steps[at]}",
            steps=(recorded.steps[at],),
            reach="obtained",
            data={"who": who, "tool": tool},
        )


def flows(label: Label, recorded: RecordedTrace) -> tuple[list[FlowHit], bool]:
    """Returns the holders of a label's data, once per holder and source, without its source; and whether the search was
    complete.
    """
    reached: list[FlowHit] = []
    looks = 0
    column = evaluate(label.source, recorded.trace)
    held: dict[str, tuple[int, str]] = {}
    seen: set[tuple[str, int]] = set()
    for at, fields in enumerate(recorded.trace.positions):
        who = str(fields.get("who"))
        for holder, text in _spoken_texts(fields):
            looks += len(held)
            if looks > MOST_LOOKS:
                return reached, False
            for value, (source, owner) in held.items():
                own = holder == owner
                if own or (holder, source) in seen or value not in text:
                    continue
                seen.add((holder, source))
                reached.append(FlowHit(label.table.name, holder, recorded.steps[at], recorded.calls[at], value, source))
        if column[at] == TRUE and len(held) < MOST_VALUES:
            for value in _values(label, fields):
                held.setdefault(value, (recorded.steps[at], who))
    return reached, True


def _spoken_texts(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields holder and text: messages belong to the agent, call arguments to the tool, and what an actor of a team
    read from others to that actor."""
    who, message, call = str(fields.get("who")), fields.get("message"), fields.get("call")
    if isinstance(message, str):
        yield who, message[:MOST_TEXT]
    if isinstance(call, dict):
        raw = str(call.get("raw", ""))[:MOST_TEXT]
        yield who, raw
        yield f"tool:{call.get('name')}", raw
        result = fields.get("result")
        if call.get("name") == TEAM_READ and isinstance(result, dict):
            yield who, str(result.get("content"))[:MOST_TEXT]


def _values(label: Label, fields: dict[str, Any]) -> Iterable[str]:
    result = fields.get("result")
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        return ()
    pattern = label.table.values
    leaves = list(_leaves(result.get("data"))) or _WORDS.findall(result["content"])
    if pattern is not None:
        from .pattern import compile_pattern

        wanted = compile_pattern(pattern)
        leaves = [leaf for leaf in leaves if len(leaf) <= MOST_TEXT and wanted.search(leaf)]
    return [leaf for leaf in leaves if len(leaf) >= LEAST][:MOST_VALUES]


def _leaves(data: Any) -> Iterator[str]:
    todo = [data]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            todo.extend(found.values())
        elif isinstance(found, list):
            todo.extend(found)
        elif isinstance(found, str):
            yield found
        elif isinstance(found, int | float) and not isinstance(found, bool):
            yield str(found)
