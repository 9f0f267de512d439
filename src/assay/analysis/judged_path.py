"""The judged part of an attempt with branches: the steps that led to the adopted state, and their model calls.

An agent that tries several times records the steps of all its branches in one chain. Evidence of kind `branch` says
whose state the next step acts in, and `branch_adopted` which branch was judged. Replays, forks and training rows take
the judged part alone: an outcome says nothing about the steps of a branch that was not handed in.
"""

from __future__ import annotations

import msgspec

from assay.records import Trajectory

BRANCH, ADOPTED = "branch", "branch_adopted"


class _Branch(msgspec.Struct, frozen=True):
    at: int
    after: int = -1


def has_branches(trajectory: Trajectory) -> bool:
    """Returns whether an attempt's steps are those of several branches."""
    return any(item.kind == BRANCH for item in trajectory.evidence)


def judged_path(trajectory: Trajectory) -> Trajectory:
    """Returns an attempt with the steps and calls of its adopted branch alone; the attempt itself if its agent opens no
    branches. Calls of a judge are left out.

    Steps keep their index. Of a record whose branches do not hold together, no step and no call is left.
    """
    if all(item.kind not in (BRANCH, ADOPTED) for item in trajectory.evidence):
        return trajectory
    try:
        origins = {one.at: one.after for one in _read(trajectory, BRANCH)}
        adopted = _read(trajectory, ADOPTED)
    except msgspec.ValidationError:
        return msgspec.structs.replace(trajectory, steps=(), calls=())
    by_index = {step.index: step for step in trajectory.steps}
    path, at = list[int](), adopted[-1].after if adopted else -1
    while at >= 0:
        before = origins.get(at, at - 1)
        if at not in by_index or before >= at:
            path, at = [], -1
        else:
            path.append(at)
            at = before
    steps = tuple(by_index[index] for index in reversed(path))
    parents = {call.id: call.parent for call in trajectory.calls}
    kept = set[str]()
    for call in (step.call for step in steps):
        while call is not None and call not in kept:
            kept.add(call)
            call = parents.get(call)
    calls = tuple(call for call in trajectory.calls if call.id in kept)
    return msgspec.structs.replace(trajectory, steps=steps, calls=calls)


def _read(trajectory: Trajectory, kind: str) -> list[_Branch]:
    return [msgspec.convert(item.data, _Branch) for item in trajectory.evidence if item.kind == kind]
