"""Whether the bytes of a stored run are exactly those that its writer wrote, where the chain alone does not tell.

The chain covers what an event says. Beside it lie a summary row for each chain, the manifest in two places, the order
in which events were appended, `seal.json` and the frames of addenda: a white space, a key that nobody knows or a number
that nobody reads could change in them and every reader would still give the same answer. Here such a byte is found too.

Not covered: bytes of `run.sqlite` that hold no record (free space in its pages, counters in its header), files that are
kept for speed alone, and who computes the digests anew.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import canonical_bytes, digest_bytes

from .addenda import addendum_bytes, addendum_numbers
from .chain import Link
from .database import SCHEMA_OF, schema
from .layout import Layout
from .problem import Problem
from .rows import AttemptRow
from .run import RunStore
from .sealed import SealedRun, file_digest
from .tables import TABLES
from .text_index import FILE as INDEX

__all__ = ["LiveContent", "addenda_exact", "manifest_problems", "sealed_exact"]

_META = {"run", "manifest"}
_ROW = msgspec.json.Decoder(AttemptRow)
_EVENT, _EVENT_AS_TEXT = b"textintegertextblobtext", b"textintegertexttexttext"
_FIELDS = set(AttemptRow.__struct_fields__)
_TORN = re.compile(r"row (\d+) missing from index")
MOST_TORN = 20
"""Lines that SQLite's own check may give."""


