"""Puts the final state into the judge's sandbox, once the tests there have ended, for a run of the same tests in one
process with the code under test.

No code of the agent's has run in that sandbox, and none runs before the judge's report has left it. A state with links,
special files or many files is not put there: it needs a sandbox of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from assay.environments.interface import Change, PackedState, PacksStates, Snapshot, Workspace
from assay.errors import AssayError
from assay.verify.sanitise import HOME, CleanupPlan, Findings, caches_of, remove_paths

AGAIN = f"{HOME}/again.json"
"""Where the supervisor looks for the configuration of a second run."""
MOST_FILES = 200
MOST_BYTES = 8 << 20


async def prepare_again(
    judge: Workspace, state: Snapshot, undoing: CleanupPlan, findings: Findings, configuration: dict[str, Any]
) -> bool:
    """Changes the judge's files into those of a state without its planted changes, and asks for a run with a
    configuration, which begins when nothing can write to the worker's pipes any more. Returns False, with some of it
    done, where that is not possible."""
    try:
        if not await _place_state(judge, state, undoing, findings):
            return False
        await judge.write(AGAIN, json.dumps(configuration).encode())
    except (AssayError, OSError, ValueError):
        return False
    return True


async def _place_state(judge: Workspace, state: Snapshot, undoing: CleanupPlan, findings: Findings) -> bool:
    caches = caches_of(undoing.changes)
    undone = (*(planted.path for planted in findings.planted if planted.action != "note"), *caches)
    covered = (*(mount.target for mount in judge.spec.mounts), *judge.spec.tmpfs)
    changes = [change for change in state.changes if not _is_in(change.path, (*undone, *covered))]
    present = [change for change in changes if change.kind != "removed"]
    files = [change for change in present if change.type == "file"]
    if any(change.type not in ("file", "directory") for change in present) or len(files) > MOST_FILES:
        return False
    if sum(change.size or 0 for change in files) > MOST_BYTES or not isinstance(undoing.backend, PacksStates):
        return False
    packed = await undoing.backend.pack(state)
    contents = await asyncio.to_thread(_read_files, packed, {change.path for change in files})
    gone = [change.path for change in changes if change.kind == "removed"]
    gone += [planted.path for planted in findings.planted if planted.action == "remove"]
    await remove_paths(judge, [*gone, *caches])
    for change, data in contents:
        await judge.write(change.path, data, mode=(change.mode or 0o644) & 0o777)
    return True


def _read_files(packed: PackedState, wanted: set[str]) -> list[tuple[Change, bytes]]:
    return [(change, handle.read(MOST_BYTES)) for change, handle in packed.files() if change.path in wanted]


def _is_in(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
