"""Inspect's logs: `.eval` archives and JSON files, read and written.

Every version of the log met so far is read (2 and 3, older transcripts, pools, samples in chunks); what is written is
version 2 as Inspect reads it today, with the messages of its calls in pools. Writing a log that was read gives every
sample back as it was, references resolved. Not covered: the buffer database of a run that is still going on.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import msgspec

from assay.errors import AssayError
from assay.formats.inspect.reader import LogFacts, read_sample
from assay.formats.inspect.samples import is_inspect_log, open_log
from assay.formats.inspect.scores import ScoreTotals
from assay.formats.inspect.writer import FORMAT, iso, render_sample, render_summary
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Loss, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import digest_file, loads, warn_in
from assay.formats.shared.output_files import new_file
from assay.formats.shared.round_trip_builder import is_imported_from, source_fields
from assay.records import Trajectory, canonical_bytes

_VERSION = 2


class InspectFormat:
    name: ClassVar[str] = FORMAT
    title: ClassVar[str] = "Inspect AI logs (.eval, JSON)"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        return is_inspect_log(path)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each sample and epoch."""
        with open_log(path, reading) as log:
            header = canonical_bytes(log.header)
            origin = Origin(FORMAT, path.name, digest_file(path), str(log.header.get("version", "")))
            facts = LogFacts(log.header, reading.store_blob(header), origin)
            archived = zipfile.is_zipfile(path)
            for sample in log.samples:
                file = f"{path.name}!{sample.place}" if archived else path.name
                evaluation = warn_in(reading, file)
                bad = evaluation if archived else _prefix_place(sample.place, evaluation)
                with skip_unreadable(bad, ""):
                    yield read_sample(sample, facts, reading, bad)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes an archive, or a JSON log where the target's name ends in `.json`."""
        log = _Log(writing)
        with new_file(target) as out:
            if target.suffix == ".json":
                _write_json(log, trajectories, out)
            else:
                _write_archive(log, trajectories, out)


def _prefix_place(place: str, evaluation: Callable[[str, str], None]) -> Callable[[str, str], None]:
    return lambda field, problem: evaluation(f"{place}.{field}" if field else place, problem)


class _Log:
    """The state of a log while its samples are written."""

    def __init__(self, writing: ExportContext) -> None:
        self.header: dict[str, Any] | None = None
        self._digest: str | None = None
        self._ids: dict[str, Any] = {}
        self._used: set[tuple[str, int]] = set()
        self._invalidated = False
        self._writing = writing
        self._scores = ScoreTotals()

    def samples(self, trajectories: Iterable[Trajectory]) -> Iterator[dict[str, Any]]:
        """Yields the samples, each with a unique id and epoch."""
        for trajectory in trajectories:
            self._head(trajectory)
            sample = render_sample(trajectory, self._writing)
            self._assign_epoch(sample, trajectory)
            self._scores.add(sample)
            self._invalidated = self._invalidated or bool(sample.get("invalidation"))
            yield sample

    def _head(self, trajectory: Trajectory) -> None:
        """Sets the log's one header: the first trajectory's."""
        digest = source_fields(trajectory).get("header") if is_imported_from(trajectory, FORMAT) else None
        if self.header is None:
            self._digest = digest if isinstance(digest, str) else None
            self.header = self._load_header(self._digest, trajectory) or _fresh_header(trajectory)
        elif digest != self._digest:
            why = "a log describes one evaluation, and this attempt is of another"
            self._writing.report_loss(Loss(trajectory.attempt, "config.imported.fields.header", why))

    def _load_header(self, digest: str | None, trajectory: Trajectory) -> dict[str, Any] | None:
        if digest is None:
            return None
        try:
            header = loads(self._writing.read_blob(digest))
        except (AssayError, KeyError, OSError, ValueError):
            why = "the store does not have the header of its log"
            self._writing.report_loss(Loss(trajectory.attempt, "config.imported.fields.header", why))
            return None
        return header if isinstance(header, dict) and isinstance(header.get("eval"), dict) else None

    def _assign_epoch(self, sample: dict[str, Any], trajectory: Trajectory) -> None:
        if not isinstance(sample.get("id"), str | int):
            sample["id"] = str(sample.get("id"))
        if not isinstance(sample.get("epoch"), int):
            sample["epoch"] = 1
        requested = sample["epoch"]
        while (str(sample["id"]), sample["epoch"]) in self._used:
            sample["epoch"] += 1
        if sample["epoch"] != requested:
            why = f"epoch {requested} of sample {sample['id']} is there already: written as {sample['epoch']}"
            self._writing.report_loss(Loss(trajectory.attempt, "number", why))
        self._used.add((str(sample["id"]), sample["epoch"]))
        self._ids.setdefault(str(sample["id"]), sample["id"])

    def finish_header(self) -> dict[str, Any]:
        """Returns the header once all samples are known."""
        header = dict(self.header or _fresh_header(None))
        header["version"] = _VERSION
        if self._digest is None:
            dataset = {"samples": len(self._ids), "sample_ids": list(self._ids.values()), "shuffled": False}
            header["eval"] = {**header["eval"], "dataset": dataset}
            header["results"] = self._scores.results()
        return header | ({"invalidated": True} if self._invalidated else {})


