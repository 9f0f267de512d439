"""Finds the files that each step of an attempt changed, as far as the record determines them.

The store holds contents of snapshots (at the end of an attempt, and of each step of a task with several), and of every
step only a digest of the whole state. Two facts determine more than that, and each is checked by a digest:

- A state consists of versions of files. Where a combination of known versions (at the start, in a snapshot, computed
  from a call's arguments) has the digest that a step recorded, it is that step's state.
- Where the calls that wrote a file, applied in turn, give the stored final file byte for byte, they give its texts
  between them.

Other steps get no contents: nothing is guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.analysis.actions import removed_paths, written_paths
from assay.analysis.interface import Action
from assay.errors import StoreError
from assay.records import EvidenceAdded, Step, digest_bytes, digest_record
from assay.store import BlobStore
from assay.store.chain import decode_event

from .chains import Chain
from .outline import Outline
from .written_texts import LONGEST_FILE, resolve_path, written_text

MOST_BYTES: Final = 16 << 20
MOST_SNAPSHOTS: Final = 20
MOST_COMBINATIONS: Final = 2048
MOST_WORK: Final = 100_000
"""Paths that are digested while states are sought, over all combinations."""
MOST_STEP_FILES: Final = 60
MOST_TEXT: Final = 2 << 20
"""Characters of computed texts in one view."""

Entry = dict[str, Any]
"""A path of a manifest, as recorded."""
_ENTRIES = msgspec.json.Decoder(list[Entry])


class FileVersion(NamedTuple):
    """A file in a state; a path without one is as it was at the start."""

    entry: Entry
    text: str | None = None
    """The content, where it is not in the store."""


State = Mapping[str, FileVersion]


class _Snapshots(NamedTuple):
    image: str
    states: dict[str, State]
    """By digest, in the order of the record."""


class _Write(NamedTuple):
    """A file's text after an action."""

    step: int
    text: str | None
    is_whole: bool
    before: str | None


class StepFiles(NamedTuple):
    """The files that a step changed."""

    basis: str
    """`states`: the states before and after are known; `calls`: computed from the calls up to the stored final file."""
    files: list[dict[str, Any]]
    left_out: int = 0
    since: int | None = None
    """The step whose state the files are compared with; -1 for the start."""


def find_step_files(
    chain: Chain, outline: Outline, steps: Sequence[Step], actions: Sequence[Action], original: Callable[[str], Any]
) -> dict[int, StepFiles]:
    """Returns the changed files of the steps where they are known, by the step's index.

    Args:
        chain: The attempt.
        outline: Its outline.
        steps: Its steps, as `read_steps` gives them.
        actions: Their actions.
        original: Returns the task's own file of a changed path (`path`, `digest`), or None.
    """
    snapshots = _read_snapshots(chain, outline)
    if snapshots is None:
        return {}
    final = list(snapshots.states.values())[-1]
    writes = _trace_writes(actions, final, lambda path: _original_text(chain.store.blobs, original(path)))
    room = _Room()
    found = _by_calls(_verified(writes, final), final, room)
    known = _find_states(snapshots, steps, writes)
    found.update(_by_states(steps, known, digest_record({"image": snapshots.image, "changes": []}), original, room))
    return found


class _Room:
    """Remaining budget for computed texts."""

    def __init__(self) -> None:
        self._left = MOST_TEXT

    def take(self, text: str | None) -> str | None:
        if text is None or len(text) > self._left:
            return None
        self._left -= len(text)
        return text


def _read_snapshots(chain: Chain, outline: Outline) -> _Snapshots | None:
    """Reads the stored states; None without one."""
    lines = [n for n, kind in enumerate(outline.kinds) if kind == "e" and outline.heads[n].startswith("snapshot")]
    image, states = "", dict[str, State]()
    for line in lines[-MOST_SNAPSHOTS:]:
        body = decode_event(chain.link(outline.events[line])).body
        data = body.evidence.data if isinstance(body, EvidenceAdded) else {}
        entries = _read_entries(chain.store.blobs, data.get("manifest"))
        digest = data.get("digest")
        if entries is None or not isinstance(digest, str):
            continue
        image = str(data.get("image", ""))
        states.pop(digest, None)  # the last place counts
        states[digest] = {entry["path"]: FileVersion(entry) for entry in entries}
    return _Snapshots(image, states) if states else None


