"""The view of what an attempt's agent changed: files of the final state, rows of services, and the steps that wrote.

The final state is the manifest of the last snapshot. The text before is the task's own file of that name, where the
archived task holds exactly one; else it is unknown, and the page shows the final text alone. A step is listed where its
calls name a written file, or where the recorded digest of the environment differs from the one before; its files have
contents where the record determines them (`step_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.analysis.actions import removed_paths, written_paths
from assay.errors import StoreError
from assay.store import BlobStore

from .acts import list_actions, read_steps
from .chains import Chain, open_chain
from .files import MOST_BYTES, MOST_PATHS, EndPath, read_ends
from .interface import Fields, json_bytes
from .outline import Outline, outline_of
from .row_changes import list_row_changes
from .step_files import StepFiles, find_step_files
from .task_text import task_evidence

MOST_STEPS: Final = 2000
MOST_NAMED: Final = 20
"""Files of one step that are named."""
SOURCE: Final = "environment/"
"""Folder of a task with the files that its sandbox begins with."""


class _Listed(msgspec.Struct):
    path: str
    digest: str | None = None


_LISTING = msgspec.json.Decoder(list[_Listed])


def list_changes(chain: Chain, outline: Outline) -> dict[str, Any]:
    """Returns what changed.

    Returns:
        `known` (whether the final state is in the store), `files` (each with `path`, `kind`, `type`, `size`, `digest`,
        and of a file that the task brought `before` and `from`), `left_out`, `steps` (each with `step`, `line`, the
        `paths` and `tools` that its calls name, `differs`: whether the state's digest changed, `basis`: `states`,
        `calls` or None, `since`, `files` with `before_text` and `text` where a content is not in the store, and
        `files_left_out`), `steps_left_out`, and `services`: the changed rows (`list_row_changes`), or None without
        services.
    """
    ends = read_ends(chain, outline)
    originals = _task_files(chain, outline) if ends else {}
    paths = sorted(ends or {})
    steps, left_out = _writing_steps(chain, outline, lambda path: _original(path, originals))
    return {
        "known": ends is not None,
        "files": [_file((ends or {})[path], originals) for path in paths[:MOST_PATHS]],
        "left_out": max(len(paths) - MOST_PATHS, 0),
        "steps": steps[:MOST_STEPS],
        "steps_left_out": left_out + max(len(steps) - MOST_STEPS, 0),
        "services": list_row_changes(chain, outline),
    }


def _file(entry: EndPath, originals: Mapping[str, Sequence[_Listed]]) -> dict[str, Any]:
    found = {"path": entry.path[:1000], "kind": entry.kind, "type": entry.type, "size": entry.size}
    found["digest"] = entry.digest
    original = None if entry.kind == "added" else _original(entry.path, originals)
    return found if original is None else {**found, "before": original.digest, "from": original.path[:1000]}


def _original(path: str, originals: Mapping[str, Sequence[_Listed]]) -> _Listed | None:
    """Returns the task's one file with the path's name below the working directory; None for none or several."""
    parts = path.strip("/").split("/")
    inside = "/".join(parts[1:]) if len(parts) > 1 else parts[0]
    found = [one for one in originals.get(parts[-1], ()) if one.path.endswith("/" + inside)]
    return found[0] if len(found) == 1 else None


def _task_files(chain: Chain, outline: Outline) -> dict[str, list[_Listed]]:
    """Returns the files of the archived task's environment by name."""
    listing = task_evidence(chain, outline).get("listing")
    found: dict[str, list[_Listed]] = {}
    for one in _read_listing(chain.store.blobs, listing) if isinstance(listing, str) else ():
        if one.digest is not None and one.path.startswith(SOURCE):
            found.setdefault(one.path.rpartition("/")[2], []).append(one)
    return found


def _read_listing(blobs: BlobStore, digest: str) -> Sequence[_Listed]:
    try:
        return _LISTING.decode(blobs.get(digest, limit=MOST_BYTES))
    except (StoreError, msgspec.DecodeError, ValueError, RecursionError):
        return ()


def _writing_steps(
    chain: Chain, outline: Outline, original: Callable[[str], _Listed | None]
) -> tuple[list[dict[str, Any]], int]:
    steps, left_out = read_steps(chain)
    actions = list(list_actions(steps))
    named: dict[int, dict[str, None]] = {}
    for action in actions:
        written = (*written_paths(action), *removed_paths(action))
        named.setdefault(action.step, {}).update(dict.fromkeys(path[:500] for path in written))
    known = find_step_files(chain, outline, steps, actions, original)
    found: list[dict[str, Any]] = []
    before: str | None = None
    for step in steps:
        paths = list(named.get(step.index, ()))[:MOST_NAMED]
        files = known.get(step.index)
        differs = step.state is not None and before is not None and step.state != before
        before = step.state or before
        if paths or differs or files is not None:
            listed = {"step": step.index, "line": outline.steps.get(step.index, -1), "paths": paths, "differs": differs}
            tools = list(dict.fromkeys(call.name[:100] for call in step.tool_calls))[:MOST_NAMED]
            found.append(listed | {"tools": tools} | _files_json(files))
    return found, left_out


def _files_json(files: StepFiles | None) -> dict[str, Any]:
    if files is None:
        return {"basis": None, "since": None, "files": [], "files_left_out": 0}
    return {"basis": files.basis, "since": files.since, "files": files.files, "files_left_out": files.left_out}


def make_changes(root: Path, fields: Fields) -> bytes:
    """Returns the view of an attempt's changes."""
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        return json_bytes(list_changes(chain, outline_of(chain)))


def changed_blobs(found: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields the blobs that the page of changes may load, with their sizes as far as known."""
    for one in (*found["files"], *(file for step in found["steps"] for file in step["files"])):
        for digest in (one.get("digest"), one.get("before")):
            if isinstance(digest, str) and one["type"] == "file":
                yield digest, one["size"] or 1