def _fresh_header(trajectory: Trajectory | None) -> dict[str, Any]:
    """Returns the header of attempts that did not come from Inspect."""
    started = trajectory.started if trajectory else None
    evaluation = {
        "eval_id": trajectory.run if trajectory else "",
        "run_id": trajectory.run if trajectory else "",
        "created": iso(started.at if started else None),
        "task": (trajectory.run if trajectory else "") or "assay",
        "task_id": "",
        "task_version": 0,
        "task_args": {},
        "dataset": {"samples": 0},
        "solver": started.agent if started else None,
        "model": (trajectory.model if trajectory else None) or "none",
        "model_args": {},
        "config": {},
    }
    stats = {"started_at": "", "completed_at": "", "model_usage": {}}
    return {"version": _VERSION, "status": "success", "eval": evaluation, "plan": {"steps": []}, "stats": stats}


def _write_archive(log: _Log, trajectories: Iterable[Trajectory], out: BinaryIO) -> None:
    summaries = []
    names: set[str] = set()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in log.samples(trajectories):
            name = _member_name(sample, names)
            names.add(name)
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(msgspec.json.encode(sample))
            summaries.append(render_summary(sample))
        header = log.finish_header()
        reductions = header.pop("reductions", None)
        start = {"version": _VERSION, "eval": header["eval"], "plan": header.get("plan") or {"steps": []}}
        archive.writestr("_journal/start.json", msgspec.json.encode(start))
        archive.writestr("summaries.json", msgspec.json.encode(summaries))
        if reductions is not None:
            archive.writestr("reductions.json", msgspec.json.encode(reductions))
        archive.writestr("header.json", msgspec.json.encode(header))


def _member_name(sample: dict[str, Any], used: set[str]) -> str:
    """Returns `samples/ID_epoch_N.json`, with a safe, unused id."""
    parts = "".join(c if c.isprintable() and c not in "\\:" else "_" for c in str(sample["id"])).split("/")
    safe = "/".join("_" if part in ("", ".", "..") else part for part in parts)[:400].encode().decode("utf-8", "ignore")
    name, number = f"samples/{safe}_epoch_{sample['epoch']}.json", 1
    while name in used:
        number += 1
        name = f"samples/{safe}_{number}_epoch_{sample['epoch']}.json"
    return name


def _write_json(log: _Log, trajectories: Iterable[Trajectory], out: BinaryIO) -> None:
    """Writes a JSON log. The header comes first but is known last, so the samples wait in a temporary file."""
    with tempfile.TemporaryFile() as waiting:
        for number, sample in enumerate(log.samples(trajectories)):
            waiting.write(b",\n" if number else b"")
            waiting.write(msgspec.json.encode(sample))
        header = log.finish_header()
        reductions = header.pop("reductions", None)
        out.write(msgspec.json.encode(header)[:-1] + b',"samples":[')
        waiting.seek(0)
        shutil.copyfileobj(waiting, out, 1 << 20)
        tail = b"" if reductions is None else b',"reductions":' + msgspec.json.encode(reductions)
        out.write(b"]" + tail + b"}")
