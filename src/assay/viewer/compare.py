"""The view of several attempts side by side: aligned by what they did and what came of it, with the tree of their ways.

Acts are the same where `assay.analysis.quotient` says so: equivalent, with the same kind of outcome. Rows are a common
supersequence, made attempt by attempt, so that no attempt's order is changed; the tree keeps the order whole.

Invariant: texts are cut while they are read, so that memory grows with the number of acts, which has a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from assay.analysis.actions import actions_of_step
from assay.analysis.alignment import MOST_CELLS, align
from assay.analysis.interface import Action
from assay.analysis.prefix_tree import PrefixTree, prefix_tree
from assay.analysis.quotient import Quotient, QuotientNode, bifurcations, quotient_graph
from assay.analysis.states import State, states_of
from assay.errors import UserError
from assay.records import Observation, Step, StepTaken, ToolCall
from assay.store import ADMISSION, AttemptRow, RunStore, standing_of
from assay.store.chain import event_of
from assay.verdicts import CurrentVerdicts, Trust, assess

from ._light import one_line
from .chains import Chain, chain_of
from .files import Ends, end_files, ends_of
from .interface import Fields, View, json_bytes, named, several
from .outline import outline_of

__all__ = ["MOST_ATTEMPTS", "VIEWS", "compared"]

MOST_ATTEMPTS: Final = 12
MOST_ACTS: Final = 2000
MOST_ROWS: Final = 8000
MOST_FORKS: Final = 12
KEPT_TEXT = 6000
MOST_KEPT: Final = 16 << 20
"""Characters of an attempt's steps that are held at once."""
MOST_SEEN: Final = 40
"""Outputs of a step that are looked at, if it made no more calls."""
_METRICS = ("wall_s", "prompt_tokens", "completion_tokens", "cost_usd")
_PASSED: Final = {"pass": True, "fail": False}
"""A doubtful pass is neither."""
EXPORTED: Final = 8
"""Attempts of a task that an export compares."""


class _Type(msgspec.Struct):
    type: str = ""


_TYPE = msgspec.json.Decoder(_Type)


class _Way(NamedTuple):
    """What one attempt did."""

    row: AttemptRow
    stand: CurrentVerdicts
    actions: tuple[Action, ...]
    states: tuple[State, ...]
    digests: dict[int, str]
    """State of the environment by step."""
    lines: dict[int, int]
    """Line of the outline by step."""
    ends: Ends | None
    left_out: int


def compared(root: Path, run: str, chains: Sequence[str]) -> dict[str, Any]:
    """Several attempts of a run, aligned.

    Returns:
        `attempts`; `classes` of acts; `rows`, each with a cell an attempt: null, or act, step, line, class, state of
        the environment (position in `states`, or -1), and whether it failed; `tree`, `partings`, `files`.

    Raises:
        UserError: There are fewer than two, more than twelve, or one is not there.
        StoreError: The run cannot be read.
    """
    chosen = tuple(dict.fromkeys(chains))
    if not 2 <= len(chosen) <= MOST_ATTEMPTS:
        raise UserError(f"2 to {MOST_ATTEMPTS} attempts can be compared, not {len(chosen)}")
    with RunStore.open(root, run) as store, store.snapshot():
        held = [chain_of(store, chain) for chain in chosen]
        stands = standing_of(store, [chain.row for chain in held])
        ways = [_way(chain, stands[chain.row.chain]) for chain in held]
    outcomes = [_PASSED.get(_trust(way).outcome_class) for way in ways]
    graph = quotient_graph([way.actions for way in ways], outcomes, [way.states for way in ways])
    tree = prefix_tree([way.states for way in ways], outcomes)
    digests: dict[str, int] = {}
    rows = [
        [_cell(way, at, graph.walks[number], digests) for number, (way, at) in enumerate(zip(ways, row, strict=True))]
        for row in _aligned(graph.walks)
    ]
    return {
        "attempts": [_attempt(way) for way in ways],
        "same_task": len({(way.row.task, way.row.task_digest) for way in ways}) == 1,
        "classes": [_class(node) for node in graph.nodes],
        "rows": rows,
        "states": list(digests),
        "tree": _tree(tree, graph),
        "partings": _partings(graph),
        "files": end_files([way.ends for way in ways]),
    }