class LiveContent:
    """Reads what a live run's tables hold, row by row: one that is damaged is a problem, and the others are read on.

    `problems` fills while the rows are read.
    """

    def __init__(self, store: RunStore) -> None:
        self.run = store.run
        self._connection = store.live.connection
        self.problems: list[Problem] = []

    def links(self) -> Iterator[Link]:
        """All events by chain and index."""
        types = "typeof(chain) || typeof(idx) || typeof(previous) || typeof(body) || typeof(digest)"
        query = f"SELECT chain, idx, previous, body, digest, {types} FROM events ORDER BY chain, idx"
        for chain, index, previous, body, digest, kinds in self._rows(query):
            texts = [_text(value) for value in (chain, previous, digest)]
            if kinds not in (_EVENT, _EVENT_AS_TEXT) or None in texts:
                self._say(chain, index, "its stored row holds what no event does: it was changed")
                continue
            if kinds != _EVENT:
                self._say(chain, index, "its body is stored as a text, which no writer does")
            name, before, own = (str(text) for text in texts)
            yield Link(name, index, before, body, own)

    def attempts(self) -> list[AttemptRow]:
        """The summary row of every chain."""
        found: list[AttemptRow] = []
        for chain, raw, kinds in self._rows("SELECT chain, row, typeof(chain) || typeof(row) FROM attempts"):
            row = _decoded_row(raw) if kinds in (b"textblob", b"texttext") else None
            if row is None or _text(chain) != row.chain:
                self._say(chain, None, "its summary row is damaged or of another chain: it was changed")
                continue
            if kinds != b"textblob":
                self._say(chain, None, "its summary row is stored as a text, which no writer does")
            found.append(row)
        return found

    def torn(self) -> Iterator[Problem]:
        """Where the database is not what SQLite wrote, and where events do not follow each other as appended."""
        for (said,) in self._rows(f"PRAGMA integrity_check({MOST_TORN})"):
            text = said.decode(errors="backslashreplace")
            if text != "ok":
                yield self._located(text)
        found = [(_shown(name), _plain(_shown(statement))) for name, statement in self._rows(SCHEMA_OF)]
        if found != [(name, _plain(statement)) for name, statement in schema()]:
            yield Problem(self.run, None, None, "run.sqlite has other tables than a run: its schema was changed")
        out = "seq < 1 OR seq > (SELECT count(*) FROM events)"
        for chain, index, seq in self._rows(f"SELECT chain, idx, seq FROM events WHERE {out} ORDER BY seq LIMIT 1"):
            what = f"it says that it is number {seq} of the run's events, of which there are fewer"
            yield Problem(self.run, _shown(chain), _number(index), what)
        turned = "SELECT chain, idx, lag(seq) OVER (PARTITION BY chain ORDER BY idx) AS before, seq FROM events"
        for chain, index, *_ in self._rows(f"SELECT * FROM ({turned}) WHERE before >= seq LIMIT 1"):
            yield Problem(self.run, _shown(chain), _number(index), "it was appended before the event that it follows")

    def meta(self) -> dict[str, bytes]:
        """What the run says of itself."""
        return {_shown(key): value for key, value in self._rows("SELECT key, value FROM meta") if _is_bytes(value)}

    def _located(self, text: str) -> Problem:
        found = _TORN.match(text)
        if found is not None:
            query = f"SELECT chain, idx FROM events NOT INDEXED WHERE seq = {int(found[1])}"
            for chain, index in self._rows(query):
                return Problem(self.run, _shown(chain), _number(index), f"run.sqlite: {text}: it was changed")
        return Problem(self.run, None, None, f"run.sqlite: {text}")

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows whose texts are bytes, because what was changed need not be UTF-8."""
        factory, self._connection.text_factory = self._connection.text_factory, bytes
        try:
            yield from self._connection.execute(query).fetchall() if "PRAGMA" in query else self._fetched(query)
        except sqlite3.DatabaseError as exc:
            raise StoreError(f"run.sqlite cannot be read: {exc}") from exc
        finally:
            self._connection.text_factory = factory

    def _fetched(self, query: str) -> Iterator[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        cursor.execute(query)
        while some := cursor.fetchmany(256):
            yield from some

    def _say(self, chain: object, index: object, what: str) -> None:
        self.problems.append(Problem(self.run, _shown(chain), _number(index), what))


class _Copies(NamedTuple):
    """A manifest as it lies in a run: in the record, beside it for people, and the digest that tells which changed."""

    kept: bytes
    shown: bytes | None
    digest: bytes | None


def manifest_problems(layout: Layout, content: LiveContent) -> Iterator[Problem]:
    """Where the manifest of a live run, its copy or its digest was changed."""
    run, meta = layout.run, content.meta()
    if meta.get("run") != run.encode():
        yield Problem(run, None, None, "run.sqlite does not name this run: `run` in its table meta was changed")
    unknown = sorted(set(meta) - _META - {"manifest_digest"})
    if unknown:
        yield Problem(run, None, None, f"run.sqlite has {unknown[0]!r} in its table meta, which no run has")
    if "manifest" not in meta:
        yield Problem(run, None, None, "run.sqlite holds no manifest: it was removed")
        return
    copies = _Copies(meta["manifest"], _shown_bytes(layout), meta.get("manifest_digest"))
    yield from (Problem(run, None, None, what) for what in _differences(copies))


def _differences(copies: _Copies) -> Iterator[str]:
    kept, shown, digest = copies
    try:
        decoded = msgspec.json.decode(kept)
        pretty = msgspec.json.format(kept, indent=2)
        is_canonical = canonical_bytes(decoded) == kept
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        yield f"the manifest in run.sqlite cannot be read: {exc}"
        return
    if not is_canonical:
        yield "the manifest in run.sqlite is not in the form that it was written in: it was changed"
    if digest is None:  # of an older run
        if shown is not None and shown != pretty:
            yield "manifest.json does not say what the record says was asked for"
    elif digest_bytes(kept).encode() == digest:
        if shown is None:
            yield "manifest.json is missing"
        elif shown != pretty:
            yield "manifest.json does not say what the record says was asked for: it was changed"
    elif shown == pretty:
        yield "manifest_digest in run.sqlite is not the digest of the manifest: it was changed"
    else:
        yield "the manifest in run.sqlite does not have its digest: it was changed"


def _shown_bytes(layout: Layout) -> bytes | None:
    try:
        return layout.manifest.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"manifest.json cannot be read: {exc.strerror or exc}") from exc


def sealed_exact(layout: Layout, sealed: SealedRun) -> Iterator[Problem]:
    """Where the files of a sealed run are not those that were sealed, byte by byte."""
    run, seal = layout.run, sealed.seal
    if seal.run != run:
        yield Problem(run, None, None, f"seal.json is of run {seal.run!r}")
    if sealed.seal_bytes() != seal.written():
        yield Problem(run, None, None, "seal.json has bytes that sealing does not write: it was changed")
    if seal.digest is not None and seal.digest != seal.own_digest():
        yield Problem(run, None, None, "seal.json does not have its own digest: it was changed")
    shown = _shown_bytes(layout)
    if shown is None:
        if "schema_version" in seal.manifest:
            yield Problem(run, None, None, "manifest.json is missing")
    elif shown != msgspec.json.format(canonical_bytes(seal.manifest), indent=2):
        yield Problem(run, None, None, "manifest.json does not say what the record says was asked for")
    named = {f"{name}.parquet" for name in TABLES} | ({INDEX} & set(seal.files))
    for file in sorted(named):
        path = layout.sealed / file
        if not path.is_file():
            yield Problem(run, None, None, f"sealed/{file} is missing")
        elif file_digest(path) != seal.files.get(file):
            yield Problem(run, None, None, f"sealed/{file} is not what was sealed: its digest differs")
    for path in sorted(layout.sealed.glob("*.parquet")):
        if path.name not in named:
            yield Problem(run, None, None, f"sealed/{path.name} was not sealed: it was put there later")


def addenda_exact(layout: Layout) -> Iterator[Problem]:
    """Where the file of an addendum has other bytes than were written, or is none."""
    for number in addendum_numbers(layout):
        try:
            raw, written = addendum_bytes(layout, number)
        except StoreError:
            continue  # whoever follows their chain says so
        if raw != written:
            what = f"addenda/{number}.json has bytes that no addendum has: it was changed"
            yield Problem(layout.run, f"addendum.{number}", None, what)
    for path in sorted(layout.addenda.glob("*.json")):
        if not (path.stem.isascii() and path.stem.isdecimal() and str(int(path.stem)) == path.stem):
            yield Problem(layout.run, None, None, f"addenda/{path.name} is no addendum: it was put there later")


def _decoded_row(raw: bytes) -> AttemptRow | None:
    """The row, where its bytes are exactly what a writer gives: sorted, known keys, nothing between them."""
    try:
        plain = msgspec.json.decode(raw)
        exact = isinstance(plain, dict) and canonical_bytes(plain) == raw and set(plain) <= _FIELDS
        return _ROW.decode(raw) if exact else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def _shown(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else repr(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _plain(statement: str) -> str:
    """A statement without the white space that older versions wrote otherwise."""
    return " ".join(statement.split()).replace("( ", "(").replace(" )", ")")


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes)
