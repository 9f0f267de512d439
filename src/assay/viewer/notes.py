"""Notes and tags that people give to attempts: events of the chain, added after an attempt ended.

A note is a `Noted` event named `annotation` with `text`, `tags`, `untagged` and `by`. Nothing is rewritten: a tag is
taken away by a later event. On a sealed run they are addenda, whose chain starts from the sealed head.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.errors import UserError
from assay.records import Noted
from assay.store import RunStore, annotate, query
from assay.store.addenda import addendum_numbers, segment_links
from assay.store.chain import Link, decode_event

from .chains import links_by_subject, open_chain
from .interface import Fields, View, json_bytes, match_name, run_view_name, view_name
from .outline import ANNOTATION, outline_of

MOST_NOTE: Final = 16 << 10
"""Bytes of a request that adds a note."""
MOST_TEXT: Final = 8000
MOST_TAGS: Final = 20
LONGEST_TAG: Final = 60
MOST_LISTED: Final = 500
MOST_SEALED: Final = 20_000
"""Events of a sealed run that are read for its tags."""
_MARK: Final = b'"name":"annotation"'
_HERE: Final = "run/{run}/attempt/{chain}/annotations"


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    tags: list[str] = []
    untagged: list[str] = []


_REQUEST = msgspec.json.Decoder(_Request)


def add_annotation(root: Path, name: str, body: bytes) -> None:
    """Adds the note of a request to the attempt that a view's name names.

    Raises:
        UserError: The name or the note is invalid, or the attempt has not ended.
        StoreError: The run is being written, or cannot be.
    """
    fields = match_name(VIEWS[0], name)
    if fields is None:
        raise UserError("notes belong to an attempt")
    try:
        asked = _REQUEST.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UserError(f"invalid note: {exc}") from exc
    tags, untagged = _clean_tags(asked.tags), _clean_tags(asked.untagged)
    text = asked.text.strip()
    if len(text) > MOST_TEXT:
        raise UserError(f"a note has at most {MOST_TEXT} characters, not {len(text)}")
    if not text and not tags and not untagged:
        raise UserError("the note is empty: give a text or a tag")
    data = {"text": text, "tags": tags, "untagged": untagged, "by": _user_name()}
    with open_chain(root, fields["run"], fields["chain"]) as chain:
        if chain.row.finished is None and not chain.row.interrupted:
            raise UserError("this attempt has not ended: notes can be added when it has")
    annotate(root, fields["run"], fields["chain"], [Noted(ANNOTATION, data, time.time())])


def _clean_tags(tags: Iterable[str]) -> list[str]:
    listed = list(dict.fromkeys(" ".join(tag.split()).lower() for tag in tags if tag.strip()))
    if len(listed) > MOST_TAGS:
        raise UserError(f"a note has at most {MOST_TAGS} tags, not {len(listed)}")
    for tag in listed:
        if len(tag) > LONGEST_TAG or not tag.isprintable():
            raise UserError(f"a tag has at most {LONGEST_TAG} printable characters: {tag[:LONGEST_TAG]!r}")
    return listed


def _user_name() -> str:
    try:
        return getpass.getuser()[:60]
    except (KeyError, OSError):
        return "unknown"


def fold_annotations(notes: Iterable[Noted]) -> dict[str, Any]:
    """Returns the `tags` that stand and the `notes` with a text, oldest first."""
    tags: dict[str, None] = {}
    texts = []
    for note in notes:
        for tag in _texts(note.data.get("tags")):
            tags[tag] = None
        for tag in _texts(note.data.get("untagged")):
            tags.pop(tag, None)
        text, by = note.data.get("text"), note.data.get("by")
        if isinstance(text, str) and text:
            texts.append({"text": text[:MOST_TEXT], "by": by[:60] if isinstance(by, str) else None, "at": note.at})
    return {"tags": list(tags)[:MOST_TAGS], "notes": texts[-MOST_LISTED:]}


def _texts(value: object) -> list[str]:
    return [each[:LONGEST_TAG] for each in value if isinstance(each, str)] if isinstance(value, list) else []


def annotations_of_attempt(root: Path, run: str, chain: str) -> dict[str, Any]:
    """Returns the tags and notes of one attempt. Raises as `chains.open_chain`."""
    with open_chain(root, run, chain) as found:
        numbers = outline_of(found).annotations
        return fold_annotations(_annotations(found.select_links(numbers)))


def annotations_of_run(root: Path, run: str) -> dict[str, Any]:
    """Returns `attempts`: chain to its tags and its number of notes, of attempts that have some."""
    found: dict[str, list[Noted]] = {}
    with RunStore.open(root, run) as store, store.snapshot():
        for chain, link in _sealed_links(store) if store.is_sealed else _live_links(store):
            for note in _annotations([link]):
                found.setdefault(chain, []).append(note)
    folded = {chain: fold_annotations(notes) for chain, notes in found.items()}
    return {"attempts": {c: {"tags": one["tags"], "notes": len(one["notes"])} for c, one in folded.items()}}


def _live_links(store: RunStore) -> Iterator[tuple[str, Link]]:
    return ((link.chain, link) for link in store.live.later(0, store.live.last_seq(), "note"))


def _sealed_links(store: RunStore) -> Iterator[tuple[str, Link]]:
    """Yields the annotations made before a run was sealed, then the events of its addenda."""
    statement = (
        "SELECT chain, index, body FROM events WHERE type = 'note' AND contains(decode(body), $$%s$$) ORDER BY ALL"
    )
    found = query(store.layout.root, statement % _MARK.decode(), runs=[store.run], limit=MOST_SEALED)
    for chain, index, body in found.rows:
        yield chain, Link(chain, index, "", bytes(body), "")
    yield from _added(store)


def _added(store: RunStore) -> Iterator[tuple[str, Link]]:
    for number in addendum_numbers(store.layout):
        for chain, link in links_by_subject(segment_links(store.layout, number)):
            if isinstance(chain, str):
                yield chain, link


def _annotations(links: Iterable[Link]) -> Iterator[Noted]:
    for link in links:
        if _MARK in link.body:
            body = decode_event(link).body
            if isinstance(body, Noted) and body.name == ANNOTATION:
                yield body


def _of_attempt(root: Path, fields: Fields) -> bytes:
    return json_bytes(annotations_of_attempt(root, fields["run"], fields["chain"]))


def _of_run(root: Path, fields: Fields) -> bytes:
    return json_bytes(annotations_of_run(root, fields["run"]))


def _names(root: Path, run: str) -> Iterator[str]:
    for chain in annotations_of_run(root, run)["attempts"]:
        yield view_name("run", run, "attempt", chain, "annotations")


VIEWS = (View(_HERE, _of_attempt, _names), View("run/{run}/annotations", _of_run, run_view_name("annotations")))
