"""Imports foreign runs into the store, one chain per trajectory, not yet judged.

Invariants: importing again adds nothing, since an attempt's id is the digest of its content and of its name in the
file; each trajectory is committed whole within half a second of being read, also on interruption; known secrets and
key-shaped text are redacted before storing; unreadable items are reported by file and position, and the rest is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay import __version__
from assay.errors import StoreError, UserError
from assay.formats.interface import ImportContext, ImportedTrajectory, ReadProblem
from assay.formats.shared.base import FOREIGN_ERRORS, describe_error
from assay.formats.shared.usage import total_usage
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    EvidenceAdded,
    ModelCalled,
    Noted,
    StepAdded,
    VerdictAdded,
    canonical_bytes,
    digest_bytes,
)
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.sources import ImportSource, SourceWalk, choose_format, require_paths
from assay.rollout.recording.redaction import Redactor
from assay.settings import Settings
from assay.store import AUDITED, Layout, RunStore
from assay.store.encoding import encode_body
from assay.verdicts import IMPORTED, is_imported

BATCH_BYTES, BATCH_S = 4 << 20, 0.5
"""Bytes and seconds of read data per commit; a killed import loses no more than this."""
LISTED = 1000
"""Unreadable items named in a report; all are counted."""
MOST_COMPARED = 500_000
"""Records whose content is compared with that of later ones."""
_INVALID = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions over a trajectory whose values no record holds."""
_RESERVED_NOTES = frozenset({AUDITED, "about", "retried"})
"""Notes by which the store recognises later findings and the deciding trial."""
_CONTENT_BODIES = (StepAdded, ModelCalled, EvidenceAdded, VerdictAdded)
"""A trajectory has at least one of these; a misdetected file may give none."""


class ImportProgress(NamedTuple):
    """Progress of an import."""

    file: str
    read: int
    known: int
    unreadable: int


class ImportReport(msgspec.Struct, frozen=True):
    """The result of an import."""

    run: str
    read: int
    """Added trajectories."""
    known: int
    """Trajectories that were already present."""
    files: int
    formats: dict[str, int]
    unreadable: tuple[ReadProblem, ...]
    """The first thousand unreadable items."""
    unreadable_total: int
    unrecognised: tuple[str, ...]
    """Files of no known format in walked folders; the first thousand."""
    unrecognised_total: int
    links: int
    """Links in walked folders, which are not followed."""
    redacted: tuple[str, ...]
    """Names of the redacted secrets."""
    remarks: tuple[ReadProblem, ...] = ()
    """How unusual parts were read, with nothing left out: duplicate records, rewards outside [0, 1]; the first
    thousand."""
    remarks_total: int = 0


def default_run(paths: tuple[Path, ...]) -> str:
    """Returns a run name that depends on the resolved paths only."""
    resolved = [str(path.resolve()) for path in paths]
    stem = "".join(c if c.isascii() and c.isalnum() else "-" for c in paths[0].resolve().name).strip("-")[:60]
    return f"import-{stem or 'paths'}-{digest_bytes(canonical_bytes(resolved)).partition(':')[2][:8]}"


def import_paths(
    config: ImportConfig, settings: Settings, progress: Callable[[ImportProgress], None] | None = None
) -> ImportReport:
    """Imports everything at the paths.

    Raises:
        UserError: A path is missing, of an unknown or ambiguous format, or empty; or the run is not an import.
        StoreError: The record cannot be written; committed trajectories stay, and the same command continues.
    """
    paths = tuple(Path(path) for path in config.paths)
    if not paths:
        raise UserError("nothing to import: name files or folders")
    forced = choose_format(config.format, config.map)
    require_paths(paths, forced)
    with ExitStack() as stack:
        importing = _Import(settings, config.run or default_run(paths), progress)
        stack.enter_context(closing(importing.target))
        walk = SourceWalk(forced, importing.unreadable)
        for path in paths:
            for found in walk.find_sources(path):
                importing.file(found)
        importing.target.commit()
        importing.require_something(walk)
        return importing.report(walk)


