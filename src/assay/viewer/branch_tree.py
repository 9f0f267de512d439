"""The view of an attempt's branches: the tree of states that a search visited, and the path that was judged.

A node is a step; its parent is the step whose state it acted in. Records are untrusted: where the branches do not hold
together, the view says so and holds no tree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.analysis.judged_path import ADOPTED, branch_origins, judged_path, opens_branches
from assay.records import Trajectory

from .attempt_names import trees
from .chains import open_chain
from .interface import Fields, View, json_bytes

MOST_NODES = 3_000
_MOST_TEXT = 200


def branch_tree(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the tree of an attempt.

    Returns:
        `nodes` as `[step, parent or -1, act, observation]`, `path` (the steps of the judged path), `search` (what a
        search recorded of itself, or None), `problem` and `left_out`.
    """
    found: dict[str, Any] = {"nodes": [], "path": [], "search": _search_of(trajectory), "problem": None, "left_out": 0}
    if not opens_branches(trajectory):
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


def _search_of(trajectory: Trajectory) -> dict[str, Any] | None:
    """Returns the plain values of the last evidence of kind `search`."""
    for item in reversed(trajectory.evidence):
        if item.kind == "search":
            return {
                name: value[:_MOST_TEXT] if isinstance(value, str) else value
                for name, value in item.data.items()
                if isinstance(value, str | int | float | bool)
            }
    return None


def _make(root: Path, fields: Fields) -> bytes:
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(branch_tree(chain.store.trajectory(chain.row.chain)))


VIEWS = (View("run/{run}/attempt/{chain}/tree", _make, trees),)
