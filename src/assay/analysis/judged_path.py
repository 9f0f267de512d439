"""The judged part of an attempt with branches: the steps that led to the adopted state, and their model calls.

An agent that tries several times records the steps of all its branches in one chain. Evidence of kind `branch` says
whose state the next step acts in, and `branch_adopted` which branch was judged. Replays, forks and training rows take
the judged part alone: an outcome says nothing about the steps of a branch that was not handed in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from assay.records import Step, Trajectory

BRANCH, ADOPTED = "branch", "branch_adopted"
SEARCH = "search"
"""Evidence of what a search did; of a search in forks that left no steps, it lists the tree."""


class _Branch(msgspec.Struct, frozen=True):
    at: int
    after: int = -1


def has_branches(trajectory: Trajectory) -> bool:
    """Returns whether an attempt's steps are those of several branches."""
    return any(item.kind == BRANCH for item in trajectory.evidence)


def opens_branches(trajectory: Trajectory) -> bool:
    """Returns whether an attempt's agent tries several times, even if one try was enough."""
    return any(item.kind in (BRANCH, ADOPTED) for item in trajectory.evidence)


def judged_path(trajectory: Trajectory) -> Trajectory:
    """Returns an attempt with the steps and calls of its adopted branch alone; the attempt itself if its agent opens no
    branches. Calls of a judge are left out.

    Steps keep their index. Of a record whose branches do not hold together, no step and no call is left.
    """
    if not opens_branches(trajectory):
        return trajectory
    try:
        adopted = _read(trajectory, ADOPTED)
        path = _path(trajectory, branch_origins(trajectory), adopted[-1].after if adopted else -1)
    except ValueError:
        path = ()
    parents = {call.id: call.parent for call in trajectory.calls}
    kept = set[str]()
    for call in (step.call for step in path):
        while call is not None and call not in kept:
            kept.add(call)
            call = parents.get(call)
    calls = tuple(call for call in trajectory.calls if call.id in kept)
    return msgspec.structs.replace(trajectory, steps=path, calls=calls)


def dropped_paths(trajectory: Trajectory) -> tuple[tuple[Step, ...], ...]:
    """Returns, for each branch of an attempt that was not judged to its last step, the steps from the beginning to that
    step. Raises `ValueError` if the branches of the record do not hold together."""
    if not opens_branches(trajectory):
        return ()
    adopted = _read(trajectory, ADOPTED)
    origins = branch_origins(trajectory)
    continued = {origins.get(step.index, step.index - 1) for step in trajectory.steps}
    judged = {step.index for step in _path(trajectory, origins, adopted[-1].after if adopted else -1)}
    last = (step.index for step in trajectory.steps if step.index not in continued | judged)
    return tuple(_path(trajectory, origins, at) for at in last)


def _path(trajectory: Trajectory, origins: Mapping[int, int], last: int) -> tuple[Step, ...]:
    """Returns the steps that led to the state after a step, which is -1 for the beginning."""
    by_index = {step.index: step for step in trajectory.steps}
    path, at = list[Step](), last
    while at >= 0:
        before = origins.get(at, at - 1)
        if at not in by_index or before >= at:
            raise ValueError(f"step {at} follows no step of the record")
        path.append(by_index[at])
        at = before
    return tuple(reversed(path))


def branch_origins(trajectory: Trajectory) -> dict[int, int]:
    """Returns the step in whose state a branch goes on, by the branch's next step; every other step follows the one
    before it. Raises `ValueError` if the record of a branch is damaged."""
    return {one.at: one.after for one in _read(trajectory, BRANCH)}


def _read(trajectory: Trajectory, kind: str) -> list[_Branch]:
    try:
        return [msgspec.convert(item.data, _Branch) for item in trajectory.evidence if item.kind == kind]
    except msgspec.ValidationError as exc:
        raise ValueError(f"evidence {kind!r}: {exc}") from exc