def _way(chain: Chain, stand: CurrentVerdicts) -> _Way:
    steps, left_out = _steps(chain)
    outline = outline_of(chain)
    actions = tuple(_actions(steps))
    digests = {step.index: step.state for step in steps if step.state is not None}
    ends = ends_of(chain, outline)
    return _Way(chain.row, stand, actions, states_of(actions), digests, outline.steps, ends, left_out)


def _steps(chain: Chain) -> tuple[list[Step], int]:
    """The steps of an attempt's agents with their texts cut, and how many more there are."""
    found: list[Step] = []
    acts = left_out = held = 0
    for link in chain.links(0, chain.length):
        if _TYPE.decode(link.body).type != "step":
            continue
        if acts >= MOST_ACTS or held >= MOST_KEPT:
            left_out += 1
            continue
        body = event_of(link).body
        if isinstance(body, StepTaken) and body.step.actor in ("agent", "other_agent"):
            short = _short(body.step)
            found.append(short)
            acts += max(len(short.tool_calls), 1)
            held += sum(len(seen.content) + len(seen.stderr) for seen in short.observations)
            held += sum(len(call.arguments) for call in short.tool_calls)
    return found, left_out


def _short(step: Step) -> Step:
    seen = tuple(
        Observation(_cut(s.content), s.call_id, s.exit_code, s.error, _cut(s.stderr), None, None, s.timed_out)
        for s in step.observations[: max(MOST_SEEN, 2 * len(step.tool_calls))]
    )
    calls = tuple(
        call if _is_small(call) else msgspec.structs.replace(call, arguments="", parsed=None)
        for call in step.tool_calls[:MOST_ACTS]
    )
    message = _cut(step.message or "") or None
    return msgspec.structs.replace(step, message=message, reasoning=None, tool_calls=calls, observations=seen, extra={})


def _is_small(call: ToolCall) -> bool:
    """Whether its arguments can be held; what was parsed need not be what was written."""
    most = 8 * KEPT_TEXT
    return len(call.arguments) <= most and (call.parsed is None or len(json_bytes(call.parsed)) <= most)


