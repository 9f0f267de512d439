"""Puts the final state into the judge's sandbox, once the tests there have ended, for a run of the same tests in one
process with the code under test.

No code of the agent's has run in that sandbox, and none runs before the judge's report has left it. A state with links,
special files or many files is not put there: it needs a sandbox of its own.
"""

from __future__ import annotations

import asyncio

from assay.environments.interface import Change, PackedState, PacksStates, Snapshot, Workspace
from assay.errors import AssayError
from assay.verify.sanitise import CleanupPlan, Findings, caches_of, remove_paths

MOST_LISTED, LONGEST_PATH, DEEPEST = 4000, 1024, 64
MOST_CHANGES = 200
"""Files to write, folders, and paths to remove."""
MOST_BYTES = 8 << 20


async def place_state(judge: Workspace, state: Snapshot, undoing: CleanupPlan, findings: Findings) -> bool:
    """Changes the judge's files into those of a state without its planted changes. Returns False, with some of it done,
    where that is not possible."""
    changes = await asyncio.to_thread(_select_changes, judge, state, undoing, findings)
    if changes is None or not isinstance(undoing.backend, PacksStates):
        return False
    gone = [change.path for change in changes if change.kind == "removed"]
    gone += [planted.path for planted in findings.planted if planted.action == "remove"]
    gone += caches_of(undoing.changes)
    if len(gone) + len(changes) > MOST_CHANGES:
        return False
    files = {change.path for change in changes if change.kind != "removed" and change.type == "file"}
    try:
        packed = await undoing.backend.pack(state)
        contents = await asyncio.to_thread(_read_files, packed, files)
        await remove_paths(judge, gone)
        for change, data in contents:
            await judge.write(change.path, data, mode=(change.mode or 0o644) & 0o777)
    except (AssayError, OSError, ValueError):
        return False
    return True


def _select_changes(judge: Workspace, state: Snapshot, undoing: CleanupPlan, findings: Findings) -> list[Change] | None:
    """Returns what is not undone and not covered by the judge's mounts; None if it cannot be put there as it is."""
    paths = [change.path for change in state.changes[: MOST_LISTED + 1]]
    if len(paths) > MOST_LISTED or any(len(path) > LONGEST_PATH or path.count("/") > DEEPEST for path in paths):
        return None
    left_out = {planted.path for planted in findings.planted if planted.action != "note"}
    left_out.update(
        caches_of(undoing.changes), judge.spec.tmpfs, (mount.target.rstrip("/") for mount in judge.spec.mounts)
    )
    changes = [change for change in state.changes if left_out.isdisjoint(_places_of(change.path))]
    present = [change for change in changes if change.kind != "removed"]
    # A folder that is changed may stand where the image has a link, which a path below would follow.
    if not all(one.type == "file" or (one.type == "directory" and one.kind == "added") for one in present):
        return None
    return changes if sum(change.size or 0 for change in present) <= MOST_BYTES else None


def _places_of(path: str) -> list[str]:
    """Returns a path and the folders above it."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]


def _read_files(packed: PackedState, wanted: set[str]) -> list[tuple[Change, bytes]]:
    return [(change, handle.read(MOST_BYTES)) for change, handle in packed.files() if change.path in wanted]
