"""Checks that the bytes of a stored run are exactly those that its writer wrote, beyond what the chain covers.

The chain covers what an event says. Beside it lie a summary row for each chain, the manifest in two places, the order
in which events were appended, `seal.json` and the frames of addenda. White space, an unknown key or an unused number
could change there and every reader would still give the same answer. These checks find such a byte too.

Not covered: bytes of `run.sqlite` that hold no record (free space in its pages, counters in its header), files that are
kept for speed alone, and an attacker who recomputes the digests.
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
from .chain import Link, StoreProblem
from .database import SCHEMA_QUERY, expected_schema
from .layout import Layout
from .rows import AttemptRow
from .run import RunStore
from .sealed import SealedRun, file_digest
from .tables import TABLES
from .text_index import FILE as INDEX

_META = {"run", "manifest"}
_ROW = msgspec.json.Decoder(AttemptRow)
_EVENT, _EVENT_AS_TEXT = b"textintegertextblobtext", b"textintegertexttexttext"
_FIELDS = set(AttemptRow.__struct_fields__)
_TORN = re.compile(r"row (\d+) missing from index")
MOST_TORN = 20
"""Lines that SQLite's own check may give."""


class LiveContent:
    """Reads a live run's tables row by row; a damaged row becomes a problem, and reading goes on.

    `problems` fills while the rows are read.
    """

    def __init__(self, store: RunStore) -> None:
        self.run = store.run
        self._connection = store.live.connection
        self.problems: list[StoreProblem] = []

    def links(self) -> Iterator[Link]:
        types = "typeof(chain) || typeof(idx) || typeof(previous) || typeof(body) || typeof(digest)"
        query = f"SELECT chain, idx, previous, body, digest, {types} FROM events ORDER BY chain, idx"
        for chain, index, previous, body, digest, kinds in self._rows(query):
            texts = [_decode_text(value) for value in (chain, previous, digest)]
            if kinds not in (_EVENT, _EVENT_AS_TEXT) or None in texts:
                self._add_problem(chain, index, "its stored row is not a valid event: it was changed")
                continue
            if kinds != _EVENT:
                self._add_problem(chain, index, "its body is stored as text, not as a blob: it was changed")
            name, before, own = (str(text) for text in texts)
            yield Link(name, index, before, body, own)

    def attempts(self) -> list[AttemptRow]:
        found: list[AttemptRow] = []
        for chain, raw, kinds in self._rows("SELECT chain, row, typeof(chain) || typeof(row) FROM attempts"):
            row = _decode_row(raw) if kinds in (b"textblob", b"texttext") else None
            if row is None or _decode_text(chain) != row.chain:
                self._add_problem(chain, None, "its summary row is damaged or of another chain: it was changed")
                continue
            if kinds != b"textblob":
                self._add_problem(chain, None, "its summary row is stored as text, not as a blob: it was changed")
            found.append(row)
        return found

    def check_database(self) -> Iterator[StoreProblem]:
        """Checks the database with SQLite's own check, its schema, and the order in which events were appended."""
        for (said,) in self._rows(f"PRAGMA integrity_check({MOST_TORN})"):
            text = said.decode(errors="backslashreplace")
            if text != "ok":
                yield self._locate_problem(text)
        found = [
            (_display_text(name), _normalize_whitespace(_display_text(statement)))
            for name, statement in self._rows(SCHEMA_QUERY)
        ]
        if found != [(name, _normalize_whitespace(statement)) for name, statement in expected_schema()]:
            yield StoreProblem(self.run, None, None, "run.sqlite has a changed schema")
        out = "seq < 1 OR seq > (SELECT count(*) FROM events)"
        for chain, index, seq in self._rows(f"SELECT chain, idx, seq FROM events WHERE {out} ORDER BY seq LIMIT 1"):
            what = f"it says that it is number {seq} of the run's events, of which there are fewer"
            yield StoreProblem(self.run, _display_text(chain), _int_or_none(index), what)
        turned = "SELECT chain, idx, lag(seq) OVER (PARTITION BY chain ORDER BY idx) AS before, seq FROM events"
        for chain, index, *_ in self._rows(f"SELECT * FROM ({turned}) WHERE before >= seq LIMIT 1"):
            yield StoreProblem(
                self.run, _display_text(chain), _int_or_none(index), "it was appended before the event that it follows"
            )

    def meta(self) -> dict[str, bytes]:
        return {
            _display_text(key): value
            for key, value in self._rows("SELECT key, value FROM meta")
            if isinstance(value, bytes)
        }

    def _locate_problem(self, text: str) -> StoreProblem:
        found = _TORN.match(text)
        if found is not None:
            query = f"SELECT chain, idx FROM events NOT INDEXED WHERE seq = {int(found[1])}"
            for chain, index in self._rows(query):
                return StoreProblem(
                    self.run, _display_text(chain), _int_or_none(index), f"run.sqlite: {text}: it was changed"
                )
        return StoreProblem(self.run, None, None, f"run.sqlite: {text}")

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yields rows whose texts are bytes, because changed ones need not be UTF-8."""
        factory, self._connection.text_factory = self._connection.text_factory, bytes
        try:
            yield from self._connection.execute(query).fetchall() if "PRAGMA" in query else self._fetch_rows(query)
        except sqlite3.DatabaseError as exc:
            raise StoreError(f"run.sqlite cannot be read: {exc}") from exc
        finally:
            self._connection.text_factory = factory

    def _fetch_rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        cursor.execute(query)
        while some := cursor.fetchmany(256):
            yield from some

    def _add_problem(self, chain: object, index: object, what: str) -> None:
        self.problems.append(StoreProblem(self.run, _display_text(chain), _int_or_none(index), what))


class _ManifestCopies(NamedTuple):
    """A manifest's copies: in the database, as a file for people, and the digest that tells which of them changed."""

    recorded: bytes
    on_disk: bytes | None
    digest: bytes | None