class _ImportTarget:
    """The run imported into; created with the first trajectory."""

    def __init__(self, settings: Settings, run: str, refused: Callable[[list[Body], str], None]) -> None:
        self._refused = refused
        self._pending: list[tuple[str, list[Body]]] = []
        self._size = 0
        self._since = 0.0
        self.root, self.run = settings.store, run
        self.redactor = Redactor(settings.secrets())
        self.blobs = Layout(self.root, run).blobs
        self._store: RunStore | None = None
        self._attempts: set[str] = set()
        self._numbers: dict[tuple[str, str, str | None], set[int]] = {}
        self._free: dict[tuple[str, str, str | None, int], int] = {}
        """Lowest number that may be free, by requested number."""
        layout = Layout(self.root, run)
        if layout.is_sealed or layout.sqlite.is_file():
            self._open()

    def _open(self) -> None:
        with RunStore.open(self.root, self.run) as store:
            if store.manifest().get("kind") != "import":
                raise UserError(f"the run {self.run!r} is not an import: name another with --run")
            for row in store.attempts():
                self._attempts.add(row.attempt)
                self._numbers.setdefault((row.task, row.agent, row.model), set()).add(row.number)

    def holds(self, attempt: str) -> bool:
        """Returns whether the attempt was imported before."""
        return attempt in self._attempts

    def number(self, started: AttemptStarted) -> int:
        """Returns the source's number for the attempt, or the next free one."""
        key = (started.task, started.agent, started.model)
        asked = max(0, started.number)
        taken, number = self._numbers.get(key, set()), self._free.get((*key, asked), asked)
        while number in taken:
            number += 1
        self._free[*key, asked] = number
        return number

    def add(self, attempt: str, bodies: list[Body], size: int) -> None:
        """Queues a whole chain; it is committed soon, with others."""
        started = bodies[0]
        assert isinstance(started, AttemptStarted)
        self._attempts.add(attempt)
        self._numbers.setdefault((started.task, started.agent, started.model), set()).add(started.number)
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append((f"{attempt}.0", _with_totals(bodies)))
        self._size += size
        if self._size > BATCH_BYTES or time.monotonic() - self._since > BATCH_S:
            self.commit()

    def commit(self) -> None:
        """Commits the queue; chains that no store can hold are reported and left out. Raises `StoreError`."""
        batch, self._pending, self._size = self._pending, [], 0
        if not batch:
            return
        if self._store is None:
            self._store = self._writer()
        try:
            self._store.append_all(batch)
        except StoreError:
            if not any(_at_fault(bodies) for _, bodies in batch):
                raise
            for chain, bodies in batch:
                self._append(self._store, chain, bodies)

    def _append(self, store: RunStore, chain: str, bodies: list[Body]) -> None:
        try:
            store.append(chain, bodies)
        except StoreError as exc:
            if not _at_fault(bodies):
                raise
            self._refused(bodies, str(exc))

    def _writer(self) -> RunStore:
        layout = Layout(self.root, self.run)
        if layout.is_sealed:
            raise UserError(f"the run {self.run!r} is sealed and takes no more: import into another with --run")
        if layout.sqlite.is_file():
            return RunStore.open(self.root, self.run, write=True)
        return RunStore.create(self.root, self.run, {"kind": "import", "assay_version": __version__})

    def close(self) -> None:
        try:
            self.commit()
        finally:
            if self._store is not None:
                self._store.close()


