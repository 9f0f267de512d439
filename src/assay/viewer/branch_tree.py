"""The view of a search: the tree of states that an attempt visited, and the path that was judged.

In an attempt with branches a node is a step; its parent is the step whose state it acted in. A search in forks that
left no steps lists its nodes in its evidence. Records are untrusted: where a tree does not hold together, the view says
so and holds none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.judged_path import ADOPTED, SEARCH, branch_origins, judged_path, opens_branches
from assay.records import Trajectory

from .attempt_names import trees
from .chains import open_chain
from .interface import Fields, View, json_bytes

MOST_NODES = 3_000
_MOST_TEXT = 200


class _Node(msgspec.Struct, frozen=True, array_like=True):
    number: int
    parent: int
    act: str
    seen: str


def branch_tree(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the tree of an attempt.

    Returns:
        `nodes` as `[number, parent or -1, act, observation]`, `path` (the nodes of the judged path), `steps` (whether
        nodes are steps), `search` (what a search recorded of itself, or None), `problem` and `left_out`.
    """
    searched = next((item.data for item in reversed(trajectory.evidence) if item.kind == SEARCH), None)
    found: dict[str, Any] = {
        "nodes": [], "path": [], "steps": True, "search": _plain_values(searched), "problem": None, "left_out": 0
    }  # fmt: skip
    if not opens_branches(trajectory):
        if searched is not None and "tree" in searched:
            return found | _listed_tree(searched)
        return found | {"problem": "This attempt has no branches: its agent tried once."}
    try:
        origins = branch_origins(trajectory)
    except ValueError:
        return found | {"problem": "The record of the branches is damaged."}
    nodes = []
    for step in trajectory.steps[:MOST_NODES]:
        parent = origins.get(step.index, step.index - 1)
        if parent >= step.index:
            return found | {"problem": f"Step {step.index} says that it follows a later one."}
        acts = " ".join(f"{call.name} {call.arguments}" for call in step.tool_calls) or step.message or ""
        seen = " ".join(one.content for one in step.observations)
        nodes.append([step.index, parent, acts[:_MOST_TEXT], seen[-_MOST_TEXT:]])
    path = [step.index for step in judged_path(trajectory).steps]
    adopted = any(item.kind == ADOPTED for item in trajectory.evidence)
    problem = (
        None if path or not nodes or not adopted else "The adopted branch is the start, or does not hold together."
    )
    return found | {
        "nodes": nodes,
        "path": path,
        "problem": problem,
        "left_out": max(0, len(trajectory.steps) - MOST_NODES),
    }


def _listed_tree(searched: dict[str, Any]) -> dict[str, Any]:
    """Returns the tree that a search in forks listed."""
    try:
        listed = msgspec.convert(
            [searched.get("tree"), searched.get("path")], tuple[tuple[_Node, ...], tuple[int, ...]]
        )
    except msgspec.ValidationError:
        return {"steps": False, "problem": "The record of the search is damaged."}
    nodes, path = listed
    if any(node.number != at or not -1 <= node.parent < at for at, node in enumerate(nodes)):
        return {"steps": False, "problem": "The tree of the search does not hold together."}
    return {
        "nodes": [[one.number, one.parent, one.act[:_MOST_TEXT], one.seen[:_MOST_TEXT]] for one in nodes[:MOST_NODES]],
        "path": [number for number in path if 0 <= number < min(len(nodes), MOST_NODES)],
        "steps": False,
        "left_out": max(0, len(nodes) - MOST_NODES),
    }


def _plain_values(searched: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the plain values of the evidence of a search."""
    if searched is None:
        return None
    return {
        name: value[:_MOST_TEXT] if isinstance(value, str) else value
        for name, value in searched.items()
        if isinstance(value, str | int | float | bool)
    }


def _make(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(branch_tree(chain.store.trajectory(chain.row.chain)))


VIEWS = (View("run/{run}/attempt/{chain}/tree", _make, trees),)
