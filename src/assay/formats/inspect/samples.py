"""Opens Inspect's logs, archives and JSON alike, and gives their samples one at a time, in parts.

A sample is read whole where it is small; of a large one each array is streamed. Three shapes are known: one member
(or array item) a sample; pools of messages and raw requests that events refer to; samples in chunks, one folder each.
Invariant: content is in memory once, however often its events reference it (`attachment://`, ranges of a pool), and no
more than `MOST_EXPANDED` characters replace references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.interface import ImportContext, ReadProblem
from assay.formats.shared.archives import Member, archive_kind, open_archive
from assay.formats.shared.json_stream import WarnFunction, json_fields, json_items, load_document, loads, read_head
from assay.formats.shared.sniffing import sniff

WHOLE = 96 << 20
"""Samples up to this many bytes are decoded at once."""
LARGEST_ITEM = 512 << 20
"""Largest sample of a JSON log, in bytes; it cannot be streamed."""
MOST_EXPANDED = 1 << 30
SEQUENCES = ("messages", "events", "attachments", "events_data", "message_pool", "call_pool", "transcript")
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json")
_CHUNK = re.compile(r"samples/.+_epoch_\d+/(?P<sequence>[a-z]+)/(?P<start>\d{1,12})\.json")
_NAMES = (b"header.json", b"_journal/start.json")
_REFERENCE = "attachment://"


class Log(NamedTuple):
    """A log's header and samples."""

    header: dict[str, Any]
    samples: Iterator[Sample]


class Sample(NamedTuple):
    """A sample in parts. Each call of `messages` and `events` starts anew."""

    place: str
    """A member's name, or `samples[3]`."""
    fields: dict[str, Any]
    """All but the sequences."""
    attachments: Attachments
    messages: Callable[[], Iterable[Any]]
    """The final conversation, references resolved."""
    events: Callable[[], Iterable[Any]]
    """The events, references resolved but for those to pools."""
    pool: Sequence[Any]
    """Messages that events reference by range (`input_refs`)."""
    requests: Sequence[Any]
    """Messages of raw requests that events reference by range (`call_refs`)."""


class Attachments:
    """Shared content of a sample, which replaces references to it."""

    def __init__(self, texts: dict[str, str], bad: WarnFunction) -> None:
        self._texts = texts
        self._bad = bad
        self._left = MOST_EXPANDED

    def resolve(self, value: Any) -> Any:
        """Returns JSON with references replaced by content; unknown references stay."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_REFERENCE) else value
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        return [self.resolve(item) for item in value] if isinstance(value, list) else value

    def _text(self, reference: str) -> str:
        text = self._texts.get(reference.removeprefix(_REFERENCE))
        if text is None:
            return reference
        if len(text) > self._left:
            if self._left >= 0:
                self._bad("attachments", f"more than {MOST_EXPANDED:,} characters are referred to; the rest stays away")
            self._left = -1
            return reference
        self._left -= len(text)
        return text

    def decode(self, item: Any) -> Any:
        """Returns an item, decoded if needed, with references resolved."""
        if isinstance(item, msgspec.Raw):
            raw = bytes(item)
            value = loads(raw)
            return self.resolve(value) if b"attachment:" in raw else value
        return self.resolve(item)


class _Pool(Sequence[Any]):
    """A sequence that decodes its items on first access."""

    def __init__(self, items: list[Any], attachments: Attachments) -> None:
        self._items, self._attachments, self._done = items, attachments, set[int]()

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if index not in self._done:
            self._items[index] = self._attachments.decode(self._items[index])
            self._done.add(index)
        return self._items[index]


def is_inspect_log(path: Path) -> bool:
    """Returns whether a file's content is an Inspect log, or a list of its events."""
    start = read_head(path, 4096)
    if archive_kind(start) == "zip":
        return any(name in start or name in _tail(path) for name in _NAMES)
    seen = sniff(path)
    if seen.shape != "object":
        return False
    if seen.has("eval.task") and (seen.has("eval.model") or seen.has("eval.created")):
        return True
    return seen.has("description", "expected", "events") and not seen.has("messages")


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - (256 << 10)))
            return stream.read()
    except OSError:
        return b""