class _Import:
    def __init__(self, settings: Settings, run: str, progress: Callable[[ImportProgress], None] | None) -> None:
        self.target = _ImportTarget(settings, run, self._refused)
        self._progress = progress
        self._file = ""
        self._unreadable: list[ReadProblem] = []
        self._remarks: list[ReadProblem] = []
        self._remarks_total = 0
        self._places: dict[bytes, str] = {}
        """Where each content was first met, by its digest."""
        self._total = self._read = self._known = self._files = 0
        self._formats: dict[str, int] = {}
        self._redacted: set[str] = set()
        self._last_report = 0.0

    def unreadable(self, what: ReadProblem) -> None:
        """Counts an unreadable item, or a remark, and lists the first `LISTED` of each."""
        self._total += not what.is_remark
        self._remarks_total += what.is_remark
        listed = self._remarks if what.is_remark else self._unreadable
        if len(listed) < LISTED:
            listed.append(msgspec.structs.replace(what, problem=what.problem[:2000], place=what.place[:500]))

    def _refused(self, bodies: list[Body], problem: str) -> None:
        started = bodies[0]
        assert isinstance(started, AttemptStarted)
        self._read -= 1
        words = started.config.get(IMPORTED, {})
        self.unreadable(ReadProblem(str(words.get("file", "")), f"attempt {started.attempt}", problem))

    def file(self, found: ImportSource) -> None:
        self._file = found.name
        self._files += 1
        for imported in self._trajectories(found):
            self._import_trajectory(imported, found)
            self._report_progress()
        self._report_progress(now=True)

    def _trajectories(self, found: ImportSource) -> Iterator[ImportedTrajectory]:
        met = 0
        reading = ImportContext(self._keep, self._named_unreadable)
        try:
            for imported in found.format.read(found.path, reading):
                met += 1
                yield imported
        except FOREIGN_ERRORS as exc:
            place = f"after {met} trajectories" if met else ""
            self.unreadable(ReadProblem(found.name, place, describe_error(exc)))

    def _named_unreadable(self, what: ReadProblem) -> None:
        inside = what.file.partition("!")[2]
        name = self._file if not inside or self._file.endswith("!" + inside) else f"{self._file}!{inside}"
        self.unreadable(msgspec.structs.replace(what, file=name))

    def _import_trajectory(self, imported: ImportedTrajectory, found: ImportSource) -> None:
        if not any(isinstance(body, _CONTENT_BODIES) for body in imported.bodies):
            problem = f"{imported.key or 'it'} holds no turn, no fact and no verdict"
            self.unreadable(ReadProblem(found.name, "", f"{problem}: is it {found.format.title}?"))
            return
        self._formats[found.format.name] = self._formats.get(found.format.name, 0) + 1
        identity = _identity(imported)
        self._note_duplicate(identity.content, imported.key, found.name)
        if self.target.holds(identity.attempt):
            self._known += 1
            return
        try:
            bodies = self._prepare(imported, identity.attempt, found.name)
        except _INVALID as exc:
            self.unreadable(ReadProblem(found.name, imported.key, f"no record holds it: {exc}"))
            return
        self._read += 1
        self.target.add(identity.attempt, bodies, identity.size)

    def _prepare(self, imported: ImportedTrajectory, attempt: str, name: str) -> list[Body]:
        """Returns the chain of a trajectory: its own start, claims marked, secrets redacted, and an end."""
        number = self.target.number(imported.started)
        config = _renamed(imported.started.config, name)
        started = msgspec.structs.replace(
            imported.started, run=self.target.run, attempt=attempt, number=number, config=config
        )
        return self._clean([started, *map(_as_claim, imported.bodies), *_end(imported)])

    def _note_duplicate(self, content: bytes, key: str, file: str) -> None:
        """Remarks on a record with the content of an earlier one; it stays an attempt of its own under its own name."""
        place = f"{file}, {key}"
        first = self._places.get(content, place)
        if len(self._places) < MOST_COMPARED:
            self._places[content] = first
        if first != place:
            self.unreadable(ReadProblem(file, key, f"it has the same content as {first}", is_remark=True))

    def _keep(self, content: bytes) -> str:
        cleaned = self.target.redactor.clean(content)
        self._redacted.update(cleaned.names)
        return self.target.blobs.put(cleaned.data)

    def _clean(self, bodies: list[Body]) -> list[Body]:
        redactor = self.target.redactor
        clean: list[Body] = []
        for body in bodies:
            names = redactor.names_in(body)
            if names:
                self._redacted.update(names)
                body = msgspec.convert(redactor.value(msgspec.to_builtins(body)), type(body))
                note = Noted("redacted", {"names": list(names)})
                clean += [body, note] if isinstance(body, AttemptStarted) else [note, body]
            else:
                clean.append(body)
        return clean

    def _report_progress(self, *, now: bool = False) -> None:
        if self._progress is not None and (now or time.monotonic() - self._last_report > 0.2):
            self._last_report = time.monotonic()
            self._progress(ImportProgress(self._file, self._read, self._known, self._total))

    def require_something(self, walk: SourceWalk) -> None:
        """Raises `UserError` if nothing was read and no problem was reported."""
        if self._read or self._known or self._total:
            return
        first = f" ({', '.join(walk.unrecognised[:5])}{', ...' * (walk.others > 5)})" if walk.others else ""
        raise UserError(
            f"there is nothing to import: {self._files:,} files hold no trajectory, {walk.others:,} are of no known "
            f"format{first}, {walk.links:,} links are not followed; `assay formats` lists what is read"
            + (f". {walk.advice}" if walk.advice else "")
        )

    def report(self, walk: SourceWalk) -> ImportReport:
        return ImportReport(
            self.target.run,
            self._read,
            self._known,
            self._files,
            self._formats,
            tuple(self._unreadable),
            self._total,
            tuple(walk.unrecognised),
            walk.others,
            walk.links,
            tuple(sorted(self._redacted)),
            tuple(self._remarks),
            self._remarks_total,
        )