def _read_entries(blobs: BlobStore, digest: object) -> list[Entry] | None:
    try:
        found = _ENTRIES.decode(blobs.get(digest, limit=MOST_BYTES)) if isinstance(digest, str) else None
    except (StoreError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if found is not None and all(map(_is_entry, found)) else None


def _is_entry(one: Entry) -> bool:
    """Returns whether the fields of a path have the types of a manifest."""
    texts = (one.get("path"), one.get("kind", ""), one.get("type", ""), one.get("digest", ""))
    return all(isinstance(text, str) for text in texts)


def _original_text(blobs: BlobStore, listed: Any) -> str | None:
    """Returns the text of the task's own file; None where it is unknown, long or not UTF-8."""
    try:
        return None if listed is None else blobs.get(listed.digest, limit=LONGEST_FILE).decode()
    except (StoreError, ValueError):
        return None


def _trace_writes(
    actions: Sequence[Action], final: State, start: Callable[[str], str | None]
) -> dict[str, list[_Write]]:
    """Returns the texts of each final file after each action that writes it, as far as the calls determine them."""
    texts: dict[str, str | None] = {}
    found: dict[str, list[_Write]] = {}
    for action in actions:
        if action.error or action.exit_code:
            continue
        removed = removed_paths(action)
        for named in dict.fromkeys((*written_paths(action), *removed)):
            path = resolve_path(named, final)
            if path is None:
                continue
            if path not in texts:
                texts[path] = "" if final[path].entry.get("kind") == "added" else start(path)
            written = written_text(action, named, texts[path])
            text = None if named in removed else written.text
            found.setdefault(path, []).append(_Write(action.step, text, written.is_whole, texts[path]))
            texts[path] = text
    return found


def _verified(writes: Mapping[str, list[_Write]], final: State) -> dict[str, list[_Write]]:
    """Returns the last writes of each file that lead to its stored content; the first of them may be a whole write."""
    found: dict[str, list[_Write]] = {}
    for path, made in writes.items():
        last = made[-1]
        if last.text is None or digest_bytes(last.text.encode()) != final[path].entry.get("digest"):
            continue
        chosen = list(itertools.takewhile(lambda one: one.text is not None and not one.is_whole, reversed(made)))
        if len(chosen) < len(made) and made[-len(chosen) - 1].is_whole:
            chosen.append(made[-len(chosen) - 1])
        found[path] = [one for one in reversed(chosen) if one.before is not None]
    return found


def _by_calls(writes: Mapping[str, list[_Write]], final: State, room: _Room) -> dict[int, StepFiles]:
    files: dict[int, dict[str, tuple[_Write, _Write]]] = {}
    for path, made in writes.items():
        for one in made:
            first = files.setdefault(one.step, {}).get(path, (one, one))[0]
            files[one.step][path] = (first, one)
    found = {}
    for step, changed in files.items():
        listed = []
        for path, (first, last) in sorted(changed.items())[:MOST_STEP_FILES]:
            before, text = room.take(first.before), room.take(last.text)
            if before is None or text is None:
                continue
            is_new = before == "" and final[path].entry.get("kind") == "added"
            entry = {**final[path].entry, "size": len((last.text or "").encode())}
            listed.append(_file(entry, "added" if is_new else "changed") | {"text": text, "before_text": before})
        if listed:
            found[step] = StepFiles("calls", listed, len(changed) - len(listed))
    return found


def _find_states(snapshots: _Snapshots, steps: Sequence[Step], writes: Mapping[str, list[_Write]]) -> dict[str, State]:
    """Returns the states, by digest, that are known: those stored, the start, and combinations of known versions."""
    final_digest, final = list(snapshots.states.items())[-1]
    known: dict[str, State] = {_digest(snapshots.image, {}): {}, **snapshots.states}
    wanted = {step.state for step in steps if step.state is not None} - known.keys()
    if not wanted or _digest(snapshots.image, final) != final_digest:
        return known
    versions = _versions(snapshots, final, writes)
    most = min(MOST_COMBINATIONS, MOST_WORK // max(len(versions), 1))
    candidates = itertools.chain(
        _expected(steps, final, writes),
        _combinations(versions, writes),
    )
    for state in itertools.islice(candidates, most):
        digest = _digest(snapshots.image, state)
        if digest in wanted:
            known[digest] = state
            wanted.discard(digest)
            if not wanted:
                break
    return known


def _expected(steps: Sequence[Step], final: State, writes: Mapping[str, list[_Write]]) -> Iterator[State]:
    """Yields the states after the steps if only the named writes happened, without and with all other paths."""
    rest = {path: version for path, version in final.items() if path not in writes}
    for step in steps:
        if step.state is None:
            continue
        named = {path: found for path in writes if (found := _version_after(step.index, path, final, writes[path]))}
        yield named
        yield {**rest, **named}


def _version_after(step: int, path: str, final: State, made: Sequence[_Write]) -> FileVersion | None:
    done = [one for one in made if one.step <= step]
    if not done:
        return None
    text = done[-1].text
    return final[path] if text is None or len(done) == len(made) else _computed(final[path], text)


def _computed(final: FileVersion, text: str) -> FileVersion:
    """Returns a version of a file with a computed text; type and mode are those at the end."""
    data = text.encode()
    return FileVersion({**final.entry, "size": len(data), "digest": digest_bytes(data)}, text)


def _digest(image: str, state: State) -> str:
    """Returns the digest that the environment records for a state."""
    return digest_record({"image": image, "changes": [state[path].entry for path in sorted(state)]})


def _versions(
    snapshots: _Snapshots, final: State, writes: Mapping[str, list[_Write]]
) -> dict[str, list[FileVersion | None]]:
    """Returns the known versions of each path: that at the start (None), of snapshots, and computed ones."""
    versions: dict[str, list[FileVersion | None]] = {path: [None, version] for path, version in final.items()}
    for state in list(snapshots.states.values())[:-1]:
        for path, version in state.items():
            versions.setdefault(path, [None]).append(version)
    for path, made in writes.items():
        versions[path] += [_computed(final[path], one.text) for one in made if one.text is not None]
    return versions


def _combinations(
    versions: Mapping[str, list[FileVersion | None]], writes: Mapping[str, list[_Write]]
) -> Iterator[State]:
    """Yields the combinations of known versions; where they are many, paths that no call names change together."""
    alone = [(path,) for path in versions if path in writes]
    rest = tuple(path for path in versions if path not in writes)
    apart = [*alone, *((path,) for path in rest)]
    chosen = apart if _count(apart, versions) <= MOST_COMBINATIONS else [*alone, *([rest] if rest else [])]
    for picked in itertools.product(*(_choices(group, versions) for group in chosen)):
        yield {path: version for part in picked for path, version in part.items() if version is not None}


def _count(groups: Sequence[tuple[str, ...]], versions: Mapping[str, list[FileVersion | None]]) -> int:
    total = 1
    for group in groups:
        total *= len(_choices(group, versions))
        if total > MOST_COMBINATIONS:
            break
    return total


def _choices(
    group: tuple[str, ...], versions: Mapping[str, list[FileVersion | None]]
) -> list[dict[str, FileVersion | None]]:
    """Returns the versions of a group of paths: of one path each known one, of several the first and the last."""
    if len(group) > 1:
        return [{path: versions[path][at] for path in group} for at in (0, 1)]
    (path,) = group
    unique = {None if one is None else one.entry.get("digest", ""): one for one in reversed(versions[path])}
    return [{path: one} for one in reversed(unique.values())]


def _by_states(
    steps: Sequence[Step],
    known: Mapping[str, State],
    start: str,
    original: Callable[[str], Any],
    room: _Room,
) -> dict[int, StepFiles]:
    found: dict[int, StepFiles] = {}
    before, since = start, -1
    for step in steps:
        if step.state is None:
            continue
        if step.state != before and before in known and step.state in known:
            found[step.index] = _compare(known[before], known[step.state], original, room, since)
        before, since = step.state, step.index
    return found


def _compare(before: State, after: State, original: Callable[[str], Any], room: _Room, since: int) -> StepFiles:
    """Returns the files that differ between two states."""
    files = []
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        entry = (other or one or FileVersion({})).entry
        if (one and one.entry) == (other and other.entry) or entry.get("type") == "directory":
            continue
        files.append((path, one, other))
    listed = [_changed_file(path, one, other, original, room) for path, one, other in files[:MOST_STEP_FILES]]
    return StepFiles("states", listed, len(files) - len(listed), since)


def _changed_file(
    path: str, one: FileVersion | None, other: FileVersion | None, original: Callable[[str], Any], room: _Room
) -> dict[str, Any]:
    """Returns a file's change between two versions; None stands for the file at the start."""
    first = (one or other or FileVersion({})).entry.get("kind")
    existed = one.entry.get("kind") != "removed" if one else first != "added"
    exists = other.entry.get("kind") != "removed" if other else first != "added"
    kind = "changed" if existed and exists else "added" if exists else "removed"
    file = _file((other or one or FileVersion({})).entry, kind)
    listed = original(path) if (one is None and existed) or (other is None and exists) else None
    if existed:
        file |= _content(one, listed, "before", room)
    if exists:
        file |= _content(other, listed, "digest", room)
    return file


def _content(version: FileVersion | None, listed: Any, name: str, room: _Room) -> dict[str, Any]:
    """Returns a content as the address of a blob or as text; empty where it is unknown."""
    if version is None:
        return {} if listed is None else {name: listed.digest, "from": listed.path[:1000]}
    if version.text is None:
        return {name: version.entry.get("digest")}
    text = room.take(version.text)
    return {} if text is None else {"before_text" if name == "before" else "text": text}


def _file(entry: Entry, kind: str) -> dict[str, Any]:
    size = entry.get("size")
    return {
        "path": str(entry.get("path"))[:1000],
        "kind": kind,
        "type": str(entry.get("type", "file"))[:20],
        "size": size if isinstance(size, int) and kind != "removed" else None,
    }