def _cut(text: str) -> str:
    return text if len(text) <= KEPT_TEXT else text[: KEPT_TEXT // 2] + "\n" + text[-KEPT_TEXT // 2 :]


def _actions(steps: Sequence[Step]) -> Iterator[Action]:
    """As `actions_of` a trajectory."""
    opened_file: str | None = None
    index = 0
    for step in steps:
        for made in actions_of_step(step, opened_file):
            if made.kind in ("read", "edit") and made.paths:
                opened_file = made.paths[-1]
            yield msgspec.structs.replace(made, index=index)
            index += 1


def _aligned(walks: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows of positions in each walk, -1 where it has none: walks are put to what is there, one after the other."""
    order = sorted(range(len(walks)), key=lambda each: -len(walks[each]))
    rows: list[tuple[int, list[int]]] = []
    for number in order:
        walk = np.asarray(walks[number], dtype=np.int64)
        held = np.asarray([each for each, _ in rows], dtype=np.int64)
        room = MOST_CELLS // max(len(walk), 1)
        pairs = align(held[:room, None] == walk[None, :]) if len(held) and len(walk) else ()
        rows = _merged(rows, [int(each) for each in walk], number, len(walks), pairs)
    return [row for _, row in rows[:MOST_ROWS]]


def _merged(
    rows: Sequence[tuple[int, list[int]]], walk: Sequence[int], number: int, width: int, pairs: Sequence[Any]
) -> list[tuple[int, list[int]]]:
    merged: list[tuple[int, list[int]]] = []
    at = position = 0
    for left, right in [*pairs, (len(rows), len(walk))]:
        merged += rows[at:left]
        merged += [(walk[n], [n if each == number else -1 for each in range(width)]) for n in range(position, right)]
        if left < len(rows):
            code, row = rows[left]
            merged.append((code, [right if each == number else old for each, old in enumerate(row)]))
        at, position = left + 1, right + 1
    return merged


def _cell(way: _Way, at: int, walk: Sequence[int], digests: dict[str, int]) -> list[int] | None:
    if at < 0:
        return None
    action = way.actions[at]
    digest = way.digests.get(action.step)
    state = -1 if digest is None else digests.setdefault(digest, len(digests))
    failed = action.error or bool(action.exit_code)
    return [at, action.step, way.lines.get(action.step, -1), walk[at], state, int(failed)]


def _trust(way: _Way) -> Trust:
    return assess(way.stand, way.row)


def _attempt(way: _Way) -> dict[str, Any]:
    row, trust = way.row, _trust(way)
    return {
        "chain": row.chain,
        "task": row.task,
        "number": row.number,
        "retry": row.retry,
        "agent": row.agent,
        "model": row.model,
        "outcome": trust.outcome_class,
        "headline": trust.headline,
        "separation": trust.separation,
        "score": row.score,
        "steps": row.steps,
        "acts": len(way.actions),
        "left_out": way.left_out,
        "metrics": {name: row.metrics.get(name) for name in _METRICS},
    }


def _class(node: QuotientNode) -> dict[str, Any]:
    return {
        "told": node.describe(),
        "kind": node.state.kind if node.state else "",
        "stage": node.state.stage if node.state else "",
        "outcome": node.outcome,
        "attempts": node.attempts,
        "passed": node.passed,
        "failed": node.failed,
    }


def _tree(tree: PrefixTree, graph: Quotient) -> dict[str, Any]:
    """Nodes as columns: parent, attempts, passed, failed, ended, and what the first that came there did."""
    told = dict.fromkeys(range(len(tree.nodes)), "")
    at = dict.fromkeys(range(len(tree.nodes)), (-1, -1))
    for number, walk in enumerate(tree.walks):
        for position, node in enumerate(walk):
            if not told[node]:
                told[node] = graph.nodes[graph.walks[number][position]].describe()
                at[node] = (number, position)
    kept = tree.nodes[:MOST_ROWS]
    return {
        "parents": [node.parent for node in kept],
        "attempts": [node.attempts for node in kept],
        "passed": [node.passed for node in kept],
        "failed": [node.failed for node in kept],
        "ended": [node.ended for node in kept],
        "told": [one_line(told[n], 80) for n in range(len(kept))],
        "at": [at[n] for n in range(len(kept))],
        "walks": [list(walk) for walk in tree.walks],
    }


def _partings(graph: Quotient) -> list[dict[str, Any]]:
    """Acts after which what is done next tells about the outcome, wherever they stand."""
    return [
        {
            "told": graph.nodes[each.node].describe(),
            "attempts": each.attempts,
            "gain": each.gain,
            "branches": [
                {"told": "the end" if after < 0 else graph.nodes[after].describe(), "passed": passed, "failed": failed}
                for after, (passed, failed) in list(each.branches.items())[:MOST_FORKS]
            ],
        }
        for each in bifurcations(graph)[:MOST_FORKS]
        if each.gain > 0
    ]


def _compare(root: Path, fields: Fields) -> bytes:
    return json_bytes(compared(root, fields["run"], several(fields["chains"])))


def _names(root: Path, run: str) -> Iterator[str]:
    """The first attempts at each task that was tried more than once, in the order in which the pages name them."""
    with RunStore.open(root, run) as store:
        rows = [row for row in store.attempts() if row.agent != ADMISSION]
    by_task: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_task.setdefault((row.task, row.task_digest), []).append(row.chain)
    for chains in by_task.values():
        if len(chains) > 1:
            yield named("run", run, "compare", chains[:EXPORTED])


VIEWS = (View("run/{run}/compare/{chains+}", _compare, _names),)