class _Identity(NamedTuple):
    attempt: str
    """Id derived from the content and the name within the file."""
    content: bytes
    """Digest of the content alone."""
    size: int


def _identity(imported: ImportedTrajectory) -> _Identity:
    words = {k: v for k, v in imported.started.config.get(IMPORTED, {}).items() if k not in ("file", "source_digest")}
    started = msgspec.structs.replace(imported.started, config={**imported.started.config, IMPORTED: words})
    try:
        content = canonical_bytes([started, imported.bodies])
        held = b"[" + canonical_bytes(imported.key) + b"," + content[1:]
    except (ValueError, TypeError, OverflowError, RecursionError):  # which the store will refuse, and say why
        content = held = repr(imported.key).encode()
    digest = digest_bytes(content).partition(":")[2][:32]
    return _Identity("i" + digest_bytes(held).partition(":")[2][:16], bytes.fromhex(digest), len(held))


def _renamed(config: dict[str, Any], name: str) -> dict[str, Any]:
    words = config.get(IMPORTED)
    return {**config, IMPORTED: {**words, "file": name}} if isinstance(words, dict) else config


def _as_claim(body: Body) -> Body:
    """Marks a verdict as the source's claim and renames reserved notes of the source."""
    if isinstance(body, VerdictAdded) and not is_imported(body.verdict.marks):
        return VerdictAdded(msgspec.structs.replace(body.verdict, marks=(*body.verdict.marks, IMPORTED)))
    if isinstance(body, Noted) and body.name in _RESERVED_NOTES:
        return msgspec.structs.replace(body, name=f"{body.name}_by_source")
    return body


def _with_totals(bodies: list[Body]) -> list[Body]:
    """Adds the tokens and the cost of the calls to the end's metrics, where the source states no total of its own.

    The attempt's id, which is of the source's content, does not depend on it.
    """
    totals = total_usage(bodies)
    return [
        msgspec.structs.replace(body, metrics={**totals, **body.metrics}) if isinstance(body, AttemptEnded) else body
        for body in bodies
    ]


def _end(imported: ImportedTrajectory) -> list[Body]:
    closed = any(isinstance(b, AttemptEnded) or (isinstance(b, Noted) and b.name == "interrupted")
                 for b in imported.bodies)  # fmt: skip
    return [] if closed else [Noted("interrupted", {"by": "source"})]


def _at_fault(bodies: list[Body]) -> bool:
    """Returns whether the bodies cannot be encoded, as opposed to a store failure."""
    try:
        for body in bodies:
            encode_body(body, "")
    except StoreError:
        return True
    return False