@contextmanager
def open_log(path: Path, reading: ImportContext) -> Iterator[Log]:
    """Opens a log. Raises `UserError` where it is invalid, or its archive is refused."""
    if archive_kind(read_head(path, 4096)) == "zip":
        with open_archive(path) as members:
            yield _open_archive_log(path, members, reading)
        return

    def bad(place: str, problem: str) -> None:
        reading.report_problem(ReadProblem(path.name, place, problem))

    header = json_fields(path, ("samples",), bad, largest=LARGEST_ITEM)
    if not isinstance(header.get("eval"), dict):
        what = "events and nothing else: no evaluation, sample, message or score" if "events" in header else "no log"
        raise UserError(f"{path.name} holds {what}")
    items = json_items(path, ("samples",), bad, largest=LARGEST_ITEM)
    yield Log(header, _iter_samples(items, bad))


def _iter_samples(items: Iterable[tuple[int | str, Any]], bad: WarnFunction) -> Iterator[Sample]:
    for position, value in items:
        place = f"samples[{position}]"
        if isinstance(value, dict):
            yield _in_memory(place, value, bad)
        else:
            bad(place, f"expected a sample, found {type(value).__name__}")


def _open_archive_log(path: Path, members: Sequence[Member], reading: ImportContext) -> Log:
    by_name = {member.name: member for member in members}

    def bad_in(name: str) -> WarnFunction:
        return lambda place, problem: reading.report_problem(ReadProblem(f"{path.name}!{name}", place, problem))

    return Log(_header(path, by_name), _members(by_name, bad_in))


def _document(member: Member) -> Any:
    return load_document(member, largest=min(LARGEST_ITEM, member.size))  # as much memory is set aside as may be read


def _header(path: Path, members: dict[str, Member]) -> dict[str, Any]:
    """Returns `header.json`; of an unfinished run, the start of its journal."""
    if "header.json" in members:
        header = _document(members["header.json"])
        if "reductions.json" in members and isinstance(header, dict):
            header["reductions"] = _document(members["reductions.json"])
    elif "_journal/start.json" in members:
        header = _document(members["_journal/start.json"])
        header = {**header, "status": "started"} if isinstance(header, dict) else header
    else:
        raise UserError(f"{path.name} is not an Inspect log: it has neither header.json nor _journal/start.json")
    if not isinstance(header, dict) or not isinstance(header.get("eval"), dict):
        raise UserError(f"{path.name}: its header has no `eval`")
    return header


def _members(members: dict[str, Member], bad_in: Callable[[str], WarnFunction]) -> Iterator[Sample]:
    for name, member in members.items():
        folder = name.removesuffix("/sample.json")
        try:
            if _SAMPLE.fullmatch(name):
                bad = bad_in(name)
                yield _stream_member(member, bad) if member.size > WHOLE else _decode_member(member, bad)
            elif folder != name and folder.startswith("samples/"):
                yield _read_chunks(folder, members, bad_in(name))
        except (UserError, msgspec.MsgspecError, ValueError) as exc:
            bad_in(name)("", str(exc))


