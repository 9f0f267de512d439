"""The view of several attempts side by side: aligned actions and their tree.

Actions are equivalent by `assay.analysis.quotient`. Rows are a common supersequence, built attempt by attempt, so that
each attempt's order is preserved; the tree preserves the whole order.

Invariant: what is read of an attempt is bounded (`acts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from assay.analysis.alignment import MOST_CELLS, align
from assay.analysis.interface import Action
from assay.analysis.prefix_tree import PrefixTree, divergence, prefix_tree
from assay.analysis.quotient import Quotient, QuotientNode, bifurcations, quotient_graph
from assay.analysis.states import State, states_of
from assay.errors import UserError
from assay.store import ADMISSION, AttemptRow, RunStore, current_verdicts_by_chain
from assay.verdicts import CurrentVerdicts, Trust, assess

from ._partial_events import one_line
from .acts import list_actions, read_steps
from .chains import Chain, find_chain
from .files import Ends, compare_end_files, read_ends
from .interface import Fields, View, json_bytes, split_field, view_name
from .outline import outline_of

MOST_ATTEMPTS: Final = 12
MOST_ROWS: Final = 8000
MOST_FORKS: Final = 12
_METRICS = ("wall_s", "prompt_tokens", "completion_tokens", "cost_usd")
_PASSED: Final = {"pass": True, "fail": False}
"""A doubtful pass is neither."""
EXPORTED: Final = 8
"""Attempts at a task that an export compares."""


class _AttemptPath(NamedTuple):
    """The actions of one attempt."""

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


def compare_attempts(root: Path, run: str, chains: Sequence[str]) -> dict[str, Any]:
    """Aligns several attempts of a run.

    Returns:
        `attempts`, each with its `divergence`: act and step at which its path leaves those of the other passing
        attempts, or null; `classes` of acts; `rows`, each with a cell an attempt: null, or act, step, line, class,
        state of the environment (position in `states`, or -1), and whether it failed; `tree`, `partings`, `files`.

    Raises:
        UserError: There are fewer than two, more than twelve, or one is not there.
        StoreError: The run cannot be read.
    """
    chosen = tuple(dict.fromkeys(chains))
    if not 2 <= len(chosen) <= MOST_ATTEMPTS:
        raise UserError(f"2 to {MOST_ATTEMPTS} attempts can be compared, not {len(chosen)}")
    with RunStore.open(root, run) as store, store.snapshot():
        size = [find_chain(store, chain) for chain in chosen]
        stands = current_verdicts_by_chain(store, [chain.row for chain in size])
        paths = [_read_path(chain, stands[chain.row.chain]) for chain in size]
    outcomes = [_PASSED.get(_trust(path).outcome_class) for path in paths]
    graph = quotient_graph([path.actions for path in paths], outcomes, [path.states for path in paths])
    tree = prefix_tree([path.states for path in paths], outcomes)
    digests: dict[str, int] = {}
    rows = [
        [
            _cell(path, at, graph.walks[number], digests)
            for number, (path, at) in enumerate(zip(paths, row, strict=True))
        ]
        for row in _align_walks(graph.walks)
    ]
    return {
        "attempts": [{**_attempt(path), "divergence": _divergence(tree, n, path)} for n, path in enumerate(paths)],
        "same_task": len({(path.row.task, path.row.task_digest) for path in paths}) == 1,
        "classes": [_class(node) for node in graph.nodes],
        "rows": rows,
        "states": list(digests),
        "tree": _tree(tree, graph),
        "partings": _partings(graph),
        "files": compare_end_files([path.ends for path in paths]),
    }


def _read_path(chain: Chain, stand: CurrentVerdicts) -> _AttemptPath:
    steps, left_out = read_steps(chain)
    outline = outline_of(chain)
    actions = tuple(list_actions(steps))
    digests = {step.index: step.state for step in steps if step.state is not None}
    ends = read_ends(chain, outline)
    return _AttemptPath(chain.row, stand, actions, states_of(actions), digests, outline.steps, ends, left_out)


def _align_walks(walks: Sequence[Sequence[int]]) -> list[list[int]]:
    """Aligns walks one after the other; returns rows of positions in each walk, -1 for none."""
    order = sorted(range(len(walks)), key=lambda each: -len(walks[each]))
    rows: list[tuple[int, list[int]]] = []
    for number in order:
        walk = np.asarray(walks[number], dtype=np.int64)
        size = np.asarray([each for each, _ in rows], dtype=np.int64)
        room = MOST_CELLS // max(len(walk), 1)
        pairs = align(size[:room, None] == walk[None, :]) if len(size) and len(walk) else ()
        rows = _merge_rows(rows, [int(each) for each in walk], number, len(walks), pairs)
    return [row for _, row in rows[:MOST_ROWS]]


def _merge_rows(
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


def _cell(path: _AttemptPath, at: int, walk: Sequence[int], digests: dict[str, int]) -> list[int] | None:
    if at < 0:
        return None
    action = path.actions[at]
    digest = path.digests.get(action.step)
    state = -1 if digest is None else digests.setdefault(digest, len(digests))
    failed = action.error or bool(action.exit_code)
    return [at, action.step, path.lines.get(action.step, -1), walk[at], state, int(failed)]


def _trust(path: _AttemptPath) -> Trust:
    return assess(path.stand, path.row)


def _attempt(path: _AttemptPath) -> dict[str, Any]:
    row, trust = path.row, _trust(path)
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
        "acts": len(path.actions),
        "left_out": path.left_out,
        "metrics": {name: row.metrics.get(name) for name in _METRICS},
    }


def _divergence(tree: PrefixTree, number: int, path: _AttemptPath) -> list[int] | None:
    """Returns act and step from which an attempt follows no other passing attempt; None if it does to its end."""
    act = divergence(tree, number)
    return None if act is None else [act, path.actions[act].step]


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
    """Returns the nodes as columns: parent, attempts, passed, failed, ended, and the first action there."""
    labels = dict.fromkeys(range(len(tree.nodes)), "")
    at = dict.fromkeys(range(len(tree.nodes)), (-1, -1))
    for number, walk in enumerate(tree.walks):
        for position, node in enumerate(walk):
            if not labels[node]:
                labels[node] = graph.nodes[graph.walks[number][position]].describe()
                at[node] = (number, position)
    kept = tree.nodes[:MOST_ROWS]
    return {
        "parents": [node.parent for node in kept],
        "attempts": [node.attempts for node in kept],
        "passed": [node.passed for node in kept],
        "failed": [node.failed for node in kept],
        "ended": [node.ended for node in kept],
        "told": [one_line(labels[n], 80) for n in range(len(kept))],
        "at": [at[n] for n in range(len(kept))],
        "walks": [list(walk) for walk in tree.walks],
    }


def _partings(graph: Quotient) -> list[dict[str, Any]]:
    """Returns the actions after which the next action predicts the outcome."""
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
    return json_bytes(compare_attempts(root, fields["run"], split_field(fields["chains"])))


def _names(root: Path, run: str) -> Iterator[str]:
    """Yields the first attempts at each task with several, named as the pages do."""
    with RunStore.open(root, run) as store:
        rows = [row for row in store.attempts() if row.agent != ADMISSION]
    by_task: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        by_task.setdefault((row.task, row.task_digest), []).append(row.chain)
    for chains in by_task.values():
        if len(chains) > 1:
            yield view_name("run", run, "compare", chains[:EXPORTED])


VIEWS = (View("run/{run}/compare/{chains+}", _compare, _names),)