def check_manifest(layout: Layout, content: LiveContent) -> Iterator[StoreProblem]:
    """Checks the manifest of a live run, its copy and its digest."""
    run, meta = layout.run, content.meta()
    if meta.get("run") != run.encode():
        yield StoreProblem(run, None, None, "run.sqlite does not name this run: `run` in its table meta was changed")
    unknown = sorted(set(meta) - _META - {"manifest_digest"})
    if unknown:
        yield StoreProblem(run, None, None, f"run.sqlite has {unknown[0]!r} in its table meta, which is unknown")
    if "manifest" not in meta:
        yield StoreProblem(run, None, None, "run.sqlite holds no manifest: it was removed")
        return
    copies = _ManifestCopies(meta["manifest"], _manifest_file_bytes(layout), meta.get("manifest_digest"))
    yield from (StoreProblem(run, None, None, what) for what in _manifest_differences(copies))


def _manifest_differences(copies: _ManifestCopies) -> Iterator[str]:
    recorded, on_disk, digest = copies
    try:
        decoded = msgspec.json.decode(recorded)
        pretty = msgspec.json.format(recorded, indent=2)
        is_canonical = canonical_bytes(decoded) == recorded
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        yield f"the manifest in run.sqlite cannot be read: {exc}"
        return
    if not is_canonical:
        yield "the manifest in run.sqlite is not canonical: it was changed"
    if digest is None:  # of an older run
        if on_disk is not None and on_disk != pretty:
            yield "manifest.json differs from the recorded manifest"
    elif digest_bytes(recorded).encode() == digest:
        if on_disk is None:
            yield "manifest.json is missing"
        elif on_disk != pretty:
            yield "manifest.json differs from the recorded manifest: it was changed"
    elif on_disk == pretty:
        yield "manifest_digest in run.sqlite is not the digest of the manifest: it was changed"
    else:
        yield "the manifest in run.sqlite does not have its digest: it was changed"


def _manifest_file_bytes(layout: Layout) -> bytes | None:
    try:
        return layout.manifest.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"manifest.json cannot be read: {exc.strerror or exc}") from exc


def check_sealed_bytes(layout: Layout, sealed: SealedRun) -> Iterator[StoreProblem]:
    """Compares the files of a sealed run with what was sealed, byte by byte."""
    run, seal = layout.run, sealed.seal
    if seal.run != run:
        yield StoreProblem(run, None, None, f"seal.json is of run {seal.run!r}")
    if sealed.seal_bytes() != seal.written():
        yield StoreProblem(run, None, None, "seal.json is not in the form that sealing writes: it was changed")
    if seal.digest is not None and seal.digest != seal.own_digest():
        yield StoreProblem(run, None, None, "seal.json does not match its own digest: it was changed")
    on_disk = _manifest_file_bytes(layout)
    if on_disk is None:
        if "schema_version" in seal.manifest:
            yield StoreProblem(run, None, None, "manifest.json is missing")
    elif on_disk != msgspec.json.format(canonical_bytes(seal.manifest), indent=2):
        yield StoreProblem(run, None, None, "manifest.json differs from the recorded manifest")
    named = {f"{name}.parquet" for name in TABLES} | ({INDEX} & set(seal.files))
    for file in sorted(named):
        path = layout.sealed / file
        if not path.is_file():
            yield StoreProblem(run, None, None, f"sealed/{file} is missing")
        elif file_digest(path) != seal.files.get(file):
            yield StoreProblem(run, None, None, f"sealed/{file} differs from what was sealed")
    for path in sorted(layout.sealed.glob("*.parquet")):
        if path.name not in named:
            yield StoreProblem(run, None, None, f"sealed/{path.name} was not sealed: it was added later")


def check_addenda_bytes(layout: Layout) -> Iterator[StoreProblem]:
    """Compares the files of addenda with what was written, and reports foreign files."""
    for number in addendum_numbers(layout):
        try:
            raw, written = addendum_bytes(layout, number)
        except StoreError:
            continue  # reported by the check of their chain
        if raw != written:
            what = f"addenda/{number}.json is not canonical: it was changed"
            yield StoreProblem(layout.run, f"addendum.{number}", None, what)
    for path in sorted(layout.addenda.glob("*.json")):
        if not (path.stem.isascii() and path.stem.isdecimal() and str(int(path.stem)) == path.stem):
            yield StoreProblem(layout.run, None, None, f"addenda/{path.name} is not an addendum: it was added later")


def _decode_row(raw: bytes) -> AttemptRow | None:
    """Returns the row if its bytes are canonical: sorted, known keys, no white space; else None."""
    try:
        plain = msgspec.json.decode(raw)
        exact = isinstance(plain, dict) and canonical_bytes(plain) == raw and set(plain) <= _FIELDS
        return _ROW.decode(raw) if exact else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _decode_text(value: object) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def _display_text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else repr(value)


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _normalize_whitespace(statement: str) -> str:
    """Removes white space that older versions wrote differently."""
    return " ".join(statement.split()).replace("( ", "(").replace(" )", ")")