def _decode_member(member: Member, bad: WarnFunction) -> Sample:
    with member.open() as stream:
        raw = stream.read()
    try:
        parts: dict[str, Any] = dict(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        whole = loads(raw)
        if not isinstance(whole, dict):
            raise UserError(f"expected a sample, found {type(whole).__name__}") from None
        parts = whole
    return _in_memory(member.name, parts, bad)


def _in_memory(member_name: str, parts: dict[str, Any], bad: WarnFunction) -> Sample:
    """Returns a sample whose parts are values, or bytes of values."""
    older = _plain(parts.get("transcript"))
    older = older if isinstance(older, dict) else {}
    given = _plain(parts.get("attachments", older.get("content")))
    attachments = Attachments(_texts(given.items() if isinstance(given, dict) else ()), bad)
    data = _plain_dict(parts.get("events_data"))
    pool = _items(parts.get("message_pool", data.get("messages")))
    requests = _items(parts.get("call_pool", data.get("calls")))
    messages, events = _items(parts.get("messages")), _items(parts.get("events", older.get("events")))
    fields = {key: _plain(value) for key, value in parts.items() if key not in SEQUENCES}
    return Sample(
        member_name,
        attachments.resolve(fields),
        attachments,
        lambda: map(attachments.decode, messages),
        lambda: map(attachments.decode, events),
        _Pool(pool, attachments),
        _Pool(requests, attachments),
    )


def _plain(value: Any) -> Any:
    return loads(bytes(value)) if isinstance(value, msgspec.Raw) else value


def _plain_dict(value: Any) -> dict[str, Any]:
    """Returns the entries of an object, undecoded where the object is."""
    if isinstance(value, msgspec.Raw):
        try:
            return dict(msgspec.json.decode(value, type=dict[str, msgspec.Raw]))
        except msgspec.MsgspecError:
            return {}
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    """Returns the items of an array, undecoded where the array is; empty for other values."""
    if isinstance(value, msgspec.Raw):
        try:
            return list(msgspec.json.decode(value, type=list[msgspec.Raw]))
        except msgspec.MsgspecError:
            return []
    return value if isinstance(value, list) else []


def _texts(items: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    return {str(name): text for name, text in items if isinstance(text, str)}


def _stream_member(member: Member, bad: WarnFunction) -> Sample:
    """Returns a sample of any size, whose arrays are streamed."""
    fields = json_fields(member, SEQUENCES, bad)
    attachments = Attachments(_texts(json_items(member, ("attachments",), bad)), bad)
    pool = [v for _, v in json_items(member, ("events_data", "messages"), bad)]
    pool = pool or [v for _, v in json_items(member, ("message_pool",), bad)]
    requests = [v for _, v in json_items(member, ("events_data", "calls"), bad)]
    return Sample(
        member.name,
        attachments.resolve(fields),
        attachments,
        lambda: (attachments.resolve(v) for _, v in json_items(member, ("messages",), bad)),
        lambda: (attachments.resolve(v) for _, v in json_items(member, ("events",), bad)),
        _Pool(pool, attachments),
        _Pool(requests, attachments),
    )


def _read_chunks(folder: str, members: dict[str, Member], bad: WarnFunction) -> Sample:
    """Returns a sample in chunks: a shell, and sequences whose members are named by their first index."""
    shell = _document(members[f"{folder}/sample.json"])
    if not isinstance(shell, dict):
        raise UserError("expected a sample in sample.json")
    if f"{folder}/metadata.json" in members:
        shell["metadata"] = _document(members[f"{folder}/metadata.json"])
    chunks: dict[str, list[tuple[int, Member]]] = {}
    for name, member in members.items():
        if name.startswith(folder + "/") and (found := _CHUNK.fullmatch(name)):
            chunks.setdefault(found["sequence"], []).append((int(found["start"]), member))

    def sequence(which: str) -> Iterator[Any]:
        for _, member in sorted(chunks.get(which, ()), key=lambda chunk: chunk[0]):
            yield from (value for _, value in json_items(member, (), bad))

    attachments = Attachments(_texts((str(i), v) for i, v in enumerate(sequence("attachments"))), bad)
    pool = _Pool(list(sequence("messages")), attachments)
    said = ranges(shell.pop("message_refs", None), len(pool))
    return Sample(
        folder,
        attachments.resolve(shell),
        attachments,
        lambda: (pool[i] for i in said),
        lambda: (attachments.resolve(v) for v in sequence("events")),
        pool,
        _Pool(list(sequence("calls")), attachments),
    )


def pairs(refs: Any, length: int) -> Iterator[tuple[int, int]]:
    """Yields the valid `[start, end)` pairs of a list, limited to `length`."""
    for pair in refs if isinstance(refs, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) and n >= 0 for n in pair):
            yield min(pair[0], length), min(pair[1], length)


def ranges(refs: Any, length: int) -> list[int]:
    """Returns the positions that `[start, end)` pairs cover, limited to `length`."""
    return [n for start, end in pairs(refs, length) for n in range(start, end)]
